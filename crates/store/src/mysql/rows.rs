//! Rows from MySQL or MariaDB, and what a row has for a statement's places.

use crate::sql::{
    self, Changed, Fault, Head, Held, Hit, Inserted, RawJob, age_ms, job_options, list, number, progress, signed, text,
};
use duetime_core::ports::{Document, InboxRow, LeaseNote, OVERFLOW_BUCKET};
use duetime_core::{Job, JobId, KeyUntil};
use mysql_async::{Row, Value};
use std::sync::Arc;

fn optional(number: Option<u64>) -> Value {
    number.map(signed).into()
}

fn bytes(bytes: Option<&[u8]>) -> Value {
    bytes.map_or(Value::NULL, |bytes| Value::Bytes(bytes.to_vec()))
}

/// The places of `INSERT`.
pub(super) fn insert(row: &Inserted<'_>) -> Result<Vec<Value>, Fault> {
    let job = row.job;
    let mut values: Vec<Value> = [
        job.id.get(),
        job.due_at,
        job.first_due_at,
        job.priority.into(),
        job.attempt.into(),
        job.crashes.into(),
        job.version,
        job.epoch,
        job.created_at,
        job.updated_at,
    ]
    .map(|number| signed(number).into())
    .to_vec();
    values.extend([job.started_at, job.finished_at, job.lease_until, job.lease_ms, job.expires_ms].map(optional));
    let key_until: i64 = match job.key_until {
        KeyUntil::Finished => 0,
        KeyUntil::Started => 1,
    };
    values.extend([i64::from(job.stage.code()), key_until, i64::from(job.cancel_asked)].map(Value::from));
    values.extend([
        bytes(Some(job.queue.as_bytes())),
        bytes(Some(job.kind.as_bytes())),
        bytes(job.key.as_ref().map(|key| key.as_bytes())),
        job_options(job)?.into(),
        list(&job.tags)?.into(),
        list(&job.errors)?.into(),
        bytes(job.message.as_ref().map(|message| message.as_bytes())),
        bytes(job.result.as_deref()),
        bytes(Some(&job.payload)),
        progress(job)?.into(),
    ]);
    values.extend(filing(row));
    Ok(values)
}

/// The places of `INSERT_PLAIN`.
pub(super) fn insert_plain(row: &Inserted<'_>) -> Vec<Value> {
    let job = row.job;
    let mut values = Vec::with_capacity(12);
    let numbers = [job.id.get(), job.due_at, job.due_at, job.priority.into(), job.version, job.version, job.version];
    values.extend(numbers.map(|number| Value::from(signed(number))));
    values.extend([job.queue.as_bytes(), job.kind.as_bytes(), &job.payload].map(|text| bytes(Some(text))));
    values.extend([row.bucket.into(), own_urgency(row)]);
    values
}

/// The places of `END`, with which those of `CHANGE` begin.
pub(super) fn end(row: &Changed<'_>) -> Vec<Value> {
    let job = row.job;
    let mut values = Vec::with_capacity(19);
    let numbers = [
        job.id.get(),
        job.due_at,
        job.first_due_at,
        job.priority.into(),
        job.attempt.into(),
        job.crashes.into(),
        job.version,
        job.epoch,
        job.updated_at,
    ];
    values.extend(numbers.map(|number| Value::from(signed(number))));
    values.extend([job.started_at, job.finished_at].map(optional));
    values.push(i64::from(job.stage.code()).into());
    values
}

/// The places of `CHANGE`.
pub(super) fn change(row: &Changed<'_>) -> Result<Vec<Value>, Fault> {
    let job = row.job;
    let mut values = end(row);
    values.extend([optional(job.lease_until), i64::from(job.cancel_asked).into()]);
    values.extend([
        list(&job.errors)?.into(),
        bytes(job.message.as_ref().map(|message| message.as_bytes())),
        bytes(job.result.as_deref()),
        progress(job)?.into(),
    ]);
    values.extend(filing(row));
    Ok(values)
}

/// Only pending rows are filed: these servers have no indexes over a part of the rows but that of what is not NULL.
fn filing(row: &Inserted<'_>) -> [Value; 3] {
    let bucket = row.job.is_pending().then_some(row.bucket);
    [bucket.into(), own_urgency(row), bytes(row.live_key.map(|key| key.as_bytes()))]
}

/// What rows in the overflow are ordered by: they have no index of their own.
pub(super) fn urgency(queue: &str, priority: u32, due_at: u64) -> Vec<u8> {
    // No name of a queue has a zero byte, so names are ordered by themselves, too.
    [queue.as_bytes(), &[0], &priority.to_be_bytes(), &due_at.to_be_bytes()].concat()
}

fn own_urgency(row: &Inserted<'_>) -> Value {
    let job = row.job;
    let is_over = row.bucket == OVERFLOW_BUCKET && job.is_pending();
    bytes(is_over.then(|| urgency(&job.queue, job.priority, job.due_at)).as_deref())
}

/// The places of `LEASE`.
pub(super) fn lease(lease: &LeaseNote) -> Vec<Value> {
    let LeaseNote { id, version, epoch, attempt, lease_until, started_at, updated_at, frees_key } = *lease;
    [id.get(), version, epoch, attempt.into(), lease_until, started_at, updated_at, frees_key.into()]
        .map(|number| signed(number).into())
        .to_vec()
}

fn value(row: &Row, column: usize) -> Result<&Value, Fault> {
    row.as_ref(column).ok_or_else(|| Fault::damaged("a row", "too few columns"))
}

