//! The client: the same calls on a store in this process and on a server, in groups by what they are about.

#[cfg(any(feature = "redis", feature = "remote"))]
mod connect_options;
#[cfg(feature = "engine")]
mod embedded;
mod events;
#[cfg(feature = "engine")]
mod here;
mod jobs;
mod leases;
mod locks;
#[cfg(feature = "embedded")]
mod open;
mod queues;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "remote")]
mod remote;
mod schedules;
mod wait;
mod workers;

#[cfg(any(feature = "redis", feature = "remote"))]
pub use connect_options::ConnectOptions;
#[cfg(feature = "engine")]
pub use duetime_core::engine::Options as EngineOptions;
#[cfg(feature = "engine")]
pub use duetime_core::ports::Retention;
#[cfg(feature = "embedded")]
pub use duetime_store::sqlite::Durability;
pub use events::Events;
#[cfg(feature = "engine")]
pub use here::Embedded;
pub use jobs::{Found, Jobs};
pub use leases::Leases;
pub use locks::Locks;
#[cfg(feature = "embedded")]
pub use open::OpenOptions;
pub use queues::Queues;
#[cfg(feature = "remote")]
pub use remote::token::Token;
pub use schedules::Schedules;
pub use workers::Workers;

use crate::error::{Answers, Error, all, only};
use crate::push::IntoNewJob;
use duetime_core::api::{Attention, Pushed};
use duetime_core::engine::{BulkAction, BulkCounts, CancelOutcome, Health, Query};
use duetime_core::{Error as CoreError, NewJob};
#[cfg(feature = "remote")]
use remote::Remote;
use std::fmt;
use std::sync::Arc;

/// A client for jobs in a store in this process, in a shared Redis, or on a server. Clones are cheap and share everything.
///
/// It pushes jobs; everything else is in groups: [`jobs`](Self::jobs), [`queues`](Self::queues),
/// [`schedules`](Self::schedules), [`locks`](Self::locks), [`workers`](Self::workers) and [`leases`](Self::leases), which work on every
/// backend. A group borrows the client and costs nothing.
///
/// An engine in this process runs on its own threads, so handlers that block do not delay it. When the last clone is
/// dropped, the engine stops in the background; [`close`](Self::close) waits for that.
#[derive(Clone)]
pub struct Client {
    backend: Backend,
}

/// The backend of a client.
#[derive(Clone)]
enum Backend {
    #[cfg(feature = "engine")]
    Embedded(embedded::Embedded),
    #[cfg(feature = "remote")]
    Remote(Remote),
}

/// Forwards a call to the backend; both backends have the same methods.
macro_rules! forward {
    ($client:expr => $call:ident($($argument:expr),*)) => {
        match &$client.backend {
            #[cfg(feature = "engine")]
            $crate::client::Backend::Embedded(embedded) => embedded.$call($($argument),*).await,
            #[cfg(feature = "remote")]
            $crate::client::Backend::Remote(remote) => remote.$call($($argument),*).await,
        }
    };
}
use forward;

/// Forwards a call to the engine or to a server. The engine's call runs on its own runtime, so it borrows copies: `&` marks
/// a borrowed argument, `?` an optional text.
macro_rules! ask {
    ($client:expr => $call:ident()) => { ask!($client => $call: {} () ()) };
    ($client:expr => $call:ident($($(&$lent:ident)? $(?$text:ident)? $($own:ident)?),+)) => {
        ask!($client => $call: {
            $($(let $lent = $lent.to_owned();)? $(let $text = $text.map(str::to_owned);)?)+
        } ($($(&$lent)? $($text.as_deref())? $($own)?),+) ($($($lent)? $($text)? $($own)?),+))
    };
    ($client:expr => $call:ident: { $($copies:stmt;)* } ($($of_engine:expr),*) ($($of_server:expr),*)) => {
        match &$client.backend {
            #[cfg(feature = "engine")]
            $crate::client::Backend::Embedded(embedded) => {
                $($copies)*
                Ok(embedded.call(move |engine| async move { engine.$call($($of_engine),*).await }).await??)
            }
            #[cfg(feature = "remote")]
            $crate::client::Backend::Remote(remote) => remote.$call($($of_server),*).await,
        }
    };
}
use ask;

