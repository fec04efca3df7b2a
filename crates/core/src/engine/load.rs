//! The horizon: what is due within it is in the broker.
//!
//! The *frontier* is the instant up to which that holds. It moves on by buckets; whoever records a job looks at it
//! after the commit, and the loader reads a bucket after having moved it, so one of the two puts the job.

use super::Engine;
use super::wait::LOOK_AGAIN;
use crate::clock::Millis;
use crate::error::Error;
use crate::id::JobId;
use crate::job::Job;
use crate::limits::STEP_JOBS_MAX;
use crate::ports::{BUCKET_MS, Cursor, Put};
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{RwLock, RwLockReadGuard};

/// Rows read at once.
const PAGE_JOBS: usize = 4_000;
/// Between two lines of progress while loading.
const PROGRESS_JOBS: u64 = 500_000;
/// What is degraded while the ledger cannot be read.
const LOADING: &str = "jobs are not loaded";

#[derive(Debug, Default)]
pub(super) struct Frontier {
    at: AtomicU64,
    gate: RwLock<()>,
}

/// A frontier that does not move.
pub(super) struct Still<'a> {
    at: Millis,
    _gate: RwLockReadGuard<'a, ()>,
}

impl Still<'_> {
    pub(super) fn at(&self) -> Millis {
        self.at
    }
}

impl Frontier {
    pub(super) fn get(&self) -> Millis {
        self.at.load(Ordering::SeqCst)
    }

    pub(super) async fn hold(&self) -> Still<'_> {
        let gate = self.gate.read().await;
        Still { at: self.get(), _gate: gate }
    }

    /// Moves on to the end of the bucket in which `until` lies; answers whether it moved.
    pub(super) async fn advance(&self, until: Millis) -> bool {
        let next = until.div_ceil(BUCKET_MS).saturating_mul(BUCKET_MS);
        if next <= self.get() {
            return false;
        }
        let _gate = self.gate.write().await;
        self.at.fetch_max(next, Ordering::SeqCst) < next
    }
}

impl Engine {
    /// Puts those of these jobs into the broker that are due before the frontier. `read_at` is the broker's clock
    /// before they were read from the ledger, or recorded there.
    pub(super) async fn hold(&self, mut jobs: Vec<Job>, read_at: Millis) -> Result<(), Error> {
        if self.ledger.is_broker() {
            return Ok(());
        }
        let frontier = self.frontier.get();
        jobs.retain(|job| job.due_at < frontier);
        self.put(jobs, read_at).await
    }

    /// Puts all of these jobs that are pending, also those beyond the frontier: what a page of the ledger held is
    /// filed as due before a frontier that may have been a later one, before the clock was set back.
    async fn put(&self, mut jobs: Vec<Job>, read_at: Millis) -> Result<(), Error> {
        jobs.retain(Job::is_pending);
        if jobs.is_empty() {
            return Ok(());
        }
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        let puts = self.broker.put(jobs, read_at).await?;
        let refused = ids.into_iter().zip(puts).filter(|(_, put)| *put != Put::Held).map(|(id, _)| id);
        self.strays.lock().expect("no panic under this lock").extend(refused);
        Ok(())
    }

    /// Restores the leases that were noted. Must end before anything is served: their holders may settle at once.
    pub(super) async fn restore_leases(&self) -> Result<(), Error> {
        let read_at = self.now();
        let leased = self.ledger.leased().await?;
        if !leased.is_empty() {
            tracing::info!(leases = leased.len(), "restored the leases of running jobs");
        }
        self.broker.put(leased, read_at).await.map(drop)
    }

    /// Loads what enters the horizon, for ever.
    pub(super) async fn load(&self) {
        let mut after = None;
        let mut loaded_until = 0;
        loop {
            self.frontier.advance(self.now().saturating_add(self.options.horizon_ms)).await;
            let frontier = self.frontier.get();
            let mut loaded = Ok(());
            if loaded_until < frontier {
                loaded = self.load_until(frontier, &mut after).await;
                if loaded.is_ok() {
                    (loaded_until, after) = (frontier, Some(end_before(frontier)));
                    self.status.loaded();
                }
            }
            match loaded.and(self.find_strays().await) {
                Ok(()) => self.status.mend(LOADING),
                Err(error) => self.status.degrade(LOADING, &error),
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn load_until(&self, frontier: Millis, after: &mut Option<Cursor>) -> Result<(), Error> {
        let mut count = 0;
        loop {
            let read_at = self.now();
            let page = self.ledger.pending(frontier, *after, PAGE_JOBS).await?;
            let before = count;
            count += page.jobs.len() as u64;
            self.status.count_loaded(page.jobs.len() as u64);
            self.put(page.jobs, read_at).await?;
            if before / PROGRESS_JOBS != count / PROGRESS_JOBS {
                tracing::info!(jobs = count, "loading jobs that are due soon");
            }
            match page.next {
                Some(next) => *after = Some(next),
                None => break,
            }
        }
        if count > 0 {
            tracing::info!(jobs = count, "loaded the jobs that are due soon");
        }
        Ok(())
    }

    /// Reads jobs anew that the broker refused to be put as they had been read.
    async fn find_strays(&self) -> Result<(), Error> {
        let strays = std::mem::take(&mut *self.strays.lock().expect("no panic under this lock"));
        for (i, ids) in strays.chunks(STEP_JOBS_MAX).enumerate() {
            let read_at = self.now();
            match self.ledger.get(ids).await {
                Ok(rows) => self.put(rows.into_iter().flatten().collect(), read_at).await?,
                Err(error) => {
                    let left = &strays[i * STEP_JOBS_MAX..];
                    self.strays.lock().expect("no panic under this lock").extend(left);
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

/// The end of the buckets that lie before the frontier.
fn end_before(frontier: Millis) -> Cursor {
    let last = i64::MAX.unsigned_abs();
    Cursor { bucket: i64::try_from(frontier / BUCKET_MS).unwrap_or(i64::MAX) - 1, id: last }
}
