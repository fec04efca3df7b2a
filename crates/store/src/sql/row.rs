//! Conversion between jobs and rows.

use super::fault::Fault;
use super::statements::Statements;
use super::value::{Row, Value};
use duetime_core::json::{Span, Timestamp};
use duetime_core::ports::{Document, FailedJob, InboxRow, OVERFLOW_BUCKET, Place, bucket, key_order};
use duetime_core::{Error, Job, JobId, KeyUntil, Millis, Stage};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// A new row.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewRow<'a> {
    pub(super) job: &'a Job,
    pub(super) bucket: i64,
    pub(super) live_key: Option<&'a Arc<str>>,
}

impl<'a> NewRow<'a> {
    /// The job's own fields.
    pub(super) fn new(job: &'a Job, watermark: Millis) -> Self {
        Self { job, bucket: bucket(job.due_at.0, watermark), live_key: job.live_key() }
    }

    /// Whether it is like most new jobs, for which fewer columns suffice.
    pub(super) fn is_plain(&self) -> bool {
        let job = self.job;
        let is_fresh = job.is_pending() && (job.attempt, job.crashes, job.epoch) == (0, 0, 0) && !job.cancel_asked;
        let is_new = (job.created_at.0, job.updated_at.0, job.first_due_at) == (job.version, job.version, job.due_at);
        let has_times = [job.started_at, job.finished_at, job.lease_until] != [None; 3];
        let has_spans = (job.lease, job.expires) != (None, None);
        let is_bare = job.key.is_none() && job.tags.is_empty() && self.is_silent();
        is_fresh && is_new && !has_times && !has_spans && is_bare && job.key_until == KeyUntil::Finished
    }

    /// Whether it has ended like most jobs, for which fewer columns suffice.
    pub(super) fn is_plain_end(&self) -> bool {
        let job = self.job;
        !job.is_pending()
            && job.lease_until.is_none()
            && !job.cancel_asked
            && self.live_key.is_none()
            && job.releases() == 0
            && self.is_silent()
    }

    /// Whether it has no message, errors, result or progress.
    fn is_silent(&self) -> bool {
        let job = self.job;
        job.message.is_none() && job.errors.is_empty() && job.result.is_none() && job.progress.is_none()
    }
}

/// The stored columns that a change needs.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) id: JobId,
    pub(super) version: u64,
    pub(super) epoch: u64,
    pub(super) queue: Arc<str>,
    pub(super) stage: Stage,
    pub(super) live_key: Option<Arc<str>>,
    pub(super) tags: Vec<Arc<str>>,
}

/// A stream of rows along an index, in the order of their ids, but ended ones the last first.
#[derive(Clone, Debug)]
pub(super) enum Stream {
    /// Everything.
    All,
    /// A queue's rows of one state without an end: live or parked ones.
    Open(Arc<str>, Stage),
    /// Parked rows of one state, of all queues.
    Parked(Stage),
    /// The row of a queue that holds a key.
    Holder(Arc<str>, Arc<str>),
    /// A queue's rows that had a key.
    Past(Arc<str>, Arc<str>),
    /// Rows with a tag.
    Tag(Arc<str>),
    /// Pending rows of a bucket.
    Bucket(i64),
    /// Rows of one state with an end, of all queues or one.
    Ended(Option<Arc<str>>, Stage),
}

impl Stream {
    /// Where a row is in its order.
    pub(super) fn place(&self, hit: &Hit) -> Place {
        match self {
            Self::Ended(..) => Place::by_state(hit.id, hit.finished_at),
            _ => Place::Id(hit.id.get()),
        }
    }
}

/// The columns examined before a row is read.
#[derive(Clone, Debug)]
pub(super) struct Hit {
    pub(super) id: JobId,
    pub(super) bucket: i64,
    pub(super) queue: Arc<str>,
    pub(super) kind: Arc<str>,
    pub(super) stage: Stage,
    pub(super) due_at: u64,
    pub(super) finished_at: Option<u64>,
    pub(super) is_leased: bool,
    /// Bytes of payload, result and errors.
    pub(super) bytes: usize,
}

