//! Commands that push, show and change jobs.

pub(super) mod due;
pub(super) mod filter;
pub(super) mod get;
pub(super) mod job_args;
pub(super) mod list;
pub(super) mod many;
mod one;
pub(super) mod peek;
pub(super) mod push;
pub(super) mod update;
pub(super) mod why;
