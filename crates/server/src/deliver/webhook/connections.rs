//! Counts the connections of deliveries, from before a name is looked up until the socket is closed.
//!
//! - A few may be kept while they are not used, whichever hosts they are to. A connection that begins while so many are open is used once.
//! - Those that are used once have a bound too. Only deliveries that are under way make connections, so one rarely waits for it.

use hyper::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower_service::Service;

/// Room for connections; cheap to clone.
#[derive(Clone)]
pub(super) struct Connections {
    kept: Arc<Semaphore>,
    once: Arc<Semaphore>,
}

impl Connections {
    /// For none yet.
    pub(super) fn none() -> Self {
        let [kept, once] = [(); 2].map(|()| Arc::new(Semaphore::new(0)));
        Self { kept, once }
    }

    /// Makes room for this many that are kept, and for this many others.
    pub(super) fn admit(&self, kept: usize, once: usize) {
        self.kept.add_permits(kept);
        self.once.add_permits(once);
    }

    async fn place(self) -> Place {
        match self.kept.try_acquire_owned() {
            Ok(permit) => Place { is_kept: true, _permit: permit },
            Err(_) => Place { is_kept: false, _permit: self.once.acquire_owned().await.expect("it is never closed") },
        }
    }
}

struct Place {
    is_kept: bool,
    _permit: OwnedSemaphorePermit,
}

/// A connector whose connections are counted.
#[derive(Clone)]
pub(super) struct Counted<C> {
    inner: C,
    connections: Connections,
}

impl<C> Counted<C> {
    pub(super) fn new(inner: C, connections: Connections) -> Self {
        Self { inner, connections }
    }
}

impl<C> Service<Uri> for Counted<C>
where
    C: Service<Uri, Future: Send> + Clone + Send + 'static,
{
    type Response = Placed<C::Response>;
    type Error = C::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, C::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), C::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        // The one that is ready is used.
        let next = self.inner.clone();
        let (mut ready, connections) = (std::mem::replace(&mut self.inner, next), self.connections.clone());
        Box::pin(async move {
            let place = connections.place().await;
            Ok(Placed { io: ready.call(uri).await?, place })
        })
    }
}

/// A connection and its place.
pub(super) struct Placed<T> {
    io: T,
    place: Place,
}

impl<T: Connection> Connection for Placed<T> {
    fn connected(&self) -> Connected {
        let connected = self.io.connected();
        if !self.place.is_kept {
            connected.poison();
        }
        connected
    }
}

impl<T: Read + Unpin> Read for Placed<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<T: Write + Unpin> Write for Placed<T> {
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
