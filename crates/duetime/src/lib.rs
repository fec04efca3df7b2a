//! A delayed job queue: at least once, never early, and it can always say what became of a job.
//!
//! A program says *what* is to run and *when*; Duetime runs it then, until it succeeds or its retries are used up.
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! # mod example {
//! # use duetime::{Client, Context, Worker};
//! # use std::time::Duration;
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Remind { user: u64 }
//! impl duetime::Kind for Remind { const KIND: &'static str = "remind"; }
//!
//! # #[tokio::main]
//! # pub async fn run() -> Result<(), duetime::Error> {
//! let client = Client::memory().await?; // or Client::open("jobs.db"), or Client::connect("http://127.0.0.1:7300").await?
//! client.push(Remind { user: 7 }).delay(Duration::from_millis(5)).key("remind-7").await?;
//! let remind = |job: Remind, _: Context| async move { Ok(println!("user {}: it is time", job.user)) };
//! Worker::new(&client).handler(remind).run_for(Duration::from_millis(50)).await?; // or run()
//! # Ok(())
//! # }
//! # }
//! # #[cfg(feature = "embedded")]
//! # example::run()?;
//! # Ok::<(), duetime::Error>(())
//! ```
//!
//! - A [`Client`] is a store in this process, a Redis that it shares with others, or a server, with the same calls on
//!   all. A push is recorded once it is answered.
//! - A [`Worker`] runs handlers for what is due, keeps their leases, and stops gracefully. Handlers may block: leases
//!   are kept on another thread.
//! - A [`Lock`] is held by one of many, on whatever machine; its [guard](lock::Guard) renews it and tells when it may
//!   be lost.
//! - A [`Schedule`] pushes a job again and again, by cron expression and time zone:
//!   [`set_schedule`](Client::set_schedule).
//! - The [`inbox`] takes jobs within an SQL transaction of the application's own.
//! - [`Events`] tell what happens to jobs: [`events`](Client::events).
//! - An [`Error`] says whether the call may be repeated.
//!
//! # Features
//! - `embedded` (default): jobs in a SQLite file inside the process.
//! - `redis`: jobs and locks in Redis 6.2 or later, or Valkey, shared by all processes that
//!   [connect](Client::connect) to the same `redis://` address. A push is as safe as Redis keeps it: set
//!   `appendonly yes` and `maxmemory-policy noeviction`. What had better be set is logged at the start.
//! - `mysql`, `postgres`: a ledger in MySQL, MariaDB or PostgreSQL beside Redis, by [`ConnectOptions`], and
//!   [`inbox::push_in`] for transactions of `mysql_async` and `tokio_postgres`.
//! - `tls`: servers at `https://` addresses.
//!
//! Without either only servers can be used.

#[cfg(doctest)]
mod book;
mod client;
mod error;
pub mod inbox;
mod kind;
pub mod lock;
mod push;
mod request_id;
#[cfg(feature = "tls")]
#[doc(hidden)]
pub mod tls;
pub mod worker;

#[cfg(feature = "embedded")]
pub use client::OpenOptions;
pub use client::{Client, ConnectOptions, Events, Token};
#[cfg(feature = "embedded")]
pub use duetime_store::sqlite::Durability;
pub use error::{Answers, Error};
pub use kind::Kind;
pub use lock::Lock;
pub use push::{Push, Pushed, new_job};
pub use worker::{Context, Handled, HandlerError, Next, Summary, Worker};

pub use duetime_core as core;
pub use duetime_core::api::{
    Degraded, DegradedCode, DueBucket, DueCounts, FailureGroup, Failures, HeldLease, History, HistoryPoint,
    HistorySpan, Instant, Lateness, Reason, ReasonCode, Span, Why, WorkerStatus,
};
pub use duetime_core::engine::events::{Event, Filter, Transition, What};
pub use duetime_core::engine::{
    BulkAction, BulkCounts, CancelOutcome, Extension, Health, Imported, JobRef, Listed, LockList, LockRequest, Outcome,
    Patch, PushOutcome, Query, QueueSettings, QueueStatus, Reservation, ReserveRequest, Settlement, Source,
    TakeRequest,
};
pub use duetime_core::ports::{Grant, Holding, Lease, Rate, Released, Window};
pub use duetime_core::rules::Failure;
pub use duetime_core::schedule::{ClockChange, LastTick, Run, ScheduleStatus, TickOutcome};
pub use duetime_core::{
    AttemptError, Backoff, Due, Exponential, Fixed, Job, JobId, JobOptions, KeyUntil, Millis, Missed, NewJob,
    OnConflict, Overlap, Payload, Progress, Receipt, Retry, Schedule, Stage, State, Target, Timing, WhenExhausted,
};
pub use tokio_util::sync::CancellationToken;
