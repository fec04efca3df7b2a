//! The effect of decisions, leases and edits on a job's fields, the same in every store.

use super::{Again, Decision, Finish, PARKED, Park};
use crate::clock::Millis;
use crate::json::Timestamp;
use crate::limits::{ERRORS_BYTES_MAX, ERRORS_KEPT};
use crate::model::edit::{Change, Edited, Update};
use crate::model::id::Numbers;
use crate::model::job::{AttemptError, Job, Stage, State};
use crate::model::marks::Marks;
use crate::model::options::JobOptions;
use std::sync::Arc;

/// Leases the job until `lease_until`.
pub fn lease(job: &mut Job, lease_until: Millis, now: Millis, numbers: Numbers) {
    touch(job, now, numbers);
    job.epoch = job.version;
    job.attempt = job.attempt.saturating_add(1);
    job.lease_until = Some(Timestamp(lease_until));
    job.started_at = Some(Timestamp(now));
    job.progress = None;
}

/// What a decision leaves beside the job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Remains {
    /// Whether the record of the job goes, too.
    pub is_removed: bool,
    /// New jobs that begin with the end of this one.
    pub successors: Vec<Job>,
}

/// The decision, if the job was not asked to stop after it was made; else the job is cancelled, unless it succeeded.
pub fn as_asked(job: &Job, decision: Decision) -> Decision {
    let cancelled = |crashes, error| Decision::Finish(Finish { crashes, error, ..Finish::new(Stage::Cancelled) });
    match decision {
        Decision::Finish(Finish { stage: Stage::Failed, crashes, error, .. }) if job.cancel_asked => {
            cancelled(crashes, error)
        }
        Decision::Again(Again { crashes, error, .. }) if job.cancel_asked => cancelled(Some(crashes), error),
        Decision::Park(..) if job.cancel_asked => cancelled(None, None),
        decision => decision,
    }
}

/// Whether the decision has the new jobs that are to begin with the end that it makes. A store carries out no other.
pub fn is_whole(job: &Job, decision: &Decision) -> bool {
    if !job.options().has_follow_ups() {
        return true;
    }
    let has_them = |finish: &Finish| job.follow_ups(finish.stage).is_empty() || !finish.successors.is_empty();
    match decision {
        Decision::Finish(finish) if matches!(finish.stage, Stage::Succeeded | Stage::Cancelled) => has_them(finish),
        _ if job.cancel_asked => job.follow_ups(Stage::Cancelled).is_empty(),
        Decision::Finish(finish) => has_them(finish),
        Decision::Again(_) | Decision::Park(..) => true,
    }
}

/// Ends the job's lease. A job that was asked to stop after the decision was made is cancelled, unless it succeeded: it
/// neither runs again nor continues as a copy.
pub fn apply(job: &mut Job, decision: Decision, now: Millis, numbers: Numbers) -> Remains {
    let decision = as_asked(job, decision);
    touch(job, now, numbers);
    job.lease_until = None;
    match decision {
        // Without the time of an end, it is past no retention.
        Decision::Park(Park { message, priority }, marks) => {
            job.stage = Stage::Failed;
            job.message = Some(if message.is_empty() { Arc::from(PARKED) } else { message });
            job.priority = priority.unwrap_or(job.priority);
            set_marks(job, marks);
        }
        Decision::Finish(mut finish) => {
            let remains = Remains { is_removed: finish.drop, successors: std::mem::take(&mut finish.successors) };
            apply_finish(job, finish, now);
            return remains;
        }
        Decision::Again(Again { due_at, attempt, crashes, error, is_release, priority, marks }) => {
            job.due_at = Timestamp(due_at);
            job.attempt = attempt;
            job.crashes = crashes;
            job.priority = priority.unwrap_or(job.priority);
            set_marks(job, marks);
            if is_release {
                job.set_releases(job.releases().saturating_add(1));
            }
            remember(job, error);
        }
    }
    Remains::default()
}

