//! Listening to what happens to jobs.

use super::{Backend, Client};
use crate::error::Error;
#[cfg(feature = "engine")]
use duetime_core::engine::events::Subscription;
use duetime_core::engine::events::{Event, Filter};

/// What happens to jobs, from when it was asked for on: see [`Client::events`].
#[derive(Debug)]
pub struct Events(Source);

#[derive(Debug)]
enum Source {
    #[cfg(feature = "engine")]
    Here(Subscription),
    Remote(Box<super::remote::Stream>),
}

impl Client {
    /// Listens to what happens to jobs from now on: in this process, in all that share its Redis, or on the server. It is
    /// for watching, not for accounting: who reads too slowly misses something, and what happens in other processes may be
    /// lost on its way or come in another order.
    ///
    /// # Errors
    /// [`Invalid`](duetime_core::Error::Invalid); where the jobs cannot be reached.
    pub async fn events(&self, filter: Filter) -> Result<Events, Error> {
        Ok(Events(match &self.backend {
            #[cfg(feature = "engine")]
            Backend::Embedded(embedded) => Source::Here(embedded.listen(filter).await?),
            Backend::Remote(remote) => Source::Remote(Box::new(remote.listen(filter).await?)),
        }))
    }
}

impl Events {
    /// What happened next, or how much was missed: then the state of jobs had better be read anew. `None` once the client
    /// is closed, or its server stops. Dropped while it waits, it has taken nothing.
    ///
    /// # Errors
    /// Where the connection to a server is lost; then it may be called again, and what happened in between is missed.
    pub async fn next(&mut self) -> Result<Option<Event>, Error> {
        match &mut self.0 {
            #[cfg(feature = "engine")]
            Source::Here(listener) => Ok(listener.next().await),
            Source::Remote(stream) => stream.next().await,
        }
    }
}
