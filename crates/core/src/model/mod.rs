//! The model: jobs, their options and their names.

pub mod edit;
pub mod follow_up;
pub mod id;
pub mod job;
pub(super) mod key;
pub mod marks;
pub mod meta;
pub mod name;
pub mod options;
pub mod progress;
pub mod retry;
pub mod sent;
pub mod states;
pub mod target;
pub mod trace;
