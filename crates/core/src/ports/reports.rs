//! Readings of many rows, for people. They are made in the background, in short steps.

use crate::clock::Millis;
use crate::error::Error;
use crate::model::id::JobId;
use crate::model::job::Job;
use async_trait::async_trait;
use std::collections::HashMap;
use std::sync::Arc;

/// Readings of many rows, for people.
///
/// # Contract
/// - A step takes a few milliseconds, and holds up nothing else for longer.
/// - A row that changes between two steps may be counted twice, or not at all.
#[async_trait]
pub trait Reports: Send + Sync {
    /// Counts the next jobs that have not ended. Returns the cursor of the next step, opaque except to the store; `None` at
    /// the end.
    async fn due(&self, tally: DueTally, after: Option<String>) -> Result<(DueTally, Option<String>), Error>;

    /// The failed jobs that ended last, at most `limit`, the last one first.
    async fn failed(&self, limit: usize) -> Result<Vec<FailedJob>, Error>;
}

/// Jobs that have not ended, by due time: of some queues separately, and of all together. Its size does not depend on the
/// number of jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueTally {
    bounds: Arc<[Millis]>,
    queues: Arc<HashMap<Arc<str>, usize>>,
    /// The first ones are those of all queues.
    counts: Vec<u64>,
}

impl DueTally {
    /// An empty one. A job belongs to the first bound that is not before its due time, or beyond the last one. Bounds
    /// ascend.
    pub fn new(bounds: Vec<Millis>, queues: impl IntoIterator<Item = Arc<str>>) -> Self {
        let queues: HashMap<Arc<str>, usize> = queues.into_iter().zip(1..).collect();
        let counts = vec![0; (queues.len() + 1) * (bounds.len() + 1)];
        Self { bounds: bounds.into(), queues: Arc::new(queues), counts }
    }

    /// The last instant of each bucket but the last.
    pub fn bounds(&self) -> &[Millis] {
        &self.bounds
    }

    /// Counts this many jobs of a queue that are due at this instant.
    pub fn add(&mut self, queue: &str, due_at: Millis, jobs: u64) {
        let bucket = self.bounds.partition_point(|&bound| bound < due_at);
        let width = self.bounds.len() + 1;
        self.counts[bucket] += jobs;
        if let Some(place) = self.queues.get(queue) {
            self.counts[place * width + bucket] += jobs;
        }
    }

    /// The counts of one queue, or of all; `None` for a queue that is not counted separately.
    pub fn of(&self, queue: Option<&str>) -> Option<&[u64]> {
        let place = queue.map_or(Some(0), |queue| self.queues.get(queue).copied())?;
        self.counts.chunks(self.bounds.len() + 1).nth(place)
    }
}

/// Characters of a message that are shown of failed jobs.
pub const FAILED_MESSAGE_CHARS: usize = 200;
/// Most bytes or characters of a message that a store reads.
pub const FAILED_MESSAGE_READ: usize = 1_000;

/// The fields of a failed job that a report needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedJob {
    /// Its id.
    pub id: JobId,
    /// Its queue.
    pub queue: Arc<str>,
    /// Its kind.
    pub kind: Arc<str>,
    /// The beginning of its message: empty if there is none.
    pub message: String,
    /// When it ended.
    pub finished_at: Millis,
}

impl From<&Job> for FailedJob {
    fn from(job: &Job) -> Self {
        Self {
            id: job.id,
            queue: job.queue.clone(),
            kind: job.kind.clone(),
            message: job.message.iter().flat_map(|message| message.chars()).take(FAILED_MESSAGE_READ).collect(),
            finished_at: job.finished_at.unwrap_or_default().0,
        }
    }
}

/// The row to continue after, for a store whose steps end with an id.
///
/// # Errors [`Error::Invalid`] if it is not an id.
pub fn row_after(after: Option<&str>) -> Result<u64, Error> {
    let parse = |text: &str| text.parse().map_err(|_| Error::invalid("after", "where a step ended", text));
    after.map_or(Ok(0), parse)
}