fn optional_number(row: &Row, column: usize) -> Result<Option<i64>, Fault> {
    match value(row, column)? {
        Value::NULL => Ok(None),
        Value::Int(number) => Ok(Some(*number)),
        Value::UInt(number) => Ok(Some(signed(*number))),
        // Without preparing, numbers come as text.
        Value::Bytes(text) => {
            let parsed = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
            parsed.map(Some).ok_or_else(|| Fault::damaged("a number", "text"))
        }
        other => Err(Fault::damaged("a number", other.as_sql(true))),
    }
}

/// A number that is there.
pub(super) fn whole(row: &Row, column: usize) -> Result<i64, Fault> {
    optional_number(row, column)?.ok_or_else(|| Fault::damaged("a number", "NULL"))
}

fn small(row: &Row, column: usize) -> Result<i16, Fault> {
    let number = whole(row, column)?;
    i16::try_from(number).map_err(|_| Fault::damaged("a small number", number))
}

fn borrowed(row: &Row, column: usize) -> Result<Option<&[u8]>, Fault> {
    match value(row, column)? {
        Value::NULL => Ok(None),
        Value::Bytes(bytes) => Ok(Some(bytes)),
        other => Err(Fault::damaged("text", other.as_sql(true))),
    }
}

/// Text that is there.
pub(super) fn shared(row: &Row, column: usize) -> Result<Arc<str>, Fault> {
    text(borrowed(row, column)?.unwrap_or_default())
}

/// Of the columns of `JOBS`.
pub(super) fn job(mut row: Row) -> Result<Job, Fault> {
    let mut numbers = [0; 9];
    for (number, column) in numbers.iter_mut().zip(1..) {
        *number = whole(&row, column)?;
    }
    let mut options = [None; 5];
    for (option, column) in options.iter_mut().zip(10..) {
        *option = optional_number(&row, column)?;
    }
    let (id, state, key_until, cancel_asked) =
        (whole(&row, 0)?, small(&row, 15)?, small(&row, 16)?, whole(&row, 17)? != 0);
    let mut taken = |column| match row.take::<Value, usize>(column) {
        Some(Value::Bytes(bytes)) => Some(bytes),
        _ => None,
    };
    let raw = RawJob {
        id,
        numbers,
        options,
        state,
        key_until,
        cancel_asked,
        queue: taken(18).unwrap_or_default(),
        kind: taken(19).unwrap_or_default(),
        key: taken(20),
        job_options: taken(21),
        tags: taken(22),
        errors: taken(23),
        message: taken(24),
        result: taken(25),
        payload: taken(26).unwrap_or_default(),
        progress: taken(27),
    };
    raw.job()
}

/// Of the columns of `HEADS`.
pub(super) fn head(row: &Row) -> Result<Head, Fault> {
    let (id, version, epoch, state) = (whole(row, 0)?, whole(row, 1)?, whole(row, 2)?, small(row, 4)?);
    Head::new(id, version, epoch, borrowed(row, 3)?.unwrap_or_default(), state, borrowed(row, 5)?, borrowed(row, 6)?)
}

/// Of the columns of a statement that looks.
pub(super) fn hit(row: &Row) -> Result<Hit, Fault> {
    Ok(Hit {
        id: sql::id(whole(row, 0)?)?,
        bucket: whole(row, 1)?,
        due_at: number(whole(row, 2)?)?,
        stage: sql::stage(small(row, 3)?)?,
        is_leased: whole(row, 4)? != 0,
        queue: shared(row, 5)?,
        kind: shared(row, 6)?,
        bytes: usize::try_from(whole(row, 7)?).unwrap_or(0),
    })
}

/// Of a first column.
pub(super) fn id(row: &Row) -> Result<JobId, Fault> {
    sql::id(whole(row, 0)?)
}

/// Of the columns of `HOLDERS`.
pub(super) fn holder(row: &Row) -> Result<Held, Fault> {
    Ok(((shared(row, 0)?, shared(row, 1)?), sql::id(whole(row, 2)?)?))
}

/// Of four columns from the second one.
pub(super) fn counts<const COUNT: usize>(row: &Row) -> Result<[i64; COUNT], Fault> {
    let mut counts = [0; COUNT];
    for (place, count) in (1..).zip(&mut counts) {
        *count = whole(row, place)?;
    }
    Ok(counts)
}

/// Of the columns of `DOCUMENT`.
pub(super) fn document(row: &Row) -> Result<Document, Fault> {
    let (name, body) = (shared(row, 0)?.to_string(), shared(row, 1)?.to_string());
    Ok(Document { name, body, version: number(whole(row, 2)?)? })
}

/// Of the columns of `INBOX_HITS`.
pub(super) fn inbox_hit(row: &Row) -> Result<(i64, usize), Fault> {
    Ok((whole(row, 0)?, usize::try_from(whole(row, 1)?).unwrap_or(0)))
}

/// Of the columns of `INBOX_ROWS`.
pub(super) fn inbox_row(mut row: Row) -> Result<InboxRow, Fault> {
    let payload = row.take::<Value, usize>(5);
    let said = |column| -> Result<Option<String>, Fault> {
        Ok(borrowed(&row, column)?.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
    };
    Ok(InboxRow {
        number: whole(&row, 0)?,
        age_ms: age_ms(whole(&row, 1)?, whole(&row, 2)?),
        queue: said(3)?.unwrap_or_default(),
        kind: said(4)?.unwrap_or_default(),
        payload: if let Some(Value::Bytes(bytes)) = payload { bytes.into() } else { Arc::default() },
        due_at: optional_number(&row, 6)?,
        delay_ms: optional_number(&row, 7)?,
        key: said(8)?,
        tags: said(9)?,
        priority: optional_number(&row, 10)?,
        options: said(11)?,
    })
}
