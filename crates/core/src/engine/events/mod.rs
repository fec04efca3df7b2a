//! Publishes job events to subscribers in this process, and through the event bus to those in other processes.
//!
//! Each transition is counted and published in one place (`Publisher::observe`). The last 50 are kept, for subscribers who want to
//! see what came before them. All subscribers share one ring. A slow subscriber delays nobody, and learns that it missed events. Events may be
//! lost between processes, or come twice if a call is repeated: they are for watching, not for accounting.

mod ends;
mod subscribers;
mod subscription;

use super::metrics::{Metrics, run_ms};
use super::observation::{Observation, Subject};
use super::stores::Stores;
use super::supervisor::Supervisor;
use crate::error::Error;
use crate::model::id::JobId;
use crate::model::job::Job;
use crate::ports::{Broker, EventBus, OutboxEntry, Settled};
pub use crate::ports::{Event, Transition, What};
pub use crate::request::Filter;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
pub(in crate::engine) use subscribers::EndWatch;
use subscribers::Subscribers;
pub use subscribers::{RECENT_TRANSITIONS, RING_TRANSITIONS};
pub use subscription::Subscription;
use tokio::time::Instant;

/// How often it is announced whether there are subscribers.
pub(in crate::engine) const ANNOUNCE_EVERY: Duration = Duration::from_millis(900);

/// When all other processes know of a new subscriber.
const KNOWN_AFTER: Duration = ANNOUNCE_EVERY.saturating_add(Duration::from_millis(100));

/// Counts and publishes what happens to jobs.
pub(in crate::engine) struct Publisher {
    broker: Arc<dyn Broker>,
    bus: Option<Arc<dyn EventBus>>,
    subscribers: Arc<Subscribers>,
    metrics: Arc<Metrics>,
    supervisor: Arc<Supervisor>,
}

impl Publisher {
    pub(in crate::engine) fn new(stores: &Stores, metrics: Arc<Metrics>, supervisor: Arc<Supervisor>) -> Self {
        let (broker, bus) = (stores.broker.clone(), stores.events.clone());
        Self { broker, bus, subscribers: Arc::default(), metrics, supervisor }
    }

    /// Delivers events of other processes to subscribers here.
    pub(in crate::engine) fn listen(&self) {
        if let Some(bus) = &self.bus {
            let subscribers = self.subscribers.clone();
            bus.subscribe(Arc::new(move |event| subscribers.deliver(event)));
        }
    }

