//! The engine: all rules, between the edges above and the stores below.
//!
//! A request that has begun runs to completion even if the caller disconnects: a job that is recorded but not put would
//! sleep until the next start. It has a task for that, unless an edge says that the caller's task is [one](uninterrupted).
//! Exceptions are a reserve and the wait for a lock: if they are dropped while they wait, they have leased or acquired
//! nothing.
//!
//! In the background it loads jobs that enter the horizon (`load`), takes back jobs whose lease has expired (`settle`),
//! records outcomes that were left over (`record`), wakes reserves, pushes the jobs of due schedules (`schedules`) and
//! prunes. If several processes share a broker and a ledger, one of them does most of that for all (`leader`), and moves
//! rows from the ledger's inbox to its jobs (`inbox`).
//!
//! What it remembers beside its stores is in `parts`, which does nothing by itself. It deliberately does not run business
//! code, parse or render.

mod admit;
mod background;
mod bulk;
mod changes;
mod cursor;
mod edit;
pub mod events;
mod expected;
mod export;
mod extend;
mod find;
mod forward;
mod handle;
mod history;
mod host;
mod import;
mod locks;
mod parts;
mod push;
mod query;
mod queues;
mod reports;
mod reserve;
mod schedules;
mod settle;
mod start;
mod stores;
mod subscription;
mod take;
mod unclaimed;
mod unrecorded;
mod why;
mod workers;

pub use crate::api::Health;
pub use crate::request::*;
pub use background::inbox::check_target as check_inbox_target;
pub use expected::Expected;
pub use export::Export;
pub use handle::{Engine, uninterrupted};
pub use import::check_whole;
pub use locks::LockList;
pub use parts::census::Sum;
pub use parts::metrics;
pub use parts::status::Fault;
pub use reports::READING_WAIT;
pub use stores::{Stores, Topology};
pub use unclaimed::Unclaimed;