impl Client {
    /// Returns a client for this address:
    ///
    /// - `http://host:port` (feature `remote`), or `https://host[:port]` (feature `tls`): a server. Nothing is sent yet. A path such as
    ///   in `https://shop.example/duetime` is the one under which an application has mounted the API.
    /// - `redis://[user:password@]host[:port][/db][?namespace=name]`, `rediss://` for TLS,
    ///   `redis+sentinel://host:port,…/master[/db]`, `redis+cluster://host:port,…` (feature `redis`): jobs in Redis, which
    ///   this process shares with all others that name the same namespace. Its engine runs here.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid), as a malformed address; if Redis does not answer or is unsuitable.
    #[cfg(any(feature = "redis", feature = "remote"))]
    pub async fn connect(address: &str) -> Result<Self, Error> {
        Self::connect_with(address, ConnectOptions::default()).await
    }

    /// Like [`connect`](Self::connect), with options.
    ///
    /// # Errors
    /// Same as [`connect`](Self::connect).
    #[cfg(any(feature = "redis", feature = "remote"))]
    pub async fn connect_with(address: &str, options: ConnectOptions) -> Result<Self, Error> {
        #[cfg(feature = "redis")]
        if address.starts_with("redis") {
            return Ok(Self { backend: Backend::Embedded(redis::start(address, options).await?) });
        }
        #[cfg(feature = "remote")]
        return Ok(Self { backend: Backend::Remote(Remote::new(address, options)?) });
        #[cfg(not(feature = "remote"))]
        Err(crate::error::Cause::Address(format!(
            "{address}, and the crate `duetime` is built without the feature `remote`"
        ))
        .into())
    }

    /// Pushes at most 10,000 jobs with at most 64 MiB of payload: values of one [`JobType`](crate::JobType), or several [pushes](crate::Push).
    /// Returns what was pushed, in order.
    ///
    /// ```
    /// # #[cfg(all(feature = "embedded", feature = "derive"))]
    /// # mod example {
    /// # use duetime::prelude::*;
    /// # #[derive(Serialize, Deserialize, Job)]
    /// # #[job(kind = "remind")]
    /// # struct Remind { user: u64 }
    /// # #[tokio::main]
    /// # pub async fn run() -> duetime::Result<()> {
    /// # let client = Client::memory().await?;
    /// client.push_all((1..100).map(|user| Remind { user })).await?;
    /// let later = |user| client.push(Remind { user }).after(Duration::from_secs(60));
    /// assert_eq!(client.push_all([later(100), later(101)]).await?.len(), 2);
    /// # Ok(())
    /// # }
    /// # }
    /// # #[cfg(all(feature = "embedded", feature = "derive"))]
    /// # example::run()?;
    /// # Ok::<(), duetime::Error>(())
    /// ```
    ///
    /// # Errors
    /// If any of the jobs was not pushed: the error is that of the first one, and says how many there were. The others are pushed, so give
    /// the jobs a key or an [origin](crate::Push::origin) if you repeat the call. [`push_many`](Self::push_many) answers for each. Nothing is
    /// pushed if a payload cannot be serialized, if the batch as a whole exceeds a limit, or if it did not reach the engine.
    pub async fn push_all<J: IntoNewJob>(&self, jobs: impl IntoIterator<Item = J>) -> Result<Vec<Pushed>, Error> {
        let jobs = jobs.into_iter().map(IntoNewJob::into_new_job).collect::<Result<Vec<_>, Error>>()?;
        all(self.push_many(jobs).await?)
    }

