//! The worker: reserves jobs, runs handlers, keeps leases alive, settles.
//!
//! The dispatcher works on its own thread, with a small runtime and, for a server, its own connections; only
//! handlers run on the caller's runtime. So a handler that blocks its thread, even the only one, neither loses its
//! lease nor holds up another's outcome. A job waits for a free handler for a moment at most: what was reserved ahead
//! and cannot start is given back.

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
pub use handler::{Handled, HandlerError, Next};
pub use run::Summary;

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

/// Handlers that run at the same time where nothing else is said.
const CONCURRENCY_DEFAULT: usize = 8;
/// How long a graceful stop waits for handlers where nothing else is said.
const STOP_LIMIT_DEFAULT: Duration = Duration::from_secs(30);
/// How long handlers have to heed their tokens when a limit of time is over.
const HEED: Duration = Duration::from_secs(5);

/// The longest name of a machine.
const HOST_BYTES_MAX: usize = 64;

/// How many handlers may run at a time; in place of that, until when none may.
type Room = Arc<dyn Fn(Instant) -> Result<usize, Instant> + Send + Sync>;

/// Runs handlers for due jobs.
///
/// A job of a kind without a handler is given back uncounted for 5 seconds, so that during a rolling deploy another
/// worker gets it; this is logged once for each kind. A payload that does not decode, an error and a panic are
/// failures: the job's retry rule says what follows.
#[must_use = "a worker does nothing until it runs"]
pub struct Worker {
    client: Client,
    name: Option<Arc<str>>,
    queues: Vec<Arc<str>>,
    room: Room,
    /// Whether jobs are reserved ahead of handlers that are free.
    is_ahead: bool,
    heed: Duration,
    lease_ms: Option<u64>,
    stop_limit: Duration,
    handlers: Handlers,
}

impl Worker {
    /// A worker without handlers.
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

    /// Adds a queue, after those that were added before: at most 64, in strict order. By default the queues of the
    /// handlers' [`Kind`]s, in the order of the handlers, else `default`.
    pub fn queue(mut self, queue: impl Into<Arc<str>>) -> Self {
        self.queues.push(queue.into());
        self
    }

    /// The name by which [`Client::workers`] lists it, 1 to 255 bytes; by default the machine's name and the process id.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Without a name it is not listed.
    #[doc(hidden)]
    pub fn unnamed(mut self) -> Self {
        self.name = None;
        self
    }

    /// How many handlers run at the same time, at least 1; by default 8.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        let concurrency = concurrency.max(1);
        self.room = Arc::new(move |_| Ok(concurrency));
        self
    }

    /// In place of a fixed [`concurrency`](Self::concurrency), how many handlers may run at this time, or until when none
    /// may. It is asked whenever something has happened. Nothing is reserved ahead, and handlers that are to stop are aborted
    /// at once, without a word to their tokens before.
    #[doc(hidden)]
    pub fn room(mut self, room: impl Fn(Instant) -> Result<usize, Instant> + Send + Sync + 'static) -> Self {
        (self.room, self.is_ahead, self.heed) = (Arc::new(room), false, Duration::ZERO);
        self
    }

    /// How long a lease lasts before it is extended, 1 s to 12 h; by default the job's own, its queue's, or 60 s. It is
    /// extended every third of that: a crash is noticed after a lease at the latest, a cancel after a third of one.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease_ms = Some(millis_up(lease));
        self
    }

    /// How long a stop waits for running handlers before it cancels their tokens; by default 30 s.
    pub fn stop_limit(mut self, limit: Duration) -> Self {
        self.stop_limit = limit;
        self
    }

    /// The handler for the jobs of a typed payload. Any error that can be shown becomes a [`HandlerError`] with `?`.
    pub fn handler<K, F, R>(mut self, handler: F) -> Self
    where
        K: Kind,
        F: Fn(K, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Handled> + Send + 'static,
    {
        self.handlers.typed(handler);
        self
    }

    /// The handler for the jobs of a kind, given their bytes.
    pub fn raw_handler<F, R>(mut self, kind: impl Into<Arc<str>>, handler: F) -> Self
    where
        F: Fn(Payload, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Handled> + Send + 'static,
    {
        self.handlers.raw(kind.into(), handler);
        self
    }

    /// The handler for the jobs of every other kind, given their bytes.
    pub fn fallback<F, R>(mut self, handler: F) -> Self
    where
        F: Fn(Payload, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Handled> + Send + 'static,
    {
        self.handlers.fallback(handler);
        self
    }

    /// Runs this around every handler, within the wrappers that were added before: to measure, to log, to open what
    /// every handler needs, to refuse. What handlers share they capture, an `Arc` or a pool of connections, say.
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

    /// How long a handler may take, and with it the wrappers that are added later; by default as long as it lives. Then
    /// its token is cancelled, it has 5 s to end, and whatever it answers, the attempt has failed. A handler that
    /// blocks its thread cannot be ended: it has failed when it comes to its end.
    pub fn time_limit(self, limit: Duration) -> Self {
        self.wrap(move |context, next| async move {
            let token = context.cancellation().clone();
            let mut run = pin!(next.run(context));
            if let Ok(handled) = timeout(limit, &mut run).await {
                return handled;
            }
            token.cancel();
            // It may end in peace; what it says comes too late.
            let _ = timeout(HEED, run).await;
            Err(HandlerError::new(format_args!("time limit of {} exceeded", Span(millis_up(limit)))))
        })
    }

    /// The queues to work on.
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

/// The machine's name, where it is known, and the process id.
fn process_name() -> Arc<str> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| std::env::var("HOSTNAME").ok());
    let id = std::process::id();
    let host = host.as_deref().map(str::trim).filter(|host| (1..=HOST_BYTES_MAX).contains(&host.len()));
    host.map_or_else(|| id.to_string(), |host| format!("{host}:{id}")).into()
}
