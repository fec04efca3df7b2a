//! Overflow: jobs that are due soon and wait in the ledger, since the broker has no room for them.
//!
//! A put reports which jobs found no room ([`Put::Full`]). Their rows move to the overflow of their queue. From there the
//! loader puts the most urgent ones that are due soon, whenever the broker has few ready jobs of the queue; a reserve or
//! take that finds nothing loads for itself. While a queue has an overflow, new jobs join it without a put, unless they are
//! more urgent than all jobs there that are due soon.
//!
//! Invariant: only the ledger knows what is in the overflow. The state here merely decides where a new job goes first, so no
//! job is stranded by a process that dies or has old information.

use super::{Loader, PAGE_JOBS};
use crate::api::DegradedCode;
use crate::clock::Millis;
use crate::engine::documents::document;
use crate::engine::overflow::{Boundary, QUEUES_PUBLISHED};
use crate::error::Error;
use crate::json::Timestamp;
use crate::model::id::{JobId, JobRef};
use crate::ports::{ADOPTED, Detail, HandOut, Queues, Room, SOON_MS, Window};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// The minimum number of ready jobs that the broker holds of an overflowing queue, if there is room: enough until more are
/// loaded, and few enough that an urgent job does not wait long behind them.
const READY_MIN: u64 = 16_000;
/// How often overflows are checked without a request.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The same if none is known: another process may have added jobs.
const LOOK_SHARED_EVERY: Duration = Duration::from_millis(500);
/// The same if only this process adds jobs.
const LOOK_ALONE_EVERY: Duration = Duration::from_secs(10);
/// The least pause before a requested look.
const LOOK_PAUSE: Duration = Duration::from_millis(5);
/// The number of queues that one look covers; the next look continues after them.
const QUEUES_AT_ONCE: usize = 100;
/// Jobs that are tried if the last try found no room.
const PROBE_JOBS: usize = 10;
/// The position of the loader among the queues.
#[derive(Debug, Default)]
struct Walk {
    after: Option<Arc<str>>,
    seen: HashSet<Arc<str>>,
}

impl Loader {
    /// The maximum that a put may fill.
    pub(in crate::engine) fn room(&self) -> Room {
        Room::Within(self.memory_max)
    }

    /// Learns which queues have an overflow, before anything is served.
    pub(in crate::engine) async fn learn_overflow(&self) -> Result<(), Error> {
        let mut after: Option<Arc<str>> = None;
        for _ in 0..QUEUES_PUBLISHED {
            let Some(queue) = self.ledger.overflowing(after.as_deref()).await? else { break };
            self.find_edge(&queue).await?;
            after = Some(queue);
        }
        Ok(())
    }

    /// Loads jobs from overflows as room appears, until the engine stops. Only the leader does if processes share the
    /// broker.
    pub(in crate::engine) async fn load_overflow(&self) {
        let mut walk = Walk::default();
        loop {
            let mut is_more = false;
            if self.leader.leads() {
                match self.look_at_overflow(&mut walk).await {
                    Ok(more) => {
                        self.status.mend(DegradedCode::Overflow);
                        is_more = more;
                    }
                    Err(error) => self.status.degrade(DegradedCode::Overflow, &error),
                }
            }
            tokio::time::sleep(LOOK_PAUSE).await;
            let every = match (self.overflow.is_used(), self.broker.shares_ledger()) {
                (true, _) => LOOK_EVERY,
                (false, true) => LOOK_SHARED_EVERY,
                (false, false) => LOOK_ALONE_EVERY,
            };
            if !is_more {
                tokio::select! {
                    biased;
                    () = self.overflow.requested.notified() => {}
                    () = tokio::time::sleep(every) => {}
                }
            }
        }
    }

