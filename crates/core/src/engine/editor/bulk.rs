//! The same change for every job that a query finds, page by page.

use crate::clock::Millis;
use crate::engine::editor::{Editor, place_in};
use crate::engine::search::check_query;
use crate::error::Error;
use crate::json::{Span, Timestamp};
use crate::limits::{PAGE_JOBS_MAX, SPREAD_MS_MAX};
use crate::model::id::JobRef;
use crate::model::job::{Due, Job, State};
use crate::ports::{Change, Update};
use crate::request::{Answers, BulkAction, BulkCounts, CancelOutcome, Query};
use std::sync::Arc;

/// How often a job that is changed concurrently is read again.
const CHANGED_TRIES: usize = 5;

/// An action on each job.
enum Step {
    Cancel { message: Option<Arc<str>> },
    Retry { spread: Span },
    Reschedule { at: Millis, is_now: bool, spread: Span },
    Delete,
}

/// A step for all jobs that a query finds.
struct Bulk {
    query: Query,
    step: Step,
    /// Only jobs that were made until then.
    made_by: Timestamp,
    /// Of jobs that begin with the end of another one, only those that were made before: these ends may be the step's own.
    begun_by: Timestamp,
}

impl Bulk {
    fn fits(&self, job: &Job, now: Millis) -> bool {
        let is_early = job.options().previous.is_none() || job.created_at < self.begun_by;
        self.query.fits(job, now) && !self.has_done(job, now) && job.created_at <= self.made_by && is_early
    }

    /// Whether a job already has the new due time. Some ledgers list waiting jobs by due time, so a job that was rescheduled
    /// is found again.
    fn has_done(&self, job: &Job, now: Millis) -> bool {
        let Step::Reschedule { at, is_now, spread } = self.step else { return false };
        let waits = matches!(job.state(now), State::Scheduled | State::Ready);
        let at = at + place_in(spread, job.id).0;
        waits && (job.due_at == Timestamp(at) || is_now && job.due_at < Timestamp(at))
    }
}

