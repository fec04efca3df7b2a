//! Conversations as text, spoken with a server in pieces of any size.

use crate::common::Random;
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// The time limit for an answer; never reached if all is well.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);

/// The way in which requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pieces {
    /// Unchanged.
    Lines,
    /// Byte by byte, or in other small pieces.
    Small(u64),
    /// Consecutive requests in one write.
    Together,
}

/// A connection.
pub(crate) struct Talk {
    stream: TcpStream,
    came: Vec<u8>,
    to_send: Vec<u8>,
    /// The conversation's place in the file.
    place: String,
}

impl Talk {
    pub(crate) fn open(address: SocketAddr) -> Self {
        Self::try_open(address).unwrap()
    }

    /// Connects, if a server listens.
    pub(crate) fn try_open(address: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
        Ok(Self { stream, came: Vec::new(), to_send: Vec::new(), place: String::new() })
    }

    /// Connects from an address of this machine.
    pub(crate) fn open_from(source: Ipv4Addr, address: SocketAddr) -> Self {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((source, 0).into()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let stream = runtime.block_on(socket.connect(address)).unwrap().into_std().unwrap();
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(ANSWER_TIME_MAX)).unwrap();
        Self { stream, came: Vec::new(), to_send: Vec::new(), place: String::new() }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends; `None` if the server is gone.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> Option<()> {
        self.stream.write_all(bytes).ok()
    }

    /// Half-closes.
    pub(crate) fn half_close(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Reads until there are this many bytes; `None` if the connection ends before.
    fn read_to(&mut self, count: usize) -> Option<()> {
        while self.came.len() < count {
            let mut piece = [0; 16 << 10];
            match self.stream.read(&mut piece) {
                Ok(0) => return None,
                Ok(read) => self.came.extend_from_slice(&piece[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    panic!("{}: no answer; came {:?}", self.place, self.came)
                }
                Err(_) => return None,
            }
        }
        Some(())
    }

    /// The next bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        self.read_to(count)?;
        Some(self.came.drain(..count).collect())
    }

    /// The next line without its CRLF.
    pub(crate) fn try_line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.came.windows(2).position(|pair| pair == b"\r\n") {
                let line = self.bytes(end + 2)?;
                return Some(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            let count = self.came.len() + 1;
            self.read_to(count)?;
        }
    }

    #[track_caller]
    pub(crate) fn line(&mut self) -> String {
        self.try_line().expect("a line, not the end")
    }

    /// Sends a line and reads the one that answers it.
    #[track_caller]
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.send(format!("{line}\r\n").as_bytes());
        self.line()
    }

    /// Statistics, or `None` if it does not exist.
    #[track_caller]
    pub(crate) fn stats(&mut self, line: &str) -> Option<HashMap<String, String>> {
        let answer = self.ask(line);
        if answer == "NOT_FOUND" {
            return None;
        }
        let count: usize = answer.strip_prefix("OK ").expect(&answer).parse().unwrap();
        let yaml = self.bytes(count + 2).unwrap();
        assert!(yaml.starts_with(b"---\n") && yaml.ends_with(b"\n\r\n"), "{yaml:?}");
        let yaml = String::from_utf8(yaml).unwrap();
        let pair = |line: &str| {
            let (key, value) = line.split_once(": ")?;
            Some((key.to_owned(), value.trim_matches('"').to_owned()))
        };
        Some(yaml.lines().filter_map(pair).collect())
    }

    /// Whether the server has closed.
    pub(crate) fn is_at_end(&mut self) -> bool {
        let count = self.came.len() + 1;
        self.read_to(count).is_none()
    }

    fn flush(&mut self, pieces: Pieces, random: &mut Random) {
        let bytes = std::mem::take(&mut self.to_send);
        if bytes.is_empty() {
            return;
        }
        match pieces {
            Pieces::Small(_) if bytes.len() < 5_000 => {
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    let most = rest.len().min(7) as u64;
                    let (piece, later) = rest.split_at(random.within(1..most + 1) as usize);
                    self.send(piece);
                    rest = later;
                }
            }
            _ => self.send(&bytes),
        }
    }
}

/// The conversations of `corners.txt`, by their headings.
pub(crate) fn conversations() -> Vec<(&'static str, Vec<&'static str>)> {
    let text = include_str!("corners.txt");
    let (_, text) = text.split_once("\n## ").unwrap();
    let part = |part: &'static str| {
        let mut lines = part.lines();
        let heading = lines.next().unwrap();
        (heading, lines.filter(|line| !line.is_empty()).collect())
    };
    text.split("\n## ").map(part).collect()
}