    /// Pushes at most 10,000 jobs with at most 64 MiB of payload. Returns one answer for each, in order. Not atomic as a
    /// whole.
    ///
    /// # Errors
    /// If the batch as a whole exceeds a limit, or did not reach the engine.
    pub async fn push_many(&self, jobs: Vec<NewJob>) -> Result<Answers<Pushed>, Error> {
        #[cfg(feature = "otel")]
        let jobs = crate::otel::traced(jobs);
        #[cfg(feature = "metrics")]
        let pushes = crate::measure::Pushes::new(&jobs);
        let answers = forward!(self => push(jobs));
        #[cfg(feature = "metrics")]
        pushes.answered(&answers);
        answers
    }

    pub(crate) async fn push_one(&self, job: NewJob) -> Result<Pushed, Error> {
        only(self.push_many(vec![job]).await?)
    }

    /// Cancels the live job with this key in a queue. Returns `None` if no live job has the key. A job that a worker is running
    /// is asked to stop: [`CancelRequested`](CancelOutcome::CancelRequested).
    ///
    /// # Errors
    /// If the queue's name or the key is malformed, or the store cannot be written.
    pub async fn cancel_by_key(
        &self,
        queue: impl Into<Arc<str>>,
        key: impl Into<Arc<str>>,
    ) -> Result<Option<CancelOutcome>, Error> {
        let key = key.into();
        let query = Query::default().queue(queue).key(key.clone());
        cancelled(&key, &self.jobs().bulk(&query, BulkAction::Cancel).await?)
    }

    /// Returns what needs the attention of an operator: jobs that wait without a worker, targets that do not answer, new dead
    /// letters, paused queues, failed runs of schedules, and what is degraded. The list is empty if all is well. It is at most
    /// about a second old, and each engine or server has its own.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub async fn attention(&self) -> Result<Attention, Error> {
        forward!(self => attention())
    }

    /// Returns the health of the engine: whether jobs are handed out, and what is degraded.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub async fn health(&self) -> Result<Health, Error> {
        forward!(self => health())
    }

    /// Returns the version of Duetime in use: the server's, if it tells, or this library's.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub async fn version(&self) -> Result<Option<String>, Error> {
        forward!(self => version())
    }

    /// Returns metrics of jobs, queues and the store, for Prometheus: a text in the format OpenMetrics 1.0. Answer requests for
    /// `/metrics` with it and the media type [`METRICS_MEDIA_TYPE`](crate::status::METRICS_MEDIA_TYPE).
    ///
    /// Counters and histograms are those of the engine in this process since it started. The counters `duetime_queue_…` and the
    /// gauges are read from the store. A client of a server returns the server's text, which also has its deliveries and its
    /// log. The first 200 queues by name are shown separately, all others together as `queue="*"`.
    ///
    /// # Errors
    /// [`Unavailable`](crate::ErrorKind::Unavailable) if the store or the server is; [`Unauthorized`](crate::ErrorKind::Unauthorized) if the
    /// server requires a token with the right `read` for all queues.
    pub async fn metrics_text(&self) -> Result<String, Error> {
        forward!(self => metrics_text())
    }

    /// Returns a client of an engine that runs on this runtime. The caller must stop that engine itself.
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    #[cfg(feature = "unstable-server")]
    #[doc(hidden)]
    pub fn of_engine(engine: duetime_core::Engine) -> Self {
        Self { backend: Backend::Embedded(embedded::Embedded::of(engine)) }
    }

    /// Returns the engine in this process and the runtime on which it runs; `None` if this client is connected to a server.
    #[cfg(feature = "unstable-server")]
    #[doc(hidden)]
    pub fn engine(&self) -> Option<(&duetime_core::Engine, &tokio::runtime::Handle)> {
        match &self.backend {
            Backend::Embedded(embedded) => Some(embedded.engine()),
            Backend::Remote(_) => None,
        }
    }

    /// The engine in this process, if there is one.
    #[cfg(feature = "testing")]
    pub(crate) fn here(&self) -> Option<&embedded::Embedded> {
        match &self.backend {
            Backend::Embedded(embedded) => Some(embedded),
            #[cfg(feature = "remote")]
            Backend::Remote(_) => None,
        }
    }

    /// A copy for use on another runtime. Connections belong to the runtime that made them.
    pub(crate) fn detached(&self) -> Self {
        match &self.backend {
            #[cfg(feature = "engine")]
            Backend::Embedded(_) => self.clone(),
            #[cfg(feature = "remote")]
            Backend::Remote(remote) => Self { backend: Backend::Remote(remote.detached()) },
        }
    }

    /// A copy for the thread that renews locks. All clones share its connections.
    pub(crate) fn for_keeper(&self) -> Self {
        match &self.backend {
            #[cfg(feature = "engine")]
            Backend::Embedded(_) => self.clone(),
            #[cfg(feature = "remote")]
            Backend::Remote(remote) => Self { backend: Backend::Remote(remote.for_keeper()) },
        }
    }

    /// Whether this client uses a server.
    pub(crate) fn is_remote(&self) -> bool {
        match &self.backend {
            #[cfg(feature = "engine")]
            Backend::Embedded(_) => false,
            #[cfg(feature = "remote")]
            Backend::Remote(_) => true,
        }
    }

    /// Whether the error may go away by itself. A stopped engine in this process does not restart.
    pub(crate) fn passes(&self, error: &Error) -> bool {
        let is_closed = matches!(error.core(), Some(duetime_core::Error::Stopping)) && !self.is_remote();
        error.is_retryable() && !is_closed
    }

    /// Stops the engine of an embedded store, and waits until everything is recorded and the file is closed. After that,
    /// calls fail with [`Unavailable`](crate::ErrorKind::Unavailable), including those of clones. A server keeps running.
    ///
    /// # Errors
    /// If the store could not be closed cleanly.
    pub async fn close(&self) -> Result<(), Error> {
        forward!(self => close())
    }
}

