//! The effect of decisions, leases and edits on a job's fields, the same in every store.

use super::{Again, Decision, Finish, Return};
use crate::clock::Millis;
use crate::limits::{ERRORS_BYTES_MAX, ERRORS_KEPT};
use crate::model::beanstalk::{self, BURIED, Beanstalk};
use crate::model::edit::{Change, Edited, Update};
use crate::model::id::Numbers;
use crate::model::job::{AttemptError, Job, Stage};
use std::sync::Arc;

/// Leases the job until `lease_until`.
pub fn lease(job: &mut Job, lease_until: Millis, now: Millis, numbers: Numbers) {
    touch(job, now, numbers);
    job.epoch = job.version;
    job.attempt = job.attempt.saturating_add(1);
    job.lease_until = Some(lease_until);
    job.started_at = Some(now);
    job.progress = None;
}

/// The result of a decision.
#[derive(Clone, Debug, PartialEq)]
pub enum Remains {
    /// The job alone.
    Job,
    /// The job, and a copy that starts in another queue.
    Copy(Box<Job>),
    /// No record of the job.
    Nothing,
}

/// Ends the job's lease. A job that was asked to stop after the decision was made is cancelled, unless it succeeded: it
/// neither runs again nor continues as a copy.
pub fn apply(job: &mut Job, decision: Decision, now: Millis, numbers: Numbers) -> Remains {
    touch(job, now, numbers);
    job.lease_until = None;
    let cancelled = |crashes, error| Finish { crashes, error, ..Finish::new(Stage::Cancelled) };
    match decision {
        Decision::Finish(Finish { stage: Stage::Failed, crashes, error, .. }) if job.cancel_asked => {
            apply_finish(job, cancelled(crashes, error), now);
        }
        Decision::Again(Again { crashes, error, .. }) if job.cancel_asked => {
            apply_finish(job, cancelled(Some(crashes), error), now);
        }
        Decision::Return(_) | Decision::Bury(_) if job.cancel_asked => apply_finish(job, cancelled(None, None), now),
        Decision::Return(Return { due_at, release }) => {
            job.due_at = due_at;
            if let Some((priority, delay_ms)) = release {
                job.priority = priority;
                count(job, |counted| counted.delay_ms = Some(delay_ms));
                job.set_releases(job.releases().saturating_add(1));
            }
        }
        Decision::Bury(priority) => {
            job.priority = priority;
            count(job, |counted| counted.buries = counted.buries.saturating_add(1));
            job.stage = Stage::Failed;
            job.message = Some(Arc::from(BURIED));
        }
        Decision::Finish(mut finish) => {
            let (drop, successor) = (finish.drop, finish.successor.take());
            apply_finish(job, finish, now);
            if drop {
                return Remains::Nothing;
            }
            return successor.map_or(Remains::Job, Remains::Copy);
        }
        Decision::Again(Again { due_at, attempt, crashes, error, is_release }) => {
            job.due_at = due_at;
            job.attempt = attempt;
            job.crashes = crashes;
            if is_release {
                job.set_releases(job.releases().saturating_add(1));
            }
            remember(job, error);
        }
    }
    Remains::Job
}

/// Updates the counters of the beanstalk protocol.
fn count(job: &mut Job, change: impl FnOnce(&mut Beanstalk)) {
    let mut options = job.options().clone();
    change(options.beanstalk.get_or_insert_default());
    job.options = options.shared();
}

fn apply_finish(job: &mut Job, finish: Finish, now: Millis) {
    end(job, finish.stage, now);
    job.crashes = finish.crashes.unwrap_or(job.crashes);
    remember(job, finish.error);
    job.message = finish.message.or(job.message.take());
    job.result = finish.result;
}

fn end(job: &mut Job, stage: Stage, now: Millis) {
    job.stage = stage;
    job.finished_at = Some(now);
}

fn remember(job: &mut Job, error: Option<AttemptError>) {
    if let Some(error) = error {
        job.message = Some(error.message.clone());
        job.errors.push(error);
        // From the newest back: what fits.
        let mut bytes = 0;
        let newest_first = job.errors.iter().rev();
        let kept = newest_first.take(ERRORS_KEPT).take_while(|error| {
            bytes += error.message.len();
            bytes <= ERRORS_BYTES_MAX
        });
        let dropped = job.errors.len() - kept.count().max(1);
        job.errors.drain(..dropped);
    }
}

