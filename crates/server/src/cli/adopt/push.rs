//! Claims become jobs: pushed until each is answered.

use super::source::{ADOPTED, Claim};
use crate::cli::output::note;
use crate::cli::push_batch::{self, BATCH_BYTES, BATCH_JOBS, is_of_a_job};
use crate::cli::time::now;
use duetime::server::Cause;
use duetime::{Client, Error};
use duetime_core::api::Span;
use duetime_core::engine::PushOutcome;
use duetime_core::{Due, Error as CoreError, Job, JobId, JobRef, NewJob, OnConflict, State};
use futures_util::{StreamExt, stream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Between tries, while the target cannot be reached.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a push may still take once it is stopped.
const STOP_MAX: Duration = Duration::from_secs(5);
/// How often a key that is held is tried again.
const CONFLICTS_MAX: usize = 3;
/// Jobs that hold keys and are looked at, or cancelled, at a time.
const HOLDERS_MAX: usize = 16;
/// The error for a caller without the right to push into this queue, or to cancel in it.
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
    /// Whether the user was told that jobs cannot be pushed.
    pub(super) is_away: Arc<AtomicBool>,
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
            let (mut why_open, is_last) = (None, is_over || self.stop.is_cancelled());
            let mut places = (0..claims.len()).filter(|&place| fates[place].is_none()).collect::<Vec<_>>();
            while !places.is_empty() {
                let batch: Vec<usize> = places.drain(..batch_size(claims, &places)).collect();
                let jobs = batch.iter().filter_map(|&place| job(&claims[place])).collect();
                let answers = self.push_batch(jobs).await;
                for (place, answer) in batch.into_iter().zip(answers) {
                    fates[place] = match answer {
                        // It is no job, so it stays where it is.
                        Ok(PushOutcome::Dropped) => {
                            let queue = job(&claims[place]).map(|job| job.queue).unwrap_or_default();
                            let error =
                                CoreError::Unavailable(format!("the queue {queue} is full and drops new jobs")).into();
                            if is_last {
                                Some(Fate::Open(error))
                            } else {
                                why_open = Some(error);
                                None
                            }
                        }
                        Ok(outcome) => Some(Fate::Taken(outcome == PushOutcome::Repeated)),
                        // Its origin names the claim: only what is left of its delay differs.
                        Err(error) if matches!(error.cause(), Cause::Core(CoreError::OriginReused { .. })) => {
                            Some(Fate::Taken(true))
                        }
                        Err(error) if error.is_retryable() && !is_last => {
                            why_open = Some(error);
                            may_be_there[place] = true;
                            None
                        }
                        Err(error) => Some(fate(&claims[place], error, may_be_there[place])),
                    };
                }
            }
            let was_away = self.is_away.swap(why_open.is_some(), Ordering::Relaxed);
            match why_open {
                None if was_away && !is_last => return note!("jobs are pushed again"),
                None => return,
                Some(error) if !was_away => note!("jobs cannot be pushed: {error}; trying again"),
                Some(_) => {}
            }
            // A last try follows the end of the pause.
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = self.stop.cancelled() => {}
            }
        }
    }

    /// Pushes jobs, and answers for each.
    ///
    /// A push that replaced or kept the job which holds its key would leave no origin, and its repeat could make a second job. So each is
    /// pushed with [`OnConflict::Reject`], and the holder is looked at.
    async fn push_batch(&self, mut jobs: Vec<NewJob>) -> Vec<Result<PushOutcome, Error>> {
        let rules = jobs.iter_mut().map(|job| std::mem::replace(&mut job.on_conflict, OnConflict::Reject));
        let rules: Vec<OnConflict> = rules.collect();
        let pushed = async |jobs: Vec<NewJob>| {
            let answers = push_batch::push(self.client, jobs).await.into_iter();
            answers.map(|answer| answer.map(|pushed| pushed.outcome)).collect::<Vec<_>>()
        };
        let mut answers = pushed(jobs.clone()).await;
        for _ in 0..CONFLICTS_MAX {
            let held = answers.iter().enumerate().filter_map(|(place, answer)| match answer {
                Err(error) => match error.cause() {
                    Cause::Core(CoreError::KeyConflict { holder, .. }) => Some((place, *holder)),
                    _ => None,
                },
                Ok(_) => None,
            });
            let judged: Vec<_> = stream::iter(held.collect::<Vec<_>>())
                .map(async |(place, holder)| (place, self.judge_holder(holder, &jobs[place], rules[place]).await))
                .buffer_unordered(HOLDERS_MAX)
                .collect()
                .await;
            let mut again = Vec::with_capacity(judged.len());
            for (place, judged) in judged {
                match judged {
                    Ok(None) => again.push(place),
                    Ok(Some(outcome)) => answers[place] = Ok(outcome),
                    Err(error) => answers[place] = Err(error),
                }
            }
            if again.is_empty() {
                break;
            }
            let repeats = again.iter().map(|&place| jobs[place].clone()).collect();
            for (place, answer) in again.into_iter().zip(pushed(repeats).await) {
                answers[place] = answer;
            }
        }
        answers
    }

    /// The outcome of a push by the job that holds its key; `None` if the key is free now.
    async fn judge_holder(
        &self,
        id: JobId,
        new: &NewJob,
        on_conflict: OnConflict,
    ) -> Result<Option<PushOutcome>, Error> {
        let job = match self.client.jobs().get(id).await {
            Err(error) if error.code() == "not_found" => return Ok(None),
            job => job?,
        };
        if job.live_key().is_none() {
            return Ok(None);
        }
        let is_waiting = matches!(job.state(now()), State::Scheduled | State::Ready);
        match on_conflict {
            OnConflict::Keep if !is_of_another_source(new, &job) => return Ok(Some(PushOutcome::Kept)),
            OnConflict::Replace if is_waiting && !is_of_another_source(new, &job) => {}
            _ => {
                let key = new.key.clone().unwrap_or_default();
                return Err(CoreError::KeyConflict { queue: new.queue.clone(), key, holder: id }.into());
            }
        }
        match self.client.jobs().cancel(JobRef { id, version: Some(job.version) }).await {
            Err(error) if is_gone(&error) => Ok(None),
            cancelled => cancelled.map(|_| None),
        }
    }

    /// The fate of a claim that is not worth a push.
    fn judge(&self, claim: &Claim) -> Option<Fate> {
        match &claim.job {
            Err(why) => Some(Fate::Refused(why.clone())),
            Ok(job) if self.is_server && job.options.marks.is_some() => Some(Fate::Refused(
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
            left_ms => Due::After(Span(left_ms)),
        };
    }
    Some(job)
}

/// Whether the job is not there as it was read.
pub(super) fn is_gone(error: &Error) -> bool {
    matches!(error.cause(), Cause::Core(CoreError::NotFound(_) | CoreError::VersionMismatch { .. }))
}

/// Whether the job that holds a key was adopted from elsewhere, so that it is not an earlier state of this one.
fn is_of_another_source(job: &NewJob, holder: &Job) -> bool {
    let is_adopted = |tag: &&Arc<str>| tag.starts_with(ADOPTED);
    !job.tags.iter().any(|tag| holder.tags.contains(tag)) && holder.tags.iter().any(|tag| is_adopted(&tag))
}

fn fate(claim: &Claim, error: Error, may_be_there: bool) -> Fate {
    match (error.cause(), &claim.job) {
        (Cause::Refused { status: FORBIDDEN, .. }, Ok(job)) if !may_be_there => {
            Fate::Forbidden { queue: job.queue.clone(), why: error.to_string() }
        }
        // Had an earlier try made this job, the server would know its origin and answer `repeated`.
        (Cause::Core(CoreError::KeyConflict { .. }), _) => Fate::Refused(format!(
            "{error}; name another queue with --to, or run the command again once that job has ended"
        )),
        _ if is_of_a_job(&error) => Fate::Refused(error.to_string()),
        (Cause::Refused { .. }, _) if !may_be_there && !error.is_retryable() => Fate::Unchanged(error),
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
        let refused =
            |status, code: &str| Error::from(Cause::Refused { status, code: code.to_owned(), message: String::new() });
        let fate = |status, code, may_be_there| fate(&claim, refused(status, code), may_be_there);
        assert!(matches!(fate(401, "unauthenticated", false), Fate::Unchanged(_)));
        assert!(matches!(fate(401, "unauthenticated", true), Fate::Open(_)));
        assert!(matches!(fate(403, "forbidden", false), Fate::Forbidden { .. }));
        assert!(matches!(fate(403, "forbidden", true), Fate::Open(_)));
        assert!(matches!(fate(503, "stopping", false), Fate::Open(_)));
    }
}
