//! A Redis with data of other programs, which `duetime adopt` takes over.
//!
//! A command is sent **at most once**: a lost reply is an error. Unlike our scripts, scripts that move such data cannot be
//! repeated.

use super::link::Link;
use super::url;
use duetime_core::Error;
use redis::{Cmd, Value};

/// A connection to it, which is reopened after an error.
pub struct Foreign(Link);

impl Foreign {
    /// Prepares a connection, which is opened by the first command. It accepts the addresses of
    /// [`Redis::connect`](super::Redis::connect).
    ///
    /// # Errors
    /// [`Error::Invalid`] for a malformed address.
    pub fn new(address: &str) -> Result<Self, Error> {
        // If another provider was installed before, that one is fine, too.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Self(Link::new(&url::Address::parse(address)?)?))
    }

    /// Runs a command.
    ///
    /// # Errors
    /// A [retryable](Error::is_retryable) error if Redis did not answer in time: the command may have been carried out.
    pub async fn once(&self, command: &Cmd) -> Result<Value, Error> {
        self.0.once(command).await
    }

    /// The address, without user and password.
    pub fn place(&self) -> &str {
        &self.0.place
    }
}
