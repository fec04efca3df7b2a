//! What happens to jobs, told to who listens: in this process, and by the broker to others.
//!
//! Each transition is counted and told in one place (`Parts::saw`). Where nobody listens that costs one look at a number.
//! All who listen share one ring; who is slower than that holds nobody up, and learns how much was missed. What is told may
//! be lost between processes, or told twice where a call is repeated: it is for watching, not for accounting.

use super::Engine;
use super::changes::REFRESH_EVERY;
pub use super::listener::{Filter, Listener};
use super::metrics::run_ms;
use super::parts::Parts;
use crate::clock::Millis;
use crate::error::Error;
use crate::id::JobId;
use crate::job::{Job, State};
use crate::ports::{Note, Run, Settled};
pub use crate::ports::{Told, Transition, What};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::time::Instant;

/// How far one who listens may fall behind, in transitions, before it misses some.
pub const RING_TRANSITIONS: usize = 16_384;
/// When all other processes have looked whether somebody listens.
const HEARD_AFTER: Duration = REFRESH_EVERY.saturating_add(Duration::from_millis(100));
/// What one who listens here adds to the number of those who do; the lowest bit says that somebody does elsewhere.
const HERE: usize = 2;
const ELSEWHERE: usize = 1;

/// Something that happened to a job, as it is counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Pushed,
    Imported,
    /// So late, in milliseconds, where that says something.
    Started(Option<u64>),
    /// A worker completed it after so many milliseconds.
    Succeeded(u64),
    Taken,
    /// A worker failed it after so many milliseconds.
    Failed(u64),
    Crashed,
    Released,
    Expired,
    Cancelled,
    Changed,
    Retried,
    Deleted,
}

impl Event {
    /// A job was leased, or taken.
    pub(super) fn started(job: &Job) -> Self {
        let started_at = job.started_at.unwrap_or(job.due_at);
        let is_first = (job.attempt, job.crashes) == (1, 0);
        Self::Started(is_first.then(|| started_at.saturating_sub(job.due_at)))
    }

    /// The word for it, where it left the job in this state.
    fn what(self, state: State) -> Option<What> {
        Some(match (self, state) {
            (Self::Failed(_) | Self::Crashed | Self::Released, State::Failed) => What::Failed,
            (Self::Failed(_) | Self::Crashed | Self::Released, State::Cancelled) => What::Cancelled,
            // What is taken is told as that.
            (Self::Started(_), State::Succeeded) => return None,
            (Self::Started(_), _) => What::Started,
            (Self::Pushed, _) => What::Pushed,
            (Self::Imported, _) => What::Imported,
            (Self::Succeeded(_), _) => What::Succeeded,
            (Self::Taken, _) => What::Taken,
            (Self::Failed(_), _) => What::Retrying,
            (Self::Crashed, _) => What::Crashed,
            (Self::Released, _) => What::Released,
            (Self::Expired, _) => What::Expired,
            (Self::Cancelled, _) => What::Cancelled,
            (Self::Changed, _) => What::Changed,
            (Self::Retried, _) => What::Retried,
            (Self::Deleted, _) => What::Deleted,
        })
    }
}

/// A job to which something happened, as far as it is told; as it is now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    pub(super) queue: &'a Arc<str>,
    id: JobId,
    /// `None` where nobody had asked for it when it was read.
    kind: Option<&'a Arc<str>>,
    pub(super) state: State,
    attempt: u32,
    due_at: Millis,
}

impl<'a> Subject<'a> {
    pub(super) fn of(job: &'a Job, now: Millis) -> Self {
        let Job { id, queue, kind, attempt, due_at, .. } = job;
        Self { queue, id: *id, kind: Some(kind), state: job.state(now), attempt: *attempt, due_at: *due_at }
    }

    fn of_run(id: JobId, run: &'a Run, state: State) -> Self {
        let Run { queue, kind, attempt, due_at, .. } = run;
        Self { queue, id, kind: kind.as_ref(), state, attempt: *attempt, due_at: *due_at }
    }

    fn transition(self, event: Event, at: Millis) -> Option<Arc<Transition>> {
        let Self { queue, id, kind, state, attempt, due_at } = self;
        let waits = matches!(state, State::Scheduled | State::Ready);
        Some(Arc::new(Transition {
            at,
            what: event.what(state)?,
            id,
            queue: queue.clone(),
            kind: kind?.clone(),
            state,
            attempt,
            due_at: waits.then_some(due_at),
        }))
    }
}

/// Who listens.
#[derive(Debug, Default)]
pub(super) struct Events {
    ring: OnceLock<broadcast::Sender<Told>>,
    heard_by: AtomicUsize,
    /// Since when somebody here does.
    since: Mutex<Option<Instant>>,
}

impl Events {
    fn is_heard(&self) -> bool {
        self.heard_by.load(Ordering::Relaxed) > 0
    }

