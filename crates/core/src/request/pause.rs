//! Pauses of queues and schedules.

use crate::clock::Millis;
use crate::invalid::Invalid;
use crate::json::{Span, Timestamp};
use crate::limits::DELAY_MS_MAX;

/// When a pause ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum Pause {
    /// It lasts until it is resumed.
    UntilResumed,
    /// It ends after this time: at least 1 ms, at most 10 years.
    For(Span),
    /// It ends at this instant, at most 10 years ahead.
    Until(Timestamp),
}

impl Pause {
    /// A pause that ends after this time: at least 1 ms, at most 10 years.
    pub fn lasting(time: impl Into<Span>) -> Self {
        Self::For(time.into())
    }

    /// A pause that ends at this instant, at most 10 years ahead.
    pub fn until(at: impl Into<Timestamp>) -> Self {
        Self::Until(at.into())
    }

    /// When a pause that begins now ends; `None` if it lasts until it is resumed.
    pub(crate) fn end(self, now: Millis) -> Result<Option<Millis>, Invalid> {
        match self {
            Self::UntilResumed => Ok(None),
            Self::For(time) => time.check("for", 1, DELAY_MS_MAX).map(|()| Some(now + time.0)),
            Self::Until(Timestamp(at)) if at <= now || at - now > DELAY_MS_MAX => {
                let expected = format!("an instant within the next 10 years; it is {}", Timestamp(now));
                Err(Invalid::new("until", expected, Timestamp(at)))
            }
            Self::Until(Timestamp(at)) => Ok(Some(at)),
        }
    }
}
