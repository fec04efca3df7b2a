//! Records outcomes.

use super::fault::Fault;
use super::number::{Number, Numbers};
use super::record::{holder, insert, is_known, tag, untag};
use super::row::{self, bind_from, list};
use super::task::Transaction;
use duetime_core::ports::{OutboxEntry, bucket, key_order};
use duetime_core::{Job, JobId, Millis, Stage};
use rusqlite::{CachedStatement, Connection, Statement};
use std::sync::Arc;

/// Statement for a pending job that ends, the common case. The indexes of pending rows lose it; unchanged columns are not
/// written.
const END: &str = "UPDATE duetime_jobs SET version = ?2, due_at = ?3, first_due_at = ?4, priority = ?5, attempt = ?6, \
     crashes = ?7, epoch = ?8, updated_at = ?9, started_at = ?10, lease_until = ?11, cancel_asked = ?12, \
     message = ?13, errors = ?14, result = ?15, key_order = ?16, state = ?17, finished_at = ?18, \
     progress = ?19, options = ?21 \
     WHERE id = ?1 AND version < ?2 AND state = ?20";
/// Statement for a pending job that stays pending.
const AGAIN: &str = "UPDATE duetime_jobs SET version = ?2, due_at = ?3, first_due_at = ?4, priority = ?5, \
     attempt = ?6, crashes = ?7, epoch = ?8, updated_at = ?9, started_at = ?10, lease_until = ?11, \
     cancel_asked = ?12, message = ?13, errors = ?14, result = ?15, key_order = ?16, progress = ?19, \
     bucket = ?20, options = ?21 \
     WHERE id = ?1 AND version < ?2 AND state = 1";
/// Any change, with all that an edit may change.
const REWRITE: &str = "UPDATE duetime_jobs SET version = ?2, due_at = ?3, first_due_at = ?4, priority = ?5, \
     attempt = ?6, crashes = ?7, epoch = ?8, updated_at = ?9, started_at = ?10, lease_until = ?11, \
     cancel_asked = ?12, message = ?13, errors = ?14, result = ?15, key_order = ?16, state = ?17, finished_at = ?18, \
     progress = ?19, bucket = ?20, tags = ?21, payload = ?22, options = ?23, kind = ?24, lease_ms = ?25, \
     expires_ms = ?26, key_until = ?27 WHERE id = ?1";

/// Records outcomes of jobs; returns the ids of successors that other jobs have.
pub(super) fn apply(
    transaction: &mut Transaction<'_>,
    entries: &[OutboxEntry],
    watermark: Millis,
) -> Result<Vec<JobId>, Fault> {
    let connection = transaction.connection;
    let mut taken = Vec::new();
    let mut pending = OfPending { end: connection.prepare_cached(END)?, again: connection.prepare_cached(AGAIN)? };
    for entry in entries {
        apply_entry(transaction, &mut pending, entry, watermark, &mut taken)?;
    }
    Ok(taken)
}

/// Returns the stage that the row of its job had, if the entry changed that.
fn apply_entry(
    transaction: &mut Transaction<'_>,
    pending: &mut OfPending<'_>,
    entry: &OutboxEntry,
    watermark: Millis,
    taken: &mut Vec<JobId>,
) -> Result<Option<Stage>, Fault> {
    let connection = transaction.connection;
    let stored = match entry {
        OutboxEntry::Changed(job) => return change(transaction, pending, job, watermark),
        OutboxEntry::Followed(change, successors) => {
            return follow(transaction, pending, (change, successors), watermark, taken);
        }
        OutboxEntry::Rewritten(job) => {
            let stored = older(connection, job.id, job.version)?.filter(|stored| stored.is_replaced_by(job));
            if let Some(stored) = &stored {
                rewrite(transaction, stored, job, watermark)?;
            }
            stored
        }
        OutboxEntry::Removed(job) => {
            let stored = older(connection, job.id, job.version.saturating_add(1))?;
            if let Some(stored) = &stored {
                remove(transaction, job.id, stored, job.stage)?;
            }
            stored
        }
    };
    Ok(stored.map(|stored| stored.stage))
}

/// Records an end together with the jobs that begin with it, so that a repeat does not restore one that was pruned since.
fn follow(
    transaction: &mut Transaction<'_>,
    pending: &mut OfPending<'_>,
    (change, successors): (&OutboxEntry, &[Job]),
    watermark: Millis,
    taken: &mut Vec<JobId>,
) -> Result<Option<Stage>, Fault> {
    let (connection, job) = (transaction.connection, change.job());
    let mut known = Vec::new();
    for successor in successors {
        known.extend(is_known(connection, successor.id)?.then_some(successor.id));
    }
    if !known.is_empty() {
        if older(connection, job.id, job.version)?.is_some_and(|stored| stored.is_replaced_by(job)) {
            taken.append(&mut known);
        }
        return Ok(None);
    }
    let before = apply_entry(transaction, pending, change, watermark, taken)?;
    if before.is_some_and(|before| !before.leads_like(job.stage)) {
        for successor in successors {
            let live_key = free_key(transaction.connection, successor)?;
            insert(transaction, successor, live_key, watermark)?;
        }
    }
    Ok(before)
}

/// Statements for pending rows, reused for many rows.
struct OfPending<'a> {
    end: CachedStatement<'a>,
    again: CachedStatement<'a>,
}

/// The stored columns that a change needs.
pub(super) struct RowHead {
    queue: Arc<str>,
    pub(super) stage: Stage,
    tags: Vec<Arc<str>>,
    version: u64,
    epoch: u64,
}

