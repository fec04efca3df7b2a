//! The counts of the jobs of queues.

use super::Settings;
use super::documents::read_one;
use crate::engine::base::Base;
use crate::engine::outbox_entries::OutboxEnds;
use crate::engine::overflow::Overflow;
use crate::error::Error;
use crate::json::Timestamp;
use crate::limits::STEP_QUEUES_MAX;
use crate::model::name;
use crate::ports::{Broker, Counts, Ledger, OverflowDue, Queues, Registry, Tally, after};
use crate::request::{Lately, QueueSettings, QueueStatus};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// How often a queue is read, at most, until it does not change meanwhile.
const READINGS_MAX: usize = 3;

/// The jobs of a queue.
#[derive(Debug, Default)]
struct QueueCount {
    /// In the broker.
    counts: Counts,
    /// In the ledger.
    tally: Tally,
    /// Pending jobs that only the ledger has, at most.
    far: u64,
    /// Something happened while they were counted. Otherwise all of this is exact.
    has_changed: bool,
}

/// Counts the jobs of queues.
pub(in crate::engine) struct QueueCounter {
    broker: Arc<dyn Broker>,
    ledger: Arc<dyn Ledger>,
    registry: Arc<dyn Registry>,
    settings: Arc<Settings>,
    overflow: Arc<Overflow>,
}

impl QueueCounter {
    pub(in crate::engine) fn new(base: &Base, settings: Arc<Settings>, overflow: Arc<Overflow>) -> Self {
        let Base { stores, .. } = base;
        Self {
            broker: stores.broker.clone(),
            ledger: stores.ledger.clone(),
            registry: stores.registry.clone(),
            settings,
            overflow,
        }
    }

    pub(in crate::engine) async fn queues(&self) -> Result<Vec<QueueStatus>, Error> {
        let (mut all, mut from): (Vec<QueueStatus>, Arc<str>) = (Vec::new(), Arc::from(""));
        loop {
            let some = self.queues_from(&from, STEP_QUEUES_MAX).await?;
            let is_all = some.len() < STEP_QUEUES_MAX;
            all.extend(some);
            match all.last() {
                Some(last) if !is_all => from = after(&last.queue),
                _ => return Ok(all),
            }
        }
    }

    pub(in crate::engine) async fn queues_from(&self, from: &str, limit: usize) -> Result<Vec<QueueStatus>, Error> {
        let limit = limit.min(STEP_QUEUES_MAX);
        let mut queues = self.read(Queues::From(Arc::from(from), limit)).await?;
        let mut set = HashMap::new();
        for (queue, settings) in self.settings.from(from, limit) {
            queues.entry(queue.clone()).or_default();
            set.insert(queue, settings);
        }
        // Each of the three answered its first ones, so the first ones of the union are complete.
        let mut queues: BTreeMap<_, _> = queues.into_iter().take(limit).collect();
        self.read_changed(&mut queues).await?;
        let mut statuses = Vec::with_capacity(queues.len());
        for (queue, counted) in queues {
            let over = self.overflow.due(&queue).await?;
            let settings = set.get(&queue).map(|settings| settings.as_ref().clone()).unwrap_or_default();
            statuses.push(counted.status(queue, settings, over));
        }
        Ok(statuses)
    }

    pub(in crate::engine) async fn queue(&self, queue: &str) -> Result<QueueStatus, Error> {
        name::check_queue(queue)?;
        let queue: Arc<str> = Arc::from(queue);
        let over = self.overflow.due(&queue).await?;
        let settings = self.settings.of(&queue).as_ref().clone();
        Ok(self.counted(&queue).await?.status(queue, settings, over))
    }

    /// The jobs of a queue that wait, for their time or for a worker. It may be more than there are, if some have just been pushed or ended,
    /// but not less.
    pub(in crate::engine) async fn waiting(&self, queue: &Arc<str>) -> Result<u64, Error> {
        let QueueCount { counts, far, .. } = self.counted(queue).await?;
        Ok(counts.scheduled + counts.ready + far)
    }

