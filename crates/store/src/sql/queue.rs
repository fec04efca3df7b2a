//! The writers' input: new jobs and outcomes, bounded by a semaphore that callers wait for.

use duetime_core::ports::{OutboxEntry, Recorded};
use duetime_core::{Error, Job, JobId, Millis};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// Limit of waiting work, in rows and KiB of payload.
const WEIGHT_MAX: u32 = 128 << 10;
/// Weight above which a transaction takes no further task.
const WEIGHT_PER_TRANSACTION: u32 = 4_096;

/// Work to be written.
pub(super) enum Work {
    /// New jobs.
    Record(Vec<Job>, oneshot::Sender<Result<Vec<Recorded>, Error>>),
    /// Outcomes of jobs.
    Apply(Vec<OutboxEntry>, oneshot::Sender<Result<Vec<JobId>, Error>>),
}

/// Work with its waiting caller.
pub(super) struct Task {
    pub(super) work: Work,
    pub(super) watermark: Millis,
    weight: u32,
    /// Its permits, returned when it is done.
    _permit: OwnedSemaphorePermit,
}

/// The writers' queue.
pub(super) struct Queue {
    /// `None` once it is closed.
    tasks: Mutex<Option<mpsc::UnboundedSender<Task>>>,
    /// The writers take turns.
    waiting: tokio::sync::Mutex<mpsc::UnboundedReceiver<Task>>,
    room: Arc<Semaphore>,
}

impl Queue {
    pub(super) fn new() -> Self {
        let (tasks, waiting) = mpsc::unbounded_channel();
        let room = Arc::new(Semaphore::new(WEIGHT_MAX as usize));
        Self { tasks: Mutex::new(Some(tasks)), waiting: waiting.into(), room }
    }

    /// Queues new jobs and waits until they are written.
    pub(super) async fn record(&self, jobs: Vec<Job>, watermark: Millis) -> Result<Vec<Recorded>, Error> {
        let bytes: usize = jobs.iter().map(|job| job.payload.len()).sum();
        let weight = jobs.len() + bytes / 1024;
        let (reply, answer) = oneshot::channel();
        self.push(weight, Work::Record(jobs, reply), watermark).await?;
        answer.await.unwrap_or_else(|_| Err(stopped()))
    }

    /// Queues outcomes and waits until they are written.
    pub(super) async fn apply(&self, entries: Vec<OutboxEntry>, watermark: Millis) -> Result<Vec<JobId>, Error> {
        let body = |entry: &OutboxEntry| {
            let job = if let OutboxEntry::Rewritten(job) = entry { job.payload.len() } else { 0 };
            job + entry.successors().iter().map(|job| job.payload.len()).sum::<usize>()
        };
        let weight = entries.len() + entries.iter().map(body).sum::<usize>() / 1024;
        let (reply, answer) = oneshot::channel();
        self.push(weight, Work::Apply(entries, reply), watermark).await?;
        answer.await.unwrap_or_else(|_| Err(stopped()))
    }

    async fn push(&self, weight: usize, work: Work, watermark: Millis) -> Result<(), Error> {
        let weight = u32::try_from(weight).map_or(WEIGHT_MAX, |weight| weight.clamp(1, WEIGHT_MAX));
        let permit = self.room.clone().acquire_many_owned(weight).await.map_err(|_| Error::Stopping)?;
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let task = Task { work, watermark, weight, _permit: permit };
        tasks.as_ref().and_then(|tasks| tasks.send(task).ok()).ok_or(Error::Stopping)
    }

    /// Waits for work. Returns the tasks of one transaction in order of arrival; `None` once the queue is closed and empty.
    pub(super) async fn take(&self) -> Option<Vec<Task>> {
        let mut waiting = self.waiting.lock().await;
        let mut tasks = vec![waiting.recv().await?];
        let mut weight = tasks[0].weight;
        while weight < WEIGHT_PER_TRANSACTION
            && let Ok(task) = waiting.try_recv()
        {
            weight += task.weight;
            tasks.push(task);
        }
        Some(tasks)
    }

    /// Refuses new tasks; waiting tasks are still done.
    pub(super) fn close(&self) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.room.close();
    }
}

fn stopped() -> Error {
    Error::Unavailable("its writer has stopped; restart this process".into())
}