    /// Counts what happened to jobs, which mostly are neighbours of one queue, and publishes it to subscribers.
    pub(in crate::engine) fn observe<'a>(&self, seen: impl Iterator<Item = (Subject<'a>, Observation)>) {
        // Without subscribers only the last ones are kept.
        let most = if self.subscribers.are_there() { usize::MAX } else { RECENT_TRANSITIONS };
        let mut last = VecDeque::new();
        self.metrics.count(seen.map(|(subject, event)| {
            if last.len() >= most {
                last.pop_front();
            }
            last.push_back((subject, event));
            (subject.queue, event, subject.state)
        }));
        let at = self.broker.now();
        let transitions: Vec<_> =
            last.into_iter().filter_map(|(subject, event)| subject.transition(event, at)).collect();
        if transitions.is_empty() {
            return;
        }
        self.subscribers.deliver_all(&transitions);
        if let Some(bus) = self.bus.as_ref().filter(|_| self.subscribers.are_elsewhere()) {
            bus.publish(transitions);
        }
    }

    /// The same happened to all of these jobs, which are given as they are now.
    pub(in crate::engine) fn observe_jobs<'a>(
        &self,
        jobs: impl Iterator<Item = &'a Job>,
        event: impl Fn(&Job) -> Observation,
    ) {
        let now = self.broker.now();
        self.observe(jobs.map(|job| (Subject::of(job, now), event(job))));
    }

    /// Leases were settled, each with what `event` makes of its place and of how long its run took in milliseconds.
    pub(in crate::engine) fn observe_settled(
        &self,
        ids: &(impl Iterator<Item = JobId> + Clone),
        settled: &Settled,
        event: impl Fn(usize, u64) -> Observation,
    ) {
        let now = self.broker.now();
        let ended = settled.runs.iter().zip(&settled.states).zip(ids.clone()).enumerate();
        self.observe(ended.filter_map(|(place, ((run, state), id))| {
            let (run, state) = (run.as_ref()?, (*state)?);
            Some((Subject::of_run(id, run, state), event(place, run_ms(run, now))))
        }));
        let has_ended = |job: &Job| ids.clone().zip(&settled.runs).any(|(id, run)| id == job.id && run.is_some());
        let new = settled.entries.iter().filter(|entry| has_ended(entry.job())).flat_map(OutboxEntry::successors);
        self.observe_jobs(new, |_| Observation::Pushed);
    }

    pub(in crate::engine) async fn subscribe(&self, filter: Filter) -> Result<Subscription, Error> {
        Ok(self.subscribe_late(filter).await?.0)
    }

    /// Subscribes, and returns the last events before that fit, oldest first.
    pub(in crate::engine) async fn subscribe_late(
        &self,
        filter: Filter,
    ) -> Result<(Subscription, Vec<Arc<Transition>>), Error> {
        self.supervisor.check_open()?;
        filter.check()?;
        let (receiver, since, mut recent) = self.subscribers.join_late();
        recent.retain(|transition| filter.fits(transition));
        let subscription =
            Subscription::new(receiver, filter, self.subscribers.clone(), self.supervisor.stopping().clone());
        self.until_known(since).await?;
        Ok((subscription, recent))
    }

    /// Subscribes to the end of one job.
    pub(in crate::engine) async fn watch_end(&self, id: JobId) -> Result<EndWatch, Error> {
        self.supervisor.check_open()?;
        let (ended, since) = self.subscribers.watch(id);
        let watch = EndWatch::new(id, ended, self.subscribers.clone(), self.supervisor.stopping().clone());
        self.until_known(since).await?;
        Ok(watch)
    }

    /// Waits until other processes publish, for there have been subscribers here since then.
    async fn until_known(&self, since: Instant) -> Result<(), Error> {
        if let Some(bus) = &self.bus {
            self.subscribers.set_elsewhere(bus.announce(true).await?);
            // Other processes learn of subscribers at their next refresh, and publish nothing before.
            tokio::time::sleep_until(since + KNOWN_AFTER).await;
        }
        Ok(())
    }

    /// Announces whether there are subscribers here, and learns whether there are elsewhere.
    pub(in crate::engine) async fn announce_subscribers(&self) {
        let Some(bus) = &self.bus else { return };
        match bus.announce(self.subscribers.are_here()).await {
            Ok(elsewhere) => self.subscribers.set_elsewhere(elsewhere),
            Err(error) => tracing::debug!(%error, "cannot find out whether other processes have subscribers"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{Fixture, QUEUE, job};
    use crate::model::job::NewJob;
    use crate::request::Outcome;

    fn events(subscription: &mut Subscription) -> Vec<(JobId, What)> {
        let next = || match subscription.try_next()? {
            Event::Transition(transition) => Some((transition.id, transition.what)),
            Event::Missed => panic!("an event was missed"),
        };
        std::iter::from_fn(next).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_subscriber_gets_the_events_that_it_wants_from_now_on() {
        let f = Fixture::new().await;
        let first = f.push(job()).await;
        let of_queue = Filter { queues: vec![QUEUE.into()], ..Filter::default() };
        let ends = Filter { what: vec![What::Succeeded], ..Filter::default() };
        let mut of_queue = f.base.publisher.subscribe(of_queue).await.unwrap();
        let mut ends = f.base.publisher.subscribe(ends).await.unwrap();
        f.push(NewJob { queue: "other".into(), ..job() }).await;
        let run = f.lease(1).await.remove(0);
        f.settle(run.receipt(), Outcome::complete(None)).await.unwrap();
        assert_eq!(events(&mut of_queue), [(run.id, What::Started), (run.id, What::Succeeded)]);
        assert_eq!(events(&mut ends), [(run.id, What::Succeeded)]);
        f.push(job()).await;
        of_queue.skip();
        assert_eq!(events(&mut of_queue), []);
        let started = Filter { what: vec![What::Pushed], queues: vec![QUEUE.into()] };
        let (mut late, recent) = f.base.publisher.subscribe_late(started).await.unwrap();
        assert_eq!((recent[0].id, recent.len()), (first.id, 2), "also from before anybody subscribed");
        assert_eq!(events(&mut late), [], "each comes once");
        for _ in 0..60 {
            f.push(NewJob { queue: "other".into(), ..job() }).await;
        }
        let (_, recent) = f.base.publisher.subscribe_late(Filter::default()).await.unwrap();
        assert_eq!(recent.len(), RECENT_TRANSITIONS);
    }

    #[tokio::test(start_paused = true)]
    async fn a_subscription_ends_when_the_engine_stops_and_none_begins_afterwards() {
        let f = Fixture::new().await;
        let mut subscription = f.base.publisher.subscribe(Filter::default()).await.unwrap();
        f.base.supervisor.stopping().cancel();
        assert!(subscription.next().await.is_none());
        assert!(f.base.publisher.subscribe(Filter::default()).await.is_err());
        drop(subscription);
        assert!(!f.base.publisher.subscribers.are_there());
    }
}
