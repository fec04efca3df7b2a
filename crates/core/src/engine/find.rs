//! Looking at jobs: the broker is the authority for what it holds, the ledger for the rest.
//!
//! Waiting jobs of one queue are listed in due order as far as the broker holds them, and beyond the horizon in the
//! order of their ids; all else in the order of ids, and also a queue of which jobs wait in the ledger for room.

use super::{Engine, Listed, Query};
use crate::clock::Millis;
use crate::error::Error;
use crate::limits::{PAGE_BYTES_MAX, PAGE_JOBS_MAX};
use crate::model::id::JobId;
use crate::model::job::{Job, State};
use crate::model::name;
use crate::ports::{Detail, Find, Listing, Selector, Window};
use std::str::FromStr;

/// Pages of the ledger that one page of an answer reads at most; it may be short, and say where to go on.
const LEDGER_PAGES: usize = 10;

/// How many jobs are read first from a remote broker, before their average size is known.
const NEAR_STEP: usize = 16;

/// Where a page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cursor {
    /// In due order, after this place in the broker.
    Near(Option<(Millis, JobId)>),
    /// In the ledger's order, beyond the watermark as it was, after this place.
    Far(Millis, Option<String>),
    /// In the ledger's order, after this place.
    All(Option<String>),
}

impl Engine {
    /// One job.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn job(&self, id: JobId) -> Result<Job, Error> {
        if let Some(job) = self.broker.get(&[id], Detail::Whole).await?.pop().flatten() {
            return Ok(job);
        }
        self.ledger.get(&[id]).await?.pop().flatten().ok_or(Error::NotFound(id))
    }

    /// Which of these jobs are in a queue that `accepts`; a job that does not exist is in none. The answer stays true: a job
    /// never changes its queue, and an id is given out once. A job of another queue costs the same reads as one that does
    /// not exist, so that the time of an answer does not tell them apart.
    ///
    /// # Errors
    /// Where a store cannot be asked.
    pub async fn are_in(&self, ids: &[JobId], accepts: impl Fn(&str) -> bool + Send) -> Result<Vec<bool>, Error> {
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

    /// A page of jobs. `limit` is 1 to 1000.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub async fn find(&self, query: &Query, cursor: Option<&str>, limit: usize) -> Result<Listed, Error> {
        check(query, limit)?;
        // Until all that is due soon is in the broker, the ledger knows more.
        let is_near = query.is_waiting() && self.status.progress().1;
        let cursor = match cursor {
            Some(cursor) => cursor.parse()?,
            None if is_near && !self.has_overflow(query).await? => Cursor::Near(None),
            None => Cursor::All(None),
        };
        let mut listed = Listed::default();
        let next = match cursor {
            Cursor::Near(after) => self.find_near(query, after, limit, &mut listed.jobs).await?,
            cursor => Some(cursor),
        };
        let left = limit - listed.jobs.len();
        let next = match next {
            Some(Cursor::Far(watermark, after)) if left > 0 => {
                let mut far = query.clone();
                far.due_from = Some(query.window().from.max(watermark));
                let next = self.find_rows(&far, after, left, &mut listed.jobs).await?;
                next.map(|place| Cursor::Far(watermark, Some(place)))
            }
            Some(Cursor::All(after)) if left > 0 => {
                self.find_rows(query, after, left, &mut listed.jobs).await?.map(|place| Cursor::All(Some(place)))
            }
            next => next,
        };
        listed.next_cursor = next.map(|next| next.to_string());
        Ok(listed)
    }

    /// Whether jobs of the queue that are due soon wait in the ledger.
    async fn has_overflow(&self, query: &Query) -> Result<bool, Error> {
        match &query.queue {
            Some(queue) if self.topology.has_ledger() => {
                Ok(!self.ledger.overflow(queue, Window::ALL, 1).await?.is_empty())
            }
            _ => Ok(false),
        }
    }

    /// Waiting jobs of a queue that the broker holds; answers where to go on.
    async fn find_near(
        &self,
        query: &Query,
        after: Option<(Millis, JobId)>,
        limit: usize,
        found: &mut Vec<Job>,
    ) -> Result<Option<Cursor>, Error> {
        let queue = query.queue.clone().expect("waiting jobs are those of a queue");
        let states = query.live_states();
        let watermark = self.watermark.get();
        let (mut after, mut left, mut bytes) = (after, limit, 0);
        // Listing in memory copies no payloads.
        let mut step = if self.topology.is_shared() { limit.min(NEAR_STEP) } else { limit };
        while left > 0 && bytes < PAGE_BYTES_MAX {
            let (queue, states) = (queue.clone(), states.clone());
            let mut jobs =
                self.broker.list(Listing { queue, states, window: query.window(), after, limit: step }).await?;
            // A short step is not the last one: jobs may have been leased since the broker looked for them.
            if jobs.is_empty() {
                return Ok(self.topology.has_ledger().then_some(Cursor::Far(watermark, None)));
            }
            let fitting = jobs.iter().take_while(|job| {
                let has_room = bytes < PAGE_BYTES_MAX;
                bytes += job.held_bytes();
                has_room
            });
            let fitting = fitting.count();
            jobs.truncate(fitting);
            after = jobs.last().map(|last| (last.due_at, last.id)).or(after);
            left -= fitting;
            let now = self.now();
            found.extend(jobs.into_iter().filter(|job| query.fits(job, now)));
            // As many as fit if they are as large as those before, on average.
            let seen = limit - left;
            step = (PAGE_BYTES_MAX.saturating_sub(bytes) * seen / bytes.max(1)).clamp(1, left.max(1));
        }
        Ok(Some(Cursor::Near(after)))
    }

    /// Rows of the ledger, with what the broker knows better, in the ledger's order; answers where to go on.
    pub(super) async fn find_rows(
        &self,
        query: &Query,
        mut after: Option<String>,
        limit: usize,
        found: &mut Vec<Job>,
    ) -> Result<Option<String>, Error> {
        let end = found.len() + limit;
        for _ in 0..LEDGER_PAGES {
            let window = query.window();
            let find = Find {
                selector: query.selector(),
                queue: query.queue.clone(),
                states: query.stored_states(),
                kind: query.kind.clone(),
                due: window,
                after,
                limit: end - found.len(),
            };
            let page = self.ledger.find(find).await?;
            let ids: Vec<JobId> = page.jobs.iter().filter(|job| job.is_pending()).map(|job| job.id).collect();
            let mut live = self.broker.get(&ids, Detail::Whole).await?.into_iter();
            let now = self.now();
            for row in page.jobs {
                let known = if row.is_pending() { live.next().flatten() } else { None };
                let job = known.unwrap_or(row);
                if query.fits(&job, now) {
                    found.push(job);
                }
            }
            after = page.next;
            let bytes: usize = found.iter().map(Job::held_bytes).sum();
            if after.is_none() || found.len() == end || bytes >= PAGE_BYTES_MAX {
                break;
            }
        }
        Ok(after)
    }
}

