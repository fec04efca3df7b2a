//! Carries out commands in the order in which they came; consecutive ones of one kind are carried out together.

use super::command::Tube;
use super::command::{Command, Refusal, Token};
use super::connection::{Connection, Flow};
use super::counters::add;
use super::input::Request;
use super::limits::{WATCHED_BYTES, WATCHED_MAX};
use super::rights::refusal;
use duetime_core::engine::uninterrupted;
use std::io;
use std::iter::Peekable;
use std::time::Duration;
use std::vec::IntoIter;
use tokio::io::{AsyncRead, AsyncWrite};

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Carries out the requests received.
    pub(super) async fn carry_out(&mut self, requests: Vec<Request>) -> io::Result<Flow> {
        let mut requests = requests.into_iter().peekable();
        while let Some(request) = requests.next() {
            let request = match request {
                Request::Refused(refusal) => {
                    self.reply.line(match refusal {
                        Refusal::BadFormat => "BAD_FORMAT",
                        Refusal::UnknownCommand => "UNKNOWN_COMMAND",
                        Refusal::ExpectedCrlf => "EXPECTED_CRLF",
                        Refusal::JobTooBig => "JOB_TOO_BIG",
                    });
                    continue;
                }
                Request::Command(_, Command::Quit) => return Ok(Flow::Close),
                Request::Command(_, Command::Auth(token)) => {
                    self.authenticate(&token);
                    continue;
                }
                request => request,
            };
            if !self.may_go_on() {
                continue;
            }
            match request {
                Request::Put(put, body) => {
                    let mut puts = vec![(put, body)];
                    let is_put = |next: &Request| matches!(next, Request::Put(..));
                    while let Some(Request::Put(put, body)) = self.next_if(&mut requests, is_put) {
                        puts.push((put, body));
                    }
                    uninterrupted(self.put(puts)).await;
                }
                Request::Command(_, Command::Delete(id)) => {
                    let mut ids = vec![id];
                    let is_delete = |next: &Request| matches!(next, Request::Command(_, Command::Delete(_)));
                    while let Some(Request::Command(_, Command::Delete(id))) = self.next_if(&mut requests, is_delete) {
                        ids.push(id);
                    }
                    uninterrupted(self.delete(ids)).await;
                }
                Request::Command(word, command @ (Command::Reserve | Command::ReserveWithTimeout(_))) => {
                    let mut count = 1;
                    let is_same = |next: &Request| *next == Request::Command(word, command.clone());
                    while self.next_if(&mut requests, is_same).is_some() {
                        count += 1;
                    }
                    self.door.counters.count(word, count);
                    let wait = match command {
                        Command::ReserveWithTimeout(seconds) => Some(Duration::from_secs(seconds.into())),
                        _ => None,
                    };
                    if self.reserve(wait, count).await? == Flow::Close {
                        return Ok(Flow::Close);
                    }
                }
                Request::Command(word, command) => {
                    self.door.counters.count(word, 1);
                    uninterrupted(self.other(command)).await;
                }
                Request::Refused(_) => {}
            }
            // What has a share is sent first: it would be held while the next command waits.
            if self.reply.0.len() >= super::limits::OUTPUT_BYTES_MAX || self.has_large_replies() {
                self.flush().await?;
            }
        }
        Ok(Flow::On)
    }

    async fn other(&mut self, command: Command) {
        match command {
            Command::Use(tube) => self.use_tube(tube),
            Command::Watch(tube) => self.watch(tube),
            Command::Ignore(tube) => self.ignore(&tube),
            Command::ReserveJob(id) => self.reserve_job(id).await,
            Command::Release(release) => self.release(release).await,
            Command::Bury(id, priority) => self.bury(id, priority).await,
            Command::Touch(id) => self.touch(id).await,
            Command::Peek(id) => self.peek(id).await,
            Command::PeekReady => self.peek_ready().await,
            Command::PeekDelayed => self.peek_delayed().await,
            Command::PeekBuried => self.peek_buried().await,
            Command::Kick(bound) => self.kick(bound).await,
            Command::KickJob(id) => self.kick_job(id).await,
            Command::Stats => self.stats().await,
            Command::StatsJob(id) => self.stats_job(id).await,
            Command::StatsTube(tube) => self.stats_tube(tube).await,
            Command::ListTubes => self.list_tubes().await,
            Command::ListTubeUsed => {
                let used = format!("USING {}", self.state.used);
                self.reply.line(&used);
            }
            Command::ListTubesWatched => self.list_watched(),
            Command::PauseTube(tube, seconds) => self.pause(tube, seconds).await,
            Command::Put(_)
            | Command::Delete(_)
            | Command::Reserve
            | Command::ReserveWithTimeout(_)
            | Command::Auth(_)
            | Command::Quit => unreachable!("it is carried out with others of its kind"),
        }
    }

    fn authenticate(&mut self, Token(token): &Token) {
        let word = self.door.clone().identify(&mut self.state, token);
        self.reply.line(word);
    }

    /// True if the connection's token allows another command.
    fn may_go_on(&mut self) -> bool {
        let refused = refusal(&self.state.caller);
        refused.into_iter().for_each(|word| self.reply.line(word));
        refused.is_none()
    }

    /// The next request, if it is of the same kind as the previous one and the connection's token allows it.
    fn next_if(
        &self,
        requests: &mut Peekable<IntoIter<Request>>,
        is_same: impl Fn(&Request) -> bool,
    ) -> Option<Request> {
        requests.next_if(|next| is_same(next) && refusal(&self.state.caller).is_none())
    }

    fn use_tube(&mut self, tube: Tube) {
        if tube != self.state.used {
            self.door.tubes.change(&tube, |known| known.using += 1);
            self.door.tubes.change(&self.state.used, |known| known.using -= 1);
            self.state.used = tube;
        }
        let using = format!("USING {}", self.state.used);
        self.reply.line(&using);
    }

    fn watch(&mut self, tube: Tube) {
        if !self.state.watched.contains(&tube) {
            if self.state.watched.len() == WATCHED_MAX || self.watching.try_grow(WATCHED_BYTES).is_err() {
                return self.reply.line("OUT_OF_MEMORY");
            }
            self.door.tubes.change(&tube, |known| known.watching += 1);
            self.state.watched.push(tube);
        }
        self.reply.number("WATCHING", self.state.watched.len() as u64);
    }

    fn ignore(&mut self, tube: &Tube) {
        if let Some(place) = self.state.watched.iter().position(|watched| watched == tube) {
            if self.state.watched.len() == 1 {
                return self.reply.line("NOT_IGNORED");
            }
            self.state.watched.remove(place);
            self.watching.shrink(self.watching.bytes().saturating_sub(WATCHED_BYTES));
            self.door.tubes.change(tube, |known| known.watching -= 1);
        }
        self.reply.number("WATCHING", self.state.watched.len() as u64);
    }

    /// Counts the connection among those that put jobs.
    pub(super) fn is_a_producer(&mut self) {
        if !std::mem::replace(&mut self.state.is_producer, true) {
            add(&self.door.counters.producers, 1);
        }
    }

    /// Counts the connection among those that reserve jobs.
    pub(super) fn is_a_worker(&mut self) {
        if !std::mem::replace(&mut self.state.is_worker, true) {
            add(&self.door.counters.workers, 1);
        }
    }
}
