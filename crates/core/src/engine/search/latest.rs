//! Jobs that have ended, the latest end first. Parked ones, which have no end, come before them.
//!
//! A page merges two readings in that order: what has ended and is not recorded yet, and rows of the ledger. What ends while
//! somebody reads belongs before the first page, so later pages repeat and lose nothing. A job that is recorded between the
//! two readings is in both, and is shown once. If more has ended unrecorded than a page may hold, all rows of the ledger are
//! looked at instead: those that are pending there come first.

use super::{Cursor, LEDGER_PAGES, Search, wrong_cursor};
use crate::error::Error;
use crate::limits::{PAGE_BYTES_MAX, PAGE_JOBS_MAX};
use crate::model::id::JobId;
use crate::model::job::Job;
use crate::ports::{Detail, Find, Outcomes, Place, Selector};
use crate::request::Query;
use std::collections::HashSet;

fn place(job: &Job) -> Place {
    Place::by_state(job.id, job.finished_at.map(|at| at.0))
}

impl Search {
    /// Jobs from a place on; returns where to continue.
    pub(super) async fn find_latest(
        &self,
        query: &Query,
        after: Option<Place>,
        limit: usize,
        found: &mut Vec<Job>,
    ) -> Result<Option<Cursor>, Error> {
        if !query.is_by_end() {
            return Err(wrong_cursor(Cursor::Latest(after)));
        }
        // Read first: a job that is recorded meanwhile is then among the rows.
        let (unrecorded, is_all) = self.unrecorded_ends(query, after, limit).await?;
        if !is_all && after.is_none() {
            return self.find_from(query, Cursor::All(None), limit, found).await;
        }
        let (mut rows, mut next) = (Vec::new(), after);
        let now = self.broker.now();
        for _ in 0..LEDGER_PAGES {
            let page = self.ledger.find(Find {
                queue: query.queue.clone(),
                kind: query.kind.clone(),
                due: query.window(),
                after: next.map(|place| place.to_string()),
                ..Find::of(Selector::State, query.state.states.clone(), limit - rows.len())
            });
            let page = page.await?;
            rows.extend(page.jobs.into_iter().filter(|job| query.fits(job, now)));
            let bytes: usize = rows.iter().map(Job::held_bytes).sum();
            next = page.next.map(|next| next.parse()).transpose()?;
            if next.is_none() || rows.len() == limit || bytes >= PAGE_BYTES_MAX {
                break;
            }
        }
        if unrecorded.is_empty() {
            found.extend(rows);
            return Ok(next.map(|place| Cursor::Latest(Some(place))));
        }
        let ids: HashSet<JobId> = rows.iter().map(|job| job.id).collect();
        // What comes after the last row that was read is for a later page.
        rows.extend(
            unrecorded.into_iter().filter(|job| next.is_none_or(|next| place(job) <= next) && !ids.contains(&job.id)),
        );
        rows.sort_by_key(place);
        let mut bytes = 0;
        let fitting = rows.iter().take(limit).take_while(|job| {
            let has_room = bytes < PAGE_BYTES_MAX;
            bytes += job.held_bytes();
            has_room
        });
        let fitting = fitting.count();
        if fitting < rows.len() {
            rows.truncate(fitting);
            next = rows.last().map(place);
        }
        found.extend(rows);
        Ok(next.map(|place| Cursor::Latest(Some(place))))
    }

    /// The first jobs after a place that have ended and may be pending in the ledger, one more than a page holds, and whether all such jobs were looked at.
    /// If not, those were that ended first, which are all that later pages need.
    async fn unrecorded_ends(
        &self,
        query: &Query,
        after: Option<Place>,
        limit: usize,
    ) -> Result<(Vec<Job>, bool), Error> {
        if self.broker.is_ledger() {
            return Ok((Vec::new(), true));
        }
        let entries = self.broker.outcomes(Outcomes::Oldest { limit: PAGE_JOBS_MAX, age_ms: 0 }).await?;
        let ids: Vec<JobId> = entries.iter().map(|entry| entry.job().id).collect();
        let now = self.broker.now();
        let fits = |job: &Job| query.fits(job, now) && after.is_none_or(|after| place(job) > after);
        let mut heads: Vec<Job> =
            self.broker.get(&ids, Detail::Head).await?.into_iter().flatten().filter(fits).collect();
        heads.sort_by_key(place);
        let ids: Vec<JobId> = heads.iter().take(limit + 1).map(|job| job.id).collect();
        let jobs = self.broker.get(&ids, Detail::Whole).await?.into_iter().flatten().filter(fits).collect();
        Ok((jobs, entries.len() < PAGE_JOBS_MAX))
    }
}
