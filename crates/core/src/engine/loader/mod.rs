//! The horizon: jobs that are due within it are in the broker.
//!
//! Why this is hard: a job gets into the broker from two sides, by whoever records it and by the loader, perhaps in different
//! processes. Each may be slow, or die between any two steps. It must not be that
//!
//! - *nobody puts it*. The *watermark* is the instant up to which the broker has all jobs. It moves on by buckets. After a
//!   commit, the recorder of a job checks the watermark; the loader moves the watermark before it reads a bucket. So one of the
//!   two puts the job. The broker gets the watermark, too, before the bucket is read: it drops no job that the loader may have
//!   passed.
//! - *it is put as it was*. A row may change between the reading and the put, so each put says when its row was read, and the
//!   broker refuses what is older than its memory or has a tombstone. Jobs that were refused are read again
//!   ([`reconcile`](Loader::reconcile)); if that may be another process, the row is marked as not loaded, and the leader does it.
//! - *it waits for nothing*. A row that found no room is marked as one of the overflow before the push is answered. So it is
//!   never known to this process alone.
//!
//! Put twice is harmless: a put is idempotent by id and version. So every step may be repeated, and a row is marked as loaded
//! (bucket 0) *after* it was put: a crash in between loads it again. If several processes share the broker, only the leader loads
//! (`leader`).

mod horizon;
mod overflow;
mod to_reconcile;
mod together;

use crate::api::DegradedCode;
use crate::clock::Millis;
use crate::engine::base::Base;
use crate::engine::leader::Leader;
use crate::engine::metrics::Metrics;
use crate::engine::overflow::Overflow;
use crate::engine::status::Status;
use crate::error::Error;
use crate::limits::STEP_JOBS_MAX;
use crate::model::id::{JobId, Numbers};
use crate::model::job::{Job, Stage};
use crate::ports::{BUCKET_MS, Broker, Cursor, Ledger, OVERFLOW, Put, Reading, Registry, Room};
use crate::rules;
use horizon::Horizon;
use std::sync::Arc;
use std::time::Duration;
use to_reconcile::{Lists, ToReconcile};
use together::Together;
use tokio::time::Instant;

/// Rows read at once.
pub(in crate::engine) const PAGE_JOBS: usize = 4_000;
/// Between two lines of progress while loading.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);
/// How long after it was freed a job is not freed again: longer than its tombstone lasts.
const FREED_AGAIN: Duration = Duration::from_millis(<dyn Broker>::BARRED_MS + 1_000);
/// How long a push waits for a shared broker; after that its jobs are left to the loader.
const HOLD_MAX: Duration = Duration::from_secs(1);
/// The end of the buckets that have only rows that are marked as loaded.
pub(in crate::engine) const NEAR: Millis = BUCKET_MS;

/// The outcome of a put.
#[derive(Debug, Default)]
pub(in crate::engine) struct Puts {
    pub(in crate::engine) held: Vec<(JobId, u64)>,
    /// Not as it was read.
    refused: Vec<JobId>,
    /// There was no room.
    full: Vec<JobId>,
}

/// Number of jobs put, and the rate.
#[derive(Debug)]
pub(in crate::engine) struct LoadProgress {
    jobs: u64,
    told_at: Instant,
}

impl LoadProgress {
    pub(in crate::engine) fn begin() -> Self {
        Self { jobs: 0, told_at: Instant::now() }
    }

    pub(in crate::engine) fn add(&mut self, jobs: usize) {
        self.jobs += jobs as u64;
        if self.told_at.elapsed() >= PROGRESS_EVERY {
            self.told_at = Instant::now();
            tracing::info!(jobs = self.jobs, "loading jobs that are due soon");
        }
    }

    pub(in crate::engine) fn end(self) {
        if self.jobs > 0 {
            tracing::info!(jobs = self.jobs, "loaded the jobs that are due soon");
        }
    }
}

/// Puts jobs into the broker, and finds again those that it does not hold as they were put.
pub(super) struct Loader {
    broker: Arc<dyn Broker>,
    ledger: Arc<dyn Ledger>,
    registry: Arc<dyn Registry>,
    leader: Arc<Leader>,
    overflow: Arc<Overflow>,
    status: Arc<Status>,
    metrics: Arc<Metrics>,
    horizon: Horizon,
    together: Together,
    to_reconcile: ToReconcile,
    memory_max: Option<u64>,
}

