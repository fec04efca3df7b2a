//! When something happened.

use crate::clock::Millis;

/// Both clocks, and the life of the process.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub(super) wall: Millis,
    pub(super) mono: Millis,
    pub(super) life: u64,
    /// The number of steps of the wall clock.
    pub(super) wall_steps: u64,
}

/// When a request about a job was sent: later events may say more than the answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestTime {
    pub(super) life: u64,
    pub(super) revivals: u64,
}

/// A lease as its holder sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) epoch: u64,
    pub(super) began: At,
    pub(super) until: Millis,
    /// Whether a caller has got it.
    pub(super) is_claimed: bool,
}

impl Span {
    /// Whether no other caller may have the job. A lease that did not reach its caller was given back.
    pub(super) fn holds(&self, at: At, callers_went: bool) -> bool {
        self.until > at.mono && (self.is_claimed || !callers_went)
    }
}
