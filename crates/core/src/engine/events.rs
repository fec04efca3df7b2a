//! Publishes job events to subscribers in this process, and through the event bus to those in other processes.
//!
//! Each transition is counted and published in one place (`Parts::observe`). Without subscribers that costs one read of an
//! atomic. All subscribers share one ring. A slow subscriber delays nobody, and learns that it missed events. Events may be
//! lost between processes, or come twice if a call is repeated: they are for watching, not for accounting.

use super::Engine;
use super::changes::REFRESH_EVERY;
use super::metrics::run_ms;
use super::parts::Parts;
pub use super::subscription::Subscription;
use crate::clock::Millis;
use crate::error::Error;
use crate::model::id::JobId;
use crate::model::job::{Job, State};
pub use crate::ports::{Event, Transition, What};
use crate::ports::{OutboxEntry, Run, Settled};
pub use crate::request::Filter;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::time::Instant;

/// How far a subscriber may fall behind, in transitions, before it misses some.
pub const RING_TRANSITIONS: usize = 16_384;
/// When all other processes know of a new subscriber.
const KNOWN_AFTER: Duration = REFRESH_EVERY.saturating_add(Duration::from_millis(100));
/// The increment of the count per local subscriber; the lowest bit says that there are remote ones.
const HERE: usize = 2;
const ELSEWHERE: usize = 1;

/// Something that happened to a job, as it is counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Observed {
    Pushed,
    Imported,
    /// With its lateness in milliseconds, if that is meaningful.
    Started(Option<u64>),
    /// A worker completed it after this many milliseconds.
    Succeeded(u64),
    Taken,
    /// A worker failed it after this many milliseconds.
    Failed(u64),
    Crashed,
    Released,
    Expired,
    Cancelled,
    Changed,
    Retried,
    Deleted,
}

impl Observed {
    /// A job was leased, or taken.
    pub(super) fn started(job: &Job) -> Self {
        let started_at = job.started_at.unwrap_or(job.due_at);
        let is_first = (job.attempt, job.crashes) == (1, 0);
        Self::Started(is_first.then(|| started_at.saturating_sub(job.due_at)))
    }

    /// The word for it, if it left the job in this state.
    fn what(self, state: State) -> Option<What> {
        Some(match (self, state) {
            (Self::Failed(_) | Self::Crashed | Self::Released, State::Failed) => What::Failed,
            (Self::Failed(_) | Self::Crashed | Self::Released, State::Cancelled) => What::Cancelled,
            // It is published as taken.
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

/// A job to which something happened, as it is published, in its current state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    pub(super) queue: &'a Arc<str>,
    id: JobId,
    /// `None` if there were no subscribers when it was read.
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

    fn transition(self, event: Observed, at: Millis) -> Option<Arc<Transition>> {
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
            json: OnceLock::new(),
        }))
    }
}

/// The number of subscribers, here and elsewhere.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    ring: OnceLock<broadcast::Sender<Event>>,
    count: AtomicUsize,
    /// Since when there have been local ones.
    since: Mutex<Option<Instant>>,
}

