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
//! [`Client`] and [`Worker`] are most of it. The other types are in modules, by what they are about:
//!
//! | module | holds |
//! |---|---|
//! | [`client`] | the groups of calls of a [`Client`], and how a store is opened or a server connected |
//! | [`worker`] | handlers and their arguments: payload, [`State`], [`Attempt`](worker::Attempt), [`Cancelled`](worker::Cancelled) |
//! | [`job`], [`queue`], [`schedule`], [`lease`], [`lock`], [`event`] | what a client asks for, and what it is answered |
//! | [`retry`] | retry rules |
//! | [`status`] | health, waiting jobs, failures, workers, and why a job does not run |
//! | [`inbox`] | pushes within an SQL transaction of your application, also in its own SQLite file |
//! | [`time`] | [`Timestamp`] and [`Span`](time::Span); `Duration` and `SystemTime` convert into them |
//! | `testing` | a client in memory with a clock that your test moves (feature `testing`) |
//!
//! # Pushing and finding jobs
//! A [`Client`] offers the same calls on a store in this process, on a shared Redis, and on a server. Once a push returns, the job is
//! recorded. A [`JobType`] is a payload, and what its jobs have by default: kind, queue, retries, time limit, key, tags. The client's groups
//! find and change [jobs](Client::jobs), set up [queues](Client::queues) and recurring jobs ([`schedules`](Client::schedules)), show
//! [workers](Client::workers), and more. [`wait`](client::Jobs::wait) returns a job once it has ended, with its result.
//!
//! # Handlers and their state
//! A handler is an async function, or a [blocking one](Worker::handle_blocking). Its arguments come in any order: the payload, the worker's
//! [`State`] or a [part of it](worker::FromRef), the [`Context`], and your own ([`FromContext`](worker::FromContext)). What it returns is the
//! result of the job. A handler must be idempotent, because a job can run twice. It may block its thread: the worker extends leases on
//! another one. [`Worker::wrap`] runs code around every handler; with the feature `tower` so do its [layers](Worker::layer).
//!
//! # Errors
//! A handler returns any error with `?`. [`JobError`] has the rest: a final failure, a retry at another time, a release. A call of the client
//! returns an [`Error`]. It has an [`ErrorKind`] and a stable code. Its message says what to do next.
//!
//! # Retries
//! An attempt that fails is repeated by the [`Retry`] rule of the push, the [job type](JobType::retry), or the queue. By default there are
//! 16 attempts over about 25 hours. A job that fails for the last time is kept, and can be found and retried. A worker that crashes
//! loses its lease, and the job is handed out again.
//!
//! # Stopping
//! [`Worker::run_until`] stops when a future of yours completes, for example a signal. The worker then reserves nothing more, lets handlers
//! finish within the [stop limit](Worker::stop_limit), and asks those that are still running to stop ([`Cancelled`](worker::Cancelled)).
//! Jobs that have not finished run again. [`Client::close`] waits until an embedded store is closed.
//!
//! # Testing
//! The feature `testing` has a client in memory, a clock that your test moves, and `assert_pushed!`. See the guide
//! [Test your handlers](https://github.com/duetime/duetime/blob/main/docs/guides/testing.md).
//!
//! # Metrics
//! [`Client::metrics_text`] returns what the store and its engine count, for Prometheus. What this process does, whatever the store, the
//! feature `metrics` tells the recorder of your program:
//!
//! | name | kind | labels | counts |
//! |---|---|---|---|
//! | `duetime_client_pushes_total` | counter | `queue`, `kind`, `outcome`: `created`, `kept`, `replaced`, `repeated`, `failed` | pushes |
//! | `duetime_worker_attempts_total` | counter | `queue`, `kind`, `outcome`: `succeeded`, `failed`, `parked`, `released`, `aborted` | handlers that have ended |
//! | `duetime_worker_attempt_seconds` | histogram | `queue`, `kind` | how long handlers ran |
//! | `duetime_worker_lateness_seconds` | histogram | `queue`, `kind` | from the due time of a job until it was handed out, by the clock of the store |
//! | `duetime_worker_running` | gauge | `queue`, `kind` | handlers that are running |
//! | `duetime_worker_lost_total` | counter | | outcomes that did not count because the lease was lost |
//!
//! # Traces
//! A handler runs in a span of `tracing` named `job`, with the fields `queue`, `kind`, `id`, `attempt` and `trace_id`. With the feature
//! `otel` and a layer of `tracing-opentelemetry` 0.34 in your program, a pushed job carries the context of the current span, unless the push
//! sets a [`trace`](Push::trace). The span of its handler is then a child of that span, on whatever machine it runs, and also if the push was
//! made over HTTP with a `traceparent`. Without a current span of `tracing`, that of OpenTelemetry is taken.
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
//! - `tower`: layers of tower around handlers ([`Worker::layer`]).
//! - `metrics`: what this library does, for the recorder that your program installs for the crate `metrics`: see [Metrics](#metrics).
//! - `otel`: traces go on from a push to its handler: see [Traces](#traces).
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

