//! Claims become jobs: pushed until each is answered.

use super::source::Claim;
use crate::cli::push_batch::{self, BATCH_BYTES, BATCH_JOBS, is_of_a_job};
use crate::cli::time::now;
use duetime::{Client, Error};
use duetime_core::engine::{PushOutcome, Query};
use duetime_core::{Due, Error as CoreError, NewJob, OnConflict};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Between tries, while the target cannot be reached.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a push may still take once it is stopped.
const STOP_MAX: Duration = Duration::from_secs(5);
/// The error for a caller without the right to push into this queue, or to look at it.
const FORBIDDEN: u16 = 403;

/// The result of pushing a claim.
#[derive(Debug)]
pub(super) enum Fate {
    /// It is a job; true: an earlier push made it.
    Taken(bool),
    /// The job is refused as it is.
    Refused(String),
    /// Nobody pushes into this queue with these rights.
    Forbidden { queue: Arc<str>, why: String },
    /// The push was refused before anything was changed.
    Unchanged(Error),
    /// The push failed, or an earlier try of it may have made the job: it stays claimed.
    Open(Error),
}

/// The destination of claims.
#[derive(Clone)]
pub(super) struct Pusher {
    pub(super) client: &'static Client,
    /// Whether that is a server: a push over HTTP has no field for a time to run beyond the longest lease.
    pub(super) is_server: bool,
    /// How long it is tried; `None`: until it is stopped.
    pub(super) patience: Option<Duration>,
    /// Tries end with it.
    pub(super) stop: CancellationToken,
}

impl Pusher {
    /// Answers for each claim, in order.
    pub(super) async fn push(self, claims: Arc<[Claim]>) -> Vec<Fate> {
        let mut fates: Vec<Option<Fate>> = claims.iter().map(|claim| self.judge(claim)).collect();
        let given_up = async {
            self.stop.cancelled().await;
            tokio::time::sleep(STOP_MAX).await;
        };
        tokio::select! {
            () = self.push_all(&claims, &mut fates) => {}
            () = given_up => {}
        }
        let unanswered =
            || CoreError::Unavailable(format!("a push was not answered within {STOP_MAX:?} of the signal"));
        fates.into_iter().map(|fate| fate.unwrap_or_else(|| Fate::Open(unanswered().into()))).collect()
    }

