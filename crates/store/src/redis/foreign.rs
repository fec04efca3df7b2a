//! A Redis with data of other programs, which `duetime adopt` takes over.
//!
//! A command is sent **at most once**: if its reply is lost, that is an error. Scripts that move such data cannot be repeated as ours can.

use super::link::Link;
use super::url;
use duetime_core::Error;
use redis::{Cmd, Value};

/// A connection to it, which is made anew after an error.
pub struct Foreign(Link);

impl Foreign {
    /// Connects with the first command. The address is one of those that [`Redis::connect`](super::Redis::connect) takes.
    ///
    /// # Errors
    /// [`Error::Invalid`] where the address cannot be right.
    pub fn new(address: &str) -> Result<Self, Error> {
        // Where another provider was installed before, that one serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Self(Link::new(&url::Address::parse(address)?)?))
    }

    /// Carries a command out.
    ///
    /// # Errors
    /// One that is [retryable](Error::is_retryable) where Redis did not answer, or not yet: it may have been carried out.
    pub async fn once(&self, command: &Cmd) -> Result<Value, Error> {
        self.0.once(command).await
    }

    /// The address, without user and password.
    pub fn place(&self) -> &str {
        &self.0.place
    }
}
