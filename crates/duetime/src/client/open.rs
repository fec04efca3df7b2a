//! Opening a store in this process.

use super::embedded::Embedded;
use super::{Backend, Client};
use crate::error::Error;
use duetime_core::engine::Options;
use duetime_store::open::{Spec, open};
use duetime_store::sqlite::Durability;
use std::path::PathBuf;

/// Options for opening a store.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct OpenOptions {
    /// When changes reach the disk; by default before they are acknowledged.
    pub durability: Durability,
    /// Options of the engine: horizon, limits and retention.
    pub engine: Options,
    /// Your application's own SQLite database, in which it inserts rows that become jobs; none by default.
    pub inbox: Option<PathBuf>,
}

impl OpenOptions {
    /// Sets when changes reach the disk; by default before they are acknowledged.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets options of the engine: horizon, limits and retention.
    #[must_use]
    pub fn engine(mut self, engine: Options) -> Self {
        self.engine = engine;
        self
    }

    /// Names your application's own SQLite database. The table `duetime_inbox` is created there if it is missing. Rows that your
    /// application inserts in its transactions become jobs, usually within a tenth of a second after the commit: see
    /// [`inbox`](crate::inbox).
    ///
    /// The file must exist, and only one store may read it. While it is missing or locked, jobs wait in it, and
    /// [`health`](Client::health) says so. The store locks it for an instant to delete rows, so give your connections a busy timeout.
    #[must_use]
    pub fn inbox(mut self, database: impl Into<PathBuf>) -> Self {
        self.inbox = Some(database.into());
        self
    }
}

impl Client {
    /// Opens the store in a file and starts its engine. The file is created if it does not exist. Only one process can have
    /// a file open.
    ///
    /// # Errors
    /// If another process holds the file; if the file is damaged, is not a store, or cannot be written. The same of the inbox.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, Error> {
        Self::open_with(path, OpenOptions::default()).await
    }

    /// Like [`open`](Self::open), with options.
    ///
    /// # Errors
    /// Same as [`open`](Self::open).
    pub async fn open_with(path: impl Into<PathBuf>, options: OpenOptions) -> Result<Self, Error> {
        let spec = Spec::File { path: path.into(), durability: options.durability, inbox: options.inbox };
        Ok(Self { backend: Backend::Embedded(Embedded::start(open(spec), options.engine).await?) })
    }

    /// Opens a store in memory. It is lost with the last clone of the client. Use it for tests, and for jobs that may be
    /// lost.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub async fn memory() -> Result<Self, Error> {
        Self::memory_with(Options::default()).await
    }

    /// Like [`memory`](Self::memory), with options.
    ///
    /// # Errors
    /// Same as [`memory`](Self::memory).
    pub async fn memory_with(options: Options) -> Result<Self, Error> {
        Ok(Self { backend: Backend::Embedded(Embedded::start(open(Spec::Memory), options).await?) })
    }

    /// The same on this clock, with every job in the wheel.
    #[cfg(feature = "testing")]
    pub(crate) async fn memory_on(clock: std::sync::Arc<duetime_core::MovableClock>) -> Result<Self, Error> {
        use duetime_core::limits::DELAY_MS_MAX;

        let options = Options::default().horizon(duetime_core::api::Span(DELAY_MS_MAX));
        let memory = duetime_store::open::memory_on(clock);
        Ok(Self { backend: Backend::Embedded(Embedded::start(memory, options).await?) })
    }
}
