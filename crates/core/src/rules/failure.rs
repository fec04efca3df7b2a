//! When to try again, when to give up, and what happens to jobs that are given up.

use super::{Again, Decision, Finish};
use crate::clock::Millis;
use crate::hash::fraction;
use crate::json::{Span, Timestamp, is_zero, or_default};
use crate::limits::{DELAY_MS_MAX, MOVES_MAX};
use crate::model::id::JobId;
use crate::model::job::{AttemptError, Job, Stage};
use crate::model::retry::{Backoff, DEFAULT_STEPS_MS, Exponential, Fixed, Retry, WhenExhausted};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The attempt failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Fail))]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Failure {
    /// Why.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::json::schema::Message>))]
    #[serde(deserialize_with = "or_default")]
    pub message: Arc<str>,
    /// Whether to give up at once.
    #[serde(rename = "final", skip_serializing_if = "std::ops::Not::not")]
    pub is_final: bool,
    /// How long to wait, at most 10 years, instead of the rule's wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Span>,
}

impl Failure {
    /// A failure for this reason.
    pub fn new(message: impl Into<Arc<str>>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// Gives up at once: there is no other attempt.
    #[must_use]
    pub fn fatal(self) -> Self {
        Self { is_final: true, ..self }
    }

    /// Sets how long to wait for the next attempt, at most 10 years, instead of the rule's wait.
    #[must_use]
    pub fn retry_after(self, wait: impl Into<Span>) -> Self {
        Self { retry_after: Some(wait.into()), ..self }
    }
}

/// The job is given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Release {
    /// The delay from now, at most 10 years; without one the job keeps its place.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Span>))]
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_zero")]
    pub delay: Span,
    /// The job's priority from now on; by default as it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
}

impl Release {
    /// With this delay, and no other priority.
    pub fn after(delay: impl Into<Span>) -> Self {
        Self { delay: delay.into(), priority: None }
    }

    /// Sets the job's priority from now on.
    #[must_use]
    pub fn priority(self, priority: u32) -> Self {
        Self { priority: Some(priority), ..self }
    }
}

/// The job is parked: failed, and kept until it is retried or deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Park {
    /// Why; by default `parked`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::json::schema::Message>))]
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_zero")]
    pub message: Arc<str>,
    /// The job's priority from now on; by default as it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
}

impl Park {
    /// Parks it for this reason.
    pub fn new(message: impl Into<Arc<str>>) -> Self {
        Self { message: message.into(), priority: None }
    }

    /// Sets the job's priority from now on.
    #[must_use]
    pub fn priority(self, priority: u32) -> Self {
        Self { priority: Some(priority), ..self }
    }
}

/// After a worker failed the job under its lease. `retry` is the rule in force; `new_id` is for the copy that it makes if it
/// moves the job.
pub fn after_failure(job: &Job, retry: &Retry, failure: &Failure, now: Millis, new_id: Option<JobId>) -> Decision {
    let error = attempt_error(job, failure.message.clone(), false, now);
    if job.cancel_asked {
        return cancelled(Some(error), job.crashes);
    }
    let after = |wait: Span| now.saturating_add(wait.0);
    let due_at = failure.retry_after.map_or_else(|| due_again(job, retry, job.attempt, now), after);
    if failure.is_final || is_spent(job, retry) || is_too_old(job, retry, due_at) {
        let given_up = GivenUp { error, crashes: job.crashes, may_restart: !failure.is_final };
        return give_up(job, retry, given_up, now, new_id);
    }
    Decision::Again(Again { due_at, error: Some(error), ..as_it_is(job) })
}

/// After the lease of the job ended unsettled: the attempt and a crash count, and the job is ready at once.
pub fn after_crash(job: &Job, retry: &Retry, now: Millis, new_id: Option<JobId>) -> Decision {
    let crashes = job.crashes.saturating_add(1);
    let error = attempt_error(job, Arc::from("lease expired: the worker crashed or lost its connection"), true, now);
    if job.cancel_asked {
        return cancelled(Some(error), crashes);
    }
    let is_poison = crashes >= retry.crashes();
    if is_poison || is_spent(job, retry) || is_too_old(job, retry, now) {
        let given_up = GivenUp { error, crashes, may_restart: !is_poison };
        return give_up(job, retry, given_up, now, new_id);
    }
    Decision::Again(Again { due_at: job.due_at.0.min(now), crashes, error: Some(error), ..as_it_is(job) })
}

