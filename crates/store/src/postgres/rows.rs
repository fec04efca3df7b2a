//! Rows from PostgreSQL, and columns of many rows as arrays.

use super::session::shared;
use crate::sql::{
    self, Changed, Fault, Head, Held, Hit, Inserted, RawJob, age_ms, job_options, list, number, progress, signed,
};
use crate::sums::Sums;
use duetime_core::ports::{Document, InboxRow, LeaseNote};
use duetime_core::{Job, JobId, KeyUntil};
use std::sync::Arc;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// Columns of many rows, in the order of a statement's parameters.
#[derive(Default)]
pub(super) struct Arrays<'a>(Vec<Box<dyn ToSql + Sync + Send + 'a>>);

impl<'a> Arrays<'a> {
    fn add<T>(&mut self, column: impl Iterator<Item = T>)
    where
        T: 'a,
        Vec<T>: ToSql + Sync + Send,
    {
        self.0.push(Box::new(column.collect::<Vec<T>>()));
    }

    pub(super) fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.0.iter().map(|column| &**column as &(dyn ToSql + Sync)).collect()
    }
}

/// The parameters of `INSERT`.
pub(super) fn insert<'a>(arrays: &mut Arrays<'a>, rows: &[Inserted<'a>]) -> Result<(), Fault> {
    let jobs = || rows.iter().map(|row| row.job);
    let numbers: [fn(&Job) -> u64; 10] = [
        |job| job.id.get(),
        |job| job.due_at,
        |job| job.first_due_at,
        |job| job.priority.into(),
        |job| job.attempt.into(),
        |job| job.crashes.into(),
        |job| job.version,
        |job| job.epoch,
        |job| job.created_at,
        |job| job.updated_at,
    ];
    for number in numbers {
        arrays.add(jobs().map(|job| signed(number(job))));
    }
    let options: [fn(&Job) -> Option<u64>; 5] =
        [|job| job.started_at, |job| job.finished_at, |job| job.lease_until, |job| job.lease_ms, |job| job.expires_ms];
    for option in options {
        arrays.add(jobs().map(|job| option(job).map(signed)));
    }
    arrays.add(jobs().map(|job| i16::from(job.stage.code())));
    arrays.add(jobs().map(|job| key_until(job.key_until)));
    arrays.add(jobs().map(|job| job.cancel_asked));
    arrays.add(jobs().map(|job| &*job.queue));
    arrays.add(jobs().map(|job| job.kind.as_bytes()));
    arrays.add(jobs().map(|job| job.key.as_ref().map(|key| key.as_bytes())));
    arrays.add(jobs().map(job_options).collect::<Result<Vec<_>, _>>()?.into_iter());
    let tags = jobs().map(|job| list(&job.tags)).collect::<Result<Vec<_>, _>>()?;
    arrays.add(tags.into_iter());
    errors(arrays, rows)?;
    arrays.add(jobs().map(|job| job.message.as_ref().map(|message| message.as_bytes())));
    arrays.add(jobs().map(|job| job.result.as_deref()));
    arrays.add(jobs().map(|job| &*job.payload));
    arrays.add(jobs().map(progress).collect::<Result<Vec<_>, _>>()?.into_iter());
    filing(arrays, rows);
    Ok(())
}

/// The parameters of `INSERT_PLAIN`.
pub(super) fn insert_plain<'a>(arrays: &mut Arrays<'a>, rows: &[Inserted<'a>]) {
    let jobs = || rows.iter().map(|row| row.job);
    let numbers: [fn(&Job) -> u64; 4] =
        [|job| job.id.get(), |job| job.due_at, |job| job.priority.into(), |job| job.version];
    for number in numbers {
        arrays.add(jobs().map(|job| signed(number(job))));
    }
    arrays.add(jobs().map(|job| &*job.queue));
    arrays.add(jobs().map(|job| job.kind.as_bytes()));
    arrays.add(jobs().map(|job| &*job.payload));
    arrays.add(rows.iter().map(|row| row.bucket));
}

