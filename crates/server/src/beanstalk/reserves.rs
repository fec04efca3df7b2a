//! Reserve: at once, or once a job of a watched tube is due; and of a named job.

use super::command::Tube;
use super::connection::{Connection, Flow, NO_ROOM};
use super::counters::{add, take_one};
use super::door::Door;
use super::ends::TRIES;
use super::kicks::{kick, kicked};
use super::leases::{HELD_MAX, MARGIN};
use super::limits::OUTPUT_BYTES_MAX;
use super::marks::JobMarks;
use super::rights::check_work;
use crate::access::Scope;
use duetime_core::api::Span;
use duetime_core::engine::{Ending, ReserveRequest, Source, uninterrupted, unnamed};
use duetime_core::limits::WAIT_MS_MAX;
use duetime_core::ports::Lease;
use duetime_core::{Error, JobId, State};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

/// Jobs that are reserved in one call.
const TOGETHER_MAX: usize = 100;

/// The result of a look for jobs.
enum LookResult {
    Jobs(usize),
    Nothing(&'static str),
    Closed,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Reserves this many jobs, one after the other, each within this time.
    pub(super) async fn reserve(&mut self, wait: Option<Duration>, count: usize) -> io::Result<Flow> {
        self.is_a_worker();
        let mut left = count;
        while left > 0 {
            match self.reserve_some(wait, left).await? {
                LookResult::Jobs(jobs) => left -= jobs,
                LookResult::Nothing(word) => {
                    self.reply.line(word);
                    left -= 1;
                }
                LookResult::Closed => {
                    // A client without a time limit expects a job, or the end of the connection.
                    if wait.is_some() {
                        self.reply.line("TIMED_OUT");
                    }
                    return Ok(Flow::Close);
                }
            }
        }
        Ok(Flow::On)
    }

    async fn reserve_some(&mut self, wait: Option<Duration>, count: usize) -> io::Result<LookResult> {
        if let Err(word) = check_work(&self.state.caller, &self.state.watched) {
            return Ok(LookResult::Nothing(word));
        }
        let begin = Instant::now();
        let until = wait.map(|wait| begin + wait);
        let mut has_looked = false;
        loop {
            let now = Instant::now();
            let room = HELD_MAX.saturating_sub(self.state.held.len());
            if room == 0 {
                return Ok(LookResult::Nothing("OUT_OF_MEMORY"));
            }
            let deadline = self.state.held.soonest(now).map(|soonest| soonest.checked_sub(MARGIN).unwrap_or(now));
            let end = [until, deadline].into_iter().flatten().min();
            let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(now));
            // A first look without a wait. So replies to earlier commands need not be sent separately.
            let waits = !left.is_zero() && !self.is_ending() && (has_looked || self.reply.0.is_empty());
            let wait = if waits { Span::from(left).min(Span(WAIT_MS_MAX)) } else { Span(0) };
            let request = ReserveRequest {
                from: Source::Queues(self.state.watched.clone()),
                // One call compares the tubes for each job.
                limit: count.min(room).min(TOGETHER_MAX.div_ceil(self.state.watched.len())),
                free: None,
                lease: None,
                wait,
                request_id: None,
                worker: self.state.peer.map(|peer| unnamed(peer.ip().to_canonical())),
            };
            let (engine, caller, watched) =
                (self.door.engine.clone(), self.state.caller.clone(), self.state.watched.clone());
            let asked = async move {
                tokio::select! {
                    biased;
                    reserved = engine.reserve_most_urgent(request) => Ok(reserved),
                    word = caller.until_lost(|| check_work(&caller, &watched)) => Err(word),
                }
            };
            let got = if waits {
                self.flush().await?;
                let _waiting = Waiting::new(self.door.clone(), self.state.watched.clone());
                self.while_open(asked).await?
            } else {
                Some(asked.await)
            };
            let unclaimed = match got {
                Some(Ok(Ok(unclaimed))) => unclaimed,
                Some(Ok(Err(Error::Stopping))) | None => return Ok(self.ended()),
                Some(Ok(Err(error))) => return Ok(LookResult::Nothing(super::reply::word(&error))),
                Some(Err(word)) => return Ok(LookResult::Nothing(word)),
            };
            if let Err(word) = check_work(&self.state.caller, &self.state.watched) {
                unclaimed.give_back().await;
                return Ok(LookResult::Nothing(word));
            }
            let leases = unclaimed.claim().leases;
            if !leases.is_empty() {
                return Ok(LookResult::Jobs(self.send_leases(leases).await?));
            }
            has_looked = true;
            let now = Instant::now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Ok(LookResult::Nothing("DEADLINE_SOON"));
            }
            if until.is_some_and(|until| until <= now) {
                return Ok(LookResult::Nothing("TIMED_OUT"));
            }
            if self.is_ending() {
                return Ok(self.ended());
            }
        }
    }

    /// The result of a search that the end of the connection has interrupted. Commands that a client sent before it
    /// half-closed are still carried out.
    fn ended(&self) -> LookResult {
        if self.door.stopping.is_cancelled() { LookResult::Closed } else { LookResult::Nothing("TIMED_OUT") }
    }

    /// Answers leased jobs, and returns how many. All of them are held before the first is sent: they are given back if the
    /// client has gone. If the client loses its right while a part is sent, the others are given back, too.
    async fn send_leases(&mut self, leases: Vec<Lease>) -> io::Result<usize> {
        leases.iter().for_each(|lease| self.hold(lease));
        for (sent, Lease { job, .. }) in leases.iter().enumerate() {
            // Without room the connection ends, and they are given back.
            self.claim(job.payload.len()).await.map_err(|_| io::Error::other(NO_ROOM))?;
            if !self.state.may(Scope::Work, &job.queue) {
                self.give_back(&leases[sent..]).await;
                return Ok(sent);
            }
            self.reply.job("RESERVED", job.id, &job.payload);
            if self.reply.0.len() >= OUTPUT_BYTES_MAX {
                self.flush().await?;
            }
        }
        Ok(leases.len())
    }

    /// Gives back jobs that the client has not seen: their attempts do not count.
    async fn give_back(&mut self, leases: &[Lease]) {
        let receipts = leases.iter().map(|lease| lease.job.receipt());
        let back: Vec<_> = receipts
            .inspect(|receipt| drop(self.state.held.remove(receipt.id)))
            .map(|receipt| (receipt, Ending::Unclaimed))
            .collect();
        for settled in uninterrupted(self.door.engine.end_leases(back)).await {
            if let Err(error) = settled {
                tracing::debug!(%error, "a job that a client may not have was not given back");
            }
        }
    }

    fn hold(&mut self, Lease { job, length }: &Lease) {
        let long = JobMarks::of_job(job).ttr_s;
        let ttr = long.map_or(Duration::from(*length), Duration::from_secs);
        self.state.held.add(job, ttr, Instant::now());
    }

    pub(super) async fn reserve_job(&mut self, id: u64) {
        self.is_a_worker();
        let reserved = match JobId::new(id) {
            Some(_) if self.state.held.len() >= HELD_MAX => return self.reply.line("OUT_OF_MEMORY"),
            Some(id) => self.reserve_named(id).await,
            None => return self.reply.line("NOT_FOUND"),
        };
        match reserved {
            Ok(lease) if self.state.may(Scope::Work, &lease.job.queue) => {
                self.hold(&lease);
                self.reply.job("RESERVED", lease.job.id, &lease.job.payload);
            }
            Ok(lease) => {
                self.give_back(&[lease]).await;
                self.reply.line("NOT_FOUND");
            }
            Err(error) => self.reply.failure(&error),
        }
    }

    /// Takes a job that is ready, delayed or buried.
    async fn reserve_named(&mut self, id: JobId) -> Result<Lease, Error> {
        for _ in 0..TRIES {
            let job = self.visible(id, Scope::Work).await?;
            match job.state(self.door.engine.now()) {
                State::Ready | State::Scheduled => return self.door.engine.reserve_early(id).await,
                State::Failed if self.door.engine.queue_settings(&job.queue).paused => return Err(Error::HeldBack(id)),
                State::Failed => {
                    // It was not kicked, so that is not counted.
                    let kick = kick(
                        &job,
                        JobMarks { kicks: JobMarks::of_job(&job).kicks, ..kicked(&job) },
                        self.door.engine.now(),
                    );
                    match self.door.engine.change_each(vec![kick]).await.pop() {
                        None | Some(Ok(_) | Err(Error::VersionMismatch { .. })) => {}
                        Some(Err(error)) => return Err(error),
                    }
                }
                _ => break,
            }
        }
        Err(Error::NotFound(id))
    }
}

/// One that waits for jobs, as long as it does.
struct Waiting {
    door: Arc<Door>,
    watched: Vec<Tube>,
}

impl Waiting {
    fn new(door: Arc<Door>, watched: Vec<Tube>) -> Self {
        add(&door.counters.waiting, 1);
        door.tubes.change_all(&watched, |known| known.waiting += 1);
        Self { door, watched }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        take_one(&self.door.counters.waiting);
        self.door.tubes.change_all(&self.watched, |known| known.waiting -= 1);
    }
}
