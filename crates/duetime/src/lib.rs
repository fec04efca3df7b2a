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
//! #[job(kind = "remind", queue = "mail", retry = "15s,1m,10m", expires = "1d")]
//! struct Remind { user: u64 }
//!
//! #[derive(Serialize, Deserialize, Job)]
//! #[job(kind = "digest")]
//! struct Digest;
//!
//! struct App { greeting: &'static str }
//!
//! async fn remind(job: Remind, State(app): State<Arc<App>>) -> Result<String, JobError> {
//!     if job.user == 0 { return Err(JobError::fatal("there is no such user")); } // any other error, by `?`: another attempt
//!     Ok(format!("{}, user {}: it is time", app.greeting, job.user)) // the value is the job's result
//! }
//!
//! async fn digest(_: Digest, context: Context) -> Result<(), JobError> {
//!     context.push(Remind { user: 7 }).await?; // once, however often the handler runs
//!     Ok(())
//! }
//!
//! # #[tokio::main]
//! # pub async fn run() -> duetime::Result<()> {
//! let client = Client::memory().await?; // or Client::open("jobs.db"); or Client::connect("http://…"), feature `remote`
//! client.push(Remind { user: 7 }).after(Duration::from_millis(5)).key("remind-7").await?;
//! client.schedules().set("digest", Cron::new("0 7 * * *").zone("Europe/Berlin").job(Digest)).await?;
//! let worker = Worker::new(&client).state(Arc::new(App { greeting: "hello" })).handle(remind).handle(digest);
//! worker.run_for(Duration::from_millis(50)).await?; // or run(), run_until(signal), drain()
//! # Ok(())
//! # }
//! # }
//! # #[cfg(all(feature = "embedded", feature = "derive"))]
//! # example::run()?;
//! # Ok::<(), duetime::Error>(())
//! ```
//!
//! ```toml
//! [dependencies]
//! duetime = "0.1"
//! serde = { version = "1", features = ["derive"] }
//! tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
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
//! # Backends and what they guarantee
//! A program is the same on each of them. Jobs run at least once and never early on all.
//!
//! | | a file | Redis | Redis beside a database | memory | a server |
//! |---|---|---|---|---|---|
//! | by | [`Client::open`] | `Client::connect("redis://…")` | the same, with [`ConnectOptions::ledger`] | [`Client::memory`] | `Client::connect("http://…")` |
//! | feature | `embedded` | `redis` | `postgres`, `mysql` | `embedded` | `remote` |
//! | processes that share the jobs | one | many | many | one | many |
//! | a killed process loses | nothing | nothing | nothing | everything | nothing, if it is yours; of the server's, what its store says |
//! | a power failure loses | nothing | what Redis has not yet written to disk | nothing | everything | what its store says |
//! | a failover, or a Redis that has lost its memory, loses | – | what was not replicated or saved | no job; some may run again | – | what its store says |
//! | due times are by the clock of | the process | Redis | Redis | the process | the server or its Redis |
//! | a lock may have two holders | never | for a moment after a failover | never | never | as its store |
//! | a push within your SQL transaction | of your own SQLite file | no | of that database | no | if its store has a database |
//!
//! A file can be faster at the price of the last 50 ms: [`OpenOptions::durability`]. The [page on
//! operations](https://github.com/duetime/duetime/blob/main/docs/operations.md#what-each-store-survives) says the same of a server's stores.
//!
//! # Pushing and finding jobs
//! A [`Client`] offers the same calls on a store in this process, on a shared Redis, and on a server. Once a push returns, the job is
//! recorded. A [`JobType`] is a payload, and what its jobs have by default: kind, queue, retries, time limit, key, tags.
//! [`push_all`](Client::push_all) pushes many at once. The client's groups find and change [jobs](Client::jobs), set up [queues](Client::queues) and recurring jobs ([`schedules`](Client::schedules)), show
//! [workers](Client::workers), and more. [`wait`](client::Jobs::wait) returns a job once it has ended, with its result.
//!
//! Ids and receipts are types. Names of queues and kinds, keys and tags are text: most are literals or come from other data, so a type would add
//! a conversion that can fail to each call. A call checks them, and its error names the one that is wrong.
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
//! ```
//! # #[cfg(all(feature = "embedded", feature = "derive"))]
//! # mod example {
//! use duetime::{prelude::*, job::{self, Query}, queue::QueueSettings, retry::Backoff};
//!
//! #[derive(Serialize, Deserialize, Job)]
//! #[job(kind = "remind", retry = "15s,1m,10m")] // of a type
//! struct Remind { user: u64 }
//!
//! # #[tokio::main]
//! # pub async fn run() -> duetime::Result<()> {
//! # let client = Client::memory().await?;
//! let rule = QueueSettings::default().retry(Backoff::fixed(Duration::from_secs(30))).max_attempts(5);
//! client.queues().set_up("mail", rule).await?; // of a queue
//! client.push(Remind { user: 7 }).queue("mail").max_attempts(1).await?; // of one job
//! let refuse = async |_: Remind| Err::<(), _>(JobError::new("no answer"));
//! Worker::new(&client).queue("mail").handle(refuse).drain().await?;
//!
//! let mut failed = client.jobs().find(Query::default().queue("mail").state(job::State::Failed));
//! while let Some(job) = failed.next().await? {
//!     println!("{} failed: {}", job.id, job.errors[0].message);
//!     client.jobs().retry(job.id).await?;
//! #   assert_eq!(&*job.errors[0].message, "no answer");
//! }
//! # assert!(Worker::new(&client).queue("mail").handle(refuse).run_one().await?.is_some());
//! # Ok(())
//! # }
//! # }
//! # #[cfg(all(feature = "embedded", feature = "derive"))]
//! # example::run()?;
//! # Ok::<(), duetime::Error>(())
//! ```
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
mod recurring;
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
    pub use crate::push::IntoNewJob;
    pub use duetime_core::api::Pushed;
    pub use duetime_core::engine::{
        BulkAction, BulkCounts, CancelOutcome, Imported, Listed, Patch, PushOutcome, Query,
    };
    pub use duetime_core::{
        AttemptError, Debounce, Due, Invalid, Job, JobId, JobOptions, JobRef, KeyUntil, Meta, NewJob, OnConflict,
        Payload, Previous, Progress, Stage, State, States,
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
    pub use crate::recurring::{Cron, Every, IntoSchedule};
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