    fn is_heard_here(&self) -> bool {
        self.heard_by.load(Ordering::Relaxed) >= HERE
    }

    fn is_heard_elsewhere(&self) -> bool {
        self.heard_by.load(Ordering::Relaxed) & ELSEWHERE != 0
    }

    fn set_elsewhere(&self, is_heard: bool) {
        if is_heard {
            self.heard_by.fetch_or(ELSEWHERE, Ordering::Relaxed);
        } else {
            self.heard_by.fetch_and(!ELSEWHERE, Ordering::Relaxed);
        }
    }

    /// Tells those who listen here.
    pub(super) fn tell(&self, told: Told) {
        if self.is_heard_here()
            && let Some(ring) = self.ring.get()
        {
            // Where the last one has just left, nobody hears it.
            let _ = ring.send(told);
        }
    }

    /// One more listens here; since when somebody does without a break.
    fn join(&self) -> (broadcast::Receiver<Told>, Instant) {
        let ring = self.ring.get_or_init(|| broadcast::channel(RING_TRANSITIONS).0);
        let mut since = self.since.lock().expect("no panic under this lock");
        if self.heard_by.fetch_add(HERE, Ordering::Relaxed) < HERE {
            *since = None;
        }
        (ring.subscribe(), *since.get_or_insert_with(Instant::now))
    }

    /// One less does.
    pub(super) fn leave(&self) {
        let _since = self.since.lock().expect("no panic under this lock");
        self.heard_by.fetch_sub(HERE, Ordering::Relaxed);
    }
}

impl Parts {
    /// Counts what happened to jobs, which mostly are neighbours of one queue, and tells it to who listens.
    pub(super) fn saw<'a>(&self, seen: impl Iterator<Item = (Subject<'a>, Event)>) {
        let is_heard = self.events.is_heard();
        let at = if is_heard { self.broker.now() } else { 0 };
        let mut told = Vec::new();
        self.metrics.count(seen.map(|(subject, event)| {
            if is_heard {
                told.extend(subject.transition(event, at));
            }
            (subject.queue, event, subject.state)
        }));
        if told.is_empty() {
            return;
        }
        told.iter().for_each(|transition| self.events.tell(Told::Transition(transition.clone())));
        if self.events.is_heard_elsewhere() {
            self.broker.tell(told);
        }
    }

    /// The same happened to all of these jobs, which are given as they are now.
    pub(super) fn saw_jobs<'a>(&self, jobs: impl Iterator<Item = &'a Job>, event: impl Fn(&Job) -> Event) {
        let now = self.broker.now();
        self.saw(jobs.map(|job| (Subject::of(job, now), event(job))));
    }

    /// Leases were settled, each with what `event` makes of its place and of how long its run took in milliseconds.
    pub(super) fn saw_settled(
        &self,
        ids: &(impl Iterator<Item = JobId> + Clone),
        settled: &Settled,
        event: impl Fn(usize, u64) -> Event,
    ) {
        let now = self.broker.now();
        let ended = settled.runs.iter().zip(&settled.states).zip(ids.clone()).enumerate();
        self.saw(ended.filter_map(|(place, ((run, state), id))| {
            let (run, state) = (run.as_ref()?, (*state)?);
            Some((Subject::of_run(id, run, state), event(place, run_ms(run, now))))
        }));
        let has_ended = |job: &Job| ids.clone().zip(&settled.runs).any(|(id, run)| id == job.id && run.is_some());
        let copies = settled.notes.iter().filter_map(|note| match note {
            Note::Moved(job, copy) if has_ended(job) => Some(&**copy),
            _ => None,
        });
        self.saw_jobs(copies, |_| Event::Pushed);
    }
}

impl Engine {
    /// Listens to what happens to jobs from now on, also in other processes that share the broker. What happens there may
    /// be lost on its way: it is for watching, not for accounting.
    ///
    /// Of a shared broker this takes about a second, unless somebody here listens already: then the others know of it.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::Stopping`]; where a shared broker cannot be asked.
    pub async fn listen(&self, filter: Filter) -> Result<Listener, Error> {
        self.check_open()?;
        filter.check()?;
        let (receiver, since) = self.events.join();
        let listener = Listener::new(receiver, filter, self.events.clone(), self.stopping.clone());
        if self.shares_broker() {
            self.events.set_elsewhere(self.broker.listen(true).await?);
            tokio::time::sleep_until(since + HEARD_AFTER).await;
        }
        Ok(listener)
    }

    /// Says whether somebody listens here, and learns whether somebody does elsewhere.
    pub(super) async fn look_for_listeners(&self) {
        match self.broker.listen(self.events.is_heard_here()).await {
            Ok(elsewhere) => self.events.set_elsewhere(elsewhere),
            Err(error) => tracing::debug!(%error, "it is not known whether other processes listen"),
        }
    }
}