    /// Looks at some queues; returns whether more is to be loaded at once.
    async fn look_at_overflow(&self, walk: &mut Walk) -> Result<bool, Error> {
        let mut is_more = false;
        for _ in 0..QUEUES_AT_ONCE {
            let Some(queue) = self.ledger.overflowing(walk.after.as_deref()).await? else {
                let seen = std::mem::take(&mut walk.seen);
                walk.after = None;
                if self.overflow.is_used() {
                    self.overflow.change(|bounds| bounds.retain(|queue, _| seen.contains(queue)));
                }
                return Ok(is_more);
            };
            is_more |= self.load_from_overflow(&queue, READY_MIN).await? > 0;
            walk.seen.insert(queue.clone());
            walk.after = Some(queue);
        }
        Ok(true)
    }

    /// Puts a page of the most urgent jobs of a queue that are due soon, if the broker has fewer than `ready_min` ready jobs
    /// of it. Returns how many were put.
    async fn load_from_overflow(&self, queue: &Arc<str>, ready_min: u64) -> Result<usize, Error> {
        let mut full = self.overflow.full.lock().await;
        let counts = self.broker.counts(Queues::one(queue)).await?;
        if counts.first().is_some_and(|(_, counts, _)| counts.ready >= ready_min) {
            return Ok(0);
        }
        let Some(incarnation) = self.loading_incarnation().await? else { return Ok(0) };
        let reading = self.broker.reading();
        let soon = Window { from: 0, to: self.broker.now().saturating_add(SOON_MS) };
        let limit = if full.contains(queue) { PROBE_JOBS } else { PAGE_JOBS };
        let jobs = self.ledger.overflow(queue, soon, limit).await?;
        let asked = jobs.len();
        // Jobs that are refused for another reason stay in the overflow, too, and are read again at the next look.
        let held = self.try_put(jobs, reading, self.room()).await?.held;
        self.ledger.loaded(&held, &incarnation).await?;
        self.status.count_loaded(held.len() as u64);
        if held.is_empty() && asked > 0 {
            full.insert(queue.clone());
        } else {
            full.remove(queue);
        }
        self.find_edge(queue).await?;
        Ok(held.len())
    }

    /// The incarnation in which rows are marked as loaded; none while none is adopted.
    async fn loading_incarnation(&self) -> Result<Option<String>, Error> {
        if self.broker.shares_ledger() {
            document(self.registry.as_ref(), ADOPTED).await
        } else {
            Ok(Some(String::new()))
        }
    }

    /// Learns the boundary of a queue's overflow.
    async fn find_edge(&self, queue: &Arc<str>) -> Result<(), Error> {
        let until = self.broker.now().saturating_add(SOON_MS);
        let soon = self.ledger.overflow(queue, Window { from: 0, to: until }, 1).await?;
        let soon = soon.first().map(|job| (job.priority, job.due_at.0));
        let after = Window { from: until.saturating_add(1), to: Millis::MAX };
        let later = soon.is_none() && !self.ledger.overflow(queue, after, 1).await?.is_empty();
        self.overflow.set(queue, Boundary { soon, later });
        Ok(())
    }

    /// Loads for a reserve of these queues that found nothing; returns whether there are jobs now.
    pub(in crate::engine) async fn load_for_reserve(&self, queues: &[Arc<str>]) -> bool {
        let mut has_loaded = false;
        for queue in queues {
            if self.overflow.bound(queue).is_some_and(|bound| bound.soon.is_some()) {
                match self.load_from_overflow(queue, 1).await {
                    Ok(loaded) => has_loaded |= loaded > 0,
                    Err(error) => self.status.degrade(DegradedCode::Overflow, &error),
                }
            }
        }
        has_loaded
    }

    /// Loads what a take, or a reserve of named jobs, asks for in particular, and is in the overflow.
    pub(in crate::engine) async fn load_for_request(&self, request: HandOut<'_>) {
        let is_particular = request.takes() || request.queues().is_none();
        if is_particular && let Err(error) = self.load_particular(request).await {
            self.status.degrade(DegradedCode::Overflow, &error);
        }
    }

