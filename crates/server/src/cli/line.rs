//! The lines of an export: a head, the settings of queues, jobs, and an end that says how many there were.

use super::exit::{Failure, Result};
use duetime::wire::{Configured, Instant, JobBody};
use duetime_core::{Job, Millis};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::io::Write;

/// The version of the format that is written, and the last one that is read.
pub(super) const VERSION: u32 = 1;

/// A line: an object with one field, which says what it is.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line<'a> {
    /// The first one.
    DuetimeExport(Head),
    /// The settings of a queue.
    Queue(Configured),
    /// A job with everything that is known of it.
    #[serde(borrow)]
    Job(Box<JobBody<'a>>),
    /// The last one: an export without it was cut off.
    End(Sums),
}

/// What is said before all else.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) version: u32,
    /// By which version of Duetime.
    pub(super) by: String,
    pub(super) exported_at: Instant,
    /// About so many follow.
    pub(super) jobs: u64,
}

/// How many lines of which kind there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sums {
    pub(super) queues: u64,
    pub(super) jobs: u64,
}

impl Line<'_> {
    /// Writes it, on one line.
    pub(super) fn write(&self, out: &mut impl Write) -> Result {
        serde_json::to_writer(&mut *out, self)?;
        Ok(out.write_all(b"\n")?)
    }
}

/// The line of a job.
pub(super) fn of_job(job: &Job, now: Millis) -> Line<'_> {
    let mut body = JobBody::new(job, now);
    // JSON of several lines would make several lines.
    if body.payload.is_some_and(|json| json.get().contains(['\n', '\r'])) {
        (body.payload, body.payload_base64) = (None, Some(duetime::wire::Base64(Cow::Borrowed(&job.payload))));
    }
    if let Some(result) = job.result.as_deref().filter(|result| result.contains(&b'\n') || result.contains(&b'\r')) {
        (body.result, body.result_base64) = (None, Some(duetime::wire::Base64(Cow::Borrowed(result))));
    }
    Line::Job(Box::new(body))
}

/// Whether this version reads the lines behind this head.
pub(super) fn check(head: &Head) -> Result {
    if head.version > VERSION {
        let text = format!("expected an export of the version {VERSION} or before, got {}", head.version);
        return Err(Failure::error(text).hint(format!("import it with Duetime {} or later", head.by)));
    }
    Ok(())
}