    /// Pushes until each is answered, or it is over.
    async fn push_all(&self, claims: &[Claim], fates: &mut [Option<Fate>]) {
        let begin = Instant::now();
        // Whether a try before, whose answer was lost, may have made the job.
        let mut may_be_there: Vec<bool> = claims.iter().map(|claim| claim.is_replay).collect();
        loop {
            let is_over = self.patience.is_some_and(|patience| begin.elapsed() > patience);
            let (mut is_open, is_last) = (false, is_over || self.stop.is_cancelled());
            let mut places = (0..claims.len()).filter(|&place| fates[place].is_none()).collect::<Vec<_>>();
            while !places.is_empty() {
                let batch: Vec<usize> = places.drain(..batch_size(claims, &places)).collect();
                let jobs = batch.iter().filter_map(|&place| Some((job(&claims[place])?, may_be_there[place])));
                let answers = self.push_batch(jobs.collect()).await;
                for (place, answer) in batch.into_iter().zip(answers) {
                    fates[place] = match answer {
                        Ok(outcome) => Some(Fate::Taken(outcome == PushOutcome::Repeated)),
                        Err(error) if error.is_retryable() && !is_last => None,
                        Err(error) => Some(fate(&claims[place], error, may_be_there[place])),
                    };
                    may_be_there[place] |= fates[place].is_none();
                    is_open |= fates[place].is_none();
                }
            }
            if !is_open {
                return;
            }
            // A last try follows the end of the pause.
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = self.stop.cancelled() => {}
            }
        }
    }

    /// Pushes jobs, each with whether it may be there.
    ///
    /// A push that replaces another job leaves no origin: once that job has run, a repeat would make a second one. So such a job gets a tag, and a
    /// repeat looks for it.
    async fn push_batch(&self, jobs: Vec<(NewJob, bool)>) -> Vec<Result<PushOutcome, Error>> {
        let mut answers = Vec::with_capacity(jobs.len());
        for (job, may_be_there) in &jobs {
            let is_known = *may_be_there && job.on_conflict == OnConflict::Replace && job.key.is_some();
            answers.push(if is_known { self.has_replaced(job).await } else { Ok(None) });
        }
        for on_conflict in [OnConflict::Reject, OnConflict::Replace] {
            let is_next = |place: &usize| {
                let (job, _) = &jobs[*place];
                match &answers[*place] {
                    Ok(None) => true,
                    Err(Error::Core(CoreError::KeyConflict { .. })) => {
                        (job.on_conflict, on_conflict) == (OnConflict::Replace, OnConflict::Replace)
                    }
                    _ => false,
                }
            };
            let next: Vec<usize> = (0..jobs.len()).filter(is_next).collect();
            if next.is_empty() {
                break;
            }
            let pushed = next.iter().map(|&place| {
                let mut job = jobs[place].0.clone();
                if job.on_conflict == OnConflict::Replace {
                    job.on_conflict = on_conflict;
                    job.tags.extend(claim_tag(&job).filter(|_| on_conflict == OnConflict::Replace));
                }
                job
            });
            let pushed = push_batch::push(self.client, pushed.collect()).await;
            for (place, answer) in next.into_iter().zip(pushed) {
                answers[place] = answer.map(|pushed| Some(pushed.outcome));
            }
        }
        answers.into_iter().map(|answer| answer.map(|outcome| outcome.unwrap_or(PushOutcome::Created))).collect()
    }

    /// Whether an earlier push of a job has replaced another one.
    async fn has_replaced(&self, job: &NewJob) -> Result<Option<PushOutcome>, Error> {
        let query = Query { queue: Some(job.queue.clone()), tag: claim_tag(job), ..Query::default() };
        match self.client.find(&query, None, 1).await {
            Ok(found) => Ok((!found.jobs.is_empty()).then_some(PushOutcome::Repeated)),
            // Only callers with the right to look can tell.
            Err(Error::Refused { status: FORBIDDEN, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The fate of a claim that is not worth a push.
    fn judge(&self, claim: &Claim) -> Option<Fate> {
        match &claim.job {
            Err(why) => Some(Fate::Refused(why.clone())),
            Ok(job) if self.is_server && job.options.beanstalk.is_some() => Some(Fate::Refused(
                "its time to run is longer than 12 h, which works only with --store or --server redis://…".to_owned(),
            )),
            Ok(_) => None,
        }
    }
}

/// How many of these claims are one batch: at least one.
fn batch_size(claims: &[Claim], places: &[usize]) -> usize {
    let mut bytes = 0;
    let fits = |&&place: &&usize| {
        let is_first = bytes == 0;
        bytes += claims[place].job.as_ref().map_or(0, |job| job.payload.len()) + 1;
        is_first || bytes <= BATCH_BYTES
    };
    places.iter().take(BATCH_JOBS).take_while(fits).count()
}

/// The job as it is pushed now.
fn job(claim: &Claim) -> Option<NewJob> {
    let mut job = claim.job.as_ref().ok()?.clone();
    job.origin = Some(claim.id.clone());
    if let Some(due_at) = claim.due_here {
        job.due = match due_at.saturating_sub(now()) {
            0 => Due::Now,
            left_ms => Due::After(left_ms),
        };
    }
    Some(job)
}

/// The tag of a job that a claim has replaced.
fn claim_tag(job: &NewJob) -> Option<Arc<str>> {
    Some(format!("claim:{}", job.origin.as_ref()?).into())
}

fn fate(claim: &Claim, error: Error, may_be_there: bool) -> Fate {
    match (&error, &claim.job) {
        (Error::Refused { status: FORBIDDEN, .. }, Ok(job)) if !may_be_there => {
            Fate::Forbidden { queue: job.queue.clone(), why: error.to_string() }
        }
        // A server that refuses such a job now has refused it before.
        _ if is_of_a_job(&error) => Fate::Refused(error.to_string()),
        (Error::Refused { .. }, _) if !may_be_there && !error.is_retryable() => Fate::Unchanged(error),
        _ => Fate::Open(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer of a first try was lost, and the token was revoked since: if the job went back, it would be there twice.
    #[test]
    fn what_may_be_a_job_does_not_go_back() {
        let claim = Claim {
            id: Arc::from("adopt-1"),
            job: Ok(NewJob::new(*b"1")),
            due_here: None,
            late_ms: None,
            is_replay: false,
        };
        let refused = |status, code: &str| Error::Refused { status, code: code.to_owned(), message: String::new() };
        let fate = |status, code, may_be_there| fate(&claim, refused(status, code), may_be_there);
        assert!(matches!(fate(401, "unauthenticated", false), Fate::Unchanged(_)));
        assert!(matches!(fate(401, "unauthenticated", true), Fate::Open(_)));
        assert!(matches!(fate(403, "forbidden", false), Fate::Forbidden { .. }));
        assert!(matches!(fate(403, "forbidden", true), Fate::Open(_)));
        assert!(matches!(fate(503, "stopping", false), Fate::Open(_)));
    }
}
