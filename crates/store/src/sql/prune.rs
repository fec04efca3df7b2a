//! Finished rows past their retention, found by when they ended.

use super::call::Verb;
use super::fault::Fault;
use super::session::Session;
use super::tally::{self, Tallies};
use async_trait::async_trait;
use duetime_core::ports::{Queues, Retention, Tally};
use duetime_core::{Millis, Stage};
use std::sync::Arc;

/// Rows removed in one transaction.
const BATCH: usize = 500;

/// Removes at most `limit` of them, in one transaction at most [`BATCH`].
pub(super) struct Prune {
    pub(super) retention: Retention,
    pub(super) now: Millis,
    pub(super) limit: usize,
}

#[async_trait]
impl Verb for Prune {
    type Answer = usize;
    const WRITES: bool = true;

    async fn run(&mut self, session: &mut Session, _: bool) -> Result<usize, Fault> {
        let Retention { succeeded_ms, failed_ms } = self.retention;
        let limit = self.limit.min(BATCH);
        let mut past = Vec::new();
        for (stage, kept_ms) in
            [(Stage::Succeeded, succeeded_ms), (Stage::Cancelled, succeeded_ms), (Stage::Failed, failed_ms)]
        {
            let Some(ended_by) = self.now.checked_sub(kept_ms) else { continue };
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
        tallies.write(session).await?;
        Ok(past.len())
    }
}

impl Prune {
    /// The same for what is left of the limit, where there may be more.
    pub(super) fn rest(&self, removed: usize) -> Option<Self> {
        let may_be_more = removed > 0 && removed.is_multiple_of(BATCH) && removed < self.limit;
        may_be_more.then(|| Self { limit: self.limit - removed, ..*self })
    }
}

/// Drops what queues without rows are counted by, so that queues used once do not pile up. Looks at these queues;
/// answers where to go on.
pub(super) struct Tidy {
    pub(super) queues: Queues,
}

#[async_trait]
impl Verb for Tidy {
    type Answer = Queues;
    const WRITES: bool = true;

    async fn run(&mut self, session: &mut Session, _: bool) -> Result<Queues, Fault> {
        let tallies = session.tallies(&self.queues).await?;
        let next = self.queues.next(tallies.iter().map(|(queue, _)| queue));
        let empty = tallies.into_iter().filter(|(_, sums)| !tally::has_rows(sums));
        let empty: Vec<Arc<str>> = empty.map(|(queue, _)| queue).collect();
        session.drop_tallies(&empty).await?;
        Ok(next.unwrap_or_else(Queues::first))
    }
}

/// Rows by queue.
pub(super) struct ReadTallies(pub(super) Queues);

#[async_trait]
impl Verb for ReadTallies {
    type Answer = Vec<(Arc<str>, Tally)>;
    const WRITES: bool = false;

    async fn run(&mut self, session: &mut Session, _: bool) -> Result<Self::Answer, Fault> {
        tally::of(session, &self.0).await
    }
}