impl Loader {
    pub(super) fn new(base: &Base, leader: Arc<Leader>, overflow: Arc<Overflow>) -> Self {
        let Base { stores, options, status, metrics, .. } = base;
        Self {
            broker: stores.broker.clone(),
            ledger: stores.ledger.clone(),
            registry: stores.registry.clone(),
            leader,
            overflow,
            status: status.clone(),
            metrics: metrics.clone(),
            horizon: Horizon::new(options.horizon.0),
            together: Together::default(),
            to_reconcile: ToReconcile::default(),
            memory_max: options.memory_max,
        }
    }

    /// True if a recorded job is put into the broker: the ledger is a separate store, and the job is due before the
    /// watermark.
    pub(in crate::engine) fn is_to_hold(&self, job: &Job) -> bool {
        !self.broker.is_ledger() && job.due_at.0 < self.watermark()
    }

    /// Puts those of these jobs into the broker that are due before the watermark. `reading` is from before they were read
    /// from the ledger, or recorded there. Jobs that a shared broker does not take are left to the loader.
    pub(in crate::engine) async fn hold(&self, mut jobs: Vec<Job>, reading: Reading) -> Result<(), Error> {
        jobs.retain(|job| self.is_to_hold(job));
        if jobs.is_empty() {
            return Ok(());
        }
        if !self.broker.shares_ledger() {
            self.put(jobs, reading).await?;
            self.move_to_overflow().await;
            return Ok(());
        }
        self.hold_together(jobs, reading).await
    }

    /// Puts jobs that are due before the watermark and marked as not loaded, and marks them as loaded in this incarnation.
    pub(in crate::engine) async fn load(
        &self,
        mut jobs: Vec<Job>,
        reading: Reading,
        incarnation: &str,
    ) -> Result<(), Error> {
        jobs.retain(|job| self.is_to_hold(job));
        let held = self.put(jobs, reading).await?;
        if !held.is_empty() {
            self.ledger.loaded(&held, incarnation).await?;
        }
        self.reconcile().await
    }

