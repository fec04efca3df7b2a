//! What loading keeps: the watermark, jobs that are put together, and jobs to reconcile.

use crate::clock::Millis;
use crate::error::Error;
use crate::limits::STEP_JOBS_MAX;
use crate::model::id::JobId;
use crate::model::job::Job;
use crate::ports::{BUCKET_MS, Reading};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;

/// Puts of this process at the same time, each of what several callers have.
const HOLDS_AT_ONCE: usize = 2;

#[derive(Debug, Default)]
pub(crate) struct Watermark {
    at: AtomicU64,
}

impl Watermark {
    pub(crate) fn get(&self) -> Millis {
        self.at.load(Ordering::SeqCst)
    }

    /// Moves on to the end of the bucket in which `until` lies.
    pub(crate) fn advance(&self, until: Millis) {
        let next = until.div_ceil(BUCKET_MS).saturating_mul(BUCKET_MS);
        self.at.fetch_max(next, Ordering::SeqCst);
    }
}

/// Jobs of several callers that are put at once.
#[derive(Debug)]
pub(crate) struct Together {
    waiting: Mutex<Vec<Batch>>,
    pub(crate) permits: Semaphore,
}

#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) jobs: Vec<Job>,
    /// The oldest reading.
    pub(crate) reading: Reading,
    pub(crate) callers: Vec<oneshot::Sender<Result<(), Error>>>,
}

impl Default for Together {
    fn default() -> Self {
        Self { waiting: Mutex::default(), permits: Semaphore::new(HOLDS_AT_ONCE) }
    }
}

impl Together {
    pub(crate) fn add(&self, jobs: Vec<Job>, reading: Reading) -> oneshot::Receiver<Result<(), Error>> {
        let (caller, answer) = oneshot::channel();
        let mut waiting = self.waiting.lock().expect("no panic under this lock");
        match waiting.last_mut().filter(|batch| batch.jobs.len() + jobs.len() <= STEP_JOBS_MAX) {
            Some(batch) => {
                batch.jobs.extend(jobs);
                batch.reading = batch.reading.older(reading);
                batch.callers.push(caller);
            }
            None => waiting.push(Batch { jobs, reading, callers: vec![caller] }),
        }
        answer
    }

    pub(crate) fn take(&self) -> Option<Batch> {
        let mut waiting = self.waiting.lock().expect("no panic under this lock");
        if waiting.is_empty() { None } else { Some(waiting.remove(0)) }
    }
}

/// Jobs that the broker does not hold as they were put, until the ledger has been read or updated.
#[derive(Debug, Default)]
pub(crate) struct ToReconcile {
    /// To be read from the ledger again.
    pub(crate) again: Vec<JobId>,
    /// To be marked as overflow.
    pub(crate) full: Vec<JobId>,
    /// Refused because of a tombstone: the version that the ledger had, and since when.
    pub(crate) barred: BTreeMap<JobId, (u64, Instant)>,
}
