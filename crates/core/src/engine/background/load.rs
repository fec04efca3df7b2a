//! The horizon: jobs that are due within it are in the broker.
//!
//! The *watermark* is the instant up to which that holds. It moves on by buckets. After a commit, the recorder of a job
//! checks the watermark; the loader moves the watermark before it reads a bucket. So one of the two puts the job. The broker
//! gets the watermark, too, before the bucket is read: it drops no job that the loader may have passed.
//!
//! If several processes share the broker, only the leader loads (`leader`). It marks the jobs that it has put as loaded.

use crate::api::DegradedCode;
use crate::clock::Millis;
use crate::engine::Engine;
use crate::engine::parts::loading::ToReconcile;
use crate::engine::parts::waiting::LOOK_AGAIN;
use crate::error::Error;
use crate::limits::STEP_JOBS_MAX;
use crate::model::id::JobId;
use crate::model::job::Job;
use crate::ports::{BUCKET_MS, Cursor, OVERFLOW, Put, Reading, Room};
use std::sync::MutexGuard;
use std::time::Duration;
use tokio::time::Instant;

/// Rows read at once.
pub(crate) const PAGE_JOBS: usize = 4_000;
/// Between two lines of progress while loading.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);
/// How long a push waits for a shared broker; after that its jobs are left to the loader.
const HOLD_MAX: Duration = Duration::from_secs(1);
/// The end of the buckets that have only rows that are marked as loaded.
pub(crate) const NEAR: Millis = BUCKET_MS;

/// How long an edit may keep a job out of the broker that is due to be there, before it is given up. Such an edit takes
/// milliseconds, and one that is given up too soon is made again.
const BARRED_MAX: Duration = Duration::from_millis(500);

/// The outcome of a put.
#[derive(Debug, Default)]
pub(crate) struct Puts {
    pub(crate) held: Vec<(JobId, u64)>,
    /// Not as it was read.
    refused: Vec<JobId>,
    /// There was no room.
    full: Vec<JobId>,
}

/// Number of jobs put, and the rate.
#[derive(Debug)]
pub(crate) struct LoadProgress {
    jobs: u64,
    told_at: Instant,
}

impl LoadProgress {
    pub(crate) fn begin() -> Self {
        Self { jobs: 0, told_at: Instant::now() }
    }

    pub(crate) fn add(&mut self, jobs: usize) {
        self.jobs += jobs as u64;
        if self.told_at.elapsed() >= PROGRESS_EVERY {
            self.told_at = Instant::now();
            tracing::info!(jobs = self.jobs, "loading jobs that are due soon");
        }
    }

    pub(crate) fn end(self) {
        if self.jobs > 0 {
            tracing::info!(jobs = self.jobs, "loaded the jobs that are due soon");
        }
    }
}

impl Engine {
    /// True if a recorded job is put into the broker: the ledger is a separate store, and the job is due before the
    /// watermark.
    pub(crate) fn is_to_hold(&self, job: &Job) -> bool {
        self.topology.has_ledger() && job.due_at < self.watermark.get()
    }

