//! Pauses of queues and schedules.

use crate::clock::Millis;
use crate::invalid::Invalid;
use crate::json::{Instant, Span};
use crate::limits::DELAY_MS_MAX;

/// When a pause ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// It lasts until it is resumed.
    UntilResumed,
    /// It ends after this many milliseconds: at least 1, at most 10 years.
    For(u64),
    /// It ends at this instant, in milliseconds since 1970, at most 10 years ahead.
    Until(Millis),
}

impl Pause {
    /// When a pause that begins now ends; `None` if it lasts until it is resumed.
    pub(crate) fn end(self, now: Millis) -> Result<Option<Millis>, Invalid> {
        match self {
            Self::UntilResumed => Ok(None),
            Self::For(span_ms) => Span(span_ms).check("for", 1, DELAY_MS_MAX).map(|()| Some(now + span_ms)),
            Self::Until(at) if at <= now || at - now > DELAY_MS_MAX => {
                let expected = format!("an instant within the next 10 years; it is {}", Instant(now));
                Err(Invalid::new("until", expected, Instant(at)))
            }
            Self::Until(at) => Ok(Some(at)),
        }
    }
}