/// After a worker gave the job back: the attempt does not count, the release does, and without a delay the job keeps its
/// place. No number of releases ends a job, but its age does. `retry` is the rule in force; `new_id` is for the copy that it
/// makes if it moves the job.
pub fn after_release(job: &Job, retry: &Retry, release: Release, now: Millis, new_id: Option<JobId>) -> Decision {
    match after_return(job, retry, release, now, new_id) {
        Decision::Again(again) => Decision::Again(Again { attempt: again.attempt.saturating_sub(1), ..again }),
        ended => ended,
    }
}

/// The same, but the attempt counts.
pub fn after_return(job: &Job, retry: &Retry, release: Release, now: Millis, new_id: Option<JobId>) -> Decision {
    let Release { delay: Span(delay_ms), priority } = release;
    if job.cancel_asked {
        return cancelled(None, job.crashes);
    }
    if is_too_old(job, retry, now.saturating_add(delay_ms)) {
        let error = attempt_error(job, Arc::from("released, and older than `max_age` by its next attempt"), false, now);
        return give_up(job, retry, GivenUp { error, crashes: job.crashes, may_restart: false }, now, new_id);
    }
    let due_at = if delay_ms == 0 { job.due_at.min(Timestamp(now)) } else { Timestamp(now.saturating_add(delay_ms)) };
    Decision::Again(Again { due_at: due_at.0, is_release: true, priority, ..as_it_is(job) })
}

/// After nobody received the lease: as after a release, but it does not count as one, and the job's age ends nothing, since it
/// has not run.
pub fn after_unclaimed(job: &Job, now: Millis) -> Decision {
    match after_release(job, &Retry::INHERITED, Release::default(), now, None) {
        Decision::Again(again) => Decision::Again(Again { is_release: false, ..again }),
        ended => ended,
    }
}

/// After the holder of the lease has gone, and said so: the attempt counts, nothing else does, and the job keeps its place.
pub fn after_abandonment(job: &Job, now: Millis) -> Decision {
    if job.cancel_asked {
        return cancelled(None, job.crashes);
    }
    Decision::Again(Again { due_at: job.due_at.0.min(now), ..as_it_is(job) })
}

/// Another run, with the numbers that the job has.
fn as_it_is(job: &Job) -> Again {
    Again { attempt: job.attempt, crashes: job.crashes, ..Again::default() }
}

/// When the next attempts would begin, at most `limit`, if each failed as soon as it began. A running job is assumed to fail
/// now. `retry` is the rule in force.
pub fn retry_plan(job: &Job, retry: &Retry, now: Millis, limit: usize) -> Vec<Millis> {
    let (mut job, mut planned) = (job.clone(), Vec::new());
    let mut at = now;
    if job.lease_until.is_none() {
        at = job.due_at.0.max(now);
        planned.push(at);
        job.attempt += 1;
    }
    while planned.len() < limit
        && let Decision::Again(again) = after_failure(&job, retry, &Failure::default(), at, Some(JobId::MIN))
    {
        at = again.due_at;
        planned.push(at);
        job.attempt = again.attempt + 1;
    }
    planned
}

/// After the job was not started in time.
pub fn after_expiry(job: &Job) -> Finish {
    let expires = job.expires.unwrap_or_default();
    let message = format!("expired: not started within {expires} of its due time");
    Finish { message: Some(Arc::from(message)), ..Finish::new(Stage::Failed) }
}

fn attempt_error(job: &Job, message: Arc<str>, crashed: bool, now: Millis) -> AttemptError {
    AttemptError { attempt: job.attempt, at: Timestamp(now), message, crashed }
}

fn cancelled(error: Option<AttemptError>, crashes: u32) -> Decision {
    Decision::Finish(Finish { error, crashes: Some(crashes), ..Finish::new(Stage::Cancelled) })
}

fn is_spent(job: &Job, retry: &Retry) -> bool {
    retry.attempts().is_some_and(|attempts| job.attempt >= attempts)
}

