//! When something happened.

use crate::clock::Millis;

/// Both clocks, and the life of the process.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub(super) wall: Millis,
    pub(super) mono: Millis,
    pub(super) life: u64,
    /// How often the wall clock was stepped.
    pub(super) wall_steps: u64,
}

/// When something was asked of a job: what happened since may say more than the answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
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
    /// Whether nobody else may have the job. What a caller that has gone away never got was given back.
    pub(super) fn holds(&self, at: At, callers_went: bool) -> bool {
        self.until > at.mono && (self.is_claimed || !callers_went)
    }
}
