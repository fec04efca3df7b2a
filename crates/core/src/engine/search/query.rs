//! Which stores a query asks, and which jobs it finds.

use crate::clock::Millis;
use crate::error::Error;
use crate::limits::PAGE_JOBS_MAX;
use crate::model::job::{Job, State};
use crate::model::name;
use crate::ports::{Selector, buckets};
use crate::request::{Query, QueueStatus};

impl Query {
    /// True for live jobs of one queue, if no index of the ledger is needed.
    pub(in crate::engine) fn is_live(&self) -> bool {
        let asks = self.state.retrying || self.asks_only(State::is_live);
        self.queue.is_some() && self.key.is_none() && self.tag.is_none() && asks
    }

    /// True if it asks only for ended jobs.
    pub(in crate::engine) fn is_ended(&self) -> bool {
        !self.state.retrying && self.asks_only(|state| !state.is_live())
    }

    /// True if it asks for ended jobs in the order of their ends.
    pub(in crate::engine) fn is_by_end(&self) -> bool {
        self.is_ended() && self.key.is_none() && self.tag.is_none()
    }

    fn asks_only(&self, fits: impl Fn(State) -> bool) -> bool {
        !self.state.states.is_empty() && self.state.states.iter().all(|&state| fits(state))
    }

    /// True if only the state narrows the search, which an index by due time does not help.
    pub(in crate::engine) fn is_by_state(&self) -> bool {
        let asks = self.state.retrying || !self.state.states.is_empty();
        let is_by_due = self.asks_only(|state| matches!(state, State::Scheduled | State::Ready))
            && buckets(self.window()).is_some();
        asks && !is_by_due && self.queue.is_none() && self.key.is_none() && self.tag.is_none()
    }

    /// True if it looks for a key in any queue. The index of keys is by queue, so each is asked.
    pub(in crate::engine) fn is_by_key(&self) -> bool {
        self.key.is_some() && self.queue.is_none()
    }

    /// True if a queue has jobs in these states, or may have the key.
    pub(in crate::engine) fn has_jobs(&self, status: &QueueStatus) -> bool {
        if self.key.is_some() {
            return true;
        }
        let QueueStatus { counts, tally, .. } = status;
        self.live_states().into_iter().any(|state| match state {
            State::Scheduled => counts.scheduled > 0,
            State::Ready => counts.ready > 0,
            State::Running => counts.running > 0,
            State::Succeeded => tally.succeeded > 0,
            State::Failed => tally.failed > 0,
            State::Cancelled => tally.cancelled > 0,
        })
    }

    pub(in crate::engine) fn selector(&self) -> Selector {
        match (&self.key, &self.tag, &self.queue) {
            (Some(key), _, Some(queue)) => Selector::Key(queue.clone(), key.clone()),
            (_, Some(tag), _) => Selector::Tag(tag.clone()),
            (_, None, queue) if queue.is_some() || !self.state.is_empty() => Selector::State,
            _ => Selector::All,
        }
    }

    pub(in crate::engine) fn live_states(&self) -> Vec<State> {
        if self.state.states.is_empty() { vec![State::Scheduled, State::Ready] } else { self.state.states.clone() }
    }

    /// The states to ask the ledger for, which does not distinguish live ones, and may not have the end of a live one yet.
    pub(in crate::engine) fn stored_states(&self) -> Vec<State> {
        let mut states = self.state.states.clone();
        if self.state.retrying || !states.is_empty() {
            states.push(State::Ready);
        }
        states
    }

    /// Whether it finds this job in its current state.
    pub(in crate::engine) fn fits(&self, job: &Job, now: Millis) -> bool {
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
            && (window.from..=window.to).contains(&job.due_at.0)
    }
}

/// Whether a query and the limit of a page keep their limits.
pub(in crate::engine) fn check(query: &Query, limit: usize) -> Result<(), Error> {
    if !(1..=PAGE_JOBS_MAX).contains(&limit) {
        return Err(Error::invalid("limit", format!("between 1 and {PAGE_JOBS_MAX}"), limit));
    }
    check_parts(query)
}

/// Whether a query may select the jobs of a change: a key is unique in its queue only.
pub(in crate::engine) fn check_query(query: &Query) -> Result<(), Error> {
    check_parts(query)?;
    if query.is_by_key() {
        return Err(Error::invalid("queue", "given with `key`", "nothing"));
    }
    Ok(())
}

fn check_parts(query: &Query) -> Result<(), Error> {
    query.queue.iter().try_for_each(|queue| name::check_queue(queue))?;
    query.kind.iter().try_for_each(|kind| name::check_kind(kind))?;
    query.tag.iter().try_for_each(|tag| name::check_tag(tag))?;
    query.key.iter().try_for_each(|key| name::check_key(key))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures::{QUEUE, T0, due};

    fn by_states(states: &[State]) -> Query {
        Query { queue: Some(QUEUE.into()), state: states.to_vec().into(), ..Query::default() }
    }

    /// The ledger does not know the state of a live job, and the broker not the one of another.
    #[test]
    fn the_states_say_which_store_is_asked() {
        let live = by_states(&[State::Ready, State::Running]);
        let ended = by_states(&[State::Failed]);
        let both = by_states(&[State::Ready, State::Failed]);
        assert!(live.is_live() && !live.is_ended() && !ended.is_live() && ended.is_ended());
        assert!(!both.is_live() && !both.is_ended());
        assert!(!Query { tag: Some("t".into()), ..live.clone() }.is_live(), "only the ledger has an index of tags");
        assert!(ended.is_by_end() && !live.is_by_end() && !both.is_by_end());
        assert!(!Query { tag: Some("t".into()), ..ended.clone() }.is_by_end(), "no index has tags and ends");
        assert!(!Query { queue: None, ..live }.is_live());
        assert_eq!(ended.stored_states(), [State::Failed, State::Ready], "its end may not be recorded yet");
        assert_eq!(by_states(&[]).stored_states(), []);
    }

    #[test]
    fn a_job_fits_by_its_state_at_this_instant() {
        let fits = |query: &Query, now| query.fits(&due(1, T0), now);
        assert!(fits(&by_states(&[State::Scheduled]), T0 - 1) && !fits(&by_states(&[State::Scheduled]), T0));
        assert!(fits(&by_states(&[State::Ready]), T0) && !fits(&by_states(&[State::Failed]), T0));
        let retrying = |attempt| {
            let mut query = by_states(&[]);
            query.state.retrying = true;
            query.fits(&Job { attempt, ..due(1, T0) }, T0)
        };
        assert!(!retrying(0) && retrying(1));
        assert!(check_query(&Query { key: Some("k".into()), ..Query::default() }).is_err(), "a key is of a queue");
        assert!(check(&Query { key: Some("k".into()), ..Query::default() }, 1).is_ok(), "but may be looked for");
    }
}
