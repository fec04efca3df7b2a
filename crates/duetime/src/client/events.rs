//! Subscribing to job events.

use super::{Backend, Client};
use crate::error::Error;
#[cfg(feature = "engine")]
use duetime_core::engine::events::Subscription;
use duetime_core::engine::events::{Event, Filter};
use futures_util::stream::{self, Stream, StreamExt};

/// A subscription to job events: see [`Client::events`].
#[derive(Debug)]
pub struct Events(Source);

#[derive(Debug)]
enum Source {
    #[cfg(feature = "engine")]
    Here(Subscription),
    #[cfg(feature = "remote")]
    Remote(Box<super::remote::Stream>),
}

impl Client {
    /// Subscribes to job events from now on: of this process, of all processes that share its Redis, or of the server. Use
    /// events for monitoring, not for accounting. A slow reader misses events, and events of other processes may be lost or
    /// reordered.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid); if the jobs cannot be reached.
    pub async fn events(&self, filter: Filter) -> Result<Events, Error> {
        Ok(Events(match &self.backend {
            #[cfg(feature = "engine")]
            Backend::Embedded(embedded) => Source::Here(embedded.listen(filter).await?),
            #[cfg(feature = "remote")]
            Backend::Remote(remote) => Source::Remote(Box::new(remote.listen(filter).await?)),
        }))
    }
}

impl Events {
    /// Waits for the next event, or for the number of events that were missed. After missed events, read the state of jobs
    /// again. Returns `None` once the client is closed or its server stops. Cancel safe.
    ///
    /// # Errors
    /// If the connection to a server is lost. You can call it again; events in between are missed.
    pub async fn next(&mut self) -> Result<Option<Event>, Error> {
        match &mut self.0 {
            #[cfg(feature = "engine")]
            Source::Here(listener) => Ok(listener.next().await),
            #[cfg(feature = "remote")]
            Source::Remote(stream) => stream.next().await,
        }
    }
    /// Returns the events as a stream. It ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Event, Error>> + Send + Unpin + 'static {
        stream::try_unfold(self, |mut events| async move { Ok(events.next().await?.map(|event| (event, events))) })
            .boxed()
    }
}
