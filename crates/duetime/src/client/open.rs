//! Opening a store in this process.

use super::embedded::Embedded;
use super::{Backend, Client};
use crate::error::Error;
use duetime_core::engine::{Options, Stores};
use duetime_core::{Error as CoreError, SystemClock};
use duetime_store::sqlite::{self, Durability, Sqlite};
use std::path::PathBuf;
use std::sync::Arc;

/// How a store is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct OpenOptions {
    /// When what was answered is on disk; by default before the answer.
    pub durability: Durability,
    /// How the engine is set up: its horizon, limits and retention.
    pub engine: Options,
}

impl OpenOptions {
    /// When what was answered is on disk; by default before the answer.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// How the engine is set up: its horizon, limits and retention.
    #[must_use]
    pub fn engine(mut self, engine: Options) -> Self {
        self.engine = engine;
        self
    }
}

impl Client {
    /// Opens the store in a file, or makes it where there is none, and starts its engine. One process holds a file at a
    /// time.
    ///
    /// # Errors
    /// Where the file is held by another process, is damaged or no store, or cannot be written.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, Error> {
        Self::open_with(path, OpenOptions::default()).await
    }

    /// As [`open`](Self::open), with options.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_with(path: impl Into<PathBuf>, options: OpenOptions) -> Result<Self, Error> {
        let path = path.into();
        let open = stores(Some(path), options.durability);
        Ok(Self { backend: Backend::Embedded(Embedded::start(open, options.engine).await?) })
    }

    /// A store in memory, gone with the last clone of the client. For tests, and for jobs that may be lost.
    ///
    /// # Errors
    /// Where the system gives no thread.
    pub async fn memory() -> Result<Self, Error> {
        Self::memory_with(Options::default()).await
    }

    /// As [`memory`](Self::memory), with options.
    ///
    /// # Errors
    /// As [`memory`](Self::memory).
    pub async fn memory_with(options: Options) -> Result<Self, Error> {
        let open = stores(None, Durability::None);
        Ok(Self { backend: Backend::Embedded(Embedded::start(open, options).await?) })
    }
}

/// The wheel beside SQLite.
async fn stores(path: Option<PathBuf>, durability: Durability) -> Result<Stores, CoreError> {
    let open = tokio::task::spawn_blocking(move || match path {
        Some(path) => Sqlite::open(&path, sqlite::Options { durability }),
        None => Sqlite::memory(),
    });
    let sqlite = Arc::new(open.await.map_err(|_| CoreError::Stopping)??);
    Ok(Stores::one_process(Arc::new(SystemClock::new()), sqlite))
}
