//! Conversion between jobs and rows: which columns, in which order.

use super::fault::Fault;
use super::number::{Number, Numbers};
use duetime_core::json::{Span, Timestamp};
use duetime_core::ports::key_order;
use duetime_core::{Job, JobId, KeyUntil, Payload, Stage};
use rusqlite::types::ValueRef;
use rusqlite::{Row, Statement};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// The longest queue and key that their index holds as they are, in bytes.
const KEY_ENTRY_MAX: usize = 32;

/// Selects all columns but `bucket`, in the order in which [`Reader::job`] reads them.
macro_rules! jobs {
    ($of:literal) => {
        concat!(
            "SELECT j.id, j.queue, j.kind, j.state, j.due_at, j.first_due_at, j.priority, j.attempt, j.crashes, j.version, \
             j.epoch, j.created_at, j.updated_at, j.started_at, j.finished_at, j.lease_until, j.lease_ms, j.expires_ms, \
             j.cancel_asked, j.key_until, j.job_key, j.options, j.tags, j.message, j.errors, j.result, j.payload, j.progress, \
             j.origin",
            $of
        )
    };
}
pub(super) use jobs;

/// Binds values to the placeholders of a statement, one by one, starting after this one.
macro_rules! bind_from {
    ($statement:expr, $before:expr; $($value:expr),*) => {
        let mut place: usize = $before;
        $(
            place += 1;
            $statement.raw_bind_parameter(place, $value)?;
        )*
    };
}
pub(super) use bind_from;

/// Inserts a whole row; does nothing if the id, the origin or the live key exists.
pub(super) const INSERT: &str = "INSERT OR IGNORE INTO duetime_jobs (id, queue, kind, state, due_at, first_due_at, \
     priority, attempt, crashes, version, epoch, created_at, updated_at, started_at, finished_at, lease_until, \
     lease_ms, expires_ms, cancel_asked, key_until, job_key, options, tags, message, errors, result, payload, bucket, \
     key_entry, key_order, progress, origin) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, \
     ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32)";

/// Binds a job to [`INSERT`].
pub(super) fn bind(
    statement: &mut Statement<'_>,
    job: &Job,
    bucket: i64,
    live_key: Option<&Arc<str>>,
) -> Result<(), Fault> {
    bind_from!(statement, 0;
        Number(job.id.get()), &*job.queue, &*job.kind, job.stage.code(), Number(job.due_at.0), Number(job.first_due_at.0), job.priority,
        job.attempt, job.crashes, Number(job.version), Number(job.epoch), Number(job.created_at.0), Number(job.updated_at.0), job.started_at.map(Number::from),
        job.finished_at.map(Number::from), job.lease_until.map(Number::from), job.lease.map(Number::from), job.expires.map(Number::from), job.cancel_asked,
        job.key_until as u8, job.key.as_deref(), options(job)?, list(&job.tags)?, job.message.as_deref(),
        list(&job.errors)?, job.result.as_deref(), &*job.payload, bucket,
        job.key.as_ref().map(|key| key_entry(&job.queue, key)), key_order(job, live_key.is_some()).map(Number), progress(job)?,
        job.origin.as_deref());
    Ok(())
}

/// A queue and a key in their index: the bytes of both if they are short, else a digest. A new key may change any page of the
/// index, so short entries, on fewer pages, make long keys cheaper. A digest loses their order, which makes short keys cheaper.
pub(super) fn key_entry(queue: &str, key: &str) -> Vec<u8> {
    // No text has the byte 0xff.
    let plain = [queue.as_bytes(), &[0xff], key.as_bytes()].concat();
    if plain.len() <= KEY_ENTRY_MAX {
        return plain;
    }
    [&[0xff], &hmac_sha256::Hash::hash(&plain)[..16]].concat()
}

/// JSON, or NULL for an empty list.
pub(super) fn list<T: Serialize>(items: &[T]) -> Result<Option<String>, Fault> {
    if items.is_empty() { Ok(None) } else { json(&items).map(Some) }
}

/// The progress, as JSON.
pub(super) fn progress(job: &Job) -> Result<Option<String>, Fault> {
    job.progress.as_ref().map(json).transpose()
}

/// The options of a job as stored in its row.
pub(super) fn options(job: &Job) -> Result<Option<String>, Fault> {
    job.options.as_ref().map(json).transpose()
}

fn json<T: Serialize>(value: &T) -> Result<String, Fault> {
    serde_json::to_string(value).map_err(|error| duetime_core::Error::invalid("job", "writable as JSON", error).into())
}

