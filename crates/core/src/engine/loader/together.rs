//! Jobs of several callers that are put into a shared broker at once.

use crate::error::Error;
use crate::limits::STEP_JOBS_MAX;
use crate::model::job::Job;
use crate::ports::Reading;
use std::sync::Mutex;
use tokio::sync::{Semaphore, oneshot};

/// Puts of this process at the same time, each of what several callers have.
const HOLDS_AT_ONCE: usize = 2;

/// Jobs of several callers that are put at once.
#[derive(Debug)]
pub(super) struct Together {
    waiting: Mutex<Vec<Batch>>,
    pub(super) permits: Semaphore,
}

#[derive(Debug)]
pub(super) struct Batch {
    pub(super) jobs: Vec<Job>,
    /// The oldest reading.
    pub(super) reading: Reading,
    pub(super) callers: Vec<oneshot::Sender<Result<(), Error>>>,
}

impl Default for Together {
    fn default() -> Self {
        Self { waiting: Mutex::default(), permits: Semaphore::new(HOLDS_AT_ONCE) }
    }
}

impl Together {
    pub(super) fn add(&self, jobs: Vec<Job>, reading: Reading) -> oneshot::Receiver<Result<(), Error>> {
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

    pub(super) fn take(&self) -> Option<Batch> {
        let mut waiting = self.waiting.lock().expect("no panic under this lock");
        if waiting.is_empty() { None } else { Some(waiting.remove(0)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures::job;

    #[test]
    fn jobs_of_several_callers_are_put_at_once_up_to_one_step() {
        let together = Together::default();
        let jobs = |count| (1..=count as u64).map(job).collect();
        let reading = |at| Reading { at, memory: 1 };
        drop((together.add(jobs(1), reading(7)), together.add(jobs(STEP_JOBS_MAX - 1), reading(5))));
        drop(together.add(jobs(1), reading(9)));
        let taken = std::iter::from_fn(|| together.take());
        let batches: Vec<_> = taken.map(|batch| (batch.jobs.len(), batch.callers.len(), batch.reading.at)).collect();
        assert_eq!(batches, [(STEP_JOBS_MAX, 2, 5), (1, 1, 9)], "as old as the oldest of them");
    }
}
