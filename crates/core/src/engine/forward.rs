//! Copies of jobs in other queues, for queues that have another one as their target.
//!
//! A copy holds a key that names the job, so that what is handed on twice, since the process died before the job was
//! completed, is one job while the first copy waits or runs. The key is one of the engine's own: no caller can hold it
//! beforehand, so no copy is taken for one that is there.

use super::{Engine, Pushed};
use crate::error::Error;
use crate::job::{Job, NewJob, OnConflict};
use crate::limits::MOVES_MAX;
use crate::name::OF_ENGINE;
use std::sync::Arc;

/// What keys of copies go on with.
const FORWARD: &str = "forward-";

impl Engine {
    /// Pushes a copy of a job into another queue, with its kind, payload, priority and tags.
    ///
    /// # Errors
    /// [`Error::Invalid`] where it was handed on too often; as [`push`](Self::push).
    pub async fn hand_on(&self, job: &Job, queue: &Arc<str>) -> Result<Pushed, Error> {
        self.check_open()?;
        if job.options().moves >= MOVES_MAX {
            let got = "one more: the queues form a circle";
            return Err(Error::invalid("target", format!("reached after at most {MOVES_MAX} queues"), got));
        }
        let copy = NewJob {
            queue: queue.clone(),
            kind: job.kind.clone(),
            priority: job.priority,
            on_conflict: OnConflict::Keep,
            tags: job.tags.to_vec(),
            options: job.options().moved(),
            ..NewJob::new(job.payload.clone())
        };
        let key = Arc::from(format!("{OF_ENGINE}{FORWARD}{}", job.id));
        let engine = self.clone();
        let mut answers = self.carry(async move { engine.push_batch(vec![copy], Some(key)).await }).await?;
        answers.pop().expect("an answer for each job")
    }
}
