//! A schedule as JSON, for the registry.

use super::{Missed, Overlap, Schedule, Timing};
use crate::api::InboxOptions;
use crate::clock::Millis;
use crate::error::Error;
use crate::job::NewJob;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::sync::Arc;

/// A [`Schedule`] as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cron: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time_zone: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    every_ms: Option<u64>,
    job: Template,
    missed: Missed,
    overlap: Overlap,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start: Option<Millis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<Millis>,
}

/// The job of a schedule as it is stored. A payload that is text stays readable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Template {
    queue: Arc<str>,
    kind: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload_hex: Option<String>,
    priority: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<Arc<str>>,
    #[serde(default, skip_serializing_if = "InboxOptions::is_empty")]
    options: InboxOptions,
}

impl From<&Schedule> for Stored {
    fn from(schedule: &Schedule) -> Self {
        let (cron, time_zone, every_ms) = match &schedule.timing {
            Timing::Cron { expression, time_zone } => (Some(expression.clone()), Some(time_zone.clone()), None),
            Timing::Every(ms) => (None, None, Some(*ms)),
        };
        let Schedule { ref job, missed, overlap, start, end, .. } = *schedule;
        Self { cron, time_zone, every_ms, job: job.into(), missed, overlap, start, end }
    }
}

impl TryFrom<Stored> for Schedule {
    type Error = Error;

    fn try_from(stored: Stored) -> Result<Self, Error> {
        let Stored { cron, time_zone, every_ms, job, missed, overlap, start, end } = stored;
        let timing = match (cron, time_zone, every_ms) {
            (Some(expression), Some(time_zone), None) => Timing::Cron { expression, time_zone },
            (None, None, Some(ms)) => Timing::Every(ms),
            _ => return Err(Error::Damaged("a schedule says either `cron` and `time_zone`, or `every_ms`".into())),
        };
        Ok(Self { timing, job: job.try_into()?, missed, overlap, start, end })
    }
}

impl From<&NewJob> for Template {
    fn from(job: &NewJob) -> Self {
        let text = std::str::from_utf8(&job.payload).ok();
        Self {
            queue: job.queue.clone(),
            kind: job.kind.clone(),
            payload: text.map(str::to_owned),
            payload_hex: text.is_none().then(|| hex(&job.payload)),
            priority: job.priority,
            key: job.key.clone(),
            tags: job.tags.clone(),
            options: job.into(),
        }
    }
}

impl TryFrom<Template> for NewJob {
    type Error = Error;

    fn try_from(template: Template) -> Result<Self, Error> {
        let Template { queue, kind, payload, payload_hex, priority, key, tags, options } = template;
        let bytes = match (payload, payload_hex) {
            (Some(text), None) => Some(text.into_bytes()),
            (None, Some(text)) => unhex(&text),
            _ => None,
        };
        let bytes = bytes.ok_or_else(|| Error::Damaged("the payload of a schedule does not read back".into()))?;
        let mut job = Self { queue, kind, priority, key, tags, ..Self::new(bytes) };
        options.apply(&mut job);
        Ok(job)
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a string takes all");
    }
    text
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let is_hex = text.len().is_multiple_of(2) && text.bytes().all(|b| b.is_ascii_hexdigit());
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).ok();
    is_hex.then(|| (0..text.len()).step_by(2).map(byte).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{KeyUntil, OnConflict};

    #[test]
    fn a_schedule_reads_back() {
        let plain = NewJob::new(*b"{}");
        let full = NewJob {
            queue: "reports".into(),
            kind: "nightly".into(),
            priority: 7,
            key: Some("k".into()),
            on_conflict: OnConflict::Reject,
            key_until: KeyUntil::Started,
            tags: vec!["a".into()],
            lease_ms: Some(90_000),
            ..NewJob::new(vec![0, 255, 16])
        };
        let cron = Timing::parse("0 3 * * *", Some("Europe/Berlin")).unwrap();
        for (timing, job) in [(cron, full), (Timing::Every(90_000), plain)] {
            let schedule = Schedule { end: Some(5), missed: Missed::Skip, ..Schedule::new(timing, job) };
            let text = serde_json::to_string(&Stored::from(&schedule)).unwrap();
            let back: Stored = serde_json::from_str(&text).unwrap();
            assert_eq!(Schedule::try_from(back).unwrap(), schedule, "{text}");
        }
    }

    #[test]
    fn what_does_not_read_back_is_damaged() {
        let job = r#""job":{"queue":"q","kind":"k","priority":1,"payload":"x"},"missed":"once","overlap":"allow""#;
        for text in [
            format!("{{{job}}}"),
            format!(r#"{{"cron":"* * * * *",{job}}}"#),
            format!(r#"{{"every_ms":5,{}}}"#, job.replace(r#""payload":"x""#, r#""payload_hex":"0g""#)),
            format!(r#"{{"every_ms":5,{}}}"#, job.replace(r#","payload":"x""#, "")),
        ] {
            let stored: Stored = serde_json::from_str(&text).unwrap();
            assert_eq!(Schedule::try_from(stored).unwrap_err().code(), "store_damaged", "{text}");
        }
    }
}