    async fn counted(&self, queue: &Arc<str>) -> Result<QueueCount, Error> {
        let mut counted = self.read(Queues::one(queue)).await?;
        self.read_changed(&mut counted).await?;
        Ok(counted.remove(queue).unwrap_or_default())
    }

    /// Reads again the queues that changed while they were read.
    async fn read_changed(&self, queues: &mut BTreeMap<Arc<str>, QueueCount>) -> Result<(), Error> {
        for _ in 1..READINGS_MAX {
            let changed = queues.iter().filter(|(_, counted)| counted.has_changed).map(|(queue, _)| queue.clone());
            let changed: Vec<Arc<str>> = changed.collect();
            if changed.is_empty() {
                break;
            }
            queues.extend(self.read(Queues::Named(changed)).await?);
        }
        Ok(())
    }

    /// The jobs of queues in the broker, and in the ledger if there is one beside it.
    ///
    /// Both change meanwhile, so they are read twice. A pending row is far if the broker does not hold its job and has not ended it. Of
    /// all rows that were pending at any time between the two readings, those are taken off that the broker held at its second one, and
    /// those that it had ended before that. Both are among these rows, and no job is both; so no far job is missing.
    ///
    /// The exception is a take: until the broker has finished it, it holds jobs whose rows have ended, and as many far jobs may be missing.
    async fn read(&self, queues: Queues) -> Result<BTreeMap<Arc<str>, QueueCount>, Error> {
        if self.broker.is_ledger() {
            let counted = |(queue, counts, tally): (_, _, Option<Tally>)| {
                (queue, QueueCount { counts, tally: tally.unwrap_or_default(), ..QueueCount::default() })
            };
            return Ok(self.broker.counts(queues).await?.into_iter().map(counted).collect());
        }
        let (broker, ledger) = (self.broker.as_ref(), self.ledger.as_ref());
        let before: HashMap<Arc<str>, Tally> = ledger.tallies(queues.clone()).await?.into_iter().collect();
        let held_before = held(broker, queues.clone()).await?;
        let with_pending = before.iter().filter(|(_, tally)| tally.pending > 0).map(|(queue, _)| queue.clone());
        let ends = OutboxEnds::read(broker, &with_pending.collect()).await?;
        let held = held(broker, queues.clone()).await?;
        let ended = ends.pending(ledger).await?;
        let tallies: HashMap<Arc<str>, Tally> = ledger.tallies(queues).await?.into_iter().collect();
        let names: BTreeSet<&Arc<str>> = before.keys().chain(held.keys()).chain(tallies.keys()).collect();
        let counted = names.into_iter().map(|queue| {
            let of = |tallies: &HashMap<Arc<str>, Tally>| tallies.get(queue).copied().unwrap_or_default();
            let live = |held: &HashMap<Arc<str>, Counts>| held.get(queue).copied().unwrap_or_default();
            let (before, tally, counts) = (of(&before), of(&tallies), live(&held));
            let known = jobs(counts) + ended.get(queue).copied().unwrap_or_default();
            let far = pending_at_most(&before, &tally).saturating_sub(known);
            let has_changed = before != tally || jobs(live(&held_before)) != jobs(counts);
            (queue.clone(), QueueCount { counts, tally, far, has_changed })
        });
        Ok(counted.collect())
    }

    pub(in crate::engine) async fn queue_versioned(&self, queue: &str) -> Result<(QueueStatus, u64), Error> {
        let status = self.queue(queue).await?;
        let Some((settings, version)) = read_one(self.registry.as_ref(), queue).await? else { return Ok((status, 0)) };
        Ok((QueueStatus { settings, ..status }, version))
    }
}

async fn held(broker: &dyn Broker, queues: Queues) -> Result<HashMap<Arc<str>, Counts>, Error> {
    Ok(broker.counts(queues).await?.into_iter().map(|(queue, counts, _)| (queue, counts)).collect())
}