impl Editor {
    pub(in crate::engine) async fn bulk(
        self: &Arc<Self>,
        query: &Query,
        action: BulkAction,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<BulkCounts, Error> {
        check_query(query)?;
        if query.is_empty() {
            return Err(Error::invalid(
                "selection",
                "limited by at least one of `queue`, `key`, `tag`, `kind`, `state`, `due_from` and `due_to`",
                "none",
            ));
        }
        const WAITING: [State; 2] = [State::Scheduled, State::Ready];
        let (step, usual) = match action {
            BulkAction::Cancel => (Step::Cancel { message: None }, [&WAITING[..], &[State::Running]].concat()),
            BulkAction::Retry => (Step::Retry { spread: Span(0) }, vec![State::Failed]),
            BulkAction::RetryOver(spread) => (Step::Retry { spread }, vec![State::Failed]),
            BulkAction::Reschedule(due) => (self.reschedule(due, Span(0))?, WAITING.to_vec()),
            BulkAction::RescheduleOver(due, spread) => (self.reschedule(due, spread)?, WAITING.to_vec()),
            BulkAction::Delete => (Step::Delete, Vec::new()),
        };
        if let BulkAction::RetryOver(spread) | BulkAction::RescheduleOver(_, spread) = action {
            spread.check("spread", 0, SPREAD_MS_MAX)?;
        }
        let mut query = query.clone();
        if query.state.is_empty() {
            query.state = usual.into();
        }
        let begun_by = Timestamp(if matches!(step, Step::Cancel { .. }) { self.broker.now() } else { Millis::MAX });
        self.do_all(Bulk { query, step, made_by: Timestamp(Millis::MAX), begun_by }, goes_on).await
    }

    fn reschedule(&self, due: Due, spread: Span) -> Result<Step, Error> {
        let is_now = matches!(due, Due::Now | Due::After(Span(0)));
        Ok(Step::Reschedule { at: self.due_at(due)?, is_now, spread })
    }

    pub(in crate::engine) async fn purge(self: &Arc<Self>, queue: &str) -> Result<u64, Error> {
        let state = vec![State::Scheduled, State::Ready].into();
        let query = Query { queue: Some(Arc::from(queue)), state, ..Query::default() };
        check_query(&query)?;
        let step = Step::Cancel { message: Some(Arc::from("purged")) };
        let begun_by = Timestamp(self.broker.now());
        let counts = self.do_all(Bulk { query, step, made_by: Timestamp(Millis::MAX), begun_by }, &|| true).await?;
        Ok(counts.cancelled)
    }

    /// Cancels every job of a queue that was made until then and has not ended.
    pub(in crate::engine) async fn cancel_made_by(
        self: &Arc<Self>,
        queue: &Arc<str>,
        made_by: Timestamp,
    ) -> Result<BulkCounts, Error> {
        let state = vec![State::Scheduled, State::Ready, State::Running].into();
        let query = Query { queue: Some(queue.clone()), state, ..Query::default() };
        let step = Step::Cancel { message: Some(Arc::from("its queue was deleted")) };
        self.do_all(Bulk { query, step, made_by, begun_by: Timestamp(Millis::MAX) }, &|| true).await
    }

    /// Deletes the records of all jobs of a queue that have ended.
    pub(in crate::engine) async fn delete_ended(self: &Arc<Self>, queue: &Arc<str>) -> Result<u64, Error> {
        let state = vec![State::Succeeded, State::Failed, State::Cancelled].into();
        let query = Query { queue: Some(queue.clone()), state, ..Query::default() };
        let (made_by, begun_by) = (Timestamp(Millis::MAX), Timestamp(Millis::MAX));
        let bulk = Bulk { query, step: Step::Delete, made_by, begun_by };
        Ok(self.do_all(bulk, &|| true).await?.deleted)
    }

    async fn do_all(self: &Arc<Self>, bulk: Bulk, goes_on: &(dyn Fn() -> bool + Sync)) -> Result<BulkCounts, Error> {
        let mut counts = BulkCounts::default();
        let mut after = None;
        loop {
            let mut found = Vec::new();
            let next = self
                .search
                .find_rows(&bulk.query, bulk.query.stored_states(), after, PAGE_JOBS_MAX, &mut found)
                .await?;
            if !goes_on() {
                return Ok(counts);
            }
            let now = self.broker.now();
            found.retain(|job| bulk.fits(job, now));
            for word in self.do_page(&bulk, found).await {
                counts.add(word, 1);
            }
            match next {
                Some(_) => after = next,
                None => return Ok(counts),
            }
        }
    }

    /// The outcome for each job, in a word. A job that has changed since it was found is read again, and left alone if it no
    /// longer matches: a failed job that was retried meanwhile is not deleted.
    async fn do_page(self: &Arc<Self>, bulk: &Bulk, mut jobs: Vec<Job>) -> Vec<&'static str> {
        let mut words = Vec::with_capacity(jobs.len());
        for _ in 0..CHANGED_TRIES {
            let targets = jobs.iter().map(|job| JobRef { id: job.id, version: Some(job.version) }).collect();
            let mut changed = Vec::new();
            for (job, made) in jobs.iter().zip(self.do_step(targets, &bulk.step).await) {
                match made {
                    Ok(word) => words.push(word),
                    Err(Error::VersionMismatch { .. }) => changed.push(job.id),
                    Err(error) => words.push(error.code()),
                }
            }
            jobs = Vec::with_capacity(changed.len());
            for id in changed {
                match self.search.job(id).await {
                    Ok(job) => jobs.extend(bulk.fits(&job, self.broker.now()).then_some(job)),
                    Err(error) => words.push(error.code()),
                }
            }
            if jobs.is_empty() {
                break;
            }
        }
        words
            .extend(jobs.iter().map(|&Job { id, version: current, .. }| Error::VersionMismatch { id, current }.code()));
        words
    }

    async fn do_step(self: &Arc<Self>, targets: Vec<JobRef>, step: &Step) -> Answers<&'static str> {
        let word = |outcome| match outcome {
            CancelOutcome::Cancelled => "cancelled",
            CancelOutcome::CancelRequested => "cancel_requested",
            CancelOutcome::AlreadyFinished => "already_finished",
        };
        match step {
            Step::Cancel { message } => said(self.cancel_saying(targets, message.clone()).await, word),
            Step::Retry { spread } => said(self.retry_over(targets, *spread).await, |_| "retried"),
            Step::Reschedule { at, spread, .. } => {
                let update = |id| Update { due_at: Some(at + place_in(*spread, id).0), ..Update::default() };
                let changes = targets.into_iter().map(|target| (target, Change::Update(update(target.id))));
                said(self.change_each(changes.collect()).await, |_| "rescheduled")
            }
            Step::Delete => said(self.delete(targets).await, |()| "deleted"),
        }
    }
}

