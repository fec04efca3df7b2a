//! Opening a store in this process.

use super::embedded::Embedded;
use super::{Backend, Client};
use crate::error::Error;
use duetime_core::engine::Options;
use duetime_store::open::{Spec, open};
use duetime_store::sqlite::Durability;
use std::path::PathBuf;

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
        let spec = Spec::File { path: path.into(), durability: options.durability };
        Ok(Self { backend: Backend::Embedded(Embedded::start(open(spec), options.engine).await?) })
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
        Ok(Self { backend: Backend::Embedded(Embedded::start(open(Spec::Memory), options).await?) })
    }
}
