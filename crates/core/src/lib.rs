//! The engine of Duetime: job model, rules, ports, timing wheel and memory broker.
//!
//! A *broker* knows which jobs are due and who holds them. A *ledger* remembers every job. The *engine* moves jobs between
//! the two and holds all the rules. This crate knows no SQL and no sockets: stores implement its [`ports`], and edges call
//! its engine.

pub mod api;
pub mod clock;
pub mod engine;
pub mod error;
pub mod hash;
#[doc(hidden)]
pub mod invalid;
pub mod json;
mod keyed_mutex;
pub mod limits;
pub mod memory;
pub mod model;
pub mod ports;
pub mod printable;
mod redacted;
pub mod request;
mod restored;
pub mod rules;
pub mod schedule;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use clock::{Clock, Millis, MovableClock, SystemClock};
pub use engine::Engine;
pub use error::Error;
pub use invalid::Invalid;
pub use memory::Memory;
pub use model::follow_up::{FollowUp, FollowUps, Previous};
pub use model::id::{JobId, JobRef, Numbers, Receipt};
pub use model::job::{AttemptError, Debounce, Due, Job, KeyUntil, NewJob, OnConflict, Payload, Stage, State};
pub use model::meta::Meta;
pub use model::options::JobOptions;
pub use model::progress::Progress;
pub use model::retry::{Backoff, Exponential, Fixed, Retry, WhenExhausted};
pub use model::states::States;
pub use model::target::Target;
pub use redacted::{MASK, Redacted};
pub use schedule::{Missed, Overlap, Schedule, Timing};