/// What became of the one live job with a key.
fn cancelled(key: &str, counts: &BulkCounts) -> Result<Option<CancelOutcome>, Error> {
    if counts.cancelled > 0 {
        return Ok(Some(CancelOutcome::Cancelled));
    }
    if counts.cancel_requested > 0 {
        return Ok(Some(CancelOutcome::CancelRequested));
    }
    let why = |code: &str| format!("the job with the key {key:?} was not cancelled ({code})");
    let error = |code: &str| match code {
        "store_full" => CoreError::Full(why(code)),
        "store_damaged" => CoreError::Damaged(why(code)),
        _ => CoreError::Unavailable(why(code)),
    };
    // It ended at that moment: no live job has the key.
    let mut errors = counts.errors.keys().filter(|code| *code != "not_found");
    errors.next().map_or(Ok(None), |code| Err(error(code).into()))
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.backend {
            #[cfg(feature = "engine")]
            Backend::Embedded(_) => f.write_str("Client(engine)"),
            #[cfg(feature = "remote")]
            Backend::Remote(remote) => write!(f, "Client({})", remote.address()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn a_key_names_one_job_so_its_cancel_has_one_outcome() {
        let of = |counts: &[(&str, u64)]| cancelled("order-7", &counts.iter().copied().collect());
        assert_eq!(of(&[("cancelled", 1)]).unwrap(), Some(CancelOutcome::Cancelled));
        assert_eq!(of(&[("cancel_requested", 1)]).unwrap(), Some(CancelOutcome::CancelRequested));
        for none in [&[][..], &[("already_finished", 1)], &[("not_found", 1)]] {
            assert_eq!(of(none).unwrap(), None, "{none:?}");
        }
        for (code, kind) in [
            ("store_full", ErrorKind::Full),
            ("store_damaged", ErrorKind::Damaged),
            ("store_unavailable", ErrorKind::Unavailable),
            ("version_mismatch", ErrorKind::Unavailable),
        ] {
            let error = of(&[(code, 1)]).unwrap_err();
            assert_eq!(error.kind(), kind, "{code}");
            assert!(error.to_string().contains(&format!("the key \"order-7\" was not cancelled ({code})")), "{error}");
        }
    }
}