impl Subscribers {
    fn are_there(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    fn are_here(&self) -> bool {
        self.count.load(Ordering::Relaxed) >= HERE
    }

    fn are_elsewhere(&self) -> bool {
        self.count.load(Ordering::Relaxed) & ELSEWHERE != 0
    }

    fn set_elsewhere(&self, are_there: bool) {
        if are_there {
            self.count.fetch_or(ELSEWHERE, Ordering::Relaxed);
        } else {
            self.count.fetch_and(!ELSEWHERE, Ordering::Relaxed);
        }
    }

    /// Delivers to local subscribers.
    pub(super) fn deliver(&self, event: Event) {
        if self.are_here()
            && let Some(ring) = self.ring.get()
        {
            // If the last subscriber has just left, nobody gets it.
            let _ = ring.send(event);
        }
    }

    /// Adds a local subscriber; returns since when there has always been one.
    fn join(&self) -> (broadcast::Receiver<Event>, Instant) {
        let ring = self.ring.get_or_init(|| broadcast::channel(RING_TRANSITIONS).0);
        let mut since = self.since.lock().expect("no panic under this lock");
        if self.count.fetch_add(HERE, Ordering::Relaxed) < HERE {
            *since = None;
        }
        (ring.subscribe(), *since.get_or_insert_with(Instant::now))
    }

    /// Removes a local subscriber.
    pub(super) fn leave(&self) {
        let _since = self.since.lock().expect("no panic under this lock");
        self.count.fetch_sub(HERE, Ordering::Relaxed);
    }
}

impl Parts {
    /// Counts what happened to jobs, which mostly are neighbours of one queue, and publishes it to subscribers.
    pub(super) fn observe<'a>(&self, seen: impl Iterator<Item = (Subject<'a>, Observed)>) {
        let is_wanted = self.subscribers.are_there();
        let at = if is_wanted { self.broker.now() } else { 0 };
        let mut transitions = Vec::new();
        self.metrics.count(seen.map(|(subject, event)| {
            if is_wanted {
                transitions.extend(subject.transition(event, at));
            }
            (subject.queue, event, subject.state)
        }));
        if transitions.is_empty() {
            return;
        }
        transitions.iter().for_each(|transition| self.subscribers.deliver(Event::Transition(transition.clone())));
        if let Some(bus) = self.bus.as_ref().filter(|_| self.subscribers.are_elsewhere()) {
            bus.publish(transitions);
        }
    }

    /// The same happened to all of these jobs, which are given as they are now.
    pub(super) fn observe_jobs<'a>(&self, jobs: impl Iterator<Item = &'a Job>, event: impl Fn(&Job) -> Observed) {
        let now = self.broker.now();
        self.observe(jobs.map(|job| (Subject::of(job, now), event(job))));
    }

    /// Leases were settled, each with what `event` makes of its place and of how long its run took in milliseconds.
    pub(super) fn observe_settled(
        &self,
        ids: &(impl Iterator<Item = JobId> + Clone),
        settled: &Settled,
        event: impl Fn(usize, u64) -> Observed,
    ) {
        let now = self.broker.now();
        let ended = settled.runs.iter().zip(&settled.states).zip(ids.clone()).enumerate();
        self.observe(ended.filter_map(|(place, ((run, state), id))| {
            let (run, state) = (run.as_ref()?, (*state)?);
            Some((Subject::of_run(id, run, state), event(place, run_ms(run, now))))
        }));
        let has_ended = |job: &Job| ids.clone().zip(&settled.runs).any(|(id, run)| id == job.id && run.is_some());
        let copies = settled.entries.iter().filter_map(|entry| match entry {
            OutboxEntry::Moved(job, copy) if has_ended(job) => Some(&**copy),
            _ => None,
        });
        self.observe_jobs(copies, |_| Observed::Pushed);
    }
}

impl Engine {
    /// Subscribes to job events from now on, also of other processes that share the broker. Those may be lost on their way:
    /// they are for watching, not for accounting.
    ///
    /// With a shared broker this takes about a second, unless this process has a subscriber already: then the others know.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::Stopping`]; or of the broker, if it is shared.
    pub async fn subscribe(&self, filter: Filter) -> Result<Subscription, Error> {
        self.check_open()?;
        filter.check()?;
        let (receiver, since) = self.subscribers.join();
        let subscription = Subscription::new(receiver, filter, self.subscribers.clone(), self.stopping.clone());
        if let Some(bus) = &self.bus {
            self.subscribers.set_elsewhere(bus.announce(true).await?);
            // Other processes learn of subscribers at their next refresh, and publish nothing before.
            tokio::time::sleep_until(since + KNOWN_AFTER).await;
        }
        Ok(subscription)
    }

    /// Announces whether there are subscribers here, and learns whether there are elsewhere.
    pub(super) async fn announce_subscribers(&self) {
        let Some(bus) = &self.bus else { return };
        match bus.announce(self.subscribers.are_here()).await {
            Ok(elsewhere) => self.subscribers.set_elsewhere(elsewhere),
            Err(error) => tracing::debug!(%error, "cannot find out whether other processes have subscribers"),
        }
    }
}
