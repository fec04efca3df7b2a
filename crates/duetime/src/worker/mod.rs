//! The worker: reserves jobs, runs handlers, extends leases and settles outcomes.
//!
//! The dispatcher works on its own thread, with a small runtime and, for a server, its own connections. Only handlers run on
//! the caller's runtime. A handler that blocks its thread, even the only one, neither loses its lease nor delays the
//! outcomes of others. A job waits only briefly for a free handler: jobs that were reserved ahead and cannot start are
//! released.

pub(crate) mod backoff;
mod context;
mod dispatcher;
mod executor;
mod extract;
mod handler;
mod handlers;
mod job_error;
#[cfg(feature = "tower")]
mod layer;
mod leases;
mod outbox;
mod prefetch;
mod run;
#[cfg(feature = "unstable-server")]
mod server;
mod threads;
mod turns;

pub use context::Context;
pub use dispatcher::Summary;
pub use extract::{Attempt, Cancelled, FromContext, FromRef, Previous, Raw, State};
pub use handler::{BlockingHandler, Handled, Handler, Handling, Next, RawHandler};
pub use job_error::JobError;
#[cfg(feature = "tower")]
pub use layer::{Call, Failed, Run};
pub use turns::QueueShare;

use crate::client::Client;
use crate::job_type::JobType;
use duetime_core::api::Span;
use duetime_core::model::name::QUEUE_DEFAULT;
use handler::AnyHandler;
use handlers::Handlers;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use threads::Threads;
use tokio::time::{Instant, timeout};
use turns::Turns;

/// Default number of handlers that run at the same time.
const CONCURRENCY_DEFAULT: usize = 8;
/// Default time that a graceful stop waits for handlers.
const STOP_LIMIT_DEFAULT: Duration = Duration::from_secs(30);
/// How long handlers have to react to their cancelled tokens.
const HEED: Duration = Duration::from_secs(5);

/// Maximum bytes of a host name.
const HOST_BYTES_MAX: usize = 64;

/// How many handlers may run at a time, or the time until which none may.
type Room = Arc<dyn Fn(Instant) -> Result<usize, Instant> + Send + Sync>;

/// Runs handlers for due jobs.
///
/// ```
/// # #[cfg(all(feature = "embedded", feature = "derive"))]
/// # mod example {
/// use duetime::prelude::*;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// #[derive(serde::Serialize, serde::Deserialize, Job)]
/// #[job(kind = "count")]
/// struct Count { by: u64 }
///
/// async fn count(job: Count, State(total): State<Arc<AtomicU64>>, Attempt(attempt): Attempt) -> Result<u64, JobError> {
///     println!("attempt {attempt}");
///     Ok(total.fetch_add(job.by, Ordering::Relaxed) + job.by)
/// }
///
/// # #[tokio::main]
/// # pub async fn run() -> duetime::Result<()> {
/// let client = Client::memory().await?;
/// let pushed = client.push(Count { by: 7 }).await?;
/// Worker::new(&client).state(Arc::new(AtomicU64::new(0))).handle(count).drain().await?;
/// assert_eq!(client.jobs().get(pushed.id).await?.result.as_deref(), Some(&b"7"[..]));
/// # Ok(()) }
/// # }
/// # #[cfg(all(feature = "embedded", feature = "derive"))]
/// # example::run()?;
/// # Ok::<(), duetime::Error>(())
/// ```
///
/// A job of a kind without a handler is released for 5 seconds without counting the attempt, so that another worker can run
/// it during a rolling deploy. This is logged once for each kind. A payload that cannot be decoded, an error and a panic are
/// failures: the job's retry rule decides what follows.
#[must_use = "a worker does nothing until it runs"]
pub struct Worker<S = ()> {
    state: S,
    plan: Plan,
}

/// What a worker does.
struct Plan {
    client: Client,
    name: Option<Arc<str>>,
    queues: Vec<QueueShare>,
    /// Whose turn it is, once the worker has run.
    turns: OnceLock<Mutex<Turns>>,
    room: Room,
    /// Whether jobs are reserved before handlers are free.
    is_ahead: bool,
    heed: Duration,
    lease: Option<Span>,
    stop_limit: Duration,
    handlers: Handlers,
    threads: Threads,
}