impl RowHead {
    /// The stored columns of this job.
    pub(super) fn of(job: &Job) -> Self {
        let Job { queue, stage, tags, version, epoch, .. } = job;
        Self { queue: queue.clone(), stage: *stage, tags: tags.to_vec(), version: *version, epoch: *epoch }
    }

    fn is_replaced_by(&self, job: &Job) -> bool {
        OutboxEntry::replaces(job, self.version, self.epoch, self.stage)
    }
}

/// The row, if its version is below this one.
fn older(connection: &Connection, id: JobId, version: u64) -> Result<Option<RowHead>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT id, queue, state, tags, version, epoch FROM duetime_jobs WHERE id = ?1 AND version < ?2",
    )?;
    let mut rows = statement.query((Number(id.get()), Number(version)))?;
    rows.next()?.map(stored).transpose()
}

/// Reads the columns id, queue, state, tags, version, epoch.
pub(super) fn stored(row: &rusqlite::Row<'_>) -> Result<RowHead, Fault> {
    let tags = row::text(row, 3)?.map(serde_json::from_str).transpose();
    Ok(RowHead {
        queue: row.get(1)?,
        stage: row::stage(row.get(2)?)?,
        tags: tags.map_err(|error| Fault::damaged("tags", error))?.unwrap_or_default(),
        version: row.number(4)?,
        epoch: row.number(5)?,
    })
}

/// Changes all columns that more than edits change if the entry replaces the row. Returns the stage that it had then.
fn change(
    transaction: &mut Transaction<'_>,
    pending: &mut OfPending<'_>,
    job: &Job,
    watermark: Millis,
) -> Result<Option<Stage>, Fault> {
    let connection = transaction.connection;
    let live_key = free_key(connection, job)?;
    let statement = if job.is_pending() { &mut pending.again } else { &mut pending.end };
    bind(statement, job, live_key, job.is_pending().then_some(watermark))?;
    statement.raw_bind_parameter(21, row::options(job)?)?;
    if !job.is_pending() {
        statement.raw_bind_parameter(20, Stage::Pending.code())?;
    }
    if statement.raw_execute()? == 1 {
        transaction.tallies.moved(&job.queue, Stage::Pending, job.stage);
        return Ok(Some(Stage::Pending));
    }
    let stored = if job.is_pending() { None } else { older(connection, job.id, job.version)? };
    let Some(stored) = stored.filter(|stored| stored.is_replaced_by(job)) else { return Ok(None) };
    statement.raw_bind_parameter(20, stored.stage.code())?;
    statement.raw_execute()?;
    transaction.tallies.moved(&job.queue, stored.stage, job.stage);
    Ok(Some(stored.stage))
}

/// Changes all columns of a row.
pub(super) fn rewrite(
    transaction: &mut Transaction<'_>,
    stored: &RowHead,
    job: &Job,
    watermark: Millis,
) -> Result<(), Fault> {
    let connection = transaction.connection;
    let live_key = free_key(connection, job)?;
    let mut statement = connection.prepare_cached(REWRITE)?;
    bind(&mut statement, job, live_key, Some(watermark))?;
    bind_from!(statement, 20; list(&job.tags)?, &*job.payload, row::options(job)?, &*job.kind, job.lease.map(Number::from),
        job.expires.map(Number::from), job.key_until as u8);
    statement.raw_execute()?;
    if *stored.tags != *job.tags {
        untag(connection, job.id, &stored.tags)?;
        tag(connection, job)?;
    }
    transaction.tallies.moved(&stored.queue, stored.stage, job.stage);
    Ok(())
}

/// Removes a row, whose job had reached this stage.
pub(super) fn remove(transaction: &mut Transaction<'_>, id: JobId, stored: &RowHead, last: Stage) -> Result<(), Fault> {
    transaction.connection.prepare_cached("DELETE FROM duetime_jobs WHERE id = ?1")?.execute([Number(id.get())])?;
    untag(transaction.connection, id, &stored.tags)?;
    transaction.tallies.removed(&stored.queue, stored.stage, last);
    Ok(())
}

/// Binds all columns but payload and tags; also the bucket if a watermark is given.
fn bind(
    statement: &mut Statement<'_>,
    job: &Job,
    live_key: Option<&Arc<str>>,
    watermark: Option<Millis>,
) -> Result<(), Fault> {
    bind_from!(statement, 0;
        Number(job.id.get()), Number(job.version), Number(job.due_at.0), Number(job.first_due_at.0), job.priority, job.attempt, job.crashes, Number(job.epoch),
        Number(job.updated_at.0), job.started_at.map(Number::from), job.lease_until.map(Number::from), job.cancel_asked, job.message.as_deref(), list(&job.errors)?,
        job.result.as_deref(), key_order(job, live_key.is_some()).map(Number), job.stage.code(), job.finished_at.map(Number::from), row::progress(job)?);
    if let Some(watermark) = watermark {
        statement.raw_bind_parameter(20, bucket(job.due_at.0, watermark))?;
    }
    Ok(())
}

/// The key that the job holds, unless another job has it. That cannot happen while the broker and this store agree. If they
/// disagree, a job without its key is better than a lost job.
pub(super) fn free_key<'a>(connection: &Connection, job: &'a Job) -> Result<Option<&'a Arc<str>>, Fault> {
    let Some(key) = job.live_key() else { return Ok(None) };
    match holder(connection, &job.queue, key)? {
        Some(holder) if holder != job.id => {
            tracing::warn!(id = %job.id, %holder, queue = &*job.queue, key = &**key, "a key is held by another job");
            Ok(None)
        }
        _ => Ok(Some(key)),
    }
}
