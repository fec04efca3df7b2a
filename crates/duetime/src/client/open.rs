//! Opening a store in this process.

use super::embedded::Embedded;
use super::{Backend, Client};
use crate::error::Error;
use duetime_core::engine::{Options, Stores};

/// How a store is opened.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct OpenOptions {
    /// How the engine is set up.
    pub engine: Options,
}

impl Client {
    /// An engine on stores of the caller's own making.
    ///
    /// # Errors
    /// Where they cannot be read.
    pub async fn with_stores(stores: Stores, options: Options) -> Result<Self, Error> {
        Ok(Self { backend: Backend::Embedded(Embedded::start(move || Ok(stores), options).await?) })
    }
}
