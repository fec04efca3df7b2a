//! A writer: it takes waiting tasks, writes them in one transaction, and answers. If the transaction fails for a reason that
//! may concern a single task, each task is retried separately, so that only the affected callers get an error.

use super::call::call;
use super::connection::Database;
use super::group::{Answers, Group};
use super::queue::{Queue, Task, Work};
use duetime_core::ports::OutboxEntry;
use duetime_core::{Error, JobId};
use std::sync::Arc;

/// Works until the queue is closed and empty.
pub(super) async fn work(database: Arc<dyn Database>, queue: Arc<Queue>) {
    while let Some(tasks) = queue.take().await {
        match call(&*database, Group::new(&tasks)).await {
            Err(error) if !error.is_retryable() && tasks.len() > 1 => {
                tracing::debug!(%error, tasks = tasks.len(), "a transaction failed; its tasks are retried one by one");
                for task in tasks {
                    let found = call(&*database, Group::new(std::slice::from_ref(&task))).await;
                    answer(vec![task], &found);
                }
            }
            found => answer(tasks, &found),
        }
    }
}

/// Answers each caller; a caller may be gone.
fn answer(tasks: Vec<Task>, found: &Result<Answers, Error>) {
    let mut at = 0;
    for Task { work, .. } in tasks {
        match work {
            Work::Apply(entries, reply) => {
                let is_own = |id: &&JobId| entries.iter().flat_map(OutboxEntry::successors).any(|job| job.id == **id);
                let taken = |found: &Answers| found.taken.iter().filter(is_own).copied().collect();
                let _ = reply.send(found.as_ref().map(taken).map_err(Clone::clone));
            }
            Work::Record(jobs, reply) => {
                let own = at..at + jobs.len();
                at = own.end;
                let _ = reply.send(found.as_ref().map(|found| found.recorded[own].to_vec()).map_err(Clone::clone));
            }
        }
    }
}
