//! New values of waiting jobs.

use super::push::{due, show_due};
use super::query_string::once;
use super::{Span, Timestamp};
use crate::json::{Base64, bytes_of, raw, show_bytes};
use crate::request::{self, Query};
use crate::{Due, Error, Millis};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// New values of a waiting job. Fields that are left out stay unchanged.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Patch<'a> {
    /// The delay from now. Give at most one of four fields.
    pub delay: Option<Span>,
    /// Alternative to `delay`.
    #[cfg_attr(feature = "openapi", schema(maximum = 315_576_000_000u64))]
    pub delay_ms: Option<u64>,
    /// Alternative to `delay`.
    pub due_at: Option<Timestamp>,
    /// Alternative to `delay`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>, minimum = 100_000_000_000u64))]
    pub due_at_ms: Option<Millis>,
    /// The priority; 0 is the most urgent.
    pub priority: Option<u32>,
    /// JSON.
    #[cfg_attr(feature = "openapi", schema(value_type = Value))]
    #[serde(default, borrow, deserialize_with = "raw")]
    pub payload: Option<&'a RawValue>,
    /// The payload in base64, if it is not JSON.
    #[serde(default, borrow)]
    pub payload_base64: Option<Base64<'a>>,
}

impl TryFrom<Patch<'_>> for request::Patch {
    type Error = Error;

    fn try_from(patch: Patch<'_>) -> Result<Self, Error> {
        Ok(Self {
            due: due(patch.delay, patch.delay_ms, patch.due_at, patch.due_at_ms)?,
            priority: patch.priority,
            payload: bytes_of("payload", patch.payload, patch.payload_base64)?,
        })
    }
}

impl<'a> From<&'a request::Patch> for Patch<'a> {
    fn from(patch: &'a request::Patch) -> Self {
        let (payload, payload_base64) = patch.payload.as_deref().map_or((None, None), show_bytes);
        let (delay_ms, due_at_ms) = patch.due.map_or((None, None), show_new_due);
        Self { delay_ms, due_at_ms, priority: patch.priority, payload, payload_base64, ..Self::default() }
    }
}

/// A selection of jobs and their new due time, in one of the other fields.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Reschedule {
    /// The jobs.
    pub selection: Query,
    /// The delay from the beginning of the request. `0s` runs the jobs now.
    pub delay: Option<Span>,
    /// Alternative to `delay`.
    #[cfg_attr(feature = "openapi", schema(maximum = 315_576_000_000u64))]
    pub delay_ms: Option<u64>,
    /// Alternative to `delay`.
    pub due_at: Option<Timestamp>,
    /// Alternative to `delay`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>, minimum = 100_000_000_000u64))]
    pub due_at_ms: Option<Millis>,
    /// Spreads the jobs over this span from the new due time on, at most 24 h: each has its place by its id. With the delay `0s`, no job
    /// becomes due later than it is.
    pub spread: Option<Span>,
}

impl Reschedule {
    /// The body for it.
    pub fn new(selection: Query, to: Due) -> Self {
        let (delay_ms, due_at_ms) = show_new_due(to);
        Self { selection, delay: None, delay_ms, due_at: None, due_at_ms, spread: None }
    }

    /// The new due time.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the body does not say it, or says it twice.
    pub fn due(&self) -> Result<Due, Error> {
        let due = due(self.delay, self.delay_ms, self.due_at, self.due_at_ms)?;
        due.ok_or_else(|| {
            Error::invalid("delay", "given, or one of `delay_ms`, `due_at` and `due_at_ms`", "none of them")
        })
    }
}

/// Reads `spread=10m` from the query string of a request; by default there is none.
///
/// # Errors
/// [`Error::Invalid`] for anything else.
pub fn spread(text: &str) -> Result<Option<Span>, Error> {
    let mut spread = None;
    for (name, value) in form_urlencoded::parse(text.as_bytes()) {
        if name != "spread" {
            return Err(Error::invalid(name.into_owned(), "`spread`", crate::invalid::UNKNOWN));
        }
        let read = value.parse().map_err(|why: String| Error::invalid("spread", "a duration such as \"10m\"", why))?;
        once("spread", &mut spread, read)?;
    }
    Ok(spread)
}

/// `delay_ms` and `due_at_ms` of a body that changes nothing without them: it has to say "now", too.
fn show_new_due(due: Due) -> (Option<u64>, Option<Millis>) {
    show_due(if due == Due::Now { Due::After(Span(0)) } else { due })
}
