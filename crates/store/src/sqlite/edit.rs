//! Changes from outside, of rows that no broker holds. A lease that a row still carries is therefore over.

use super::fault::Fault;
use super::note::{Stored, remove, rewrite};
use super::read;
use super::record::holder;
use super::task::Transaction;
use duetime_core::ports::{Change, Edit, Edited, Update};
use duetime_core::rules::after_expiry;
use duetime_core::{Job, Millis, Stage, id::next_number};

/// Makes the changes, in order.
pub(super) fn edit(
    transaction: &mut Transaction<'_>,
    edits: &[Edit],
    now: Millis,
    frontier: Millis,
) -> Result<Vec<Edited>, Fault> {
    edits.iter().map(|edit| one(transaction, edit, now, frontier)).collect()
}

fn one(transaction: &mut Transaction<'_>, edit: &Edit, now: Millis, frontier: Millis) -> Result<Edited, Fault> {
    let Some(mut job) = read::one(transaction.connection, edit.id)? else { return Ok(Edited::Unknown) };
    if edit.version.is_some_and(|version| version != job.version) {
        return Ok(Edited::Mismatch(job));
    }
    let stored = Stored::of(&job);
    job.lease_until = None;
    if matches!(edit.change, Change::Delete) {
        remove(transaction, job.id, &stored)?;
        return Ok(Edited::Changed(job));
    }
    let fits = match edit.change {
        Change::Retry => !job.is_pending(),
        Change::Expire => job.start_by().is_some_and(|start_by| start_by <= now),
        _ => job.is_pending(),
    };
    if !fits {
        return Ok(Edited::Unfit { id: job.id, state: job.state(now) });
    }
    match &edit.change {
        Change::Delete => unreachable!("it was made above"),
        Change::Cancel { message } => {
            job.message = message.clone().or(job.message);
            end(&mut job, Stage::Cancelled, now);
        }
        Change::Expire => {
            let finish = after_expiry(&job);
            job.message = finish.message.or(job.message);
            end(&mut job, finish.stage, now);
        }
        Change::Update(update) => renew(&mut job, update),
        Change::Retry => restart(&mut job, now),
    }
    if let (Change::Retry, Some(key)) = (&edit.change, job.live_key())
        && let Some(holder) = holder(transaction.connection, &job.queue, key)?.filter(|&holder| holder != job.id)
    {
        return Ok(Edited::KeyHeld(holder, job.queue.clone(), key.clone()));
    }
    job.version = next_number(job.version, now);
    job.updated_at = now;
    rewrite(transaction, &stored, &job, frontier)?;
    Ok(Edited::Changed(job))
}

fn end(job: &mut Job, stage: Stage, now: Millis) {
    job.stage = stage;
    job.finished_at = Some(now);
}

fn renew(job: &mut Job, update: &Update) {
    if let Some(due_at) = update.due_at {
        job.due_at = due_at;
        job.first_due_at = due_at;
    }
    if let Some(priority) = update.priority {
        job.priority = priority;
    }
    if let Some(payload) = &update.payload {
        job.payload = payload.clone();
    }
    if let Some(tags) = &update.tags {
        job.tags = tags.clone();
    }
}

fn restart(job: &mut Job, now: Millis) {
    job.stage = Stage::Pending;
    job.attempt = 0;
    job.crashes = 0;
    job.due_at = now;
    job.first_due_at = now;
    job.cancel_asked = false;
    job.result = None;
    job.finished_at = None;
    // It has not been handed out in its new life, so that it holds its key again.
    job.started_at = None;
}