impl Query {
    /// Whether it asks for waiting jobs of one queue, and nothing that needs an index of the ledger.
    fn is_waiting(&self) -> bool {
        let waits = |state: &State| matches!(state, State::Scheduled | State::Ready);
        let asks = self.state.retrying || (!self.state.states.is_empty() && self.state.states.iter().all(waits));
        self.queue.is_some() && self.key.is_none() && self.tag.is_none() && asks
    }

    fn selector(&self) -> Selector {
        match (&self.key, &self.tag, &self.queue) {
            (Some(key), _, Some(queue)) => Selector::Key(queue.clone(), key.clone()),
            (_, Some(tag), _) => Selector::Tag(tag.clone()),
            (_, None, Some(queue)) => Selector::Queue(queue.clone()),
            _ => Selector::All,
        }
    }

    fn live_states(&self) -> Vec<State> {
        if self.state.states.is_empty() { vec![State::Scheduled, State::Ready] } else { self.state.states.clone() }
    }

    /// The states to ask the ledger for, which knows no difference between live ones, and may not know yet that a
    /// live one has ended.
    fn stored_states(&self) -> Vec<State> {
        let mut states = self.state.states.clone();
        if self.state.retrying || !states.is_empty() {
            states.push(State::Ready);
        }
        states
    }

    /// Whether it finds this job as it is.
    pub(super) fn fits(&self, job: &Job, now: Millis) -> bool {
        let state = job.state(now);
        let is_retrying = job.attempt > 0 && matches!(state, State::Scheduled | State::Ready);
        let in_states = self.state.states.is_empty() || self.state.states.contains(&state);
        let window = self.window();
        (!self.state.retrying || is_retrying)
            && in_states
            && self.queue.as_ref().is_none_or(|queue| *queue == job.queue)
            && self.key.as_ref().is_none_or(|key| Some(key) == job.key.as_ref())
            && self.tag.as_ref().is_none_or(|tag| job.tags.contains(tag))
            && self.kind.as_ref().is_none_or(|kind| *kind == job.kind)
            && (window.from..=window.to).contains(&job.due_at)
    }
}

fn check(query: &Query, limit: usize) -> Result<(), Error> {
    if !(1..=PAGE_JOBS_MAX).contains(&limit) {
        return Err(Error::invalid("limit", format!("between 1 and {PAGE_JOBS_MAX}"), limit));
    }
    check_query(query)
}

/// Whether every part of a query keeps its limits.
pub(super) fn check_query(query: &Query) -> Result<(), Error> {
    query.queue.iter().try_for_each(|queue| name::check_queue(queue))?;
    query.kind.iter().try_for_each(|kind| name::check_kind(kind))?;
    query.tag.iter().try_for_each(|tag| name::check_tag(tag))?;
    query.key.iter().try_for_each(|key| name::check_key(key))?;
    if query.key.is_some() && query.queue.is_none() {
        return Err(Error::invalid("queue", "given together with `key`", "no queue"));
    }
    Ok(())
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = |place: &Option<String>| place.clone().unwrap_or_default();
        match self {
            Self::Near(after) => {
                let (due_at, id) = after.map_or((0, 0), |(due_at, id)| (due_at, id.get()));
                write!(f, "n-{due_at}-{id}")
            }
            Self::Far(watermark, after) => write!(f, "f-{watermark}-{}", place(after)),
            Self::All(after) => write!(f, "a-0-{}", place(after)),
        }
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::invalid("cursor", "a `next_cursor`, as it was answered", text);
        let mut parts = text.splitn(3, '-');
        let mut part = || parts.next().ok_or_else(wrong);
        let (form, first, second) = (part()?, part()?, part()?);
        let first: u64 = first.parse().map_err(|_| wrong())?;
        let place = Some(second.to_owned()).filter(|place| !place.is_empty());
        match form {
            "n" => {
                let number = second.parse().map_err(|_| wrong())?;
                Ok(Self::Near(JobId::new(number).map(|id| (first, id))))
            }
            "f" => Ok(Self::Far(first, place)),
            "a" if first == 0 => Ok(Self::All(place)),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_sent_is_a_cursor_or_refused() {
        crate::testing::fuzz("cursor", |text| text.parse::<Cursor>().ok().map(|cursor| cursor.to_string()));
    }
}
