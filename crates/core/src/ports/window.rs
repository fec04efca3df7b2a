//! Ranges of due times.

use crate::clock::Millis;

/// A range of due times, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first.
    pub from: Millis,
    /// The last; the broker's current time if that is earlier.
    pub to: Millis,
}

impl Window {
    /// All due times.
    pub const ALL: Self = Self { from: 0, to: Millis::MAX };
}
