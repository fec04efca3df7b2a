//! A writer: it takes waiting tasks, writes them in one transaction, and answers. If the transaction fails for a reason that
//! may concern a single task, each task is retried separately, so that only the affected callers get an error.

use super::call::call;
use super::connection::Database;
use super::group::Group;
use super::queue::{Queue, Task, Work};
use duetime_core::Error;
use duetime_core::ports::Recorded;
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
fn answer(tasks: Vec<Task>, found: &Result<Vec<Recorded>, Error>) {
    let mut at = 0;
    for Task { work, .. } in tasks {
        match work {
            Work::Apply(_, reply) => {
                let _ = reply.send(found.as_ref().map(|_| ()).map_err(Clone::clone));
            }
            Work::Record(jobs, reply) => {
                let own = at..at + jobs.len();
                at = own.end;
                let _ = reply.send(found.as_ref().map(|found| found[own].to_vec()).map_err(Clone::clone));
            }
        }
    }
}