impl Worker {
    /// Returns a worker without handlers.
    pub fn new(client: &Client) -> Self {
        let plan = Plan {
            client: client.clone(),
            name: Some(process_name()),
            queues: Vec::new(),
            turns: OnceLock::new(),
            room: Arc::new(|_| Ok(CONCURRENCY_DEFAULT)),
            is_ahead: true,
            heed: HEED,
            lease: None,
            stop_limit: STOP_LIMIT_DEFAULT,
            handlers: Handlers::default(),
            threads: Threads::default(),
        };
        Self { state: (), plan }
    }
}

impl<S: Clone + Send + Sync + 'static> Worker<S> {
    /// Sets the state that handlers which are added from now on can ask for, as [`State`]: typically an `Arc`.
    pub fn state<T: Clone + Send + Sync + 'static>(self, state: T) -> Worker<T> {
        Worker { state, plan: self.plan }
    }

    /// Adds queues. A worker has at most 64. By default it serves the queues of the handlers' [`JobType`]s in the order of the
    /// handlers, or `default` if there are none.
    ///
    /// Without weights, queues are served in strict order of addition: a queue only if nothing is due in those before it. With
    /// weights, each has its share: of ten jobs of the queues below, six are urgent, three are mails and one is a report, if all
    /// three have enough due jobs. No queue starves. If only some have a weight, the others have the weight 1.
    ///
    /// ```
    /// # use duetime::{Client, Worker};
    /// # fn example(client: &Client) {
    /// let strict = Worker::new(client).queues(["urgent", "mail", "reports"]);
    /// let shared = Worker::new(client).queues([("urgent", 6), ("mail", 3), ("reports", 1)]);
    /// # }
    /// ```
    pub fn queues<Q: Into<QueueShare>>(mut self, queues: impl IntoIterator<Item = Q>) -> Self {
        self.plan.queues.extend(queues.into_iter().map(Into::into));
        self.plan.turns = OnceLock::new();
        self
    }

    /// Adds one queue: see [`queues`](Self::queues).
    pub fn queue(self, queue: impl Into<QueueShare>) -> Self {
        self.queues([queue])
    }

    /// Sets the name that [`Workers::list`](crate::client::Workers::list) shows, 1 to 255 bytes; by default the host name and the process id.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.plan.name = Some(name.into());
        self
    }

    /// Sets how many handlers run at the same time, at least 1; 8 by default. [`JobType::CONCURRENCY`] limits those of one type
    /// further. If handlers are quick, the jobs of the next 5 ms are reserved ahead. If the process is killed, these have lost an
    /// attempt, although they had not begun; but a job on its last attempt is never reserved ahead.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        let concurrency = concurrency.max(1);
        self.plan.room = Arc::new(move |_| Ok(concurrency));
        self
    }

    /// Sets the lease, 1 s to 12 h; by default the job's own, its queue's, or 60 s. The worker extends it after every third.
    /// A crash is noticed after at most one lease, a cancel after at most a third of one.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.plan.lease = Some(lease.into());
        self
    }

    /// Sets how long a stop waits for running handlers before it cancels their tokens; 30 s by default.
    pub fn stop_limit(mut self, limit: Duration) -> Self {
        self.plan.stop_limit = limit;
        self
    }

    /// Adds a [`Handler`], an async function, for the jobs of its payload's type.
    pub fn handle<M, H: Handler<M, S>>(mut self, handler: H) -> Self {
        let state = self.state.clone();
        let handler: AnyHandler = Arc::new(move |context| handler.call(context, &state));
        self.add::<H::Job>(handler);
        self
    }

    /// Adds a [`BlockingHandler`], a function that is not async, for the jobs of its payload's type. It runs on a thread of this worker.
    pub fn handle_blocking<M, H: BlockingHandler<M, S>>(mut self, handler: H) -> Self {
        let (threads, called) = (self.plan.threads.clone(), Arc::new((handler, self.state.clone())));
        let handler: AnyHandler = Arc::new(move |context| {
            let (threads, called) = (threads.clone(), called.clone());
            Box::pin(async move { threads.run(move || called.0.call_blocking(context, &called.1)).await })
        });
        self.add::<H::Job>(handler);
        self
    }

    fn add<J: JobType>(&mut self, handler: AnyHandler) {
        let handler = match J::TIMEOUT {
            Some(limit) => Arc::new(move |context| within(limit, context, Next(handler.clone()))),
            None => handler,
        };
        self.plan.handlers.typed::<J>(&handler);
    }

    /// Adds a [`RawHandler`] for the jobs of this kind.
    pub fn handle_raw<M, H: RawHandler<M, S>>(mut self, kind: impl Into<Arc<str>>, handler: H) -> Self {
        let state = self.state.clone();
        self.plan.handlers.raw(kind.into(), Arc::new(move |context| handler.call_raw(context, &state)));
        self
    }

    /// Sets the [`RawHandler`] for the jobs of every other kind.
    pub fn fallback<M, H: RawHandler<M, S>>(mut self, handler: H) -> Self {
        let state = self.state.clone();
        self.plan.handlers.fallback(Arc::new(move |context| handler.call_raw(context, &state)));
        self
    }

    /// Wraps every handler, inside the wrappers that were added before. Use it for metrics, logging, setup or authorization.
    ///
    /// ```
    /// # use duetime::{Client, Worker};
    /// # async fn example(client: &Client) -> Result<(), duetime::Error> {
    /// let worker = Worker::new(client).wrap(async |context, next| {
    ///     let (id, begin) = (context.id(), std::time::Instant::now());
    ///     let handled = next.run(context).await;
    ///     println!("{id} took {:?}: {}", begin.elapsed(), if handled.is_ok() { "done" } else { "failed" });
    ///     handled
    /// });
    /// # worker.run().await }
    /// ```
    pub fn wrap<F, R>(mut self, wrapper: F) -> Self
    where
        F: Fn(Context, Next) -> R + Send + Sync + 'static,
        R: Future<Output = Handled> + Send + 'static,
    {
        self.plan.handlers.wrap(wrapper);
        self
    }

    /// Sets a time limit for a handler and the wrappers that are added later; by default there is none. At the limit the
    /// handler's token is cancelled. It then has 5 s to end, and the attempt fails whatever it returns. A handler that
    /// blocks its thread cannot be interrupted: its attempt fails when it returns.
    pub fn time_limit(self, limit: Duration) -> Self {
        self.wrap(move |context, next| within(limit, context, next))
    }
}

