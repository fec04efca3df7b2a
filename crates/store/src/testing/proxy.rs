//! A proxy to a server that injects faults: commands are delayed, carried out late, or lose their reply; long replies do not get
//! through, or slowly.
//!
//! It splits Redis' protocol into whole commands and replies, so each command has one fate. The order within a connection is
//! kept, as in TCP; connections overtake each other.

use super::fates::shown;
use super::resp::frame;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};

/// The fate of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// It is delayed this long, with all later commands on its connection.
    pub held: Duration,
    /// What happens to it then.
    pub end: End,
    /// Its reply is delayed this long.
    pub reply_held: Duration,
    /// Its reply takes a second for this many bytes; 0 for no time. Replies behind it wait.
    pub bytes_per_second: u32,
    /// What happens to its reply if it has more bytes than this.
    pub reply_max: Option<(usize, TooLong)>,
}

/// What happens to a reply that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooLong {
    /// Its connection breaks.
    Breaks,
    /// It never arrives, nor do those behind it.
    Stalls,
}

/// What happens to a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// It is carried out and answered.
    #[default]
    Answered,
    /// Its connection breaks, and it is not carried out.
    Dropped,
    /// It is carried out, and its connection breaks before the reply.
    ReplyLost,
    /// Its connection breaks, and it is carried out this much later, as if it was in a buffer.
    Late(Duration),
}

/// A command in flight.
#[derive(Debug)]
pub struct Command<'a> {
    /// The number of the connection through this proxy.
    pub connection: u64,
    /// As it was sent.
    pub bytes: &'a [u8],
}

/// Decides what happens to each command.
type Judge = dyn Fn(&Command<'_>) -> Fate + Send + Sync;

/// See [`Proxy::too_long`].
type TooLongReplies = Arc<Mutex<Vec<String>>>;

/// A port that forwards to a server. All its connections end when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    to: u16,
    too_long: TooLongReplies,
    listening: JoinHandle<()>,
}

impl Proxy {
    /// Forwards to this port of 127.0.0.1. Must be called in a tokio runtime.
    ///
    /// # Panics
    /// If no port is free.
    pub fn to(to: u16, judge: impl Fn(&Command<'_>) -> Fate + Send + Sync + 'static) -> Self {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        listener.set_nonblocking(true).expect("a socket");
        let listener = TcpListener::from_std(listener).expect("in a runtime");
        let too_long = TooLongReplies::default();
        let listening = tokio::spawn(listen(listener, to, Arc::new(judge), too_long.clone()));
        Self { port, to, too_long, listening }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The replies that were too long, and did not get through: their bytes, and the commands' beginnings.
    pub fn too_long(&self) -> Vec<String> {
        self.too_long.lock().expect("no panic under this lock").clone()
    }

    /// The URL for Redis clients: `redis://127.0.0.1:PORT/0`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// Sends a command directly to the server, and returns the raw reply.
    ///
    /// # Errors
    /// If there is no reply.
    pub async fn send(&self, command: &[u8]) -> io::Result<Vec<u8>> {
        carry_out(self.to, command).await
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn listen(listener: TcpListener, to: u16, judge: Arc<Judge>, too_long: TooLongReplies) {
    // These tasks end with this one.
    let mut connections = JoinSet::new();
    for number in 0.. {
        let Ok((client, _)) = listener.accept().await else { continue };
        let (judge, too_long) = (judge.clone(), too_long.clone());
        connections.spawn(async move {
            // If one direction ends, both end: the sockets close.
            let _ = connect(client, to, number, &*judge, &too_long).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn connect(client: TcpStream, to: u16, number: u64, judge: &Judge, too_long: &TooLongReplies) -> io::Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, to)).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let (fates, for_replies) = mpsc::unbounded_channel();
    let commands = Commands { number, to, judge, from: Frames::new(from_client), server: to_server, fates };
    tokio::select! {
        ended = commands.pass() => ended,
        ended = pass_replies(Frames::new(from_server), to_client, for_replies, too_long) => ended,
    }
}

/// The fates of replies, in order, and what they answer. A subscription has none, because its messages are not replies.
type ForReplies = mpsc::UnboundedReceiver<(Fate, String)>;

struct Commands<'a> {
    number: u64,
    to: u16,
    judge: &'a Judge,
    from: Frames,
    server: OwnedWriteHalf,
    fates: mpsc::UnboundedSender<(Fate, String)>,
}

impl Commands<'_> {
    /// Runs until the connection breaks.
    async fn pass(mut self) -> io::Result<()> {
        loop {
            let bytes = self.from.next().await?;
            let fate = (self.judge)(&Command { connection: self.number, bytes: &bytes });
            tokio::time::sleep(fate.held).await;
            match fate.end {
                End::Answered | End::ReplyLost => {
                    if !is_subscription(&bytes) && self.fates.send((fate, shown(&bytes))).is_err() {
                        return Ok(());
                    }
                    self.server.write_all(&bytes).await?;
                }
                End::Dropped => return Ok(()),
                End::Late(by) => {
                    let to = self.to;
                    tokio::spawn(async move {
                        tokio::time::sleep(by).await;
                        // If the server is unavailable, the command is lost.
                        let _ = carry_out(to, &bytes).await;
                    });
                    return Ok(());
                }
            }
        }
    }
}

async fn pass_replies(
    mut from: Frames,
    mut client: OwnedWriteHalf,
    mut fates: ForReplies,
    too_long: &TooLongReplies,
) -> io::Result<()> {
    loop {
        let reply = from.next().await?;
        // Messages of a subscription arrive at any time.
        if reply[0] != b'>' {
            let Some((fate, command)) = fates.recv().await else { return Ok(()) };
            if fate.end == End::ReplyLost {
                return Ok(());
            }
            if let Some((_, how)) = fate.reply_max.filter(|&(max, _)| reply.len() > max) {
                let line = format!("a reply of {} bytes to {command}", reply.len());
                too_long.lock().expect("no panic under this lock").push(line);
                match how {
                    TooLong::Breaks => return Ok(()),
                    TooLong::Stalls => std::future::pending().await,
                }
            }
            let seconds = f64::from(u32::try_from(reply.len()).unwrap_or(u32::MAX)) / f64::from(fate.bytes_per_second);
            let passes = Duration::try_from_secs_f64(seconds).unwrap_or_default();
            tokio::time::sleep(fate.reply_held + passes).await;
        }
        client.write_all(&reply).await?;
    }
}

/// Whether a command is answered with messages instead of a reply.
fn is_subscription(command: &[u8]) -> bool {
    let head = String::from_utf8_lossy(&command[..command.len().min(40)]).to_ascii_uppercase();
    head.contains("SUBSCRIBE\r\n")
}

/// Whole commands or replies, as they come.
struct Frames {
    from: OwnedReadHalf,
    bytes: Vec<u8>,
}

impl Frames {
    fn new(from: OwnedReadHalf) -> Self {
        Self { from, bytes: Vec::new() }
    }

    async fn next(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(length) = frame(&self.bytes) {
                let rest = self.bytes.split_off(length);
                return Ok(std::mem::replace(&mut self.bytes, rest));
            }
            if self.from.read_buf(&mut self.bytes).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

async fn carry_out(to: u16, command: &[u8]) -> io::Result<Vec<u8>> {
    let (from, mut server) = TcpStream::connect((Ipv4Addr::LOCALHOST, to)).await?.into_split();
    server.write_all(command).await?;
    Frames::new(from).next().await
}
