//! New jobs.

use super::fault::Fault;
use super::number::Number;
use super::plain;
use super::row;
use super::task::Transaction;
use duetime_core::ports::{Recorded, bucket};
use duetime_core::{Job, JobId, Millis};
use rusqlite::{Connection, OptionalExtension};
use std::sync::Arc;

/// Records jobs independently of each other.
pub(super) fn record(
    transaction: &mut Transaction<'_>,
    jobs: &[Job],
    watermark: Millis,
) -> Result<Vec<Recorded>, Fault> {
    let mut recorded = Vec::with_capacity(jobs.len());
    let mut rest = jobs;
    while let Some(job) = rest.first() {
        let plain = if transaction.is_careful { 0 } else { plain::insert(transaction, rest, watermark)? };
        if plain == 0 {
            recorded.push(insert(transaction, job, job.live_key(), watermark)?);
        } else {
            recorded.resize(recorded.len() + plain, Recorded::Created);
        }
        rest = &rest[plain.max(1)..];
    }
    Ok(recorded)
}

/// Records one job, holding this key.
pub(super) fn insert(
    transaction: &mut Transaction<'_>,
    job: &Job,
    live_key: Option<&Arc<str>>,
    watermark: Millis,
) -> Result<Recorded, Fault> {
    let connection = transaction.connection;
    let mut statement = connection.prepare_cached(row::INSERT)?;
    row::bind(&mut statement, job, bucket(job.due_at.0, watermark), live_key)?;
    if statement.raw_execute()? == 0 {
        return refused(connection, job, live_key);
    }
    tag(connection, job)?;
    transaction.tallies.inserted(&job.queue, job.stage, 1);
    Ok(Recorded::Created)
}

/// Whether there is a job with this id.
pub(super) fn is_known(connection: &Connection, id: JobId) -> Result<bool, Fault> {
    Ok(connection.prepare_cached("SELECT 1 FROM duetime_jobs WHERE id = ?1")?.exists([Number(id.get())])?)
}

fn refused(connection: &Connection, job: &Job, live_key: Option<&Arc<str>>) -> Result<Recorded, Fault> {
    if is_known(connection, job.id)? {
        return Ok(Recorded::Repeat);
    }
    met(connection, job, live_key)?.ok_or_else(|| Fault::damaged("an index of duetime_jobs", "what no row has"))
}

/// The job that has the origin or the key of this one.
pub(super) fn known(connection: &Connection, job: &Job) -> Result<Option<Recorded>, Fault> {
    met(connection, job, job.live_key())
}

fn met(connection: &Connection, job: &Job, live_key: Option<&Arc<str>>) -> Result<Option<Recorded>, Fault> {
    let first = job.origin.as_ref().map(|origin| by_origin(connection, &job.queue, origin)).transpose()?.flatten();
    if let Some(first) = first {
        return Ok(Some(Recorded::Known(first)));
    }
    let holder = live_key.map(|key| holder(connection, &job.queue, key)).transpose()?.flatten();
    Ok(holder.map(Recorded::KeyHeld))
}

/// The holder of a key.
pub(super) fn holder(connection: &Connection, queue: &str, key: &str) -> Result<Option<JobId>, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT id FROM duetime_jobs WHERE key_entry = ?1 AND key_order = 0")?;
    statement.query_row([row::key_entry(queue, key)], |row| Ok(row::id(row))).optional()?.transpose()
}

fn by_origin(connection: &Connection, queue: &str, origin: &str) -> Result<Option<JobId>, Fault> {
    let mut statement = connection.prepare_cached("SELECT id FROM duetime_jobs WHERE queue = ?1 AND origin = ?2")?;
    statement.query_row([queue, origin], |row| Ok(row::id(row))).optional()?.transpose()
}

/// Files a job under its tags.
pub(super) fn tag(connection: &Connection, job: &Job) -> Result<(), Fault> {
    for tag in job.tags.iter() {
        connection
            .prepare_cached("INSERT OR IGNORE INTO duetime_tags (tag, job_id) VALUES (?1, ?2)")?
            .execute((&**tag, Number(job.id.get())))?;
    }
    Ok(())
}

/// Removes a job from its tags.
pub(super) fn untag(connection: &Connection, id: JobId, tags: &[Arc<str>]) -> Result<(), Fault> {
    for tag in tags {
        connection
            .prepare_cached("DELETE FROM duetime_tags WHERE tag = ?1 AND job_id = ?2")?
            .execute((&**tag, Number(id.get())))?;
    }
    Ok(())
}