/// What `END` and `CHANGE` write alike.
fn outcome(arrays: &mut Arrays<'_>, rows: &[Changed<'_>]) {
    let jobs = || rows.iter().map(|row| row.job);
    let numbers: [fn(&Job) -> u64; 9] = [
        |job| job.id.get(),
        |job| job.due_at,
        |job| job.first_due_at,
        |job| job.priority.into(),
        |job| job.attempt.into(),
        |job| job.crashes.into(),
        |job| job.version,
        |job| job.epoch,
        |job| job.updated_at,
    ];
    for number in numbers {
        arrays.add(jobs().map(|job| signed(number(job))));
    }
    arrays.add(jobs().map(|job| job.started_at.map(signed)));
    arrays.add(jobs().map(|job| job.finished_at.map(signed)));
}

/// The parameters of `END`.
pub(super) fn end(arrays: &mut Arrays<'_>, rows: &[Changed<'_>]) {
    outcome(arrays, rows);
    arrays.add(rows.iter().map(|row| i16::from(row.job.stage.code())));
}

/// The parameters of `CHANGE`.
pub(super) fn change<'a>(arrays: &mut Arrays<'a>, rows: &[Changed<'a>]) -> Result<(), Fault> {
    outcome(arrays, rows);
    let jobs = || rows.iter().map(|row| row.job);
    arrays.add(jobs().map(|job| job.lease_until.map(signed)));
    arrays.add(jobs().map(|job| i16::from(job.stage.code())));
    arrays.add(jobs().map(|job| job.cancel_asked));
    errors(arrays, rows)?;
    arrays.add(jobs().map(|job| job.message.as_ref().map(|message| message.as_bytes())));
    arrays.add(jobs().map(|job| job.result.as_deref()));
    arrays.add(jobs().map(progress).collect::<Result<Vec<_>, _>>()?.into_iter());
    filing(arrays, rows);
    Ok(())
}

fn errors(arrays: &mut Arrays<'_>, rows: &[Inserted<'_>]) -> Result<(), Fault> {
    let errors = rows.iter().map(|row| list(&row.job.errors)).collect::<Result<Vec<_>, _>>()?;
    arrays.add(errors.into_iter());
    Ok(())
}

fn filing<'a>(arrays: &mut Arrays<'a>, rows: &[Inserted<'a>]) {
    arrays.add(rows.iter().map(|row| row.bucket));
    arrays.add(rows.iter().map(|row| row.live_key.map(|key| key.as_bytes())));
}

/// The parameters of `LEASE`.
pub(super) fn lease(arrays: &mut Arrays<'_>, leases: &[LeaseNote]) {
    let numbers: [fn(&LeaseNote) -> u64; 7] = [
        |lease| lease.id.get(),
        |lease| lease.version,
        |lease| lease.epoch,
        |lease| lease.attempt.into(),
        |lease| lease.lease_until,
        |lease| lease.started_at,
        |lease| lease.updated_at,
    ];
    for number in numbers {
        arrays.add(leases.iter().map(|lease| signed(number(lease))));
    }
    arrays.add(leases.iter().map(|lease| lease.frees_key));
}

fn key_until(key_until: KeyUntil) -> i16 {
    match key_until {
        KeyUntil::Finished => 0,
        KeyUntil::Started => 1,
    }
}