fn is_too_old(job: &Job, retry: &Retry, due_at: Millis) -> bool {
    retry.max_age.is_some_and(|Span(age_ms)| due_at > job.first_due_at.0.saturating_add(age_ms))
}

/// An attempt after which there is no other.
struct GivenUp {
    error: AttemptError,
    crashes: u32,
    /// Whether the rule may start the job again: its attempts are used up, and it is neither failed for good nor crashing
    /// workers.
    may_restart: bool,
}

fn give_up(job: &Job, retry: &Retry, given_up: GivenUp, now: Millis, new_id: Option<JobId>) -> Decision {
    let GivenUp { error, crashes, may_restart } = given_up;
    let failed = Finish { error: Some(error), crashes: Some(crashes), ..Finish::new(Stage::Failed) };
    Decision::Finish(match retry.when_exhausted.as_ref().unwrap_or(&WhenExhausted::Keep) {
        WhenExhausted::Keep => failed,
        // Its record keeps what follows.
        WhenExhausted::Drop => Finish { drop: job.follow_ups(Stage::Failed).is_empty(), ..failed },
        WhenExhausted::Move(queue) if job.options().moves >= MOVES_MAX => {
            let said =
                format!("not moved to the queue {queue}: already moved {MOVES_MAX} times, so the queues form a circle");
            Finish { message: Some(Arc::from(said)), ..failed }
        }
        WhenExhausted::Move(queue) => {
            let id = new_id.expect("a rule that moves comes with an id for the copy");
            Finish { successors: vec![copy_in(queue, job, id, now)], ..failed }
        }
        WhenExhausted::Restart => {
            let due_at = due_again(job, retry, 1, now);
            if may_restart && !is_too_old(job, retry, due_at) {
                return Decision::Again(Again { due_at, error: failed.error, ..Again::default() });
            }
            failed
        }
    })
}

/// The due time after the failure of this attempt (the first is 1): after the wait of the rule, or later by a part of it that is
/// the same whoever asks. That part costs no attempt: it does not make the job too old.
fn due_again(job: &Job, retry: &Retry, attempt: u32, now: Millis) -> Millis {
    let wait_ms = backoff_ms(retry, attempt);
    let longer_ms = wait_ms as f64 * retry.spread() * fraction(job.id.get(), attempt);
    let least = now.saturating_add(wait_ms);
    let last = retry.max_age.map_or(Millis::MAX, |Span(age_ms)| job.first_due_at.0.saturating_add(age_ms));
    least.saturating_add((longer_ms as u64).min(DELAY_MS_MAX.saturating_sub(wait_ms))).min(last.max(least))
}

/// The wait of the rule after the failure of this attempt.
fn backoff_ms(retry: &Retry, attempt: u32) -> u64 {
    let failures_before = attempt.saturating_sub(1) as usize;
    match retry.backoff.as_ref().unwrap_or(&Backoff::Default) {
        Backoff::Default => DEFAULT_STEPS_MS[failures_before.min(DEFAULT_STEPS_MS.len() - 1)],
        Backoff::None => 0,
        Backoff::Steps(steps) => steps.get(failures_before).or(steps.last()).map_or(0, |step| step.0),
        Backoff::Fixed(Fixed { delay }) => delay.0,
        Backoff::Exponential(Exponential { first, factor, max, .. }) => {
            let exponent = i32::try_from(failures_before).unwrap_or(i32::MAX);
            // Must be finite, or a first wait of 0 would not stay 0.
            let growth = factor.powi(exponent).min(f64::MAX);
            (first.0 as f64 * growth).min(max.0 as f64) as u64
        }
    }
}

/// A copy of the job that starts with attempt 0 in another queue, under that queue's rules, without the key.
fn copy_in(queue: &Arc<str>, job: &Job, id: JobId, now: Millis) -> Job {
    let message = format!("moved from the queue {}, where it was the job {}", job.queue, job.id);
    Job {
        priority: job.priority,
        lease: job.lease,
        key_until: job.key_until,
        tags: job.tags.clone(),
        options: job.options().moved().shared(),
        message: Some(Arc::from(message)),
        ..Job::new(id, queue.clone(), job.kind.clone(), job.payload.clone(), now, now)
    }
}
