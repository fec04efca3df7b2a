//! Workers that ask for jobs.

use super::{Client, forward};
use crate::error::Error;
use duetime_core::api::WorkerStatus;

/// The workers: see [`Client::workers`].
#[derive(Clone, Copy, Debug)]
pub struct Workers<'c> {
    client: &'c Client,
}

impl Client {
    /// Shows the workers that ask for jobs. A [`Worker`](crate::Worker) runs them.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # mod example {
    /// # use duetime::Client;
    /// # #[tokio::main]
    /// # pub async fn run() -> duetime::Result<()> {
    /// # let client = Client::memory().await?;
    /// for worker in client.workers().list().await? {
    ///     println!("{} was last seen at {:?}", worker.worker, worker.last_seen);
    /// }
    /// # Ok(())
    /// # }
    /// # }
    /// # #[cfg(feature = "embedded")]
    /// # example::run()?;
    /// # Ok::<(), duetime::Error>(())
    /// ```
    pub fn workers(&self) -> Workers<'_> {
        Workers { client: self }
    }
}

impl Workers<'_> {
    /// Returns the named workers that asked this process or the server for jobs within the last hour, by name. Each server
    /// lists only its own workers.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub async fn list(self) -> Result<Vec<WorkerStatus>, Error> {
        forward!(self.client => workers())
    }
}
