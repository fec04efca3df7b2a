//! The engine: all rules, between the edges above and the stores below.
//!
//! It is composed of services. Each has its own fields, and knows only those below it:
//!
//! | service | does |
//! |---|---|
//! | `observatory` | what people want to know |
//! | `Vitals`, `LockDesk` | health and the end; locks |
//! | `Schedules`, `InboxMover`, `Pruner`, `Reaper` | ticks; rows of the inbox; retention; leases and jobs whose time is over |
//! | `QueueRemover` | deletes queues |
//! | `Takes` | hands out jobs at most once |
//! | `Handout` | hands out due jobs under leases, and extends these |
//! | `Settler` | ends leases |
//! | `Intake` | takes in new jobs, whoever makes them |
//! | `Reconciler` | keeps the broker as the ledger says |
//! | `Editor` | changes jobs from outside |
//! | `Recorder` | records in the ledger what the broker's outbox has |
//! | `FollowUps` | makes the jobs that begin with the end of another one |
//! | `Search`, `QueueCounter` | find jobs; count them |
//! | `Admission` | records new jobs, whoever makes them, and puts those that are due soon |
//! | `Generations` | begins memories of the broker |
//! | `Comparison` | compares a memory of a shared broker with the ledger before it begins |
//! | `Loader` | puts jobs into the broker |
//! | `Settings`, `Overflow`, `Consumers`, `Leader`, `Ids` | what these share: settings of queues, jobs without room, who asks for jobs, who leads, ids |
//! | `Publisher`, `Supervisor` | counts and publishes what happens; runs tasks |
//!
//! [`Engine`] is what callers see. `services` puts the services together, `start` starts their loops. None of them runs business code,
//! parses or renders.

mod admission;
mod base;
mod comparison;
mod consumers;
mod documents;
mod editor;
#[expect(clippy::module_inception, reason = "the engine as its callers see it")]
mod engine;
pub mod events;
mod export;
pub mod exposition;
mod follow_ups;
mod handout;
mod host;
mod ids;
mod inbox;
mod intake;
mod leader;
mod loader;
mod locks;
pub mod metrics;
mod observation;
mod observatory;
mod outbox_entries;
mod overflow;
mod precondition;
mod pruner;
mod queues;
mod reaper;
mod reconciler;
mod recorder;
mod remover;
mod schedules;
mod search;
mod services;
mod settler;
mod start;
mod status;
mod stores;
mod supervisor;
mod takes;
#[cfg(test)]
mod tests;
mod timers;
mod vitals;
mod waiters;

pub use crate::api::Health;
pub use crate::ports::LockList;
pub use crate::request::*;
pub use consumers::unnamed;
pub use engine::Engine;
pub use export::Export;
pub use handout::Unclaimed;
pub use inbox::check_target as check_inbox_target;
pub use intake::check_whole;
pub use observatory::{READING_WAIT, Sum, TargetDown};
pub use precondition::Precondition;
pub use status::Fault;
pub use stores::Stores;
pub use supervisor::uninterrupted;