fn said<T>(answers: Answers<T>, word: impl Fn(T) -> &'static str) -> Answers<&'static str> {
    answers.into_iter().map(|answer| answer.map(&word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{Fixture, QUEUE, due_in, job};
    use crate::testing::fixtures::{T0, due};
    use std::time::Duration;

    /// Some ledgers list waiting jobs by due time, so it is found again behind the position of the walk.
    #[test]
    fn a_job_that_was_rescheduled_is_not_rescheduled_again() {
        let step = |is_now| Step::Reschedule { at: T0, is_now, spread: Span(0) };
        let (made_by, begun_by) = (Timestamp(Millis::MAX), Timestamp(Millis::MAX));
        let bulk = |is_now| Bulk { query: Query::default(), step: step(is_now), made_by, begun_by };
        let fits = |is_now, due_at| bulk(is_now).fits(&due(1, due_at), T0);
        assert!(fits(false, T0 + 1) && fits(false, T0 - 1) && !fits(false, T0));
        // What is due already need not be brought forward.
        assert!(fits(true, T0 + 1) && !fits(true, T0 - 1) && !fits(true, T0));
        let runs = Job { lease_until: Some(Timestamp(T0 + 9)), ..due(1, T0) };
        assert!(bulk(false).fits(&runs, T0), "the editor refuses it");
    }

    #[tokio::test(start_paused = true)]
    async fn an_action_without_states_is_meant_for_those_that_it_suits() {
        let fixture = Fixture::new().await;
        let editor = &fixture.services.editor;
        fixture.running(job()).await;
        fixture.push(due_in(Duration::from_secs(9))).await;
        let query = Query { queue: Some(QUEUE.into()), ..Query::default() };
        let bulk = async |action| editor.bulk(&query, action, &|| true).await.unwrap();
        assert_eq!(bulk(BulkAction::Retry).await, [].into(), "none has failed");
        assert_eq!(bulk(BulkAction::Reschedule(Due::Now)).await, [("rescheduled", 1)].into());
        assert_eq!(bulk(BulkAction::Cancel).await, [("cancel_requested", 1), ("cancelled", 1)].into());
        let everything = editor.bulk(&Query::default(), BulkAction::Delete, &|| true).await;
        assert_eq!(everything.unwrap_err().code(), "invalid", "a condition that was forgotten deletes nothing");
    }

    /// The same job has the same place, so that whoever repeats the call, or another process, spreads them the same way.
    #[tokio::test(start_paused = true)]
    async fn jobs_are_spread_over_a_span_and_none_that_is_run_becomes_later() {
        const SPREAD: Span = Span(600_000);
        let fixture = Fixture::new().await;
        let query = Query { queue: Some(QUEUE.into()), ..Query::default() };
        let bulk = async |action| fixture.services.editor.bulk(&query, action, &|| true).await;
        let soon = fixture.push(due_in(Duration::from_millis(1))).await;
        let mut failed = Vec::new();
        for _ in 0..100 {
            let lease = fixture.running(job()).await;
            let fail = crate::rules::Failure { is_final: true, ..crate::rules::Failure::default() };
            fixture.settle(lease.receipt(), crate::request::Outcome::Fail(fail)).await.unwrap();
            failed.push(lease.id);
        }
        let now = fixture.now();
        let counts = bulk(BulkAction::RetryOver(SPREAD)).await.unwrap();
        assert_eq!(counts, [("retried", 100)].into());
        let waits = || failed.iter().map(|id| fixture.row(*id).unwrap().due_at.0 - now).collect::<Vec<_>>();
        let places = waits();
        assert!(places.iter().all(|&place| place <= SPREAD.0), "{places:?}");
        let minutes: std::collections::BTreeSet<u64> = places.iter().map(|place| place / 60_000).collect();
        assert_eq!(minutes.len(), 10, "all of the span is used: {places:?}");
        // Sooner, and never later than they are.
        let run = bulk(BulkAction::RescheduleOver(Due::Now, Span(60_000))).await.unwrap();
        let nearer = waits();
        assert!(places.iter().zip(&nearer).all(|(before, now)| now <= before && *now <= 60_000), "{nearer:?}");
        assert!(run.rescheduled >= 80, "{run:?}");
        assert_eq!(fixture.row(soon.id).unwrap().due_at, soon.due_at);
        assert_eq!(bulk(BulkAction::RetryOver(Span(SPREAD_MS_MAX + 1))).await.unwrap_err().code(), "invalid");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_may_not_go_on_changes_no_further_page() {
        let fixture = Fixture::new().await;
        let pushed = fixture.push(job()).await;
        let query = Query { queue: Some(QUEUE.into()), ..Query::default() };
        let counts = fixture.services.editor.bulk(&query, BulkAction::Cancel, &|| false).await.unwrap();
        assert!(counts.is_empty() && fixture.held(pushed.id).await.is_some_and(|job| job.is_pending()));
    }
}
