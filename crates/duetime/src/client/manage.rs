//! Reading and changing jobs and queues.

use super::{Client, ask, forward};
use crate::error::Error;
use duetime_core::api::{DueCounts, Failures, History, HistorySpan, QueueChanges, Why, WorkerStatus};
use duetime_core::engine::Pause;
use duetime_core::engine::{
    BulkAction, BulkCounts, CancelOutcome, Health, JobRef, Listed, Patch, Query, QueueSettings, QueueStatus,
};
use duetime_core::limits::PAGE_JOBS_MAX;
use duetime_core::ports::Window;
use duetime_core::{Due, Job, JobId, State};
use std::sync::Arc;

impl Client {
    /// Returns a job.
    ///
    /// # Errors
    /// [`NotFound`](duetime_core::Error::NotFound).
    pub async fn get(&self, id: JobId) -> Result<Job, Error> {
        ask!(self.job(id))
    }

    /// Explains why a job does not run, as this process or the server sees it now.
    ///
    /// # Errors
    /// [`NotFound`](duetime_core::Error::NotFound).
    pub async fn why(&self, id: JobId) -> Result<Why, Error> {
        ask!(self.why(id))
    }

    /// Returns a page of 1 to 1000 jobs. `cursor` comes from the page before.
    ///
    /// # Errors
    /// If a limit is exceeded.
    pub async fn find(&self, query: &Query, cursor: Option<&str>, limit: usize) -> Result<Listed, Error> {
        ask!(self.find(&query, ?cursor, limit))
    }

    /// Returns at most `limit` waiting jobs of a queue that are due within the window, in due order. Nothing is removed or
    /// leased.
    ///
    /// # Errors
    /// If the queue's name is malformed.
    pub async fn peek(&self, queue: &str, window: Window, limit: usize) -> Result<Vec<Job>, Error> {
        let query = Query {
            queue: Some(Arc::from(queue)),
            state: vec![State::Scheduled, State::Ready].into(),
            due_from: (window.from > 0).then_some(window.from),
            due_to: (window.to < u64::MAX).then_some(window.to),
            ..Query::default()
        };
        let (mut jobs, mut cursor) = (Vec::new(), None);
        while jobs.len() < limit {
            let page = (limit - jobs.len()).min(PAGE_JOBS_MAX);
            let listed = self.find(&query, cursor.as_deref(), page).await?;
            jobs.extend(listed.jobs);
            cursor = listed.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        Ok(jobs)
    }

    /// Cancels a job. If the [`JobRef`] names a version, the job is cancelled only if it still has that version.
    ///
    /// # Errors
    /// [`NotFound`](duetime_core::Error::NotFound), [`VersionMismatch`](duetime_core::Error::VersionMismatch).
    pub async fn cancel(&self, target: impl Into<JobRef>) -> Result<CancelOutcome, Error> {
        forward!(self.cancel(target.into()))
    }

    /// Cancels the live job with this key in a queue. Returns `cancelled`: 1; or `cancel_requested`: 1 if a worker is
    /// running the job; or nothing if no live job has the key.
    ///
    /// # Errors
    /// If the queue's name or the key is malformed.
    pub async fn cancel_by_key(
        &self,
        queue: impl Into<Arc<str>>,
        key: impl Into<Arc<str>>,
    ) -> Result<BulkCounts, Error> {
        let query = Query { queue: Some(queue.into()), key: Some(key.into()), ..Query::default() };
        self.bulk(&query, BulkAction::Cancel).await
    }

    /// Cancels every live job with this tag, in all queues. Returns how many jobs had which outcome.
    ///
    /// # Errors
    /// If the tag is malformed.
    pub async fn cancel_by_tag(&self, tag: impl Into<Arc<str>>) -> Result<BulkCounts, Error> {
        let query = Query { tag: Some(tag.into()), ..Query::default() };
        self.bulk(&query, BulkAction::Cancel).await
    }

    /// Changes a waiting job. If the token has no right to read, the server returns the job without its content: the payload
    /// is empty.
    ///
    /// # Errors
    /// Same as [`cancel`](Self::cancel); [`Running`](duetime_core::Error::Running),
    /// [`Finished`](duetime_core::Error::Finished).
    pub async fn update(&self, target: impl Into<JobRef>, patch: Patch) -> Result<Job, Error> {
        let target = target.into();
        ask!(self.update(target, patch))
    }

    /// Changes the due time of a waiting job.
    ///
    /// # Errors
    /// Same as [`update`](Self::update).
    pub async fn reschedule(&self, target: impl Into<JobRef>, due: Due) -> Result<Job, Error> {
        self.update(target, Patch { due: Some(due), ..Patch::default() }).await
    }

    /// Makes a waiting job due now.
    ///
    /// # Errors
    /// Same as [`update`](Self::update).
    pub async fn run(&self, target: impl Into<JobRef>) -> Result<Job, Error> {
        let target = target.into();
        ask!(self.run(target))
    }

    /// Retries a finished job from attempt 0.
    ///
    /// # Errors
    /// [`Live`](duetime_core::Error::Live), [`KeyConflict`](duetime_core::Error::KeyConflict), and as
    /// [`cancel`](Self::cancel).
    pub async fn retry(&self, target: impl Into<JobRef>) -> Result<Job, Error> {
        forward!(self.retry(target.into()))
    }

    /// Deletes a job and its record. Running jobs are refused.
    ///
    /// # Errors
    /// [`Running`](duetime_core::Error::Running), and as [`cancel`](Self::cancel).
    pub async fn delete(&self, target: impl Into<JobRef>) -> Result<(), Error> {
        forward!(self.delete(target.into()))
    }

    /// Cancels, retries, reschedules or deletes every job that matches the query. Returns how many jobs had which outcome. A
    /// delay begins with the call: if you repeat the call after a lost answer, the jobs are postponed again.
    ///
    /// # Errors
    /// If the query is empty.
    pub async fn bulk(&self, query: &Query, action: BulkAction) -> Result<BulkCounts, Error> {
        ask!(self.bulk(&query, action))
    }

    /// Returns all queues that have jobs or settings, by name.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn queues(&self) -> Result<Vec<QueueStatus>, Error> {
        ask!(self.queues())
    }