/// The values of `insert`.
pub(super) fn insert<'a>(
    values: &mut Vec<Value<'a>>,
    row: &NewRow<'a>,
    Statements { has_urgency, .. }: &Statements,
) -> Result<(), Fault> {
    let Job {
        id,
        due_at,
        first_due_at,
        priority,
        attempt,
        crashes,
        version,
        epoch,
        created_at,
        updated_at,
        started_at,
        finished_at,
        lease_until,
        lease,
        expires,
        stage,
        key_until,
        cancel_asked,
        queue,
        kind,
        key,
        origin,
        options,
        tags,
        errors,
        message,
        result,
        payload,
        progress,
    } = row.job;
    values.extend([id.get(), due_at.0, first_due_at.0].map(Value::from));
    values.extend([*priority, *attempt, *crashes].map(Value::from));
    values.extend([*version, *epoch, created_at.0, updated_at.0].map(Value::from));
    values.extend([*started_at, *finished_at, *lease_until].map(Value::from));
    values.extend([*lease, *expires].map(Value::from));
    values.extend([stage.code(), *key_until as u8, u8::from(*cancel_asked)].map(Value::from));
    values.extend([queue.into(), kind.into(), key.as_ref().into()]);
    values.extend([optional(options.as_ref())?, list(tags)?, list(errors)?]);
    values.extend([message.as_ref().into(), result.as_deref().into(), (&**payload).into()]);
    values.push(optional(progress.as_ref())?);
    values.extend(bucket_and_urgency(row, *has_urgency));
    values.push(origin.as_ref().into());
    Ok(())
}

/// The values of `insert_plain`.
pub(super) fn insert_plain<'a>(
    values: &mut Vec<Value<'a>>,
    row: &NewRow<'a>,
    Statements { has_urgency, .. }: &Statements,
) -> Result<(), Fault> {
    let Job { id, due_at, priority, version, queue, kind, payload, origin, options, .. } = row.job;
    values.extend([id.get().into(), (*due_at).into(), (*priority).into(), (*version).into()]);
    values.extend([queue.into(), kind.into(), (&**payload).into(), row.bucket.into()]);
    values.extend([origin.as_ref().into(), optional(options.as_ref())?]);
    values.extend(has_urgency.then(|| own_urgency(row)));
    Ok(())
}

/// The values of `end`, which are also the first ones of `change`.
pub(super) fn end<'a>(values: &mut Vec<Value<'a>>, row: &NewRow<'a>) {
    let job = row.job;
    values.extend([job.id.get(), job.due_at.0, job.first_due_at.0].map(Value::from));
    values.extend([job.priority, job.attempt, job.crashes].map(Value::from));
    values.extend([job.version, job.epoch, job.updated_at.0].map(Value::from));
    values.extend([job.started_at.into(), job.finished_at.into(), job.stage.code().into()]);
}

/// The values of `change`.
pub(super) fn change<'a>(
    values: &mut Vec<Value<'a>>,
    row: &NewRow<'a>,
    Statements { has_urgency, .. }: &Statements,
) -> Result<(), Fault> {
    let job = row.job;
    end(values, row);
    values.extend([job.lease_until.into(), job.cancel_asked.into(), list(&job.errors)?]);
    values.extend([job.message.as_ref().into(), job.result.as_deref().into(), optional(job.progress.as_ref())?]);
    values.extend(bucket_and_urgency(row, *has_urgency));
    values.push(optional(job.options.as_ref())?);
    Ok(())
}

/// Only pending rows have a bucket.
fn bucket_and_urgency<'a>(row: &NewRow<'a>, has_urgency: bool) -> impl Iterator<Item = Value<'a>> {
    let bucket = row.job.is_pending().then_some(row.bucket);
    let urgency = has_urgency.then(|| own_urgency(row));
    [Some(bucket.into()), urgency, Some(key_order(row.job, row.live_key.is_some()).into())].into_iter().flatten()
}

