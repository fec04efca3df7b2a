//! Reports over many rows, step by step.

use super::fault::Fault;
use super::row;
use super::session::Session;
use super::statements;
use duetime_core::Millis;
use duetime_core::ports::{DueTally, FailedJob};
use std::sync::Arc;

/// Counts the next unfinished rows and returns where to continue. Steps are ordered by id, so each row is examined once,
/// even if it changes meanwhile.
pub(super) async fn due(
    session: &mut Session,
    (tally, after): &(DueTally, u64),
) -> Result<(DueTally, Option<u64>), Fault> {
    let mut tally = tally.clone();
    let end = session.step_end(*after).await?;
    for (queue, due_at) in session.due(*after, end).await? {
        tally.add(&queue, due_at, 1);
    }
    Ok((tally, end))
}

impl Session {
    /// The last id of the next step; `None` for the last one.
    async fn step_end(&mut self, after: u64) -> Result<Option<u64>, Fault> {
        Ok(self.ask(statements::STEP_END, vec![after.into()], |row| row.number(0)).await?.pop())
    }

    /// The queues and due times of the pending rows of a step.
    async fn due(&mut self, after: u64, end: Option<u64>) -> Result<Vec<(Arc<str>, Millis)>, Fault> {
        let end = end.unwrap_or(i64::MAX.cast_unsigned());
        self.ask(statements::DUE, vec![after.into(), end.into()], |row| Ok((row.text(0)?, row.number(1)?))).await
    }
}

/// The latest failed jobs, at most `limit`.
pub(super) async fn failed(session: &mut Session, limit: &usize) -> Result<Vec<FailedJob>, Fault> {
    session.ask(statements::FAILED, vec![(*limit).into()], row::failed).await
}
