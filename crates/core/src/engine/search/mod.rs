//! Reading jobs: the broker is the authority for the jobs that it holds, the ledger for the rest.
//!
//! Live jobs of one queue are listed in due order if the broker holds them, and then, beyond the horizon, in the order of
//! ids; in that order alone if the queue has an overflow. Ended jobs are listed by their ends, the latest one first
//! (`latest.rs`), or with a key or a tag in the order of ids, those that are not recorded yet first. A search for live jobs by
//! state alone goes from queue to queue, and skips those without such jobs. Live and ended jobs together are rows of the
//! ledger: those of a queue in the order of its index, live ones first; all else in the order of ids.

mod cursor;
mod latest;
mod query;

use crate::clock::Millis;
use crate::engine::base::Base;
use crate::engine::loader::Loader;
use crate::engine::outbox_entries::OutboxEntries;
use crate::engine::queues::QueueCounter;
use crate::engine::status::Status;
use crate::error::Error;
use crate::json::Timestamp;
use crate::limits::{PAGE_BYTES_MAX, PAGE_JOBS_MAX};
use crate::model::id::JobId;
use crate::model::job::{Job, State};
use crate::ports::{Broker, Detail, Find, Ledger, Listing, OutboxEntry, Outcomes, Queues, Window, after};
use crate::request::{Listed, Query, QueueStatus};
use cursor::{Cursor, wrong_cursor};
use query::check;
pub(super) use query::check_query;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Pages of the ledger that one page of an answer reads at most; the answer may be short, with a cursor.
const LEDGER_PAGES: usize = 10;

/// Queues that a search by state reads the counts of at a time.
const QUEUES_STEP: usize = 250;
/// Queues without a match that one page searches at most.
const VAIN_LOOKS_MAX: usize = 16;
/// The same for a key: each look is one entry of an index.
const KEY_LOOKS_MAX: usize = 250;

/// How many jobs are read first from a remote broker, before their average size is known.
const NEAR_STEP: usize = 16;

/// Finds jobs.
pub(in crate::engine) struct Search {
    broker: Arc<dyn Broker>,
    ledger: Arc<dyn Ledger>,
    loader: Arc<Loader>,
    queues: Arc<QueueCounter>,
    status: Arc<Status>,
}

impl Search {
    pub(in crate::engine) fn new(base: &Base, loader: Arc<Loader>, queues: Arc<QueueCounter>) -> Self {
        let Base { stores, status, .. } = base;
        Self { broker: stores.broker.clone(), ledger: stores.ledger.clone(), loader, queues, status: status.clone() }
    }

    pub(in crate::engine) async fn job(&self, id: JobId) -> Result<Job, Error> {
        if let Some(job) = self.broker.get(&[id], Detail::Whole).await?.pop().flatten() {
            return Ok(job);
        }
        let row = self.ledger.get(&[id]).await?.pop().flatten().ok_or(Error::NotFound(id))?;
        if row.is_pending() && !self.broker.is_ledger() && self.broker.backlog() > 0 {
            let entries = self.broker.outcomes(Outcomes::Of(id)).await?;
            if entries.iter().any(OutboxEntry::removes) {
                return Err(Error::NotFound(id));
            }
        }
        Ok(row)
    }

    pub(in crate::engine) async fn are_in(
        &self,
        ids: &[JobId],
        accepts: impl Fn(&str) -> bool + Send,
    ) -> Result<Vec<bool>, Error> {
        let is_in = |job: &Option<Job>| job.as_ref().is_some_and(|job| accepts(&job.queue));
        let mut found: Vec<bool> = self.broker.get(ids, Detail::Head).await?.iter().map(is_in).collect();
        let rest: Vec<usize> = (0..ids.len()).filter(|&i| !found[i]).collect();
        if !rest.is_empty() {
            let asked: Vec<JobId> = rest.iter().map(|&i| ids[i]).collect();
            for (i, job) in rest.into_iter().zip(self.ledger.get(&asked).await?) {
                found[i] = is_in(&job);
            }
        }
        Ok(found)
    }

    pub(in crate::engine) async fn queues_of(&self, ids: &[JobId]) -> Result<Vec<Option<Arc<str>>>, Error> {
        let held = self.broker.get(ids, Detail::Head).await?;
        let rows = if held.iter().all(Option::is_some) { vec![None; ids.len()] } else { self.ledger.get(ids).await? };
        Ok(held.into_iter().zip(rows).map(|(held, row)| held.or(row).map(|job| job.queue)).collect())
    }

