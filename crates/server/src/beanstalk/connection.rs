//! One connection: its input, its replies, and the leases that it holds until it closes.

use super::command::{Command, Tube};
use super::counters::{add, take_one};
use super::door::Door;
use super::input::{Input, Request};
use super::leases::LeaseTable;
use super::limits::{
    AUTH_TIME_MAX, INPUT_FREE_BYTES, INPUT_STEP_BYTES, OUTPUT_BYTES_MAX, OUTPUT_FREE_BYTES, SEND_TIME_MAX,
    STRANGER_INPUT_FREE_BYTES,
};
use super::reply::Reply;
use crate::access::Caller;
use crate::account::{Exhausted, Share};
use crate::http::Pace;
use duetime_core::engine::{Ending, uninterrupted};
use duetime_core::model::name::QUEUE_DEFAULT;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

/// Requests that are carried out before replies are sent.
const TOGETHER_MAX: usize = 500;
/// Bytes of bodies among them.
const TOGETHER_BYTES_MAX: usize = 4 << 20;
/// Why a connection ends whose input finds no room.
const NO_INPUT_ROOM: &str = "the requests of all connections use too much memory";
/// Why a connection ends whose replies find no room.
pub(super) const NO_ROOM: &str = "the replies of all connections use too much memory";
/// Replies that are not taken within this time are counted.
const AT_ONCE: Duration = Duration::from_millis(20);
/// How often it is looked how a client reads, or sends a large body.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Leases that are given back in one call.
const GIVEN_BACK_TOGETHER: usize = 1_000;

/// The next step of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    On,
    Close,
}

/// A connection.
pub(super) struct Connection<S> {
    pub(super) door: Arc<Door>,
    stream: S,
    pub(super) input: Input,
    /// Of the memory for requests: for input beyond a small buffer, until what came in it is carried out.
    share: Share,
    /// How the body comes along that the share is for.
    pace: Pace,
    second_ends: Instant,
    /// Of the same memory: for the names of watched tubes beyond the first.
    pub(super) watching: Share,
    pub(super) reply: Reply,
    /// Of the memory for answers: for replies beyond a few kilobytes.
    replies: Share,
    pub(super) state: State,
    /// True if the client sends nothing more.
    is_half_closed: bool,
    /// The connection is closed if its client has shown no valid token by then; `None` while it has one, or needs none.
    auth_by: Option<Instant>,
}

/// The state that commands change.
pub(super) struct State {
    pub(super) caller: Caller,
    /// The client's address; a socket in the file system has none.
    pub(super) peer: Option<SocketAddr>,
    pub(super) used: Tube,
    pub(super) watched: Vec<Tube>,
    pub(super) held: LeaseTable,
    pub(super) is_producer: bool,
    pub(super) is_worker: bool,
}