/// Runs one conversation.
pub(crate) fn converse(address: SocketAddr, heading: &str, lines: &[&str], pieces: Pieces) {
    let mut random = Random::new(if let Pieces::Small(seed) = pieces { seed } else { 0 });
    let mut talks: HashMap<char, Talk> = HashMap::new();
    let mut ids: Vec<String> = Vec::new();
    let mut asked: HashMap<String, String> = HashMap::new();
    for (number, line) in lines.iter().enumerate() {
        let place = format!("{heading}, line {}: {line} ({pieces:?})", number + 1);
        if let Some(pair) = line.strip_prefix("  ") {
            let (key, value) = pair.split_once(": ").expect(&place);
            let got = asked.get(key).unwrap_or_else(|| panic!("{place}: {asked:?}"));
            match value.split_once("..").map(|(from, to)| from.parse::<u64>().unwrap()..=to.parse().unwrap()) {
                Some(range) => assert!(range.contains(&got.parse().unwrap()), "{place}: {asked:?}"),
                None => assert_eq!(got, value, "{place}: {asked:?}"),
            }
            continue;
        }
        let (who, rest) = (line.chars().next().unwrap(), &line[1..]);
        talks.iter_mut().filter(|(other, _)| **other != who).for_each(|(_, talk)| talk.flush(pieces, &mut random));
        let talk = talks.entry(who).or_insert_with(|| Talk::open(address));
        talk.place.clone_from(&place);
        let (what, text) = rest.split_at(1);
        let text = text.strip_prefix(' ').unwrap_or(text);
        if pieces != Pieces::Together || !matches!(what, ">" | "|") {
            talk.flush(pieces, &mut random);
        }
        match what {
            ">" => talk.to_send.extend_from_slice(&[&filled(text, &ids)[..], b"\r\n"].concat()),
            "|" => talk.to_send.extend_from_slice(&filled(text, &ids)),
            "<" => {
                // A list ends with a line feed before its CRLF.
                let expected = filled(text, &ids);
                let got = talk.try_line().unwrap_or_else(|| panic!("{place}: the connection ended"));
                if let Some((b"INSERTED ", name)) = expected.split_at_checked(9)
                    && name == format!("{{{}}}", ids.len() + 1).as_bytes()
                {
                    ids.push(got.strip_prefix("INSERTED ").unwrap_or_else(|| panic!("{place}: {got}")).to_owned());
                } else {
                    assert_eq!(got, String::from_utf8_lossy(&expected), "{place}");
                }
            }
            "?" => asked = talk.stats(&String::from_utf8(filled(text, &ids)).unwrap()).expect(&place),
            "~" => {
                let wanted = lines[number + 1..].iter().map_while(|line| line.strip_prefix("  ")?.split_once(": "));
                let wanted: Vec<(&str, &str)> = wanted.collect();
                let ask = String::from_utf8(filled(text, &ids)).unwrap();
                let is_so = |stats: &HashMap<String, String>| {
                    wanted.iter().all(|(key, value)| stats.get(*key).is_some_and(|got| got == value))
                };
                while !is_so(&asked) {
                    asked = talk.stats(&ask).expect(&place);
                }
            }
            "*" => {
                let (text, count) = text.rsplit_once(' ').unwrap();
                for n in 0..count.parse().unwrap() {
                    let answer = talk.ask(&text.replace("{}", &n.to_string()));
                    assert_eq!(answer, format!("WATCHING {}", n + 2), "{place}");
                }
            }
            "." => drop(talks.remove(&who)),
            "!" => talk.half_close(),
            "0" => assert!(talk.is_at_end(), "{place}: {:?}", talk.came),
            _ => panic!("{place}"),
        }
        if pieces != Pieces::Together
            && let Some(talk) = talks.get_mut(&who)
        {
            talk.flush(pieces, &mut random);
        }
    }
}

/// The bytes of an escaped text.
fn filled(text: &str, ids: &[String]) -> Vec<u8> {
    let mut text = text.replace("\\r", "\r").replace("\\n", "\n").replace("\\0", "\0");
    for (number, id) in ids.iter().enumerate() {
        text = text.replace(&format!("{{{}}}", number + 1), id);
    }
    while let Some((before, rest)) = text.split_once("{x*") {
        let (count, after) = rest.split_once('}').unwrap();
        text = format!("{before}{}{after}", "x".repeat(count.parse().unwrap()));
    }
    text.into_bytes()
}