/// The sort key of rows in the overflow, if that is one column.
pub(super) fn urgency(queue: &str, priority: u32, due_at: u64) -> Value<'static> {
    // Queue names contain no zero byte, so keys sort by name first.
    [queue.as_bytes(), &[0], &priority.to_be_bytes(), &due_at.to_be_bytes()].concat().into()
}

fn own_urgency(row: &NewRow<'_>) -> Value<'static> {
    let job = row.job;
    let is_over = row.bucket == OVERFLOW_BUCKET && job.is_pending();
    if is_over { urgency(&job.queue, job.priority, job.due_at.0) } else { Value::Null }
}

/// Reads [`columns`](super::statements::columns).
pub(super) fn job(row: &Row) -> Result<Job, Fault> {
    Ok(Job {
        id: id(row)?,
        due_at: Timestamp(row.number(1)?),
        first_due_at: Timestamp(row.number(2)?),
        priority: row.small(3)?,
        attempt: row.small(4)?,
        crashes: row.small(5)?,
        version: row.number(6)?,
        epoch: row.number(7)?,
        created_at: Timestamp(row.number(8)?),
        updated_at: Timestamp(row.number(9)?),
        started_at: row.optional_number(10)?.map(Timestamp),
        finished_at: row.optional_number(11)?.map(Timestamp),
        lease_until: row.optional_number(12)?.map(Timestamp),
        lease: row.optional_number(13)?.map(Span),
        expires: row.optional_number(14)?.map(Span),
        stage: stage(row, 15)?,
        key_until: key_until(row.whole(16)?)?,
        cancel_asked: row.whole(17)? != 0,
        queue: row.text(18)?,
        kind: row.text(19)?,
        key: row.optional_text(20)?,
        origin: row.optional_text(28)?,
        options: parsed(row, 21)?.map(Arc::new),
        tags: parsed(row, 22)?.unwrap_or_default(),
        errors: parsed(row, 23)?.unwrap_or_default(),
        message: row.optional_text(24)?,
        result: row.bytes(25)?.map(Arc::from),
        payload: row.bytes(26)?.unwrap_or_default().into(),
        progress: parsed(row, 27)?.map(Arc::new),
    })
}

/// Reads the columns id, version, state.
pub(super) fn version(row: &Row) -> Result<(JobId, (u64, Stage)), Fault> {
    Ok((id(row)?, (row.number(1)?, stage(row, 2)?)))
}

/// Reads the columns id, version, epoch, queue, state, held key, tags.
pub(super) fn head(row: &Row) -> Result<Head, Fault> {
    Ok(Head {
        id: id(row)?,
        version: row.number(1)?,
        epoch: row.number(2)?,
        queue: row.text(3)?,
        stage: stage(row, 4)?,
        live_key: row.optional_text(5)?,
        tags: parsed(row, 6)?.unwrap_or_default(),
    })
}

/// Reads [`hit`](super::statements::hit).
pub(super) fn hit(row: &Row) -> Result<Hit, Fault> {
    Ok(Hit {
        id: id(row)?,
        bucket: row.whole(1)?,
        due_at: row.number(2)?,
        finished_at: row.optional_number(8)?,
        stage: stage(row, 3)?,
        is_leased: row.whole(4)? != 0,
        queue: row.text(5)?,
        kind: row.text(6)?,
        bytes: usize::try_from(row.whole(7)?).unwrap_or(0),
    })
}

/// Reads an id in the first column.
pub(super) fn id(row: &Row) -> Result<JobId, Fault> {
    let number = row.whole(0)?;
    u64::try_from(number).ok().and_then(JobId::new).ok_or_else(|| Fault::damaged("id", number))
}

/// Reads the columns name, body, version.
pub(super) fn document(row: &Row) -> Result<Document, Fault> {
    Ok(Document { name: row.text(0)?.to_string(), body: row.text(1)?.to_string(), version: row.number(2)? })
}

/// Reads the columns of `inbox_rows`.
pub(super) fn inbox_row(row: &Row) -> Result<InboxRow, Fault> {
    // An invalid value here is not an error of this read.
    let said = |column| Ok::<_, Fault>(row.bytes(column)?.map(|bytes| String::from_utf8_lossy(bytes).into_owned()));
    Ok(InboxRow {
        number: row.whole(0)?,
        // The clock of the database may have been set back, or the row may name any time.
        age_ms: u64::try_from(row.whole(1)?.saturating_sub(row.whole(2)?)).unwrap_or(0),
        queue: said(3)?.unwrap_or_default(),
        kind: said(4)?.unwrap_or_default(),
        payload: row.bytes(5)?.unwrap_or_default().into(),
        due_at: row.optional(6)?,
        delay_ms: row.optional(7)?,
        key: said(8)?,
        tags: said(9)?,
        priority: row.optional(10)?,
        options: said(11)?,
        origin: None,
    })
}

fn key_until(code: i64) -> Result<KeyUntil, Fault> {
    u8::try_from(code).ok().and_then(KeyUntil::from_repr).ok_or_else(|| Fault::damaged("key_until", code))
}

fn stage(row: &Row, column: usize) -> Result<Stage, Fault> {
    let code = row.whole(column)?;
    u8::try_from(code).ok().and_then(Stage::from_code).ok_or_else(|| Fault::damaged("state", code))
}

/// The columns of a rewritten row besides its state, then its id.
pub(super) fn rewritten(job: &Job) -> Result<[Value<'_>; 8], Fault> {
    let Job { id, kind, payload, tags, options, lease, expires, key_until, .. } = job;
    Ok([
        list(tags)?,
        (&**payload).into(),
        optional(options.as_ref())?,
        kind.into(),
        (*lease).into(),
        (*expires).into(),
        (*key_until as u8).into(),
        id.get().into(),
    ])
}

/// JSON, or NULL for nothing.
fn optional<T: Serialize>(value: Option<&T>) -> Result<Value<'static>, Fault> {
    let json = value.map(serde_json::to_string).transpose();
    json.map(Value::from).map_err(|error| Error::invalid("job", "writable as JSON", error).into())
}