    /// Puts those of these jobs into the broker that are due before the watermark. `reading` is from before they were read
    /// from the ledger, or recorded there. Jobs that a shared broker does not take are left to the loader.
    pub(crate) async fn hold(&self, mut jobs: Vec<Job>, reading: Reading) -> Result<(), Error> {
        jobs.retain(|job| self.is_to_hold(job));
        if jobs.is_empty() {
            return Ok(());
        }
        if !self.topology.shares_ledger() {
            self.put(jobs, reading).await?;
            if !self.to_reconcile().full.is_empty()
                && let Err(error) = self.reconcile().await
            {
                // They are known here, and marked as loaded for the next process.
                self.status.degrade(DegradedCode::Loading, &error);
            }
            return Ok(());
        }
        self.hold_together(jobs, reading).await
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
            *self.left.lock().expect("no panic under this lock") = ids.last().copied();
            self.reconcile_later(ids.iter().copied());
        }
    }

    /// Puts one of the jobs that were left to the loader, so that a degraded state ends without another push.
    pub(crate) async fn try_left(&self) {
        let left = self.left.lock().expect("no panic under this lock").take();
        let Some(id) = left else { return };
        let reading = self.broker.reading();
        let row = self.ledger.get(&[id]).await;
        let put = async { self.put(row?.into_iter().flatten().collect(), reading).await };
        self.put_or_leave(&[id], put).await;
    }

    /// Whether a waiting job joins the overflow of its queue: otherwise it would overtake the older jobs there.
    pub(crate) fn joins_overflow(&self, job: &Job, now: Millis) -> bool {
        job.is_pending() && job.lease_until.is_none() && self.overflow.takes(job, now)
    }

    /// Puts all of these jobs that are pending and do not join an overflow. Returns which of them the broker holds.
    pub(crate) async fn put(&self, mut jobs: Vec<Job>, reading: Reading) -> Result<Vec<(JobId, u64)>, Error> {
        if self.overflow.is_used() {
            let now = self.now();
            let over = jobs.extract_if(.., |job| self.joins_overflow(job, now)).map(|job| job.id);
            self.to_reconcile().full.extend(over);
        }
        self.put_loaded(jobs, reading).await
    }

    /// Puts all of these jobs that are pending, also those beyond the watermark: a page of the ledger may come from a later
    /// watermark, before the clock was set back. The broker may hold them already, so none joins an overflow unless there is
    /// no room. Returns which of them the broker holds.
    async fn put_loaded(&self, jobs: Vec<Job>, reading: Reading) -> Result<Vec<(JobId, u64)>, Error> {
        let Puts { held, refused, full } = self.try_put(jobs, reading, self.room()).await?;
        let mut to_reconcile = self.to_reconcile();
        to_reconcile.again.extend(refused);
        to_reconcile.full.extend(full);
        Ok(held)
    }

    /// The same, but the caller handles the jobs that are not held.
    pub(crate) async fn try_put(&self, mut jobs: Vec<Job>, reading: Reading, room: Room) -> Result<Puts, Error> {
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
        jobs: Vec<Job>,
        reading: Reading,
        room: Room,
        sorted: &mut Puts,
    ) -> Result<Vec<JobId>, Error> {
        let rank = |job: &Job| (job.id, job.version, (job.queue.clone(), job.priority, job.due_at));
        let ranks: Vec<_> = jobs.iter().map(rank).collect();
        let puts = self.metrics.stores.put.time(self.broker.put(jobs, reading, room)).await?;
        let now = self.now();
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
                    let mut to_reconcile = self.to_reconcile();
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

    /// The broker does not hold these as they are in the ledger: reads them again.
    pub(crate) fn reconcile_later(&self, ids: impl Iterator<Item = JobId>) {
        self.to_reconcile().again.extend(ids);
    }

    /// Moves the watermark on with the clock: by as little as can be while the broker has no room for all.
    pub(crate) fn advance_watermark(&self) {
        let horizon_ms = self.options.horizon_ms;
        let horizon_ms = if self.overflow.is_used() { horizon_ms.min(BUCKET_MS) } else { horizon_ms };
        self.watermark.advance(self.now().saturating_add(horizon_ms));
    }

    /// Moves the watermark on with the clock, and has the broker know.
    pub(crate) async fn advance(&self) -> Result<Millis, Error> {
        self.advance_watermark();
        let watermark = self.watermark.get();
        self.broker.set_watermark(watermark).await?;
        Ok(watermark)
    }

    /// Restores the leases that were noted. Must end before anything is served: their holders may settle at once.
    pub(crate) async fn restore_leases(&self) -> Result<(), Error> {
        let reading = self.broker.reading();
        let Some(leases) = &self.leases else { return Ok(()) };
        let leased = leases.leased().await?;
        if !leased.is_empty() {
            tracing::info!(leases = leased.len(), "restored the leases of running jobs");
        }
        self.broker.put(leased, reading, Room::Any).await.map(drop)
    }

    /// Loads jobs as they enter the horizon, until the engine stops.
    pub(crate) async fn load(&self) {
        let mut after = None;
        let mut loaded_until = 0;
        loop {
            self.status.set(DegradedCode::Loading, self.load_entering(&mut loaded_until, &mut after).await.err());
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn load_entering(&self, loaded_until: &mut Millis, after: &mut Option<Cursor>) -> Result<(), Error> {
        let watermark = self.advance().await?;
        if *loaded_until < watermark {
            let mut progress = LoadProgress::begin();
            while let Some(held) = self.load_page(watermark, after).await? {
                progress.add(held.len());
            }
            progress.end();
            (*loaded_until, *after) = (watermark, Some(end_before(watermark)));
            self.status.set_loaded(true);
        }
        self.reconcile().await?;
        self.reconcile_barred().await
    }

    /// Puts a page of the rows in buckets before `until`, and moves the cursor past it. Returns which of them the broker
    /// holds; `None` after the last page.
    pub(crate) async fn load_page(
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
        if !self.to_reconcile().full.is_empty() {
            self.reconcile().await?;
        }
        *after = Some(page.next.unwrap_or(END));
        Ok(Some(held))
    }

    /// Reads jobs again that the broker refused because they had changed; the loader does it if that may be another process.
    /// Jobs for which it had no room go to the overflow. They stay listed here until that is done, whoever caused it: a push
    /// is answered only then.
    pub(crate) async fn reconcile(&self) -> Result<(), Error> {
        let is_none = |to_reconcile: &ToReconcile| to_reconcile.again.is_empty() && to_reconcile.full.is_empty();
        if is_none(&self.to_reconcile()) {
            return Ok(());
        }
        let _one_at_a_time = self.finding.lock().await;
        let mut left = self.to_reconcile().again.len();
        while left > 0 {
            let count = left.min(STEP_JOBS_MAX);
            let ids = self.to_reconcile().again[..count].to_vec();
            self.find_again(&ids).await?;
            // Jobs that were refused once more were appended after these.
            self.to_reconcile().again.drain(..count);
            left -= count;
        }
        loop {
            let ids: Vec<JobId> = self.to_reconcile().full.iter().take(PAGE_JOBS).copied().collect();
            if ids.is_empty() {
                return Ok(());
            }
            self.ledger.not_loaded(&ids, OVERFLOW).await?;
            self.to_reconcile().full.drain(..ids.len());
            self.overflow.ask();
        }
    }

    /// Frees jobs that were refused for a while as the ledger has them.
    pub(super) async fn reconcile_barred(&self) -> Result<(), Error> {
        let late: Vec<(JobId, u64)> = {
            let mut to_reconcile = self.to_reconcile();
            // The others are left to the leader, which finds them, too.
            if !self.leads() {
                to_reconcile.barred.clear();
            }
            let late = to_reconcile.barred.iter().filter(|(_, (_, since))| since.elapsed() >= BARRED_MAX);
            late.map(|(&id, &(version, _))| (id, version)).take(STEP_JOBS_MAX).collect()
        };
        if late.is_empty() {
            return Ok(());
        }
        self.free_barred(&late).await?;
        let mut to_reconcile = self.to_reconcile();
        to_reconcile.barred.retain(|id, _| !late.iter().any(|(freed, _)| freed == id));
        Ok(())
    }

    fn to_reconcile(&self) -> MutexGuard<'_, ToReconcile> {
        self.to_reconcile.lock().expect("no panic under this lock")
    }

    async fn find_again(&self, ids: &[JobId]) -> Result<(), Error> {
        if self.topology.shares_ledger() {
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
fn end_before(watermark: Millis) -> Cursor {
    let last = i64::MAX.unsigned_abs();
    Cursor { bucket: i64::try_from(watermark / BUCKET_MS).unwrap_or(i64::MAX) - 1, id: last }
}
