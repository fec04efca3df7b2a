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