impl<S> fmt::Debug for Worker<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("name", &self.plan.name).finish_non_exhaustive()
    }
}

impl Plan {
    /// The queues to serve, in turns.
    fn turns(&self) -> Turns {
        if !self.queues.is_empty() {
            return Turns::new(&self.queues);
        }
        let queues = match self.handlers.queues() {
            [] => &[QUEUE_DEFAULT],
            queues => queues,
        };
        Turns::new(&queues.iter().map(|&queue| queue.into()).collect::<Vec<_>>())
    }
}

/// Runs a handler, for at most this long.
fn within(limit: Duration, context: Context, next: Next) -> Handling {
    Box::pin(async move {
        let token = context.cancellation().clone();
        let mut run = pin!(next.run(context));
        if let Ok(handled) = timeout(limit, &mut run).await {
            return handled;
        }
        token.cancel();
        // The handler may finish, but its result comes too late.
        let _ = timeout(HEED, run).await;
        Err(JobError::new(format!("time limit of {} exceeded", Span::from(limit))))
    })
}

/// The host name, if it is known, and the process id.
fn process_name() -> Arc<str> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| std::env::var("HOSTNAME").ok());
    let id = std::process::id();
    let host = host.as_deref().map(str::trim).filter(|host| (1..=HOST_BYTES_MAX).contains(&host.len()));
    host.map_or_else(|| id.to_string(), |host| format!("{host}:{id}")).into()
}
