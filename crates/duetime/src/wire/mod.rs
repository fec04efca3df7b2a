//! The JSON of the HTTP API: one type per body, read by one side and written by the other.
//!
//! Requests refuse unknown fields; answers do not, so that an older client can read a newer server. Reading borrows:
//! a payload is copied once, into the job. Nothing is decided here, and nothing is checked that the engine checks;
//! only what cannot be said in the engine's types is refused.
//!
//! Public for the server; no part of the library's interface.

mod answer;
mod bytes;
mod counts;
mod event;
#[cfg(test)]
mod extras_tests;
mod handout;
mod health;
mod instant;
mod job;
mod lease;
mod lock;
mod patch;
mod plain;
mod problem;
mod push;
mod queue;
mod schedule;
#[cfg(feature = "openapi")]
pub mod schema;
mod select;
mod settle;
#[cfg(test)]
mod tests;
mod text;

pub use duetime_core::wire::{Backoff, Exponential, Fixed, Object, Rule, Span, Unread, read, read_bytes, unread};

pub use answer::Answer;
pub use bytes::{Base64, bytes_of, show_bytes};
pub use counts::Counts;
pub use event::{EventBody, EventQuery, LOST, STOPPING, SUBSCRIBED};
pub use handout::{Handout, JobRefBody, Reserve, Take, Taken};
pub use health::{Alive, Health};
pub use instant::Instant;
pub use job::{Attempt, JobBody, Page, ProgressBody};
pub use lease::LeaseBody;
pub use lock::{Lock, LockAsked, LockBody, LockGranted, LockPage, LockQuery, LocksReleased};
pub use patch::Patch;
pub use problem::Problem;
pub use push::{Push, Pushed};
pub use queue::{Configured, PauseBody, Purged, Queue, Queues, Retention, Settings, SettingsBody};
pub use schedule::{ScheduleBody, ScheduleJob, ScheduleShown, Schedules, Tick, dry_run};
pub use select::{Find, Selection, States, path_segment};
pub use settle::{Cancelled, Complete, Extend, ExtendOne, Extended, Fail, Nothing, Progress, Release, Settle, Settled};
pub use text::Text;