    pub(in crate::engine) async fn find(
        &self,
        query: &Query,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Listed, Error> {
        check(query, limit)?;
        let mut listed = Listed::default();
        let begin = match cursor {
            Some(cursor) => Cursor::read(cursor, query)?,
            None if query.is_by_end() => Cursor::Latest(None),
            None => self.first_place(query, limit, &mut listed.jobs).await?,
        };
        let next = match begin {
            Cursor::Latest(after) => self.find_latest(query, after, limit, &mut listed.jobs).await?,
            // Only a search over all queues goes from one to the next. The caller may not be allowed to see others.
            Cursor::Queue(..) if query.queue.is_some() => return Err(wrong_cursor(begin)),
            Cursor::Queue(queue, place) => self.find_by_queue(query, queue, place, limit, &mut listed.jobs).await?,
            place => self.find_from(query, place, limit, &mut listed.jobs).await?,
        };
        listed.next_cursor = next.map(|next| next.write(query));
        Ok(listed)
    }

    /// The first position of a search. Also finds what the ledger does not know yet: ended jobs, and copies that rules have
    /// moved.
    async fn first_place(&self, query: &Query, limit: usize, found: &mut Vec<Job>) -> Result<Cursor, Error> {
        if !query.is_ended() {
            self.find_successors(query, limit, found).await?;
        }
        if query.is_ended() && !self.find_unrecorded(query, limit, found).await? {
            return Ok(Cursor::All(None));
        }
        if query.is_by_key() || query.is_by_state() && !self.broker.is_ledger() {
            return Ok(Cursor::Queue(Arc::from(""), None));
        }
        self.place_in_queue(query).await
    }

    /// The first position in a queue, or in all queues if no counts help.
    async fn place_in_queue(&self, query: &Query) -> Result<Cursor, Error> {
        // Until all jobs due soon are in the broker, the ledger has more.
        let is_near = query.is_live() && self.status.progress().1;
        Ok(if query.is_ended() {
            Cursor::Ended(None)
        } else if is_near && !self.has_overflow(query).await? {
            Cursor::Near(None)
        } else {
            Cursor::All(None)
        })
    }

    /// New jobs that begin with ends, and copies that rules have moved, which the ledger does not know yet.
    async fn find_successors(&self, query: &Query, limit: usize, found: &mut Vec<Job>) -> Result<(), Error> {
        let now = self.broker.now();
        let new = self.unrecorded().await?.successors.into_values();
        found.extend(new.filter(|job| query.fits(job, now)).take(limit));
        Ok(())
    }

    /// What a page of the outbox says that is not recorded yet.
    async fn unrecorded(&self) -> Result<OutboxEntries, Error> {
        if self.broker.backlog() == 0 {
            return Ok(OutboxEntries::default());
        }
        OutboxEntries::read(self.broker.as_ref(), self.ledger.as_ref(), PAGE_JOBS_MAX).await
    }

    /// Jobs that have ended, but are pending in the ledger; `false` if there are too many of them for a page.
    async fn find_unrecorded(&self, query: &Query, limit: usize, found: &mut Vec<Job>) -> Result<bool, Error> {
        if self.broker.is_ledger() {
            return Ok(true);
        }
        let entries = self.broker.outcomes(Outcomes::Oldest { limit: PAGE_JOBS_MAX, age_ms: 0 }).await?;
        let ids: Vec<JobId> = entries.iter().map(|entry| entry.job().id).collect();
        let now = self.broker.now();
        let jobs = self.broker.get(&ids, Detail::Whole).await?.into_iter().flatten();
        let fitting: Vec<Job> = jobs.filter(|job| query.fits(job, now)).collect();
        let is_all = entries.len() >= self.broker.backlog() && fitting.len() < limit;
        if is_all {
            found.extend(fitting);
        }
        Ok(is_all)
    }

    /// Jobs of the queues that have some in the requested states; returns where to continue.
    async fn find_by_queue(
        &self,
        query: &Query,
        mut from: Arc<str>,
        mut place: Option<Box<Cursor>>,
        limit: usize,
        found: &mut Vec<Job>,
    ) -> Result<Option<Cursor>, Error> {
        let (mut vain_looks, vain_looks_max) = (0, if query.is_by_key() { KEY_LOOKS_MAX } else { VAIN_LOOKS_MAX });
        loop {
            let statuses = self.queues_for(query, &from).await?;
            for status in &statuses {
                let place = place.take().filter(|_| status.queue == from);
                if place.is_none() && !query.has_jobs(status) {
                    continue;
                }
                let of_queue = Query { queue: Some(status.queue.clone()), ..query.clone() };
                let place = match place {
                    Some(place) => *place,
                    None => self.place_in_queue(&of_queue).await?,
                };
                let before = found.len();
                if let Some(next) = self.find_from(&of_queue, place, limit, found).await? {
                    return Ok(Some(Cursor::Queue(status.queue.clone(), Some(Box::new(next)))));
                }
                vain_looks += usize::from(found.len() == before);
                if found.len() >= limit || vain_looks >= vain_looks_max {
                    return Ok(Some(Cursor::Queue(after(&status.queue), None)));
                }
            }
            match statuses.last() {
                Some(last) if statuses.len() >= QUEUES_STEP => from = after(&last.queue),
                _ => return Ok(None),
            }
        }
    }

    /// Some queues, with the counts that a search by state needs: those of both stores are read only if it needs both.
    async fn queues_for(&self, query: &Query, from: &Arc<str>) -> Result<Vec<QueueStatus>, Error> {
        let asked = Queues::From(from.clone(), QUEUES_STEP);
        let default = QueueStatus::default;
        if query.is_ended() {
            let tallies = self.ledger.tallies(asked).await?.into_iter();
            return Ok(tallies.map(|(queue, tally)| QueueStatus { queue, tally, ..default() }).collect());
        }
        if query.state.states == [State::Running] {
            let counted = self.broker.counts(asked).await?.into_iter();
            return Ok(counted.map(|(queue, counts, _)| QueueStatus { queue, counts, ..default() }).collect());
        }
        self.queues.queues_from(from, QUEUES_STEP).await
    }

    /// Jobs from a position on; returns where to continue.
    async fn find_from(
        &self,
        query: &Query,
        place: Cursor,
        limit: usize,
        found: &mut Vec<Job>,
    ) -> Result<Option<Cursor>, Error> {
        let next = match place {
            Cursor::Near(after) => self.find_near(query, after, limit - found.len(), found).await?,
            Cursor::Queue(..) | Cursor::Latest(_) => return Err(wrong_cursor(place)),
            place => Some(place),
        };
        let left = limit - found.len();
        Ok(match next {
            Some(Cursor::Far(watermark, after)) if left > 0 => {
                let mut far = query.clone();
                far.due_from = Some(Timestamp(query.window().from.max(watermark)));
                let next = self.find_rows(&far, far.stored_states(), after, left, found).await?;
                next.map(|place| Cursor::Far(watermark, Some(place)))
            }
            Some(Cursor::All(after)) if left > 0 => {
                let next = self.find_rows(query, query.stored_states(), after, left, found).await?;
                next.map(|place| Cursor::All(Some(place)))
            }
            Some(Cursor::Ended(after)) if left > 0 => {
                let next = self.find_rows(query, query.state.states.clone(), after, left, found).await?;
                next.map(|place| Cursor::Ended(Some(place)))
            }
            next => next,
        })
    }

    /// Whether jobs of the queue that are due soon wait in the ledger.
    async fn has_overflow(&self, query: &Query) -> Result<bool, Error> {
        match &query.queue {
            Some(queue) if !self.broker.is_ledger() => {
                Ok(!self.ledger.overflow(queue, Window::ALL, 1).await?.is_empty())
            }
            _ => Ok(false),
        }
    }

    /// Waiting jobs of a queue that the broker holds; returns where to continue.
    async fn find_near(
        &self,
        query: &Query,
        after: Option<(Millis, JobId)>,
        limit: usize,
        found: &mut Vec<Job>,
    ) -> Result<Option<Cursor>, Error> {
        let queue = query.queue.clone().ok_or_else(|| wrong_cursor(Cursor::Near(after)))?;
        let states = query.live_states();
        let watermark = self.loader.watermark();
        let (mut after, mut left, mut bytes) = (after, limit, 0);
        // Listing in memory copies no payloads.
        let mut step = if self.broker.is_shared() { limit.min(NEAR_STEP) } else { limit };
        while left > 0 && bytes < PAGE_BYTES_MAX {
            let (queue, states) = (queue.clone(), states.clone());
            let (window, detail) = (query.window(), Detail::Whole);
            let mut jobs = self.broker.list(Listing { queue, states, window, after, limit: step, detail }).await?;
            // A short step is not the last one: jobs may have been leased since the broker looked for them.
            if jobs.is_empty() {
                let may_be_far = !self.broker.is_ledger() && query.state.states != [State::Running];
                return Ok(may_be_far.then_some(Cursor::Far(watermark, None)));
            }
            let fitting = jobs.iter().take_while(|job| {
                let has_room = bytes < PAGE_BYTES_MAX;
                bytes += job.held_bytes();
                has_room
            });
            let fitting = fitting.count();
            jobs.truncate(fitting);
            after = jobs.last().map(|last| (last.due_at.0, last.id)).or(after);
            left -= fitting;
            let now = self.broker.now();
            found.extend(jobs.into_iter().filter(|job| query.fits(job, now)));
            // As many as fit if their average size is that of the previous ones.
            let seen = limit - left;
            step = (PAGE_BYTES_MAX.saturating_sub(bytes) * seen / bytes.max(1)).clamp(1, left.max(1));
        }
        Ok(Some(Cursor::Near(after)))
    }

    /// Rows of the ledger in its order, updated with the broker's state; returns where to continue.
    pub(in crate::engine) async fn find_rows(
        &self,
        query: &Query,
        states: Vec<State>,
        mut after: Option<String>,
        limit: usize,
        found: &mut Vec<Job>,
    ) -> Result<Option<String>, Error> {
        let end = found.len() + limit;
        // A job that was recorded meanwhile may have been found before: in another row, or among what was not recorded yet.
        let mut known: HashSet<JobId> = found.iter().map(|job| job.id).collect();
        for _ in 0..LEDGER_PAGES {
            let find = Find {
                selector: query.selector(),
                queue: query.queue.clone(),
                states: states.clone(),
                kind: query.kind.clone(),
                due: query.window(),
                after,
                limit: end - found.len(),
            };
            let page = self.ledger.find(find).await?;
            let jobs = self.refreshed(page.jobs).await?;
            let now = self.broker.now();
            found.extend(jobs.into_iter().filter(|job| query.fits(job, now) && known.insert(job.id)));
            after = page.next;
            let bytes: usize = found.iter().map(Job::held_bytes).sum();
            if after.is_none() || found.len() == end || bytes >= PAGE_BYTES_MAX {
                break;
            }
        }
        Ok(after)
    }

    /// Rows of the ledger, pending ones as they are now.
    async fn refreshed(&self, rows: Vec<Job>) -> Result<Vec<Job>, Error> {
        let ids: Vec<JobId> = rows.iter().filter(|job| job.is_pending()).map(|job| job.id).collect();
        let mut held: HashMap<JobId, Job> =
            self.broker.get(&ids, Detail::Whole).await?.into_iter().flatten().map(|job| (job.id, job)).collect();
        // A job that should be in the broker and is not may have ended and been recorded since the row was read.
        let watermark = self.loader.watermark();
        let is_gone = |row: &&Job| row.is_pending() && row.due_at < Timestamp(watermark) && !held.contains_key(&row.id);
        let gone: Vec<JobId> = rows.iter().filter(is_gone).map(|row| row.id).collect();
        if !gone.is_empty() {
            held.extend(self.ledger.get(&gone).await?.into_iter().flatten().map(|job| (job.id, job)));
        }
        let removed = if gone.is_empty() { HashSet::new() } else { self.unrecorded().await?.removed };
        let rows = rows.into_iter().filter(|row| !row.is_pending() || !removed.contains(&row.id));
        Ok(rows.map(|row| held.remove(&row.id).unwrap_or(row)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{Fixture, far, job};
    use crate::request::Outcome;

    /// Either could be behind: the broker for what has ended, the ledger for what is about to be recorded.
    #[tokio::test(start_paused = true)]
    async fn each_job_is_found_once_in_its_latest_state() {
        let fixture = Fixture::new().await;
        let (runs, done) = (fixture.running(job()).await, fixture.running(job()).await);
        let far = fixture.push(far()).await;
        fixture.ledger.set_away(true);
        fixture.settle(done.receipt(), Outcome::complete(None)).await.unwrap_err();
        fixture.ledger.set_away(false);
        let search = &fixture.services.search;
        let mut found = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let page = search.find(&Query::default(), cursor.as_deref(), 1).await.unwrap();
            found.extend(page.jobs.into_iter().map(|job| (job.id, job.state(fixture.now()))));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        let expected = [(runs.id, State::Running), (done.id, State::Succeeded), (far.id, State::Scheduled)];
        assert_eq!(found, expected);
    }
}