/// JSON, or NULL for an empty list.
pub(super) fn list<T: Serialize>(items: &[T]) -> Result<Value<'static>, Fault> {
    optional((!items.is_empty()).then_some(&items))
}

fn parsed<T: DeserializeOwned>(row: &Row, column: usize) -> Result<Option<T>, Fault> {
    let json = row.bytes(column)?;
    json.map(serde_json::from_slice).transpose().map_err(|error| Fault::damaged("JSON", error))
}

/// Refuses numbers that no server can store.
pub(super) fn check(job: &Job) -> Result<(), Error> {
    let times = [job.due_at, job.first_due_at, job.created_at, job.updated_at].map(Some);
    let times = times.into_iter().chain([job.started_at, job.finished_at, job.lease_until]).flatten().map(|at| at.0);
    let spans = [job.lease, job.expires].into_iter().flatten().map(|span| span.0);
    let mut numbers = times.chain(spans).chain([job.version, job.epoch]);
    match numbers.find(|&number| i64::try_from(number).is_err()) {
        Some(number) => Err(Error::invalid("number", "below 2^63", number)),
        None => Ok(()),
    }
}

/// A failed job. Its message is cut between bytes.
pub(super) fn failed(row: &Row) -> Result<FailedJob, Fault> {
    Ok(FailedJob {
        id: id(row)?,
        queue: row.text(1)?,
        kind: row.text(2)?,
        finished_at: row.number(3)?,
        message: String::from_utf8_lossy(row.bytes(4)?.unwrap_or_default()).into_owned(),
    })
}
