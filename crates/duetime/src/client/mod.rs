//! The client: the same calls on a store in this process and on a server.

mod connect_options;
#[cfg(feature = "engine")]
mod embedded;
mod events;
mod leases;
mod locks;
mod manage;
#[cfg(feature = "embedded")]
mod open;
mod pushes;
#[cfg(feature = "redis")]
mod redis;
mod remote;
mod schedules;

pub use connect_options::ConnectOptions;
pub use events::Events;
#[cfg(feature = "embedded")]
pub use open::OpenOptions;
pub use remote::token::Token;

use crate::error::Error;
#[cfg(feature = "engine")]
use embedded::Embedded;
use remote::Remote;
use std::fmt;

/// A client for jobs in a store in this process, in a shared Redis, or on a server. Clones are cheap and share everything.
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
    Embedded(Embedded),
    Remote(Remote),
}

/// Forwards a call to the backend; both backends have the same methods.
macro_rules! forward {
    ($client:ident.$call:ident($($argument:expr),*)) => {
        match &$client.backend {
            #[cfg(feature = "engine")]
            $crate::client::Backend::Embedded(embedded) => embedded.$call($($argument),*).await,
            $crate::client::Backend::Remote(remote) => remote.$call($($argument),*).await,
        }
    };
}
use forward;

/// Forwards a call to the engine or to a server. The engine's call runs on its own runtime, so it borrows copies: `&` marks
/// a borrowed argument, `?` an optional text.
macro_rules! ask {
    ($client:ident.$call:ident()) => { ask!($client.$call: {} () ()) };
    ($client:ident.$call:ident($($(&$lent:ident)? $(?$text:ident)? $($own:ident)?),+)) => {
        ask!($client.$call: {
            $($(let $lent = $lent.to_owned();)? $(let $text = $text.map(str::to_owned);)?)+
        } ($($(&$lent)? $($text.as_deref())? $($own)?),+) ($($($lent)? $($text)? $($own)?),+))
    };
    ($client:ident.$call:ident: { $($copies:stmt;)* } ($($of_engine:expr),*) ($($of_server:expr),*)) => {
        match &$client.backend {
            #[cfg(feature = "engine")]
            $crate::client::Backend::Embedded(embedded) => {
                $($copies)*
                Ok(embedded.call(move |engine| async move { engine.$call($($of_engine),*).await }).await??)
            }
            $crate::client::Backend::Remote(remote) => remote.$call($($of_server),*).await,
        }
    };
}
use ask;

impl Client {
    /// Returns a client for this address:
    ///
    /// - `http://host:port`, or `https://host[:port]` (feature `tls`): a server. Nothing is sent yet.
    /// - `redis://[user:password@]host[:port][/db][?namespace=name]`, `rediss://` for TLS,
    ///   `redis+sentinel://host:port,…/master[/db]`, `redis+cluster://host:port,…` (feature `redis`): jobs in Redis, which
    ///   this process shares with all others that name the same namespace. Its engine runs here.
    ///
    /// # Errors
    /// [`Error::Address`], [`Error::Roots`]; if Redis does not answer or is unsuitable.
    pub async fn connect(address: &str) -> Result<Self, Error> {
        Self::connect_with(address, ConnectOptions::default()).await
    }

    /// Like [`connect`](Self::connect), with options.
    ///
    /// # Errors
    /// Same as [`connect`](Self::connect).
    pub async fn connect_with(address: &str, options: ConnectOptions) -> Result<Self, Error> {
        #[cfg(feature = "redis")]
        if address.starts_with("redis") {
            return Ok(Self { backend: Backend::Embedded(redis::start(address, options).await?) });
        }
        Ok(Self { backend: Backend::Remote(Remote::new(address, options)?) })
    }

    /// Returns a client of an engine that runs on this runtime. The caller must stop that engine itself.
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    #[cfg(feature = "engine")]
    #[doc(hidden)]
    pub fn of_engine(engine: duetime_core::Engine) -> Self {
        Self { backend: Backend::Embedded(Embedded::of(engine)) }
    }

    /// A copy for use on another runtime. Connections belong to the runtime that made them.
    pub(crate) fn detached(&self) -> Self {
        match &self.backend {
            #[cfg(feature = "engine")]
            Backend::Embedded(_) => self.clone(),
            Backend::Remote(remote) => Self { backend: Backend::Remote(remote.detached()) },
        }
    }

    /// A copy for the thread that renews locks. All clones share its connections.
    pub(crate) fn for_keeper(&self) -> Self {
        match &self.backend {
            #[cfg(feature = "engine")]
            Backend::Embedded(_) => self.clone(),
            Backend::Remote(remote) => Self { backend: Backend::Remote(remote.for_keeper()) },
        }
    }

    /// Whether this client uses a server.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self.backend, Backend::Remote(_))
    }

    /// Stops the engine of an embedded store, and waits until everything is recorded and the file is closed. After that,
    /// calls fail with [`Stopping`](duetime_core::Error::Stopping), including those of clones. A server keeps running.
    ///
    /// # Errors
    /// If the store could not be closed cleanly.
    pub async fn close(&self) -> Result<(), Error> {
        forward!(self.close())
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.backend {
            #[cfg(feature = "engine")]
            Backend::Embedded(_) => f.write_str("Client(engine)"),
            Backend::Remote(remote) => write!(f, "Client({})", remote.address()),
        }
    }
}
