//! Finished rows past their retention, found by when they ended.

use super::fault::Fault;
use super::session::Session;
use super::tally;
use crate::sums::Tallies;
use duetime_core::api::Span;
use duetime_core::ports::{Queues, Retention};
use duetime_core::{Millis, Stage};
use std::sync::Arc;

/// Maximum number of rows removed in one transaction.
pub(super) const BATCH: usize = 500;

/// Removes at most `limit` of them, in one transaction at most [`BATCH`].
pub(super) async fn prune(
    session: &mut Session,
    &(retention, now, limit): &(Retention, Millis, usize),
) -> Result<usize, Fault> {
    let Retention { succeeded: Span(succeeded_ms), failed: Span(failed_ms), .. } = retention;
    let limit = limit.min(BATCH);
    let mut past = Vec::new();
    for (stage, kept_ms) in
        [(Stage::Succeeded, succeeded_ms), (Stage::Cancelled, succeeded_ms), (Stage::Failed, failed_ms)]
    {
        let Some(ended_by) = now.checked_sub(kept_ms) else { continue };
        if past.len() < limit {
            past.extend(session.past(stage, ended_by, limit - past.len()).await?);
        }
    }
    if past.is_empty() {
        return Ok(0);
    }
    let mut tallies = Tallies::default();
    past.iter().for_each(|row| tallies.removed(&row.queue, row.stage, row.stage));
    session.delete(&past.iter().map(|row| row.id).collect::<Vec<_>>()).await?;
    let tags: Vec<_> = past.iter().flat_map(|row| row.tags.iter().map(|tag| (&**tag, row.id))).collect();
    session.untag(&tags).await?;
    tally::write(tallies, session).await?;
    Ok(past.len())
}

/// Drops the tallies of queues without rows, so that they do not accumulate for queues used once. Checks these queues and
/// returns where to continue.
pub(super) async fn tidy(session: &mut Session, queues: &Queues) -> Result<Queues, Fault> {
    let tallies = session.tallies(queues).await?;
    let next = queues.next(tallies.iter().map(|(queue, _)| queue));
    let empty = tallies.into_iter().filter(|(_, sums)| !tally::has_rows(sums));
    let empty: Vec<Arc<str>> = empty.map(|(queue, _)| queue).collect();
    session.drop_tallies(&empty).await?;
    Ok(next.unwrap_or_else(Queues::first))
}
