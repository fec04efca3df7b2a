//! A delayed job queue: at least once, never early, and it can always say what became of a job.
//!
//! A program says *what* is to run and *when*; Duetime runs it then, until it succeeds or its retries are used up.
//! A [`Client`] is a store in this process, or a [server](Client::connect); both have the same calls. A [`Worker`] runs
//! handlers for what is due.
//!
//! # Features
//! - `embedded` (default): jobs in a SQLite file inside the process. Without it only servers can be used.

mod client;
mod error;
mod kind;
mod push;
mod request_id;
#[doc(hidden)]
pub mod wire;
pub mod worker;

#[cfg(feature = "embedded")]
pub use client::OpenOptions;
pub use client::{Client, ConnectOptions};
#[cfg(feature = "embedded")]
pub use duetime_store::sqlite::Durability;
pub use error::{Answers, Error};
pub use kind::Kind;
pub use push::{Push, Pushed};
pub use worker::{Context, Handled, HandlerError, Summary, Worker};

pub use duetime_core as core;
pub use duetime_core::engine::{
    BulkAction, BulkCounts, CancelOutcome, Extension, From as Source, Handout, Health, Listed, Outcome, Patch,
    PushOutcome, Query, QueueSettings, QueueStatus, ReserveRequest, Settlement, TakeRequest, Target,
};
pub use duetime_core::ports::{Lease, Window};
pub use duetime_core::rules::Failure;
pub use duetime_core::{
    AttemptError, Backoff, Due, Job, JobId, KeyUntil, Millis, NewJob, OnConflict, Payload, Receipt, Retry, Stage,
    State, WhenExhausted,
};
pub use tokio_util::sync::CancellationToken;
