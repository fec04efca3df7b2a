//! Parses the commands of the protocol. Pure, and as strict or lax as beanstalkd 1.13, because its clients' own tests
//! depend on that.

use duetime_core::limits::SECOND_MS;
use duetime_core::model::name;
use std::sync::Arc;

/// A tube: a queue's name.
pub(crate) type Tube = Arc<str>;

/// The longest line with its CRLF, in bytes.
pub(crate) const LINE_BYTES_MAX: usize = 224;
/// The longest token, as `duetime token create` makes them, with room for longer ones.
const TOKEN_BYTES_MAX: usize = 200;

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Put(Put),
    Use(Tube),
    Reserve,
    /// Seconds.
    ReserveWithTimeout(u32),
    ReserveJob(u64),
    Delete(u64),
    Release(Release),
    /// The job, and its new priority.
    Bury(u64, u32),
    Touch(u64),
    Watch(Tube),
    Ignore(Tube),
    Peek(u64),
    PeekReady,
    PeekDelayed,
    PeekBuried,
    /// The count.
    Kick(u64),
    KickJob(u64),
    StatsJob(u64),
    StatsTube(Tube),
    Stats,
    ListTubes,
    ListTubeUsed,
    ListTubesWatched,
    /// For this many seconds.
    PauseTube(Tube, u32),
    Auth(Token),
    Quit,
}

/// A token that is shown. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// The head of a job that is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Put {
    pub(crate) priority: u32,
    pub(crate) delay_ms: u64,
    /// The time to run, in seconds: 1 or more.
    pub(crate) ttr_s: u32,
    /// The length of the body.
    pub(crate) bytes: u32,
}

/// A job that is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Release {
    pub(crate) id: u64,
    pub(crate) priority: u32,
    pub(crate) delay_ms: u64,
}

/// Why a line, or the body after it, is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    BadFormat,
    UnknownCommand,
    ExpectedCrlf,
    JobTooBig,
}

use Refusal::BadFormat;

/// Parses a line without its CRLF: its word, and the command.
///
/// # Errors
/// If it is no command.
pub(crate) fn parse(line: &[u8]) -> Result<(&'static str, Command), Refusal> {
    if line.len() + 2 > LINE_BYTES_MAX || line.contains(&0) {
        return Err(BadFormat);
    }
    // In beanstalkd's order: a command is recognised by the beginning of the line.
    for (word, read) in WORDS {
        if let Some(rest) = line.strip_prefix(word.as_bytes()) {
            let mut rest = Rest(rest);
            let command = read(&mut rest)?;
            return if rest.0.is_empty() { Ok((word.trim_end(), command)) } else { Err(BadFormat) };
        }
    }
    Err(Refusal::UnknownCommand)
}

type Read = fn(&mut Rest<'_>) -> Result<Command, Refusal>;

const WORDS: &[(&str, Read)] = &[
    ("put ", |rest| {
        let (priority, delay_ms) = (rest.number()?, rest.delay_ms()?);
        let (ttr_s, bytes): (u32, u32) = (rest.number()?, rest.number()?);
        Ok(Command::Put(Put { priority, delay_ms, ttr_s: ttr_s.max(1), bytes }))
    }),
    ("peek ", |rest| Ok(Command::Peek(rest.number()?))),
    ("peek-ready", |_| Ok(Command::PeekReady)),
    ("peek-delayed", |_| Ok(Command::PeekDelayed)),
    ("peek-buried", |_| Ok(Command::PeekBuried)),
    ("reserve-with-timeout ", |rest| Ok(Command::ReserveWithTimeout(rest.number()?))),
    ("reserve-job ", |rest| Ok(Command::ReserveJob(rest.number()?))),
    ("reserve", |_| Ok(Command::Reserve)),
    ("delete ", |rest| Ok(Command::Delete(rest.number()?))),
    ("release ", |rest| {
        let (id, priority, delay_ms) = (rest.number()?, rest.number()?, rest.delay_ms()?);
        Ok(Command::Release(Release { id, priority, delay_ms }))
    }),
    ("bury ", |rest| Ok(Command::Bury(rest.number()?, rest.number()?))),
    ("kick-job ", |rest| Ok(Command::KickJob(rest.number()?))),
    ("kick ", |rest| Ok(Command::Kick(rest.bound()?))),
    ("touch ", |rest| Ok(Command::Touch(rest.number()?))),
    ("stats-job ", |rest| Ok(Command::StatsJob(rest.number()?))),
    ("stats-tube ", |rest| Ok(Command::StatsTube(rest.only_tube()?))),
    ("stats", |_| Ok(Command::Stats)),
    ("use ", |rest| Ok(Command::Use(rest.only_tube()?))),
    ("watch ", |rest| Ok(Command::Watch(rest.only_tube()?))),
    ("ignore ", |rest| Ok(Command::Ignore(rest.only_tube()?))),
    ("list-tubes-watched", |_| Ok(Command::ListTubesWatched)),
    ("list-tube-used", |_| Ok(Command::ListTubeUsed)),
    ("list-tubes", |_| Ok(Command::ListTubes)),
    ("quit", |rest| {
        rest.0 = b"";
        Ok(Command::Quit)
    }),
    ("pause-tube", |rest| {
        let tube = rest.tube()?;
        Ok(Command::PauseTube(tube, rest.number()?))
    }),
    ("auth", |rest| {
        rest.skip_blanks();
        let token = std::str::from_utf8(std::mem::take(&mut rest.0)).map_err(|_| BadFormat)?;
        let is_one = (1..=TOKEN_BYTES_MAX).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic());
        if is_one { Ok(Command::Auth(Token(token.to_owned()))) } else { Err(BadFormat) }
    }),
];