    /// Returns a queue. A name that was never used is an empty queue.
    ///
    /// # Errors
    /// If its name is malformed.
    pub async fn queue(&self, queue: &str) -> Result<QueueStatus, Error> {
        ask!(self.queue(&queue))
    }

    /// Pauses a queue: no jobs are handed out, and running ones finish.
    ///
    /// # Errors
    /// Same as [`queue`](Self::queue), and if the pause ends in the past or is too long.
    pub async fn pause(&self, queue: &str, pause: Pause) -> Result<QueueSettings, Error> {
        ask!(self.pause(&queue, pause))
    }

    /// Resumes a paused queue.
    ///
    /// # Errors
    /// Same as [`queue`](Self::queue).
    pub async fn resume(&self, queue: &str) -> Result<QueueSettings, Error> {
        ask!(self.resume(&queue))
    }

    /// Cancels every waiting job of a queue and returns how many.
    ///
    /// # Errors
    /// Same as [`queue`](Self::queue).
    pub async fn purge(&self, queue: &str) -> Result<u64, Error> {
        ask!(self.purge(&queue))
    }

    /// Replaces all settings of a queue.
    ///
    /// # Errors
    /// Same as [`queue`](Self::queue), and if a setting is out of bounds.
    pub async fn configure(&self, queue: &str, settings: QueueSettings) -> Result<QueueSettings, Error> {
        ask!(self.configure(&queue, settings))
    }

    /// Changes some settings of a queue. The others stay, even if somebody else changes them at the same time.
    ///
    /// # Errors
    /// Same as [`configure`](Self::configure).
    pub async fn change_settings(&self, queue: &str, changes: QueueChanges) -> Result<QueueSettings, Error> {
        forward!(self.change_settings(queue, changes))
    }

    /// Returns the throughput and lateness of the last hour or day, for one queue or for all. Each engine or server counts
    /// only its own work.
    ///
    /// # Errors
    /// Same as [`queue`](Self::queue).
    pub async fn history(&self, queue: Option<&str>, span: HistorySpan) -> Result<History, Error> {
        forward!(self.history(queue, span))
    }

    /// Returns unfinished jobs by due time, for one queue or for all. They are counted in the background. Until the first
    /// count is complete, `as_of` is `None`: ask again.
    ///
    /// # Errors
    /// Same as [`queue`](Self::queue).
    pub async fn due_counts(&self, queue: Option<&str>) -> Result<DueCounts, Error> {
        forward!(self.due_counts(queue))
    }

    /// Returns the latest failed jobs, grouped by queue, kind and message, for one queue or for all. They are read in the
    /// background. Until the first read is complete, `as_of` is `None`: ask again.
    ///
    /// # Errors
    /// Same as [`queue`](Self::queue).
    pub async fn failures(&self, queue: Option<&str>) -> Result<Failures, Error> {
        forward!(self.failures(queue))
    }

    /// Returns the named workers that asked this process or the server for jobs within the last hour, by name. Each server
    /// lists only its own workers.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub async fn workers(&self) -> Result<Vec<WorkerStatus>, Error> {
        forward!(self.workers())
    }

    /// Returns the health of the engine: whether jobs are handed out, and what is degraded.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub async fn health(&self) -> Result<Health, Error> {
        forward!(self.health())
    }

    /// Returns the version of Duetime in use: the server's, if it tells, or this library's.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub async fn version(&self) -> Result<Option<String>, Error> {
        forward!(self.version())
    }

    /// Returns the metrics of a server in Prometheus text format.
    ///
    /// # Errors
    /// If the server cannot be reached, or the client is not connected to one.
    pub async fn metrics(&self) -> Result<String, Error> {
        forward!(self.metrics())
    }
}
