//! The lines of an export: a head, the settings of queues, schedules, jobs, and an end that says how many there were.

use crate::cli::exit::{Failure, Result};
use duetime_core::api::{Base64, JobBody, ScheduleBody, Timestamp};
use duetime_core::engine::Configured;
use duetime_core::schedule::ScheduleStatus;
use duetime_core::{Job, Millis};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::io::Write;
use std::sync::Arc;

/// The version of the format that is written, and the latest one that can be read.
pub(crate) const VERSION: u32 = 1;

/// A line: an object with one field, which names its type.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line<'a> {
    /// The first one.
    DuetimeExport(Head),
    /// The settings of a queue.
    Queue(Box<Configured>),
    /// A schedule. It ticks from its import on.
    #[serde(borrow)]
    Schedule(Box<Named<'a>>),
    /// A job with everything that is known of it.
    #[serde(borrow)]
    Job(Box<JobBody<'a>>),
    /// The last one: an export without it was cut off.
    End(Sums),
}

/// The first line of an export.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) version: u32,
    /// The version of Duetime that wrote it.
    pub(crate) by: String,
    pub(crate) exported_at: Timestamp,
    /// About this many follow.
    pub(crate) jobs: u64,
}

/// A schedule with its name.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Named<'a> {
    pub(crate) name: Arc<str>,
    #[serde(borrow)]
    pub(crate) schedule: ScheduleBody<'a>,
}

/// The number of lines by type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sums {
    pub(crate) queues: u64,
    /// None in exports of before there were any.
    #[serde(default)]
    pub(crate) schedules: u64,
    pub(crate) jobs: u64,
}

impl Line<'_> {
    /// Writes it, on one line.
    pub(crate) fn write(&self, out: &mut impl Write) -> Result {
        serde_json::to_writer(&mut *out, self)?;
        Ok(out.write_all(b"\n")?)
    }
}

/// The line of a job.
pub(crate) fn of_job(job: &Job, now: Millis) -> Line<'_> {
    let mut body = JobBody::new(job, now);
    // JSON of several lines would make several lines.
    if body.payload.is_some_and(|json| json.get().contains(['\n', '\r'])) {
        (body.payload, body.payload_base64) = (None, Some(Base64(Cow::Borrowed(&job.payload))));
    }
    if let Some(result) = job.result.as_deref().filter(|result| result.contains(&b'\n') || result.contains(&b'\r')) {
        (body.result, body.result_base64) = (None, Some(Base64(Cow::Borrowed(result))));
    }
    Line::Job(Box::new(body))
}

/// The line of a schedule.
pub(crate) fn of_schedule(status: &ScheduleStatus) -> Line<'_> {
    let mut schedule = ScheduleBody::from(&status.schedule);
    let job = &mut schedule.job;
    if job.payload.is_some_and(|json| json.get().contains(['\n', '\r'])) {
        (job.payload, job.payload_base64) = (None, Some(Base64(Cow::Borrowed(&status.schedule.job.payload))));
    }
    Line::Schedule(Box::new(Named { name: status.name.clone(), schedule }))
}

/// Whether this version can read the lines after this head.
pub(crate) fn check(head: &Head) -> Result {
    if head.version > VERSION {
        let text = format!("the export has format version {}; this program reads up to {VERSION}", head.version);
        return Err(Failure::error(text).hint(format!("import it with Duetime {} or later", head.by)));
    }
    Ok(())
}