/// The words of all commands.
#[cfg(test)]
pub(super) fn words() -> impl Iterator<Item = &'static str> {
    WORDS.iter().map(|(word, _)| word.trim_end())
}

/// The rest of a line.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn skip_blanks(&mut self) {
        let start = self.0.iter().position(|&byte| byte != b' ').unwrap_or(self.0.len());
        self.0 = &self.0[start..];
    }

    /// The next word, after any blanks.
    fn word(&mut self) -> &'a [u8] {
        self.skip_blanks();
        let end = self.0.iter().position(|&byte| byte == b' ').unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        word
    }

    /// A number in decimal digits, without a sign.
    fn number<T: TryFrom<u64>>(&mut self) -> Result<T, Refusal> {
        T::try_from(digits(self.word()).ok_or(BadFormat)?).map_err(|_| BadFormat)
    }

    /// Seconds, with up to three decimal places, in milliseconds. More than 10 years is refused later: the client would
    /// send the body of a command refused here anyway, and it would be parsed as commands.
    fn delay_ms(&mut self) -> Result<u64, Refusal> {
        let word = self.word();
        let (whole, part) = match word.iter().position(|&byte| byte == b'.') {
            Some(at) => (&word[..at], Some(&word[at + 1..])),
            None => (word, None),
        };
        let seconds = digits(whole).filter(|&seconds| u32::try_from(seconds).is_ok()).ok_or(BadFormat)?;
        let part_ms = match part {
            None => 0,
            Some(part) if (1..=3).contains(&part.len()) => {
                digits(part).ok_or(BadFormat)? * [100, 10, 1][part.len() - 1]
            }
            Some(_) => return Err(BadFormat),
        };
        Ok(seconds * SECOND_MS + part_ms)
    }

    /// The number of jobs to kick, parsed like C's `strtoul`: anything after the digits is ignored, and a negative number
    /// becomes a large one.
    fn bound(&mut self) -> Result<u64, Refusal> {
        self.skip_blanks();
        let rest = std::mem::take(&mut self.0);
        let (is_negative, rest) = match rest.split_first() {
            Some((b'-', rest)) => (true, rest),
            Some((b'+', rest)) => (false, rest),
            _ => (false, rest),
        };
        let end = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        if end == 0 {
            return Err(BadFormat);
        }
        let number = digits(&rest[..end]).unwrap_or(u64::MAX);
        Ok(if is_negative { number.wrapping_neg() } else { number })
    }

    /// A tube's name, after any blanks.
    fn tube(&mut self) -> Result<Tube, Refusal> {
        tube(self.word())
    }

    /// A tube's name that is all the rest.
    fn only_tube(&mut self) -> Result<Tube, Refusal> {
        tube(std::mem::take(&mut self.0))
    }
}

/// A number below 2^64, in digits alone.
fn digits(word: &[u8]) -> Option<u64> {
    let is_number = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(word).ok().filter(|_| is_number)?.parse().ok()
}

fn tube(word: &[u8]) -> Result<Tube, Refusal> {
    let name = std::str::from_utf8(word).map_err(|_| BadFormat)?;
    name::check_queue(name).map_err(|_| BadFormat)?;
    Ok(Arc::from(name))
}
