//! Which due instants are looked at.

use crate::clock::Millis;

/// Which due instants to look at, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first.
    pub from: Millis,
    /// The last; the broker's now where it is later.
    pub to: Millis,
}

impl Window {
    /// All that is due.
    pub const ALL: Self = Self { from: 0, to: Millis::MAX };
}