/// Converses with a client to the end.
pub(super) async fn converse<S: AsyncRead + AsyncWrite + Unpin>(door: Arc<Door>, stream: S, peer: Option<SocketAddr>) {
    let used = Tube::from(QUEUE_DEFAULT);
    door.tubes.change(&used, |known| (known.using, known.watching) = (known.using + 1, known.watching + 1));
    add(&door.counters.connections, 1);
    add(&door.counters.total_connections, 1);
    let caller = if door.tokens.is_some() { Caller::Nobody } else { Caller::Anyone };
    let watched = vec![used.clone()];
    let state =
        State { caller, peer, used, watched, held: LeaseTable::default(), is_producer: false, is_worker: false };
    let requests = &door.account.requests;
    let replies = door.account.answers.share();
    let (input, share, watching) = (Input::new(door.job_bytes_max), requests.share(), requests.share());
    let (now, reply) = (Instant::now(), Reply::default());
    let mut connection = Connection {
        door,
        stream,
        input,
        share,
        pace: Pace::default(),
        second_ends: now,
        watching,
        reply,
        replies,
        state,
        is_half_closed: false,
        auth_by: Some(now + AUTH_TIME_MAX),
    };
    if let Err(error) = connection.run().await {
        tracing::debug!(%error, "a beanstalkd connection ended early");
    }
    connection.close().await;
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    async fn run(&mut self) -> io::Result<()> {
        loop {
            let requests = self.requests();
            let is_idle = requests.is_empty();
            if self.carry_out(requests).await? == Flow::Close {
                return self.flush().await;
            }
            // A large body is the last that is read at once, so it is put by now.
            self.share.shrink(self.input.buffer.capacity());
            if is_idle {
                self.flush().await?;
                if self.is_half_closed || !self.read().await? {
                    return Ok(());
                }
            } else if self.reply.0.len() >= OUTPUT_BYTES_MAX {
                self.flush().await?;
            }
        }
    }

    /// Complete requests that have arrived, up to a limit.
    fn requests(&mut self) -> Vec<Request> {
        let (mut requests, mut bytes) = (Vec::new(), 0);
        while requests.len() < TOGETHER_MAX
            && bytes < TOGETHER_BYTES_MAX
            && let Some(request) = self.input.next()
        {
            bytes += if let Request::Put(_, body) = &request { body.len() } else { 0 };
            let is_last = matches!(request, Request::Command(_, Command::Quit));
            requests.push(request);
            if is_last {
                break;
            }
        }
        if !requests.is_empty() && (self.share.bytes() > 0 || self.input.buffer.is_empty()) {
            // The bodies were copied: nothing of the buffer stays beside them but what is not parsed yet.
            self.input.make_room(self.input.buffer.len());
        }
        requests
    }

    /// Reads more; returns whether the connection continues.
    async fn read(&mut self) -> io::Result<bool> {
        self.make_room().await?;
        let renewal = self.state.held.next_renewal();
        let (auth_by, caller) = (self.auth_by(), self.state.caller.clone());
        let door = self.door.clone();
        let is_large = self.share.bytes() > 0;
        tokio::select! {
            // In this order: who has sent in time is not slow, and one who always sends keeps nothing else waiting.
            biased;
            () = door.stopping.cancelled() => Ok(false),
            () = sleep_until(auth_by.unwrap_or_else(far)), if auth_by.is_some() => Ok(false),
            // The next read has a limit.
            () = caller.until_lost(|| if caller.counts() { Ok(()) } else { Err(()) }), if auth_by.is_none() => Ok(true),
            () = sleep_until(renewal.unwrap_or_else(far)), if renewal.is_some() => {
                self.renew().await;
                Ok(true)
            }
            read = self.stream.read_buf(&mut self.input.buffer) => {
                let read = read?;
                self.pace.came(read);
                Ok(read > 0)
            }
            () = sleep_until(self.second_ends), if is_large => self.second_over().await,
        }
    }

    /// Looks how a large body comes along; one that comes too slowly while others wait for room ends the connection.
    async fn second_over(&mut self) -> io::Result<bool> {
        self.second_ends = Instant::now() + LOOK_EVERY;
        if self.share.is_short() && self.pace.second_over(self.share.bytes(), true) {
            return self.no_input_room().await.map(|()| false);
        }
        Ok(true)
    }

    /// When the connection is closed for lack of a valid token: some time after it was opened, or after its token stopped being valid.
    fn auth_by(&mut self) -> Option<Instant> {
        let caller = &self.state.caller;
        if !matches!(caller, Caller::Nobody) && caller.counts() {
            self.auth_by = None;
        } else {
            self.auth_by.get_or_insert_with(|| Instant::now() + AUTH_TIME_MAX);
        }
        self.auth_by
    }

    /// Makes room for more input. Bytes beyond a small buffer count toward a shared budget before they arrive: that of strangers, if the
    /// client has shown no token.
    async fn make_room(&mut self) -> io::Result<()> {
        let is_stranger = matches!(self.state.caller, Caller::Nobody);
        let (free, step) = if is_stranger {
            (STRANGER_INPUT_FREE_BYTES, STRANGER_INPUT_FREE_BYTES)
        } else {
            (INPUT_FREE_BYTES, INPUT_STEP_BYTES)
        };
        let room = self.input.room(free, step);
        let account = &self.door.account;
        let budget = if is_stranger { &account.strangers } else { &account.requests };
        let beyond = (room - free).min(budget.bytes());
        if !self.share.is_of(budget) {
            self.share = budget.share();
        }
        if beyond != self.share.bytes() {
            if self.share.resize(beyond).await.is_err() {
                return self.no_input_room().await;
            }
            // The time for which it waited is not the client's.
            (self.pace, self.second_ends) = (Pace::default(), Instant::now() + LOOK_EVERY);
        }
        self.input.make_room(room);
        Ok(())
    }

    /// Refuses what the client sends.
    async fn no_input_room(&mut self) -> io::Result<()> {
        self.reply.line("OUT_OF_MEMORY");
        self.flush().await?;
        Err(io::Error::other(NO_INPUT_ROOM))
    }

    /// Sends the replies. What a client does not read at once has a share of the memory for answers; one that reads too slowly is
    /// disconnected.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        let mut rest = &self.reply.0[..];
        let (mut pace, mut read_at) = (Pace::default(), Instant::now());
        let mut look_at = read_at + AT_ONCE;
        while !rest.is_empty() {
            if let Ok(written) = timeout_at(look_at, self.stream.write(rest)).await {
                let written = written?;
                if written == 0 {
                    return Err(io::ErrorKind::WriteZero.into());
                }
                pace.came(written);
                (rest, read_at) = (&rest[written..], Instant::now());
            }
            let now = Instant::now();
            if now < look_at {
                continue;
            }
            look_at = now + LOOK_EVERY;
            let uncounted = self.reply.0.len().saturating_sub(self.replies.bytes());
            if uncounted > OUTPUT_FREE_BYTES {
                let grown = self.door.account.grow_made(&mut self.replies, uncounted).await;
                grown.map_err(|_| io::Error::other(NO_ROOM))?;
            }
            let is_slow = self.replies.is_short() && pace.second_over(rest.len(), true);
            if is_slow || now >= read_at + SEND_TIME_MAX {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        self.reply.0.clear();
        // No connection keeps more than what needs no share.
        self.reply.0.shrink_to(OUTPUT_FREE_BYTES);
        self.replies.shrink(0);
        self.stream.flush().await
    }

    /// Whether its replies have a share.
    pub(super) fn has_large_replies(&self) -> bool {
        self.replies.bytes() > 0
    }

    /// Takes a share for so many bytes more of replies, before they are copied.
    pub(super) async fn claim(&mut self, bytes: usize) -> Result<(), Exhausted> {
        let all = self.reply.0.len() + bytes;
        if all <= OUTPUT_FREE_BYTES.max(self.replies.bytes()) {
            return Ok(());
        }
        let more = all - self.replies.bytes();
        self.door.account.grow_made(&mut self.replies, more).await
    }

    /// Waits for this work; `None` if the connection ends first. Input that arrives meanwhile is kept.
    pub(super) async fn while_open<T>(&mut self, work: impl Future<Output = T>) -> io::Result<Option<T>> {
        let door = self.door.clone();
        let mut work = std::pin::pin!(work);
        loop {
            // Beyond these few bytes it waits in the system.
            let has_room = self.input.buffer.len() < INPUT_FREE_BYTES && !self.is_half_closed;
            if has_room {
                self.input.make_room(INPUT_FREE_BYTES);
            }
            let renewal = self.state.held.next_renewal().unwrap_or_else(far);
            tokio::select! {
                // First of all: a job that another connection gives back as the server stops is not reserved again.
                biased;
                () = door.stopping.cancelled() => return Ok(None),
                done = &mut work => return Ok(Some(done)),
                read = self.stream.read_buf(&mut self.input.buffer), if has_room => {
                    if read? == 0 {
                        self.is_half_closed = true;
                        return Ok(None);
                    }
                }
                () = sleep_until(renewal) => self.renew().await,
            }
        }
    }

    /// True if the client sends nothing more, or the server stops.
    pub(super) fn is_ending(&self) -> bool {
        self.is_half_closed || self.door.stopping.is_cancelled()
    }

    async fn renew(&mut self) {
        let mut due = self.state.held.renew(Instant::now());
        due.retain(|(receipt, _)| self.held(receipt.id).is_some());
        for extended in self.door.engine.extend(due).await {
            if let Err(error) = extended {
                tracing::debug!(%error, "a lease was not extended");
            }
        }
    }

    /// Releases the held jobs.
    async fn close(mut self) {
        // The client sees the end even before its jobs are free: it may no longer use them.
        let _ = timeout(Duration::from_secs(1), self.stream.shutdown()).await;
        let held = self.state.held.all();
        for some in held.chunks(GIVEN_BACK_TOGETHER) {
            let back = some.iter().map(|&receipt| (receipt, Ending::Abandoned)).collect();
            for ended in uninterrupted(self.door.engine.end_leases(back)).await {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a lease had expired before its connection closed");
                }
            }
        }
        let State { used, watched, is_producer, is_worker, .. } = &self.state;
        self.door.tubes.change(used, |known| known.using -= 1);
        self.door.tubes.change_all(watched, |known| known.watching -= 1);
        let counters = &self.door.counters;
        take_one(&counters.connections);
        [(is_producer, &counters.producers), (is_worker, &counters.workers)]
            .into_iter()
            .filter(|(is_one, _)| **is_one)
            .for_each(|(_, count)| take_one(count));
    }
}

fn far() -> Instant {
    Instant::now() + Duration::from_secs(86_400)
}