    /// Puts jobs together with those of concurrent callers: whoever has the turn puts all that wait.
    async fn hold_together(&self, jobs: Vec<Job>, reading: Reading) -> Result<(), Error> {
        let mut answer = self.together.add(jobs, reading);
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return answer.unwrap_or(Err(Error::Stopping)),
                _permit = self.together.permits.acquire() => {
                    // Nothing waits, so another caller is putting these jobs.
                    let Some(batch) = self.together.take() else { break };
                    let held = self.hold_or_leave(batch.jobs, batch.reading).await;
                    batch.callers.into_iter().for_each(|caller| drop(caller.send(held.clone())));
                }
            }
        }
        answer.await.unwrap_or(Err(Error::Stopping))
    }

    async fn hold_or_leave(&self, jobs: Vec<Job>, reading: Reading) -> Result<(), Error> {
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        self.put_or_leave(&ids, self.put(jobs, reading)).await;
        self.reconcile().await
    }

    /// Puts these jobs. If that fails or takes too long, they are left to the loader.
    async fn put_or_leave<T>(&self, ids: &[JobId], put: impl Future<Output = Result<T, Error>>) {
        let put = tokio::time::timeout(HOLD_MAX, put).await;
        let put = put.unwrap_or_else(|_| Err(Error::Unavailable("the broker does not answer; trying again".into())));
        self.status.set(DegradedCode::Holding, put.as_ref().err().cloned());
        if put.is_err() {
            self.to_reconcile.set_left(ids.last().copied());
            self.reconcile_later(ids.iter().copied());
        }
    }

    /// Puts one of the jobs that were left to the loader, so that a degraded state ends without another push.
    pub(in crate::engine) async fn try_left(&self) {
        let Some(id) = self.to_reconcile.take_left() else { return };
        let reading = self.broker.reading();
        let row = self.ledger.get(&[id]).await;
        let put = async { self.put(row?.into_iter().flatten().collect(), reading).await };
        self.put_or_leave(&[id], put).await;
    }

    /// Whether a waiting job joins the overflow of its queue: otherwise it would overtake the older jobs there.
    pub(in crate::engine) fn joins_overflow(&self, job: &Job, now: Millis) -> bool {
        job.is_pending() && job.lease_until.is_none() && !job.cancel_asked && self.overflow.takes(job, now)
    }

    /// Puts all of these jobs that are pending and do not join an overflow. Returns which of them the broker holds.
    pub(in crate::engine) async fn put(
        &self,
        mut jobs: Vec<Job>,
        reading: Reading,
    ) -> Result<Vec<(JobId, u64)>, Error> {
        if self.overflow.is_used() {
            let now = self.broker.now();
            let over = jobs.extract_if(.., |job| self.joins_overflow(job, now)).map(|job| job.id);
            self.to_reconcile.lists().full.extend(over);
        }
        self.put_loaded(jobs, reading).await
    }

    /// Puts all of these jobs that are pending, also those beyond the watermark: a page of the ledger may come from a later
    /// watermark, before the clock was set back. The broker may hold them already, so none joins an overflow unless there is
    /// no room. Returns which of them the broker holds.
    async fn put_loaded(&self, jobs: Vec<Job>, reading: Reading) -> Result<Vec<(JobId, u64)>, Error> {
        let Puts { held, refused, full } = self.try_put(jobs, reading, self.room()).await?;
        let mut to_reconcile = self.to_reconcile.lists();
        to_reconcile.again.extend(refused);
        to_reconcile.full.extend(full);
        Ok(held)
    }

    /// The same, but the caller handles the jobs that are not held.
    pub(in crate::engine) async fn try_put(
        &self,
        mut jobs: Vec<Job>,
        reading: Reading,
        room: Room,
    ) -> Result<Puts, Error> {
        jobs.retain(Job::is_pending);
        if jobs.is_empty() {
            return Ok(Puts::default());
        }
        let mut puts = Puts::default();
        let stale = self.put_read(jobs, reading, room, &mut puts).await?;
        if stale.is_empty() {
            return Ok(puts);
        }
        // The broker's memory may have begun since.
        let reading = self.broker.reading();
        let again = match self.ledger.get(&stale).await {
            Ok(rows) => {
                let rows = rows.into_iter().flatten().filter(Job::is_pending).collect();
                self.put_read(rows, reading, room, &mut puts).await
            }
            Err(error) => Err(error),
        };
        puts.refused.extend(again.unwrap_or(stale));
        Ok(puts)
    }

    /// Returns the jobs that were read too long ago.
    async fn put_read(
        &self,
        mut jobs: Vec<Job>,
        reading: Reading,
        room: Room,
        sorted: &mut Puts,
    ) -> Result<Vec<JobId>, Error> {
        // Beside a shared broker the ledger keeps no leases.
        jobs.iter_mut().for_each(rules::lapse);
        let rank = |job: &Job| (job.id, job.version, (job.queue.clone(), job.priority, job.due_at.0));
        let ranks: Vec<_> = jobs.iter().map(rank).collect();
        let puts = self.metrics.stores.put.time(self.broker.put(jobs, reading, room)).await?;
        let now = self.broker.now();
        let mut stale = Vec::new();
        for ((id, version, rank), put) in ranks.into_iter().zip(puts) {
            match put {
                Put::Held => sorted.held.push((id, version)),
                Put::Full => {
                    self.overflow.refused(rank, now);
                    sorted.full.push(id);
                }
                Put::Stale => stale.push(id),
                Put::Tombstone => {
                    // Most have changed since they were read. If another reading says the same, an edit did not end.
                    let now = Instant::now();
                    let mut to_reconcile = self.to_reconcile.lists();
                    let barred = to_reconcile.barred.entry(id).or_insert((version, now));
                    if barred.0 != version {
                        *barred = (version, now);
                    }
                    sorted.refused.push(id);
                }
                Put::KeyHeld(_) => sorted.refused.push(id),
            }
        }
        Ok(stale)
    }

    /// Moves rows to the overflow whose jobs found no room in the broker. If that fails, they are known here, and marked as
    /// loaded for the next process.
    async fn move_to_overflow(&self) {
        if !self.to_reconcile.lists().full.is_empty()
            && let Err(error) = self.reconcile().await
        {
            self.status.degrade(DegradedCode::Loading, &error);
        }
    }

    /// The broker has dropped these waiting jobs, since it has no room for them any more.
    pub(in crate::engine) async fn leave_in_ledger(&self, jobs: Vec<Job>) {
        let now = self.broker.now();
        for job in &jobs {
            self.overflow.refused((job.queue.clone(), job.priority, job.due_at.0), now);
        }
        self.to_reconcile.lists().full.extend(jobs.iter().map(|job| job.id));
        self.move_to_overflow().await;
    }

    /// The broker does not hold these as they are in the ledger: reads them again.
    pub(in crate::engine) fn reconcile_later(&self, ids: impl Iterator<Item = JobId>) {
        self.to_reconcile.lists().again.extend(ids);
    }

    /// Whether this process leads, or is the only one.
    pub(in crate::engine) fn leads(&self) -> bool {
        self.leader.leads()
    }

    /// The instant up to which jobs are in the broker.
    pub(in crate::engine) fn watermark(&self) -> Millis {
        self.horizon.watermark()
    }

    /// Moves the watermark on with the clock.
    pub(in crate::engine) fn advance_watermark(&self) {
        self.horizon.advance(self.broker.now(), self.overflow.is_used());
    }

    /// Moves the watermark on with the clock, and has the broker know.
    pub(in crate::engine) async fn advance(&self) -> Result<Millis, Error> {
        self.advance_watermark();
        let watermark = self.watermark();
        self.broker.set_watermark(watermark).await?;
        Ok(watermark)
    }

    /// Puts a page of the rows in buckets before `until`, and moves the cursor past it. Returns which of them the broker
    /// holds; `None` after the last page.
    pub(in crate::engine) async fn load_page(
        &self,
        until: Millis,
        after: &mut Option<Cursor>,
    ) -> Result<Option<Vec<(JobId, u64)>>, Error> {
        if after.is_some_and(|after| after == END) {
            return Ok(None);
        }
        let reading = self.broker.reading();
        let page = self.ledger.pending(until, *after, PAGE_JOBS).await?;
        self.status.count_loaded(page.jobs.len() as u64);
        let held = if until == NEAR {
            self.put_loaded(page.jobs, reading).await?
        } else {
            self.put(page.jobs, reading).await?
        };
        if !self.to_reconcile.lists().full.is_empty() {
            self.reconcile().await?;
        }
        *after = Some(page.next.unwrap_or(END));
        Ok(Some(held))
    }

    /// Reads jobs again that the broker refused because they had changed; the loader does it if that may be another process.
    /// Jobs for which it had no room go to the overflow. They stay listed here until that is done, whoever caused it: a push
    /// is answered only then.
    pub(in crate::engine) async fn reconcile(&self) -> Result<(), Error> {
        let is_none = |to_reconcile: &Lists| to_reconcile.again.is_empty() && to_reconcile.full.is_empty();
        if is_none(&self.to_reconcile.lists()) {
            return Ok(());
        }
        let _one_at_a_time = self.to_reconcile.finding.lock().await;
        let mut left = self.to_reconcile.lists().again.len();
        while left > 0 {
            let count = left.min(STEP_JOBS_MAX);
            let ids = self.to_reconcile.lists().again[..count].to_vec();
            self.find_again(&ids).await?;
            // Jobs that were refused once more were appended after these.
            self.to_reconcile.lists().again.drain(..count);
            left -= count;
        }
        loop {
            let ids: Vec<JobId> = self.to_reconcile.lists().full.iter().take(PAGE_JOBS).copied().collect();
            if ids.is_empty() {
                return Ok(());
            }
            self.ledger.not_loaded(&ids, OVERFLOW).await?;
            self.to_reconcile.lists().full.drain(..ids.len());
            self.overflow.ask();
        }
    }

    /// Jobs that were refused for at least this long because of a tombstone, at most as many as one step takes. One that was
    /// freed, and is refused as that left it, has a tombstone of a much later version, as if it was deleted and imported again.
    /// That one has to lapse, and each edit would prolong it.
    pub(in crate::engine) fn barred_for(&self, least: Duration) -> Vec<(JobId, u64)> {
        let mut lists = self.to_reconcile.lists();
        lists.freed.retain(|_, (_, at)| at.elapsed() < FREED_AGAIN);
        let is_freed = |id: &JobId, version: u64| lists.freed.get(id).is_some_and(|(made, _)| *made == version);
        let late = lists.barred.iter().filter(|(_, (_, since))| since.elapsed() >= least);
        let late = late.map(|(&id, &(version, _))| (id, version));
        late.filter(|(id, version)| !is_freed(id, *version)).take(STEP_JOBS_MAX).collect()
    }

    /// These were freed.
    pub(in crate::engine) fn freed(&self, jobs: &[(JobId, u64)]) {
        let (mut lists, now) = (self.to_reconcile.lists(), Instant::now());
        for &(id, version) in jobs {
            lists.barred.remove(&id);
            lists.freed.insert(id, (Numbers::Ledger.after(version), now));
        }
    }

    /// Those that were refused are left to the leader, which finds them, too.
    pub(in crate::engine) fn leave_barred(&self) {
        self.to_reconcile.lists().barred.clear();
    }

    async fn find_again(&self, ids: &[JobId]) -> Result<(), Error> {
        if self.broker.shares_ledger() {
            return self.ledger.not_loaded(ids, 0).await;
        }
        let reading = self.broker.reading();
        let rows = self.ledger.get(ids).await?;
        self.put(rows.into_iter().flatten().collect(), reading).await.map(drop)
    }
}

