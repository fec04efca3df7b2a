//! The same change for every job that a query finds, page by page.

use super::find::check_query;
use super::{Answers, BulkAction, BulkCounts, CancelOutcome, Engine, JobRef, Query};
use crate::error::Error;
use crate::limits::PAGE_JOBS_MAX;
use crate::model::job::{Job, State};
use std::sync::Arc;

/// How often a job that others change all the time is read anew.
const CHANGED_TRIES: usize = 5;

impl Engine {
    /// Cancels, retries or deletes every job that the query finds; a query without any part is refused. Jobs are
    /// taken page by page: what is pushed or ends meanwhile may or may not be found.
    ///
    /// # Errors
    /// [`Error::Invalid`]; or of the ledger, where what was done until then stays done.
    pub async fn bulk(&self, query: &Query, action: BulkAction) -> Result<BulkCounts, Error> {
        check_query(query)?;
        if query.is_empty() {
            return Err(Error::invalid("selection", "at least one of queue, key, tag, kind, state or a time", "none"));
        }
        let mut query = query.clone();
        let is_open = query.state.is_empty();
        match action {
            BulkAction::Cancel if is_open => query.state = vec![State::Scheduled, State::Ready, State::Running].into(),
            BulkAction::Retry if is_open => query.state = vec![State::Failed].into(),
            _ => {}
        }
        self.bulk_saying(&query, action, None).await
    }

    /// Cancels every waiting job of a queue, with the message `purged`; answers how many.
    ///
    /// # Errors
    /// As [`bulk`](Self::bulk).
    pub async fn purge(&self, queue: &str) -> Result<u64, Error> {
        let state = vec![State::Scheduled, State::Ready].into();
        let query = Query { queue: Some(Arc::from(queue)), state, ..Query::default() };
        check_query(&query)?;
        let counts = self.bulk_saying(&query, BulkAction::Cancel, Some(Arc::from("purged"))).await?;
        Ok(counts.get("cancelled").copied().unwrap_or(0))
    }

    async fn bulk_saying(
        &self,
        query: &Query,
        action: BulkAction,
        message: Option<Arc<str>>,
    ) -> Result<BulkCounts, Error> {
        let mut counts = BulkCounts::new();
        let mut after = None;
        loop {
            let mut found = Vec::new();
            let next = self.find_rows(query, after, PAGE_JOBS_MAX, &mut found).await?;
            for word in self.act(query, found, action, message.as_ref()).await {
                *counts.entry(word).or_default() += 1;
            }
            match next {
                Some(_) => after = next,
                None => return Ok(counts),
            }
        }
    }

    /// What became of each job, in a word. One that has changed since it was found is read anew, and left alone where it
    /// no longer fits: a failed job that was retried meanwhile is not deleted.
    async fn act(
        &self,
        query: &Query,
        mut jobs: Vec<Job>,
        action: BulkAction,
        message: Option<&Arc<str>>,
    ) -> Vec<&'static str> {
        let mut words = Vec::with_capacity(jobs.len());
        for _ in 0..CHANGED_TRIES {
            let targets = jobs.iter().map(|job| JobRef { id: job.id, version: Some(job.version) }).collect();
            let mut changed = Vec::new();
            for (job, made) in jobs.iter().zip(self.act_on(targets, action, message).await) {
                match made {
                    Ok(word) => words.push(word),
                    Err(Error::VersionMismatch { .. }) => changed.push(job.id),
                    Err(error) => words.push(error.code()),
                }
            }
            jobs = Vec::with_capacity(changed.len());
            for id in changed {
                match self.job(id).await {
                    Ok(job) => jobs.extend(query.fits(&job, self.now()).then_some(job)),
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

    async fn act_on(
        &self,
        targets: Vec<JobRef>,
        action: BulkAction,
        message: Option<&Arc<str>>,
    ) -> Answers<&'static str> {
        let word = |outcome| match outcome {
            CancelOutcome::Cancelled => "cancelled",
            CancelOutcome::CancelRequested => "cancel_requested",
            CancelOutcome::AlreadyFinished => "already_finished",
        };
        match action {
            BulkAction::Cancel => said(self.cancel_saying(targets, message.cloned()).await, word),
            BulkAction::Retry => said(self.retry(targets).await, |_| "retried"),
            BulkAction::Delete => said(self.delete(targets).await, |()| "deleted"),
        }
    }
}

fn said<T>(answers: Answers<T>, word: impl Fn(T) -> &'static str) -> Answers<&'static str> {
    answers.into_iter().map(|answer| answer.map(&word)).collect()
}