/// Makes an edit if the job's version and state allow it. A deletion changes nothing: the store removes the job that is
/// returned as changed.
pub fn edit(job: &mut Job, version: Option<u64>, change: &Change, now: Millis, numbers: Numbers) -> Edited {
    if version.is_some_and(|version| version != job.version) {
        return Edited::Mismatch(job.clone());
    }
    match (change, job.stage, job.lease_until) {
        (Change::Kick { .. }, Stage::Failed, _) | (Change::Kick { .. }, Stage::Pending, None) => {
            if !kick(job, change, now) {
                return unfit(job, now);
            }
        }
        (Change::Retry, Stage::Pending, _) => return unfit(job, now),
        (Change::Retry, ..) => {
            job.stage = Stage::Pending;
            (job.due_at, job.first_due_at) = (now, now);
            (job.attempt, job.crashes) = (0, 0);
            job.set_releases(0);
            (job.finished_at, job.started_at) = (None, None);
            (job.result, job.progress) = (None, None);
            (job.cancel_asked, job.lease_until) = (false, None);
        }
        (Change::Cancel { .. }, Stage::Pending, Some(_)) => {
            job.cancel_asked = true;
            // The rest of the lease is not more than it was given, even if the clock was set back since.
            job.lease_until = job.restored_until(now);
            touch(job, now, numbers);
            return Edited::CancelAsked(job.clone());
        }
        (_, Stage::Pending, Some(_)) => return Edited::Running(job.clone()),
        (Change::Cancel { message }, Stage::Pending, None) => {
            end(job, Stage::Cancelled, now);
            job.message = message.clone().or(job.message.take());
        }
        (Change::Expire, Stage::Pending, None) if job.start_by().is_none_or(|by| by > now) => return unfit(job, now),
        (Change::Expire, Stage::Pending, None) => apply_finish(job, super::after_expiry(job), now),
        (Change::Update(update), Stage::Pending, None) => apply_update(job, update),
        // It may have released its key since it was looked up, and another job may hold that.
        (Change::Replace(_), Stage::Pending, None) if job.live_key().is_none() => return unfit(job, now),
        (Change::Replace(sent), Stage::Pending, None) => replace(job, sent),
        (Change::Delete, ..) => {}
        (Change::Cancel { .. } | Change::Expire, ..) => return unfit(job, now),
        (Change::Update(_) | Change::Replace(_) | Change::Kick { .. }, ..) => return unfit(job, now),
    }
    touch(job, now, numbers);
    Edited::Changed(job.clone())
}

/// Makes a scheduled job due now, or a failed one ready again. Unlike a retry, it keeps the count of earlier runs for a job
/// that was put by the beanstalk protocol.
fn kick(job: &mut Job, change: &Change, now: Millis) -> bool {
    if job.is_pending() && job.due_at <= now {
        return false;
    }
    if !job.is_pending() && *job.kind != *beanstalk::KIND {
        (job.attempt, job.crashes) = (0, 0);
        job.set_releases(0);
    }
    let delay_ms = job.first_due_at.saturating_sub(job.created_at);
    job.stage = Stage::Pending;
    (job.due_at, job.first_due_at) = (now, now);
    (job.finished_at, job.result, job.progress) = (None, None, None);
    (job.cancel_asked, job.lease_until) = (false, None);
    let kicks = u32::from(matches!(change, Change::Kick { counts: true }));
    count(job, |counted| {
        counted.kicks = counted.kicks.saturating_add(kicks);
        counted.delay_ms.get_or_insert(delay_ms);
    });
    true
}

fn apply_update(job: &mut Job, update: &Update) {
    if let Some(due_at) = update.due_at {
        (job.due_at, job.first_due_at) = (due_at, due_at);
    }
    job.priority = update.priority.unwrap_or(job.priority);
    if let Some(payload) = &update.payload {
        job.payload = Arc::clone(payload);
    }
    if let Some(tags) = &update.tags {
        job.tags = Arc::clone(tags);
    }
}

/// The job becomes the one that was sent. Its origin stays: a repeat of the push that made it still finds it. Versions and
/// epochs go on, so that earlier readings and receipts stay invalid.
fn replace(job: &mut Job, sent: &Job) {
    *job = Job {
        id: job.id,
        queue: job.queue.clone(),
        key: job.key.take(),
        origin: job.origin.take(),
        created_at: job.created_at,
        version: job.version,
        epoch: job.epoch,
        ..sent.clone()
    };
}

fn unfit(job: &Job, now: Millis) -> Edited {
    Edited::Unfit { id: job.id, state: job.state(now) }
}

/// Ends the job's lease without blame: the job waits, or is cancelled if its worker was asked to stop. Returns whether it
/// ran.
pub fn unlease(job: &mut Job, now: Millis) -> bool {
    let ran = job.lease_until.take().is_some();
    if ran && job.cancel_asked {
        end(job, Stage::Cancelled, now);
        touch(job, now, Numbers::Ledger);
    }
    ran
}

/// Updates the version and the time of the last change.
pub fn touch(job: &mut Job, now: Millis, numbers: Numbers) {
    job.version = numbers.after(job.version);
    job.updated_at = now;
}
