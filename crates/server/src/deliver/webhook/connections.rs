//! Counts the connections of deliveries, from before a name is looked up until the socket is closed.
//!
//! - A few may be kept while they are not used, whichever hosts they are to. While so many are open, a delivery gets one that is used once.
//! - Those that are used once have a bound too. Only deliveries that are under way make connections, so one rarely waits for it.

use hyper::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use std::error::Error as StdError;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower_service::Service;

type AnyError = Box<dyn StdError + Send + Sync>;

/// As many connections are kept as may be.
#[derive(Debug, thiserror::Error)]
#[error("no more connections are kept")]
struct Full;

/// Whether an error of the client comes from this.
pub(super) fn is_full(error: &(dyn StdError + 'static)) -> bool {
    std::iter::successors(Some(error), |&error| error.source()).any(<dyn StdError>::is::<Full>)
}

/// Room for connections that are kept, or for those that are used once; cheap to clone.
#[derive(Clone)]
pub(super) struct Room {
    places: Arc<Semaphore>,
    is_kept: bool,
}

impl Room {
    /// For none yet.
    pub(super) fn none(is_kept: bool) -> Self {
        Self { places: Arc::new(Semaphore::new(0)), is_kept }
    }

    /// For this many more.
    pub(super) fn admit(&self, connections: usize) {
        self.places.add_permits(connections);
    }

    async fn place(self) -> Result<OwnedSemaphorePermit, Full> {
        if self.is_kept {
            return self.places.try_acquire_owned().map_err(|_| Full);
        }
        Ok(self.places.acquire_owned().await.expect("it is never closed"))
    }
}

/// A connector whose connections are counted.
#[derive(Clone)]
pub(super) struct CountingConnector<C> {
    inner: C,
    room: Room,
}

impl<C> CountingConnector<C> {
    pub(super) fn new(inner: C, room: Room) -> Self {
        Self { inner, room }
    }
}

impl<C> Service<Uri> for CountingConnector<C>
where
    C: Service<Uri, Error: Into<AnyError>, Future: Send> + Clone + Send + 'static,
{
    type Response = Seat<C::Response>;
    type Error = AnyError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, AnyError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), AnyError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        // The one that is ready is used.
        let next = self.inner.clone();
        let (mut ready, room) = (std::mem::replace(&mut self.inner, next), self.room.clone());
        Box::pin(async move {
            let place = room.place().await?;
            Ok(Seat { io: ready.call(uri).await.map_err(Into::into)?, _place: place })
        })
    }
}

/// A connection and its place.
pub(super) struct Seat<T> {
    io: T,
    _place: OwnedSemaphorePermit,
}

impl<T: Connection> Connection for Seat<T> {
    fn connected(&self) -> Connected {
        self.io.connected()
    }
}

impl<T: Read + Unpin> Read for Seat<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<T: Write + Unpin> Write for Seat<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
