//! The worker: reserves jobs, runs handlers, extends leases and settles outcomes.
//!
//! The dispatcher works on its own thread, with a small runtime and, for a server, its own connections. Only handlers run on
//! the caller's runtime. A handler that blocks its thread, even the only one, neither loses its lease nor delays the
//! outcomes of others. A job waits only briefly for a free handler: jobs that were reserved ahead and cannot start are
//! released.

mod backoff;
mod calls;
mod context;
mod dispatcher;
mod executor;
mod handler;
mod leases;
mod outbox;
mod prefetch;
mod run;

pub use context::Context;
pub use dispatcher::Summary;
pub use handler::{Handled, HandlerError, Next};

use crate::client::Client;
use crate::kind::Kind;
use crate::push::millis_up;
use duetime_core::Payload;
use duetime_core::api::Span;
use duetime_core::model::name::QUEUE_DEFAULT;
use handler::Handlers;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

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
/// A job of a kind without a handler is released for 5 seconds without counting the attempt, so that another worker can run
/// it during a rolling deploy. This is logged once for each kind. A payload that cannot be decoded, an error and a panic are
/// failures: the job's retry rule decides what follows.
#[must_use = "a worker does nothing until it runs"]
pub struct Worker {
    client: Client,
    name: Option<Arc<str>>,
    queues: Vec<Arc<str>>,
    room: Room,
    /// Whether jobs are reserved before handlers are free.
    is_ahead: bool,
    heed: Duration,
    lease_ms: Option<u64>,
    stop_limit: Duration,
    handlers: Handlers,
}

impl Worker {
    /// Returns a worker without handlers.
    pub fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            name: Some(process_name()),
            queues: Vec::new(),
            room: Arc::new(|_| Ok(CONCURRENCY_DEFAULT)),
            is_ahead: true,
            heed: HEED,
            lease_ms: None,
            stop_limit: STOP_LIMIT_DEFAULT,
            handlers: Handlers::default(),
        }
    }

    /// Adds a queue. A worker has at most 64 queues, which it serves in strict order of addition. By default it serves the
    /// queues of the handlers' [`Kind`]s in the order of the handlers, or `default` if there are none.
    pub fn queue(mut self, queue: impl Into<Arc<str>>) -> Self {
        self.queues.push(queue.into());
        self
    }

    /// Sets the name that [`Client::workers`] shows, 1 to 255 bytes; by default the host name and the process id.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Without a name the worker is not listed.
    #[doc(hidden)]
    pub fn unnamed(mut self) -> Self {
        self.name = None;
        self
    }

    /// Sets how many handlers run at the same time, at least 1; 8 by default.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        let concurrency = concurrency.max(1);
        self.room = Arc::new(move |_| Ok(concurrency));
        self
    }

    /// Replaces a fixed [`concurrency`](Self::concurrency) by a function that returns how many handlers may run now, or the
    /// time until which none may. It is called after every event. Nothing is reserved ahead, and handlers that must stop are
    /// aborted at once, without cancelling their tokens first.
    #[doc(hidden)]
    pub fn room(mut self, room: impl Fn(Instant) -> Result<usize, Instant> + Send + Sync + 'static) -> Self {
        (self.room, self.is_ahead, self.heed) = (Arc::new(room), false, Duration::ZERO);
        self
    }

    /// Sets the lease, 1 s to 12 h; by default the job's own, its queue's, or 60 s. The worker extends it after every third.
    /// A crash is noticed after at most one lease, a cancel after at most a third of one.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease_ms = Some(millis_up(lease));
        self
    }

    /// Sets how long a stop waits for running handlers before it cancels their tokens; 30 s by default.
    pub fn stop_limit(mut self, limit: Duration) -> Self {
        self.stop_limit = limit;
        self
    }

    /// Sets the handler for jobs with a typed payload. `?` converts any error that implements `Display` to a
    /// [`HandlerError`].
    pub fn handler<K, F, R>(mut self, handler: F) -> Self
    where
        K: Kind,
        F: Fn(K, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Handled> + Send + 'static,
    {
        self.handlers.typed(handler);
        self
    }

    /// Sets the handler for the jobs of a kind, given their bytes.
    pub fn raw_handler<F, R>(mut self, kind: impl Into<Arc<str>>, handler: F) -> Self
    where
        F: Fn(Payload, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Handled> + Send + 'static,
    {
        self.handlers.raw(kind.into(), handler);
        self
    }

    /// Sets the handler for the jobs of every other kind, given their bytes.
    pub fn fallback<F, R>(mut self, handler: F) -> Self
    where
        F: Fn(Payload, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Handled> + Send + 'static,
    {
        self.handlers.fallback(handler);
        self
    }

    /// Wraps every handler, inside the wrappers that were added before. Use it for metrics, logging, setup or authorization.
    /// To share state between handlers, such as a connection pool in an `Arc`, capture it.
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
        self.handlers.wrap(wrapper);
        self
    }

    /// Sets a time limit for a handler and the wrappers that are added later; by default there is none. At the limit the
    /// handler's token is cancelled. It then has 5 s to end, and the attempt fails whatever it returns. A handler that
    /// blocks its thread cannot be interrupted: its attempt fails when it returns.
    pub fn time_limit(self, limit: Duration) -> Self {
        self.wrap(move |context, next| async move {
            let token = context.cancellation().clone();
            let mut run = pin!(next.run(context));
            if let Ok(handled) = timeout(limit, &mut run).await {
                return handled;
            }
            token.cancel();
            // The handler may finish, but its result comes too late.
            let _ = timeout(HEED, run).await;
            Err(HandlerError::new(format_args!("time limit of {} exceeded", Span(millis_up(limit)))))
        })
    }

    /// The queues to serve.
    fn queues(&self) -> Vec<Arc<str>> {
        if !self.queues.is_empty() {
            return self.queues.clone();
        }
        match self.handlers.queues() {
            [] => vec![Arc::from(QUEUE_DEFAULT)],
            queues => queues.iter().copied().map(Arc::from).collect(),
        }
    }
}

/// The host name, if it is known, and the process id.
fn process_name() -> Arc<str> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| std::env::var("HOSTNAME").ok());
    let id = std::process::id();
    let host = host.as_deref().map(str::trim).filter(|host| (1..=HOST_BYTES_MAX).contains(&host.len()));
    host.map_or_else(|| id.to_string(), |host| format!("{host}:{id}")).into()
}
