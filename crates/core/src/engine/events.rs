//! Publishes job events to subscribers in this process, and through the event bus to those in other processes.
//!
//! Each transition is counted and published in one place (`Parts::observe`). Without subscribers that costs one read of an
//! atomic. All subscribers share one ring. A slow subscriber delays nobody, and learns that it missed events. Events may be
//! lost between processes, or come twice if a call is repeated: they are for watching, not for accounting.

use super::Engine;
use super::parts::Parts;
use super::parts::metrics::run_ms;
use super::parts::observed::{Observed, Subject};
use super::parts::settings::REFRESH_EVERY;
pub use super::parts::subscribers::RING_TRANSITIONS;
pub use super::subscription::Subscription;
use crate::error::Error;
use crate::model::id::JobId;
use crate::model::job::Job;
pub use crate::ports::{Event, Transition, What};
use crate::ports::{OutboxEntry, Settled};
pub use crate::request::Filter;
use std::time::Duration;

/// When all other processes know of a new subscriber.
const KNOWN_AFTER: Duration = REFRESH_EVERY.saturating_add(Duration::from_millis(100));
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