/// After every page.
const END: Cursor = Cursor { bucket: i64::MAX, id: u64::MAX };

/// The end of the buckets that lie before the watermark.
pub(in crate::engine) fn end_before(watermark: Millis) -> Cursor {
    let last = i64::MAX.unsigned_abs();
    Cursor { bucket: i64::try_from(watermark / BUCKET_MS).unwrap_or(i64::MAX) - 1, id: last }
}

/// The version up to which the broker's copy of the job is invalid: the ledger has a later version, or the job has ended or
/// is gone there. An ended job does not become live again before the ledger knows.
pub(in crate::engine) fn outdated(job: &Job, row: Option<(u64, Stage)>) -> Option<(JobId, u64)> {
    match row {
        Some((version, Stage::Pending)) => (version > job.version).then_some((job.id, version)),
        Some((version, _)) => Some((job.id, version.max(job.version) + 1)),
        None => Some((job.id, job.version + 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{Fixture, QUEUE, far, job, pass};
    use crate::ports::Window;
    use crate::request::Options;
    use crate::testing::fixtures::{T0, due, id};

    #[test]
    fn a_copy_in_the_broker_is_outdated_by_a_later_or_ended_row_and_by_none() {
        let held = Job { version: 5, ..due(1, T0) };
        let row = |version, stage| Some((version, stage));
        assert_eq!(outdated(&held, row(5, Stage::Pending)), None);
        assert_eq!(outdated(&held, row(4, Stage::Pending)), None);
        assert_eq!(outdated(&held, row(6, Stage::Pending)), Some((held.id, 6)));
        // The version that brought the end may be the one that is held.
        assert_eq!(outdated(&held, row(5, Stage::Failed)), Some((held.id, 6)));
        assert_eq!(outdated(&held, None), Some((held.id, 6)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_finds_no_room_is_in_the_overflow_of_its_queue_before_the_push_is_answered() {
        let fixture = Fixture::with(Options { memory_max: Some(1), ..Options::default() }).await;
        let (first, pushed) = (fixture.push(job()).await, fixture.push(job()).await);
        let over = fixture.ledger.overflow(QUEUE, Window::ALL, 9).await.unwrap();
        assert!(fixture.held(first.id).await.is_some(), "one more than fits");
        assert_eq!((fixture.held(pushed.id).await, over), (None, vec![pushed]));
        assert!(fixture.loops.loader.has_overflow());
    }

    /// Its row may have changed since, and nobody else looks at it again.
    #[tokio::test(start_paused = true)]
    async fn a_row_that_was_read_too_long_ago_is_read_again() {
        let fixture = Fixture::new().await;
        let (loader, broker) = (&fixture.loops.loader, &fixture.base.stores.broker);
        let (reading, read) = (broker.reading(), fixture.push(far()).await);
        let later = Job { priority: 7, version: read.version + 2, ..read.clone() };
        fixture.ledger.apply(vec![crate::ports::OutboxEntry::Changed(later.clone())], 0).await.unwrap();
        pass(Duration::from_millis(<dyn Broker>::READ_AGE_MS_MAX + 1)).await;
        assert_eq!(loader.put(vec![read.clone()], reading).await, Ok(vec![(read.id, later.version)]));
        assert_eq!(fixture.held(read.id).await, Some(later));
    }

    #[tokio::test(start_paused = true)]
    async fn the_position_after_all_pages_has_no_page() {
        let fixture = Fixture::new().await;
        let (loader, watermark) = (&fixture.loops.loader, fixture.loops.loader.watermark());
        fixture.ledger.record((1..=8).map(|n| due(n, fixture.now())).collect(), 0).await.unwrap();
        let (mut after, mut pages) = (None, Vec::new());
        while let Some(held) = loader.load_page(watermark, &mut after).await.unwrap() {
            pages.push(held.len());
        }
        assert_eq!(pages, [7, 1]);
        assert_eq!(loader.load_page(watermark, &mut after).await, Ok(None));
        assert!(fixture.held(id(8)).await.is_some());
    }
}
