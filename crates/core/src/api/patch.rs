//! New values of a waiting job.

use super::bytes::{Base64, bytes_of, raw, show_bytes};
use super::push::{due, show_due};
use super::{Instant, Span};
use crate::{Error, Millis, engine};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// New values of a waiting job; what is left out stays.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Patch<'a> {
    /// When it is to run, from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// In place of `delay`.
    #[cfg_attr(feature = "openapi", schema(maximum = 315_576_000_000u64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// In place of `delay`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Instant>,
    /// In place of `delay`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>, minimum = 100_000_000_000u64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at_ms: Option<Millis>,
    /// 0 is the most urgent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// JSON.
    #[cfg_attr(feature = "openapi", schema(value_type = Value))]
    #[serde(default, borrow, deserialize_with = "raw", skip_serializing_if = "Option::is_none")]
    pub payload: Option<&'a RawValue>,
    /// In place of `payload`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<super::schema::Base64>))]
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<Base64<'a>>,
}

impl TryFrom<Patch<'_>> for engine::Patch {
    type Error = Error;

    fn try_from(patch: Patch<'_>) -> Result<Self, Error> {
        Ok(Self {
            due: due(patch.delay, patch.delay_ms, patch.due_at, patch.due_at_ms)?,
            priority: patch.priority,
            payload: bytes_of("payload", patch.payload, patch.payload_base64)?,
        })
    }
}

impl<'a> From<&'a engine::Patch> for Patch<'a> {
    fn from(patch: &'a engine::Patch) -> Self {
        let (payload, payload_base64) = patch.payload.as_deref().map_or((None, None), show_bytes);
        // "Now" has to be said here, where nothing said means no change.
        let (delay_ms, due_at_ms) = match patch.due {
            Some(crate::Due::Now) => (Some(0), None),
            Some(due) => show_due(due),
            None => (None, None),
        };
        Self { delay_ms, due_at_ms, priority: patch.priority, payload, payload_base64, ..Self::default() }
    }
}
