//! What only a client with an engine in this process can do.

use super::{Backend, Client, embedded};
use crate::error::{Answers, Error};
#[cfg(feature = "remote")]
use duetime_core::Error as CoreError;
use duetime_core::Job;
use duetime_core::engine::Imported;

/// An engine in this process, on a file, in memory or on Redis: see [`Client::embedded`].
#[derive(Clone, Copy)]
pub struct Embedded<'c>(&'c embedded::Embedded);

impl Client {
    /// Returns the calls that need an engine in this process: on a file, in memory or on Redis.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # mod example {
    /// # use duetime::Client;
    /// use duetime::job::Query;
    ///
    /// # #[tokio::main]
    /// # pub async fn run() -> duetime::Result<()> {
    /// # let (old, new) = (Client::memory().await?, Client::memory().await?);
    /// # old.push_raw("remind", *b"7").await?;
    /// let jobs = old.jobs().find(Query::default()).take(1_000).await?;
    /// for imported in new.embedded()?.import(jobs).await? {
    ///     assert!(imported?.is_new);
    /// }
    /// # Ok(())
    /// # }
    /// # }
    /// # #[cfg(feature = "embedded")]
    /// # example::run()?;
    /// # Ok::<(), duetime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) if this is the client of a server.
    pub fn embedded(&self) -> Result<Embedded<'_>, Error> {
        match &self.backend {
            Backend::Embedded(embedded) => Ok(Embedded(embedded)),
            #[cfg(feature = "remote")]
            Backend::Remote(_) => {
                let why = "this needs a store that is opened in this process, and the client is connected to a server";
                Err(CoreError::Unusable(why.to_owned()).into())
            }
        }
    }
}

impl Embedded<'_> {
    /// Imports jobs of another store, in any state: at most 10,000, with at most 64 MiB of payload. Returns one answer for
    /// each, in order. The call can be repeated: existing jobs are not changed.
    ///
    /// # Errors
    /// If the batch as a whole exceeds a limit, or the store cannot be written.
    pub async fn import(self, jobs: Vec<Job>) -> Result<Answers<Imported>, Error> {
        self.0.import(jobs).await
    }
}

impl std::fmt::Debug for Embedded<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedded").finish_non_exhaustive()
    }
}
