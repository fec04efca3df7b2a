//! The engine of Duetime: job model, rules, ports, timing wheel and memory broker.
//!
//! A *broker* knows what is due and who holds it. A *ledger* remembers every job. The *engine* moves jobs between the
//! two and holds all the rules. This crate knows no SQL and no sockets: stores implement its [`ports`], and edges
//! call its engine.

pub mod api;
pub mod clock;
pub mod engine;
pub mod error;
pub mod id;
pub mod job;
mod key;
mod keyed_mutex;
pub mod limits;
pub mod memory;
pub mod name;
pub mod options;
pub mod ports;
pub mod progress;
mod restored;
pub mod retry;
pub mod rules;
pub mod schedule;
pub mod states;
pub mod target;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod trace;
pub mod wheel;

pub use clock::{Clock, Millis, SystemClock};
pub use engine::Engine;
pub use error::Error;
pub use id::{JobId, JobRef, Numbers, Receipt};
pub use job::{AttemptError, Due, Job, KeyUntil, NewJob, OnConflict, Payload, Stage, State};
pub use memory::Memory;
pub use options::JobOptions;
pub use progress::Progress;
pub use retry::{Backoff, Exponential, Fixed, Retry, WhenExhausted};
pub use schedule::{Missed, Overlap, Schedule, Timing};
pub use states::States;
pub use target::Target;