/// Reads rows of `jobs!`, sharing values that neighbours have in common.
#[derive(Default)]
pub(super) struct Reader {
    queue: Option<Arc<str>>,
    kind: Option<Arc<str>>,
    no_tags: Arc<[Arc<str>]>,
}

impl Reader {
    /// The job of a row.
    pub(super) fn job(&mut self, row: &Row<'_>) -> Result<Job, Fault> {
        Ok(Job {
            id: id(row)?,
            queue: shared(&mut self.queue, text(row, 1)?),
            kind: shared(&mut self.kind, text(row, 2)?),
            stage: stage(row.get(3)?)?,
            due_at: Timestamp(row.number(4)?),
            first_due_at: Timestamp(row.number(5)?),
            priority: row.get(6)?,
            attempt: row.get(7)?,
            crashes: row.get(8)?,
            version: row.number(9)?,
            epoch: row.number(10)?,
            created_at: Timestamp(row.number(11)?),
            updated_at: Timestamp(row.number(12)?),
            started_at: row.optional_number(13)?.map(Timestamp),
            finished_at: row.optional_number(14)?.map(Timestamp),
            lease_until: row.optional_number(15)?.map(Timestamp),
            lease: row.optional_number(16)?.map(Span),
            expires: row.optional_number(17)?.map(Span),
            cancel_asked: row.get(18)?,
            key_until: key_until(row.get(19)?)?,
            key: text(row, 20)?.map(Arc::from),
            origin: text(row, 28)?.map(Arc::from),
            tags: parsed(text(row, 22)?)?.unwrap_or_else(|| self.no_tags.clone()),
            options: parsed(text(row, 21)?)?.map(Arc::new),
            message: text(row, 23)?.map(Arc::from),
            errors: parsed(text(row, 24)?)?.unwrap_or_default(),
            result: bytes(row, 25)?,
            progress: parsed(text(row, 27)?)?.map(Arc::new),
            payload: bytes(row, 26)?.ok_or_else(|| Fault::damaged("payload", "NULL"))?,
        })
    }
}

/// The id in the first column.
pub(super) fn id(row: &Row<'_>) -> Result<JobId, Fault> {
    let number: i64 = row.get(0)?;
    u64::try_from(number).ok().and_then(JobId::new).ok_or_else(|| Fault::damaged("id", number))
}

fn key_until(code: i64) -> Result<KeyUntil, Fault> {
    u8::try_from(code).ok().and_then(KeyUntil::from_repr).ok_or_else(|| Fault::damaged("key_until", code))
}

/// The stage with this code.
pub(super) fn stage(code: i64) -> Result<Stage, Fault> {
    u8::try_from(code).ok().and_then(Stage::from_code).ok_or_else(|| Fault::damaged("state", code))
}

/// Text, borrowed from the row.
pub(super) fn text<'a>(row: &'a Row<'_>, column: usize) -> Result<Option<&'a str>, Fault> {
    row.get_ref(column)?.as_str_or_null().map_err(|error| Fault::damaged("text", error))
}

fn bytes(row: &Row<'_>, column: usize) -> Result<Option<Payload>, Fault> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        ValueRef::Blob(bytes) | ValueRef::Text(bytes) => Ok(Some(Arc::from(bytes))),
        other => Err(Fault::damaged("payload", other.data_type())),
    }
}

fn parsed<T: DeserializeOwned>(text: Option<&str>) -> Result<Option<T>, Fault> {
    text.map(serde_json::from_str).transpose().map_err(|error| Fault::damaged("JSON", error))
}

fn shared(last: &mut Option<Arc<str>>, text: Option<&str>) -> Arc<str> {
    let text = text.unwrap_or_default();
    match last {
        Some(last) if **last == *text => last.clone(),
        _ => last.insert(Arc::from(text)).clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn entries_of_keys_are_short_and_differ() {
        let key = |bytes| "k".repeat(bytes);
        assert_eq!(key_entry("q", "k"), [b'q', 0xff, b'k']);
        let entries =
            [("q", key(30)), ("q", key(31)), ("qk", key(29)), ("qk", key(30)), ("q", key(255)), ("r", key(255))];
        let entries: HashSet<_> = entries.iter().map(|(queue, key)| key_entry(queue, key)).collect();
        assert_eq!((entries.len(), entries.iter().map(Vec::len).max()), (6, Some(KEY_ENTRY_MAX)));
        // Files have it: the beginning of the SHA-256 of `q`, 0xff and 31 times `k`.
        let long = "fffb01d1450180d60c8582031059b86b57";
        assert_eq!(key_entry("q", &key(31)).iter().map(|byte| format!("{byte:02x}")).collect::<String>(), long);
    }
}