fn jobs(counts: Counts) -> u64 {
    counts.scheduled + counts.ready + counts.running
}

/// The rows that were pending at any time between two readings, at most: those that were at one of them, and those that came or ended
/// meanwhile.
fn pending_at_most(before: &Tally, after: &Tally) -> u64 {
    let ended = |Tally { totals, .. }: &Tally| totals.succeeded + totals.failed + totals.cancelled;
    // The totals of a queue begin again once its last row is gone.
    let left = ended(after).checked_sub(ended(before)).unwrap_or(before.pending);
    let came = after.totals.pushed.saturating_sub(before.totals.pushed);
    (before.pending + came).max(after.pending + left)
}

impl QueueCount {
    /// Counts far jobs as what they are: due ones, of the overflow, as ready, all others as scheduled.
    fn status(self, queue: Arc<str>, settings: QueueSettings, over: OverflowDue) -> QueueStatus {
        let Self { mut counts, tally, far, has_changed: _ } = self;
        counts.ready += over.jobs;
        counts.oldest_due = counts.oldest_due.into_iter().chain(over.oldest_due.map(Timestamp)).min();
        counts.scheduled += far.saturating_sub(over.jobs);
        QueueStatus { queue, counts, tally, settings, target_held_until: None, lately: Lately::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{Fixture, QUEUE, due_in, far, job};
    use crate::limits::STEP_JOBS_MAX;
    use crate::model::job::NewJob;
    use crate::ports::{OVERFLOW, Totals};
    use crate::request::Outcome;
    use crate::testing::fixtures::due;
    use crate::testing::mortal::When;
    use crate::testing::{ModelLedger, Shared, TokioClock};
    use std::time::Duration;

    const DONE: Outcome = Outcome::complete(None);

    #[tokio::test(start_paused = true)]
    async fn each_job_of_a_queue_is_counted_once_wherever_it_is() {
        let fixture = Fixture::new().await;
        fixture.running(job()).await;
        for job in [job(), due_in(Duration::from_secs(1)), far()] {
            fixture.push(job).await;
        }
        let waits = crate::model::job::Job { queue: QUEUE.into(), ..due(1, fixture.now() - 5) };
        fixture.ledger.record(vec![waits], OVERFLOW).await.unwrap();
        fixture.loops.loader.learn_overflow().await.unwrap();
        let counts = fixture.services.queues.counter.queue(QUEUE).await.unwrap().counts;
        assert_eq!((counts.scheduled, counts.ready, counts.running), (2, 2, 1));
        assert_eq!(counts.oldest_due, Some(Timestamp(fixture.now() - 5)));
        let all = fixture.services.queues.counter.queues().await.unwrap();
        assert_eq!(all.iter().map(|queue| queue.counts).collect::<Vec<_>>(), [counts]);
    }

    /// Its row is pending until the outcome is recorded.
    #[tokio::test(start_paused = true)]
    async fn a_job_that_has_ended_does_not_wait_and_hides_none_of_another_queue() {
        let fixture = Fixture::new().await;
        for _ in 0..2 {
            let job = fixture.running(job()).await;
            fixture.ledger.set_away(true);
            fixture.settle(job.receipt(), DONE).await.unwrap_err();
            fixture.ledger.set_away(false);
        }
        fixture.push(NewJob { queue: "other".into(), ..far() }).await;
        assert_eq!(fixture.base.stores.broker.backlog(), 2);
        let queues = &fixture.services.queues.counter;
        for (queue, waiting) in [(QUEUE, 0), ("other", 1)] {
            assert_eq!(queues.waiting(&queue.into()).await, Ok(waiting));
            assert_eq!(queues.queue(queue).await.unwrap().counts.scheduled, waiting);
        }
        assert_eq!(queues.queues().await.unwrap().iter().map(|queue| queue.counts.scheduled).sum::<u64>(), 1);
    }

    /// Another process pushes, runs and ends jobs between any two readings.
    #[tokio::test(start_paused = true)]
    async fn a_job_that_is_pushed_or_ends_while_its_queue_is_counted_hides_none() {
        for verb in ["tallies", "counts", "outcomes", "versions"] {
            let (broker, ledger) = (Shared::new(Arc::new(TokioClock::new())), ModelLedger::default());
            let one = Fixture::sharing(&broker, &ledger).await;
            let other = Fixture::sharing(&broker, &ledger).await;
            for _ in 0..3 {
                one.push(far()).await;
            }
            let ends = other.running(job()).await;
            // Its end is not recorded yet, so rows are read.
            let runs = other.running(job()).await;
            other.settle(runs.receipt(), DONE).await.unwrap();
            for when in [When::Before, When::After] {
                one.life.freeze_at(verb, when, Duration::from_secs(1));
                let count = async {
                    let queues = one.services.queues.counter.clone();
                    (queues.queue(QUEUE).await.unwrap().counts, queues.waiting(&QUEUE.into()).await.unwrap())
                };
                let change = async {
                    for n in 0..5 {
                        let job = other.running(job()).await;
                        if n % 2 == 0 {
                            other.settle(job.receipt(), DONE).await.unwrap();
                        }
                    }
                };
                let ((counts, waiting), ()) = tokio::join!(count, change);
                assert_eq!((counts.scheduled, counts.ready, waiting), (3, 0, 3), "{verb}, {when:?}");
            }
            other.settle(ends.receipt(), DONE).await.unwrap();
            assert_eq!(
                one.services.queues.counter.waiting(&QUEUE.into()).await,
                Ok(3),
                "at once, though another process ended it"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn jobs_that_end_at_once_do_not_wait_however_many_they_are() {
        let fixture = Fixture::new().await;
        for _ in 0..2 * STEP_JOBS_MAX + 500 {
            fixture.push(job()).await;
        }
        fixture.push(far()).await;
        fixture.ledger.set_away(true);
        while let leases @ [_, ..] = fixture.lease(STEP_JOBS_MAX).await.as_slice() {
            let settles = leases.iter().map(|job| (job.receipt(), DONE)).collect();
            fixture.services.settler.settle(settles).await;
        }
        fixture.ledger.set_away(false);
        assert_eq!(fixture.base.stores.broker.backlog(), 2 * STEP_JOBS_MAX + 500);
        assert_eq!(fixture.services.queues.counter.queue(QUEUE).await.unwrap().counts.scheduled, 1);
        assert_eq!(fixture.services.queues.counter.queues().await.unwrap()[0].counts.scheduled, 1);
        assert_eq!(fixture.services.queues.counter.waiting(&QUEUE.into()).await, Ok(1));
    }

    /// Jobs that came and ended meanwhile, that were retried, and totals that began again.
    #[test]
    fn no_row_that_was_pending_between_two_readings_is_left_out() {
        let tally = |pending, pushed, succeeded| {
            let totals = Totals { pushed, succeeded, ..Totals::default() };
            Tally { pending, totals, ..Tally::default() }
        };
        let most = |before, after| super::pending_at_most(&before, &after);
        assert_eq!(most(tally(3, 3, 0), tally(3, 3, 0)), 3);
        assert_eq!(most(tally(3, 3, 0), tally(8, 10, 2)), 10, "seven came, two of all ended");
        assert_eq!(most(tally(3, 9, 6), tally(7, 9, 6)), 7, "four were retried");
        assert_eq!(most(tally(3, 3, 0), tally(1, 3, 0)), 3, "two were deleted");
        assert_eq!(most(tally(3, 3, 0), tally(3, 5, 0)), 5, "two were deleted, then two came");
        assert_eq!(most(tally(3, 9, 6), tally(2, 2, 0)), 5, "all ended, then two came");
    }
}