#[doc(hidden)]
pub mod __private;
#[cfg(doctest)]
mod book;
pub mod client;
mod error;
pub mod inbox;
mod job_type;
#[cfg(feature = "engine")]
mod kind_rules;
pub mod lock;
#[cfg(feature = "metrics")]
mod measure;
#[cfg(feature = "otel")]
mod otel;
pub mod prelude;
mod push;
mod request_id;
#[cfg(feature = "unstable-server")]
#[doc(hidden)]
pub mod server;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "tls")]
mod tls;
pub mod worker;

#[doc(inline)]
pub use client::Client;
#[cfg(any(feature = "redis", feature = "remote"))]
#[doc(inline)]
pub use client::ConnectOptions;
#[cfg(feature = "embedded")]
#[doc(inline)]
pub use client::OpenOptions;
#[cfg(feature = "remote")]
#[doc(inline)]
pub use client::Token;
#[cfg(feature = "derive")]
pub use duetime_derive::Job;
pub use error::{Answers, Error, ErrorKind, Result};
pub use job::{Job, JobId};
pub use job_type::JobType;
#[doc(inline)]
pub use lock::Lock;
pub use push::{Push, Pushed, new_job};
pub use retry::Retry;
pub use schedule::Schedule;
pub use time::Timestamp;
pub use tokio_util::sync::CancellationToken;
#[doc(inline)]
pub use worker::{Context, JobError, State, Worker};

/// Jobs as they are recorded, how they are pushed, found and changed.
pub mod job {
    pub use duetime_core::api::Pushed;
    pub use duetime_core::engine::{
        BulkAction, BulkCounts, CancelOutcome, Imported, Listed, Patch, PushOutcome, Query,
    };
    pub use duetime_core::{
        AttemptError, Due, Invalid, Job, JobId, JobOptions, JobRef, KeyUntil, Meta, NewJob, OnConflict, Payload,
        Progress, Stage, State, States,
    };
}

/// Retry rules: when a failed attempt is repeated, how often, and what follows the last one.
pub mod retry {
    pub use duetime_core::{Backoff, Exponential, Fixed, Retry, WhenExhausted};
}

/// Settings and states of queues.
pub mod queue {
    pub use duetime_core::Target;
    pub use duetime_core::api::{DeletedQueue, QueueChanges};
    pub use duetime_core::engine::{Lately, Pause, QueueRetention, QueueSettings, QueueStatus, WhenFull};
    pub use duetime_core::model::target::{Endpoint, RedisList};
    pub use duetime_core::ports::{Counts, Rate, Tally, Totals};
}

/// Recurring jobs.
pub mod schedule {
    pub use duetime_core::schedule::{ClockChange, LastTick, Run, ScheduleStatus, TickOutcome};
    pub use duetime_core::{Missed, Overlap, Schedule, Timing};
}

/// Leases, for programs that reserve and settle jobs without a [`Worker`].
pub mod lease {
    pub use duetime_core::Error as Refusal;
    pub use duetime_core::Receipt;
    pub use duetime_core::engine::{Extension, Outcome, Reservation, ReserveRequest, Settlement, Source, TakeRequest};
    pub use duetime_core::ports::Lease;
    pub use duetime_core::rules::{Failure, Park, Release};
}

/// Live events of jobs: [`Client::events`].
pub mod event {
    pub use crate::client::Events;
    pub use duetime_core::engine::events::{Event, Filter, Transition, What};
}

/// The state of the store, of its workers, and of what keeps jobs from running.
pub mod status {
    pub use duetime_core::api::{
        Attention, AttentionItem, AttentionKind, Degraded, DegradedCode, DueBucket, DueCounts, FailureGroup, Failures,
        HeldLease, History, HistoryPoint, HistorySpan, Lateness, Reason, ReasonCode, Why, WorkerStatus,
    };
    pub use duetime_core::engine::Health;
    pub use duetime_core::engine::exposition::MEDIA_TYPE as METRICS_MEDIA_TYPE;
}

/// Instants and lengths of time, to the millisecond. They are made from `SystemTime` and [`Duration`](std::time::Duration).
pub mod time {
    pub use duetime_core::api::{Span, Timestamp};
}
