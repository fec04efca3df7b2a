//! A delayed job queue: jobs run at least once and never early, and you can always look up what happened to a job.
//!
//! A program pushes a job: *what* to run, and *when*. Once the job is due, a worker runs it. If it fails, it is retried.
//!
//! ```
//! # #[cfg(all(feature = "embedded", feature = "derive"))]
//! # mod example {
//! use duetime::prelude::*;
//!
//! #[derive(Serialize, Deserialize, Job)]
//! #[job(kind = "remind", retry = "15s,1m,10m", expires = "1d")]
//! struct Remind { user: u64 }
//!
//! struct App { greeting: &'static str }
//!
//! async fn remind(job: Remind, State(app): State<Arc<App>>) -> Result<(), JobError> {
//!     println!("{}, user {}: it is time", app.greeting, job.user); // an error with `?`: another attempt
//!     Ok(())
//! }
//!
//! # #[tokio::main]
//! # pub async fn run() -> duetime::Result<()> {
//! let client = Client::memory().await?; // or Client::open("jobs.db"); or Client::connect("http://…"), feature `remote`
//! client.push(Remind { user: 7 }).after(Duration::from_millis(5)).key("remind-7").await?;
//! let app = Arc::new(App { greeting: "hello" });
//! Worker::new(&client).state(app).handle(remind).run_for(Duration::from_millis(50)).await?; // or run(), run_until(…)
//! # Ok(())
//! # }
//! # }
//! # #[cfg(all(feature = "embedded", feature = "derive"))]
//! # example::run()?;
//! # Ok::<(), duetime::Error>(())
//! ```
//!
//! - A [`Client`] offers the same calls on a store in this process, on a shared Redis, and on a server. Once a push
//!   returns, the job is recorded. Its groups find and change [jobs](Client::jobs), set up [queues](Client::queues), show
//!   [workers](Client::workers), and more. [`wait`](Jobs::wait) returns a job once it has ended, with its result.
//! - A [`JobType`] is a payload, and what its jobs have by default: kind, queue, retries, time limit, key, tags.
//! - A [`Worker`] runs [handlers](Handler) for due jobs, extends their leases, and stops gracefully. Handlers may block:
//!   leases are extended on another thread. Handlers must be idempotent, because a job can run twice.
//! - A [`Lock`] has one holder at a time, across machines. Its [guard](lock::Guard) renews it and says when it may be
//!   lost.
//! - A [`Schedule`] pushes a job again and again, by cron expression and time zone:
//!   [`schedules`](Client::schedules).
//! - The [`inbox`] pushes jobs within an SQL transaction of your application, also in its own SQLite file.
//! - [`Events`] report what happens to jobs: [`events`](Client::events).
//! - The guide [Test your handlers](https://github.com/duetime/duetime/blob/main/docs/guides/testing.md) tests a program without
//!   waiting, with the feature `testing`.
//! - An [`Error`] says whether the call can be repeated.
//!
//! # Features
//! - `derive` (default): `#[derive(Job)]`.
//! - `embedded` (default): jobs in a SQLite file inside the process.
//! - `remote`: jobs on a server at an `http://` address: [`Client::connect`].
//! - `redis`: jobs and locks in Redis 6.2 or later, or Valkey, shared by all processes that
//!   [connect](Client::connect) to the same `redis://` address. A push is as safe as Redis's persistence:
//!   set `appendonly yes` and `maxmemory-policy noeviction`. Settings that risk jobs are logged at the start.
//! - `mysql`, `postgres`: a ledger in MySQL, MariaDB or PostgreSQL beside Redis, by [`ConnectOptions`], and
//!   [`Push::push_in`] for transactions of `mysql_async` and `tokio_postgres`.
//! - `tls`: servers at `https://` addresses too.
//! - `testing`: a client in memory with a clock that your test moves, and `assert_pushed!`.
//!
//! At least one of `embedded`, `remote` and `redis` is needed.
//!
//! # Beside sqlx
//! A build can link only one SQLite. The feature `embedded` works with rusqlite 0.32 to 0.43. So cargo finds a version that also suits
//! sqlx 0.8 or 0.9, SeaORM 1 or 2, Diesel 2, or your own rusqlite. If you add one of them later, cargo changes the version of
//! rusqlite in your lock file by itself. No other feature needs SQLite. You can push within a transaction of each of them: see
//! [`inbox`].
//!
//! The version of rusqlite decides which SQLite you get: sqlx 0.8 and SeaORM 1 bring 3.46. SQLite before 3.51.3 has a rare bug that damages
//! a file if two connections copy its write-ahead log at the same moment. Duetime never does that to its own file. Do not open it with
//! another program while yours runs.

#[cfg(not(any(feature = "embedded", feature = "redis", feature = "remote")))]
compile_error!("duetime needs at least one of its features `embedded` (a file), `remote` (a server) and `redis`");

#[cfg(doctest)]
mod book;
mod client;
mod error;
pub mod inbox;
mod job_type;
#[doc(hidden)]
pub mod kind_rules;
pub mod lock;
pub mod prelude;
mod push;
mod request_id;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "tls")]
#[doc(hidden)]
pub mod tls;
pub mod worker;

#[cfg(any(feature = "redis", feature = "remote"))]
pub use client::ConnectOptions;
#[cfg(feature = "embedded")]
pub use client::OpenOptions;
#[cfg(feature = "remote")]
pub use client::Token;
pub use client::{Client, Events, Found, Jobs, Leases, Locks, Queues, Schedules, Workers};
#[cfg(feature = "embedded")]
pub use duetime_store::sqlite::Durability;
pub use error::{Answers, Error, Result};
pub use job_type::JobType;
pub use lock::Lock;
pub use push::{Push, Pushed, new_job};
pub use worker::{
    Attempt, BlockingHandler, Cancelled, Context, FromContext, FromRef, Handled, Handler, JobError, Next, Raw,
    RawHandler, State, Summary, Worker,
};

#[cfg(feature = "derive")]
pub use duetime_derive::Job;

pub use duetime_core as core;
pub use duetime_core::api::{
    Degraded, DegradedCode, DueBucket, DueCounts, FailureGroup, Failures, HeldLease, History, HistoryPoint,
    HistorySpan, Lateness, QueueChanges, Reason, ReasonCode, Span, Timestamp, Why, WorkerStatus,
};
pub use duetime_core::engine::events::{Event, Filter, Transition, What};
pub use duetime_core::engine::{
    BulkAction, BulkCounts, CancelOutcome, Extension, Health, Imported, JobRef, Listed, LockList, LockRequest, Outcome,
    Patch, Pause, PushOutcome, Query, QueueSettings, QueueStatus, Reservation, ReserveRequest, Settlement, Source,
    TakeRequest,
};
pub use duetime_core::ports::{Grant, Holding, Lease, Rate, Released, Window};
pub use duetime_core::rules::{Failure, Park, Release};
pub use duetime_core::schedule::{ClockChange, LastTick, Run, ScheduleStatus, TickOutcome};
pub use duetime_core::{
    AttemptError, Backoff, Due, Exponential, Fixed, Job, JobId, JobOptions, KeyUntil, Millis, Missed, NewJob,
    OnConflict, Overlap, Payload, Progress, Receipt, Retry, Schedule, Stage, State as JobState, Target, Timing,
    WhenExhausted,
};
pub use tokio_util::sync::CancellationToken;