/// Of the columns of `JOBS`.
pub(super) fn job(row: &Row) -> Result<Job, Fault> {
    let number = |column: usize| row.try_get::<_, i64>(column);
    let option = |column: usize| row.try_get::<_, Option<i64>>(column);
    let bytes = |column: usize| row.try_get::<_, Option<Vec<u8>>>(column);
    let text = |column: usize| row.try_get::<_, Option<String>>(column).map(|text| text.map(String::into_bytes));
    let raw = RawJob {
        id: number(0)?,
        numbers: [
            number(1)?,
            number(2)?,
            number(3)?,
            number(4)?,
            number(5)?,
            number(6)?,
            number(7)?,
            number(8)?,
            number(9)?,
        ],
        options: [option(10)?, option(11)?, option(12)?, option(13)?, option(14)?],
        state: row.try_get(15)?,
        key_until: row.try_get(16)?,
        cancel_asked: row.try_get(17)?,
        queue: text(18)?.unwrap_or_default(),
        kind: bytes(19)?.unwrap_or_default(),
        key: bytes(20)?,
        job_options: text(21)?,
        tags: text(22)?,
        errors: text(23)?,
        message: bytes(24)?,
        result: bytes(25)?,
        payload: bytes(26)?.unwrap_or_default(),
        progress: text(27)?,
    };
    raw.job()
}

/// Of the columns of `HEADS`.
pub(super) fn head(row: &Row) -> Result<Head, Fault> {
    Head::new(
        row.try_get(0)?,
        row.try_get(1)?,
        row.try_get(2)?,
        row.try_get::<_, &str>(3)?.as_bytes(),
        row.try_get(4)?,
        row.try_get(5)?,
        row.try_get::<_, Option<&str>>(6)?.map(str::as_bytes),
    )
}

/// Of the columns of a statement that looks.
pub(super) fn hit(row: &Row) -> Result<Hit, Fault> {
    Ok(Hit {
        id: sql::id(row.try_get(0)?)?,
        bucket: row.try_get(1)?,
        due_at: number(row.try_get(2)?)?,
        stage: sql::stage(row.try_get(3)?)?,
        is_leased: row.try_get(4)?,
        queue: shared(row, 5)?,
        kind: sql::text(row.try_get(6)?)?,
        bytes: usize::try_from(row.try_get::<_, i32>(7)?).unwrap_or(0),
    })
}

/// Of a first column.
pub(super) fn ids(rows: &[Row]) -> Result<Vec<JobId>, Fault> {
    rows.iter().map(|row| sql::id(row.try_get(0)?)).collect()
}

/// Of the columns of `HOLDERS`.
pub(super) fn holder(row: &Row) -> Result<Held, Fault> {
    Ok(((shared(row, 0)?, sql::text(row.try_get(1)?)?), sql::id(row.try_get(2)?)?))
}

/// Of the columns of `TALLIES`.
pub(super) fn tally(row: &Row) -> Result<(Arc<str>, Sums), Fault> {
    let mut sums = crate::sums::NONE;
    for (place, sum) in (1..).zip(&mut sums) {
        *sum = row.try_get::<usize, i64>(place)?;
    }
    Ok((shared(row, 0)?, sums))
}

/// Of the columns of `DOCUMENT`.
pub(super) fn document(row: &Row) -> Result<Document, Fault> {
    Ok(Document { name: row.try_get(0)?, body: row.try_get(1)?, version: number(row.try_get(2)?)? })
}

/// Of the columns of `INBOX_HITS`.
pub(super) fn inbox_hit(row: &Row) -> Result<(i64, usize), Fault> {
    Ok((row.try_get(0)?, usize::try_from(row.try_get::<_, i64>(1)?).unwrap_or(0)))
}

/// Of the columns of `INBOX_ROWS`.
pub(super) fn inbox_row(row: &Row) -> Result<InboxRow, Fault> {
    Ok(InboxRow {
        number: row.try_get(0)?,
        age_ms: age_ms(row.try_get(1)?, row.try_get(2)?),
        queue: row.try_get(3)?,
        kind: row.try_get(4)?,
        payload: row.try_get::<_, &[u8]>(5)?.into(),
        due_at: row.try_get(6)?,
        delay_ms: row.try_get(7)?,
        key: row.try_get(8)?,
        tags: row.try_get(9)?,
        priority: row.try_get(10)?,
        options: row.try_get(11)?,
    })
}
