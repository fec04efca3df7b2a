//! A connection to beanstalkd: commands that are sent together, and their replies.

use duetime_core::Payload;
use duetime_core::limits::PAYLOAD_BYTES_MAX;
use std::fmt;
use std::io::{self, Error, ErrorKind};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

/// Time limit to connect.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Time limit for the answers to commands that are sent together.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// The longest line of a reply, in bytes.
const LINE_BYTES_MAX: u64 = 1_024;
/// The longest body that is not a job, in bytes: a list of all tubes.
const LIST_BYTES_MAX: usize = 64 << 20;

/// Commands that are sent together. Each has one reply.
#[derive(Default)]
pub(super) struct Commands {
    bytes: Vec<u8>,
    count: usize,
}

impl<S: fmt::Display> FromIterator<S> for Commands {
    fn from_iter<I: IntoIterator<Item = S>>(lines: I) -> Self {
        let mut commands = Self::default();
        lines.into_iter().for_each(|line| commands.add(line));
        commands
    }
}

impl Commands {
    /// Adds a command without a body.
    pub(super) fn add(&mut self, command: impl fmt::Display) {
        self.bytes.extend_from_slice(format!("{command}\r\n").as_bytes());
        self.count += 1;
    }

    /// Adds a command with a body.
    pub(super) fn add_put(&mut self, delay_s: u64, ttr_s: u32, body: &[u8]) {
        self.add(format_args!("put 0 {delay_s} {ttr_s} {}", body.len()));
        self.bytes.extend_from_slice(body);
        self.bytes.extend_from_slice(b"\r\n");
    }
}

/// A reply.
#[derive(Debug)]
pub(super) struct Reply {
    /// Its line, without the end.
    pub(super) line: String,
    /// The body of a job or a list.
    pub(super) body: Body,
}

/// The body of a reply.
#[derive(Clone, Debug)]
pub(super) enum Body {
    Whole(Payload),
    /// Longer than any payload of ours; it was not kept.
    TooLarge(usize),
}

impl Reply {
    /// Whether its line begins with this word.
    pub(super) fn is(&self, word: &str) -> bool {
        self.line.split(' ').next() == Some(word)
    }

    /// The number after its first word: a job's id.
    pub(super) fn id(&self) -> Option<u64> {
        self.line.split(' ').nth(1)?.parse().ok()
    }

    /// The job that it has, if it has one.
    pub(super) fn job(self) -> Option<(u64, Body)> {
        let has_job = self.is("RESERVED") || self.is("FOUND");
        Some((self.id().filter(|_| has_job)?, self.body))
    }

    /// The text after `OK`.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.body {
            Body::Whole(bytes) if self.is("OK") => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }
}

pub(super) struct Wire {
    read: BufReader<OwnedReadHalf>,
    write: OwnedWriteHalf,
}

impl Wire {
    pub(super) async fn open(address: &str) -> io::Result<Self> {
        let stream = timeout(CONNECT_MAX, TcpStream::connect(address)).await;
        let stream = stream.map_err(|_| late(format!("{address}: no answer within {CONNECT_MAX:?}")))?;
        let stream = stream.map_err(|error| {
            Error::new(error.kind(), format!("cannot reach beanstalkd at {address} ({error}); check --from"))
        })?;
        stream.set_nodelay(true)?;
        let (read, write) = stream.into_split();
        Ok(Self { read: BufReader::with_capacity(64 << 10, read), write })
    }

    /// Sends commands, and answers with their replies, in order.
    pub(super) async fn ask(&mut self, commands: &Commands) -> io::Result<Vec<Reply>> {
        let Self { read, write } = self;
        // Both at a time: beanstalkd reads nothing while its replies are not read.
        let send = write.write_all(&commands.bytes);
        let receive = async {
            let mut replies = Vec::with_capacity(commands.count);
            while replies.len() < commands.count {
                replies.push(reply(read).await?);
            }
            Ok(replies)
        };
        let both = async { tokio::try_join!(send, receive) };
        let answered = timeout(ANSWER_MAX, both).await;
        let ((), replies) = answered.map_err(|_| late(format!("no answer within {ANSWER_MAX:?}")))??;
        Ok(replies)
    }
}

async fn reply(read: &mut BufReader<OwnedReadHalf>) -> io::Result<Reply> {
    let mut line = Vec::new();
    (&mut *read).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await?;
    let line = line.strip_suffix(b"\r\n").ok_or_else(|| match line.len() {
        0 => Error::new(ErrorKind::UnexpectedEof, "the connection was closed"),
        _ => wrong("the answer is not a line that ends with CRLF"),
    })?;
    let line = String::from_utf8(line.to_vec()).map_err(|_| wrong("the answer is not a line of text"))?;
    let mut words = line.split(' ');
    let (bytes, bytes_max) = match words.next() {
        Some("RESERVED" | "FOUND") => (words.nth(1), PAYLOAD_BYTES_MAX),
        Some("OK") => (words.next(), LIST_BYTES_MAX),
        _ => return Ok(Reply { line, body: Body::Whole(Payload::default()) }),
    };
    let bytes: usize =
        bytes.and_then(|bytes| bytes.parse().ok()).ok_or_else(|| wrong("the answer has no number of bytes"))?;
    let body = if bytes > bytes_max {
        tokio::io::copy(&mut (&mut *read).take(bytes as u64), &mut tokio::io::sink()).await?;
        Body::TooLarge(bytes)
    } else {
        let mut body = vec![0; bytes];
        read.read_exact(&mut body).await?;
        Body::Whole(body.into())
    };
    let mut end = [0; 2];
    read.read_exact(&mut end).await?;
    if end != *b"\r\n" {
        return Err(wrong("the answer has no CRLF after a body"));
    }
    Ok(Reply { line, body })
}

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("{what}; check that beanstalkd listens at this address"))
}

fn late(what: String) -> Error {
    Error::new(ErrorKind::TimedOut, what)
}
