//! Keys, which make a job unique in its queue.

use super::job::Job;
use crate::clock::Millis;
use crate::invalid::Invalid;
use crate::json::{Span, Timestamp};
use crate::limits::DELAY_MS_MAX;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// What a push does if its key is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum OnConflict {
    /// Keeps the holder, and returns it.
    #[default]
    Keep,
    /// Gives the holder everything that was sent, and starts it anew: its attempts, crashes, errors, message and progress are
    /// gone. It keeps its id, its origin and its time of creation. A holder that is running is a conflict.
    Replace,
    /// Answers [`Error::KeyConflict`](crate::Error::KeyConflict).
    Reject,
    /// Replaces the holder as above, and postpones it. The job has no other due time.
    #[serde(untagged)]
    Debounce(Debounce),
}

impl OnConflict {
    /// Until when a job holds its key by default: what is pushed while a debounced job runs is another job.
    #[doc(hidden)]
    pub fn key_until(self) -> KeyUntil {
        match self {
            Self::Debounce(_) => KeyUntil::Started,
            Self::Keep | Self::Replace | Self::Reject => KeyUntil::Finished,
        }
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for OnConflict {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        let span =
            |description: &str| serde_json::json!({"type": "string", "description": description, "examples": ["10s"]});
        crate::json::schema::literal(serde_json::json!({
            "description": "What a push does if its key is held.",
            "oneOf": [
                {"type": "string", "enum": ["keep"], "description": "Keeps the holder, and returns it."},
                {"type": "string", "enum": ["replace"], "description": "Gives the holder everything that was sent, and starts it anew. \
                    It keeps its id, its origin and its time of creation. A holder that is running is a conflict."},
                {"type": "string", "enum": ["reject"], "description": "Answers with the problem `key_conflict`."},
                {
                    "type": "object",
                    "description": "Replaces the holder, and postpones it: many pushes become one job, which runs once they have stopped.",
                    "properties": {
                        "debounce": span("The job is due this long after the last of these pushes: 1 ms to 10 years."),
                        "at_latest": span("It is due no later than this long after the first of them; no limit by default."),
                    },
                    "required": ["debounce"],
                    "additionalProperties": false,
                },
            ],
        }))
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for OnConflict {}

/// By hand: the error of a derived one names no accepted value.
impl<'de> Deserialize<'de> for OnConflict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordOrObject)
    }
}

struct WordOrObject;

impl<'de> Visitor<'de> for WordOrObject {
    type Value = OnConflict;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a word or an object")
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<OnConflict, E> {
        match word {
            "keep" => Ok(OnConflict::Keep),
            "replace" => Ok(OnConflict::Replace),
            "reject" => Ok(OnConflict::Reject),
            _ => Err(E::unknown_variant(word, &["keep", "replace", "reject"])),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OnConflict, A::Error> {
        Debounce::deserialize(MapAccessDeserializer::new(map)).map(OnConflict::Debounce)
    }
}

/// Many pushes with one key become one job, which runs once they have stopped for a while, with what the last one sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Debounce {
    /// The job is due this long after the last of these pushes: 1 ms to 10 years.
    pub debounce: Span,
    /// It is due no later than this long after the first of them, and no limit by default: `debounce` to 10 years.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_latest: Option<Span>,
}

impl Debounce {
    /// A quiet time of this length.
    pub fn new(quiet: impl Into<Span>) -> Self {
        Self { debounce: quiet.into(), at_latest: None }
    }

    /// Sets the longest time from the first push.
    #[must_use]
    pub fn at_latest(self, after: impl Into<Span>) -> Self {
        Self { at_latest: Some(after.into()), ..self }
    }

    pub(super) fn check(&self) -> Result<(), Invalid> {
        self.debounce.check("on_conflict.debounce", 1, DELAY_MS_MAX)?;
        let Some(at_latest) = self.at_latest else { return Ok(()) };
        if at_latest < self.debounce {
            let expected = format!("{} (`debounce`) or longer", self.debounce);
            return Err(Invalid::new("on_conflict.at_latest", expected, at_latest));
        }
        at_latest.check("on_conflict.at_latest", 1, DELAY_MS_MAX)
    }

    /// The job that replaces the holder if this one is pushed now.
    pub(crate) fn postponed(&self, job: &Job, holder: &Job) -> Job {
        let latest = self.at_latest.map(|after| holder.created_at.0.saturating_add(after.0));
        let due_at = Timestamp(job.due_at.0.min(latest.unwrap_or(Millis::MAX)));
        Job { due_at, first_due_at: due_at, ..job.clone() }
    }
}

/// How long a key is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::FromRepr)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum KeyUntil {
    /// Until the job is in a final state.
    #[default]
    Finished = 0,
    /// Until the job is first handed out, so that an event during its run queues one more.
    Started = 1,
}