fn set_marks(job: &mut Job, marks: Option<Arc<Marks>>) {
    if marks.is_some() {
        job.options = JobOptions { marks, ..job.options().clone() }.shared();
    }
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
    job.finished_at = Some(Timestamp(now));
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
        (Change::Retry { .. }, Stage::Pending, _) => return unfit(job, now),
        (Change::Retry { after, keeps_attempts, marks }, ..) => {
            job.stage = Stage::Pending;
            job.due_at = Timestamp(now.saturating_add(after.0));
            job.first_due_at = job.due_at;
            if !keeps_attempts {
                (job.attempt, job.crashes, job.started_at) = (0, 0, None);
                job.set_releases(0);
            }
            (job.finished_at, job.result, job.progress) = (None, None, None);
            (job.cancel_asked, job.lease_until) = (false, None);
            set_marks(job, marks.clone());
        }
        (Change::Cancel { .. }, Stage::Pending, Some(_)) => {
            job.cancel_asked = true;
            // The rest of the lease is not more than it was given, even if the clock was set back since.
            job.lease_until = job.restored_until(now).map(Timestamp);
            touch(job, now, numbers);
            return Edited::CancelAsked(job.clone());
        }
        (_, Stage::Pending, Some(_)) => return Edited::Running(job.clone()),
        (Change::Expire { .. }, Stage::Pending, None) if job.start_by().is_none_or(|by| by > now) => {
            return unfit(job, now);
        }
        (Change::Cancel { .. } | Change::Expire { .. }, Stage::Pending, None)
            if change.successors().is_empty() && !job.follow_ups(Stage::Cancelled).is_empty() =>
        {
            return Edited::Undecided(job.clone());
        }
        (Change::Cancel { message, .. }, Stage::Pending, None) => {
            end(job, Stage::Cancelled, now);
            job.message = message.clone().or(job.message.take());
        }
        (Change::Expire { .. }, Stage::Pending, None) => apply_finish(job, super::after_expiry(job), now),
        (Change::Update(update), Stage::Pending, None) => apply_update(job, update),
        // It may have released its key since it was looked up, and another job may hold that.
        (Change::Replace(_), Stage::Pending, None) if job.live_key().is_none() => return unfit(job, now),
        (Change::Replace(sent), Stage::Pending, None) => replace(job, sent),
        (Change::Delete, ..) => {}
        (Change::Cancel { .. } | Change::Expire { .. }, ..) => return unfit(job, now),
        (Change::Update(_) | Change::Replace(_), ..) => return unfit(job, now),
    }
    touch(job, now, numbers);
    Edited::Changed(job.clone())
}

/// The answer to an edit of a job that has ended or was removed, if the ledger does not know that yet. The ledger makes a
/// retry and a deletion once it knows, and compares the version then.
pub fn edit_ended(job: &Job, version: Option<u64>, change: &Change) -> Edited {
    let is_for_ledger = matches!(change, Change::Retry { .. } | Change::Delete);
    if !is_for_ledger && version.is_some_and(|version| version != job.version) {
        return Edited::Mismatch(job.clone());
    }
    ended(job)
}

/// The answer for a job that has ended. A removed job counts as ended: its row may still exist, and must not be changed ahead
/// of the entry that removes it.
pub fn ended(job: &Job) -> Edited {
    Edited::Unfit { id: job.id, state: job.stage.end_state().unwrap_or(State::Cancelled) }
}

fn apply_update(job: &mut Job, update: &Update) {
    if let Some(due_at) = update.due_at {
        (job.due_at.0, job.first_due_at.0) = (due_at, due_at);
    }
    job.priority = update.priority.unwrap_or(job.priority);
    if let Some(payload) = &update.payload {
        job.payload = Arc::clone(payload);
    }
    if let Some(tags) = &update.tags {
        job.tags = Arc::clone(tags);
    }
    set_marks(job, update.marks.clone());
}

/// The job becomes the one that was sent. Its origin stays: a repeat of the push that made it still finds it. Versions and
/// epochs go on, so that earlier readings and receipts stay invalid.
fn replace(job: &mut Job, sent: &Job) {
    let (imported, of_origin) = (job.options().imported, job.sent());
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
    job.set_imported(imported);
    job.set_sent(of_origin);
}

fn unfit(job: &Job, now: Millis) -> Edited {
    Edited::Unfit { id: job.id, state: job.state(now) }
}

/// Ends the job's lease without blame: the job waits, or is cancelled if its worker was asked to stop. Returns whether it
/// ran.
pub fn unlease(job: &mut Job, now: Millis) -> bool {
    lapse(job);
    let ran = job.lease_until.take().is_some();
    if ran && job.cancel_asked {
        end(job, Stage::Cancelled, now);
        touch(job, now, Numbers::Ledger);
    }
    ran
}

/// A job that ran when its worker was asked to stop never waits again: without its lease, that counts as lapsed.
pub fn lapse(job: &mut Job) {
    if job.is_pending() && job.cancel_asked {
        job.lease_until.get_or_insert(job.updated_at);
    }
}

/// Whether its lease is the one that [`lapse`] made up: the broker lost the real one.
pub fn has_lapsed(job: &Job) -> bool {
    job.cancel_asked && job.lease_until == Some(job.updated_at)
}

/// Updates the version and the time of the last change.
pub fn touch(job: &mut Job, now: Millis, numbers: Numbers) {
    job.version = numbers.after(job.version);
    job.updated_at = Timestamp(now);
}