    async fn load_particular(&self, request: HandOut<'_>) -> Result<(), Error> {
        let (reading, now) = (self.broker.reading(), self.broker.now());
        let mut jobs = Vec::new();
        match request.queues() {
            Some(queues) => {
                for queue in queues.iter().filter(|queue| self.overflow.bound(queue).is_some()) {
                    let counts = self.broker.counts(Queues::one(queue)).await?;
                    let ready = counts.first().map_or(0, |(_, counts, _)| counts.ready);
                    if request.window().from == 0 && ready >= request.limit() as u64 {
                        continue;
                    }
                    jobs.extend(self.ledger.overflow(queue, request.window(), request.limit()).await?);
                }
            }
            None => {
                let ids: Vec<JobId> = request.named().iter().map(|&JobRef { id, .. }| id).collect();
                let held = self.broker.get(&ids, Detail::Head).await?;
                let unknown = ids.iter().zip(held).filter(|(_, job)| job.is_none()).map(|(id, _)| *id);
                let unknown: Vec<JobId> = unknown.collect();
                jobs.extend(self.ledger.get(&unknown).await?.into_iter().flatten());
                jobs.retain(|job| job.is_pending() && job.lease_until.is_none() && job.due_at <= Timestamp(now));
            }
        }
        let Some(incarnation) = self.loading_incarnation().await? else { return Ok(()) };
        let held = self.try_put(jobs, reading, Room::Any).await?.held;
        self.ledger.loaded(&held, &incarnation).await
    }

    /// When a caller should look again at the latest, if an overflow has jobs that the broker does not have.
    pub(in crate::engine) fn look_by(&self, queues: &[Arc<str>], next_at: Option<Millis>) -> Option<Millis> {
        if queues.iter().all(|queue| self.overflow.bound(queue).is_none()) {
            return next_at;
        }
        let look_by = self.broker.now().saturating_add(SOON_MS);
        Some(next_at.map_or(look_by, |next_at| next_at.min(look_by)))
    }

    /// Whether any queue is known to have an overflow.
    pub(in crate::engine) fn has_overflow(&self) -> bool {
        self.overflow.is_used()
    }

    /// Has the loader look at the overflows.
    pub(in crate::engine) fn ask_for_overflow(&self) {
        self.overflow.ask();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::Fixture;
    use crate::model::job::Job;
    use crate::ports::{Ledger as _, OVERFLOW};
    use crate::testing::fixtures::{QUEUE, due, id};

    /// A loader with nine jobs in the overflow of a queue; the last one is the most urgent.
    async fn overflowing() -> Fixture {
        let fixture = Fixture::new().await;
        let now = fixture.now();
        let jobs = (1..=9).map(|n| Job { priority: 10 - n, ..due(u64::from(n), now) });
        fixture.ledger.record(jobs.collect(), OVERFLOW).await.unwrap();
        fixture.loops.loader.learn_overflow().await.unwrap();
        fixture
    }

    /// A page of the ledger of a fixture has at most seven jobs.
    #[tokio::test(start_paused = true)]
    async fn the_most_urgent_jobs_of_an_overflow_are_put_while_the_broker_has_few() {
        let fixture = overflowing().await;
        let (loader, queue) = (&fixture.loops.loader, Arc::from(QUEUE));
        assert_eq!(loader.load_from_overflow(&queue, 1).await, Ok(7));
        for n in 1..=9 {
            assert_eq!(fixture.held(id(n)).await.is_some(), n > 2, "{n}");
        }
        assert_eq!(loader.load_from_overflow(&queue, 7).await, Ok(0), "it has enough");
        assert_eq!(loader.load_from_overflow(&queue, 8).await, Ok(2));
        assert!(!loader.has_overflow(), "it is known to be empty");
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_does_not_sleep_past_what_may_come_out_of_an_overflow() {
        let fixture = overflowing().await;
        let (loader, now) = (&fixture.loops.loader, fixture.now());
        let look_by = |queue: &str, next_at| loader.look_by(&[queue.into()], next_at);
        assert_eq!(look_by(QUEUE, None), Some(now + SOON_MS));
        assert_eq!(look_by(QUEUE, Some(now + SOON_MS + 1)), Some(now + SOON_MS));
        assert_eq!(look_by(QUEUE, Some(now + 1)), Some(now + 1));
        assert_eq!(look_by("other", None), None);
    }
}
