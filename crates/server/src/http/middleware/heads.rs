//! Counts what is read of a head that is not complete: it comes from anyone, and the HTTP library holds all of it.
//!
//! Each connection may hold a little without a share. Beyond that it takes one of the budget for strangers, and is closed if there is none.
//! The share is given back when the head is complete. Bodies are counted where they are read.

use crate::account::{Account, Share};
use crate::http::limits::HEAD_FREE_BYTES;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection whose heads are counted.
pub(crate) struct Heads<S> {
    stream: S,
    share: Share,
    /// Bytes read since the last request was done.
    read: usize,
    arrivals: Arrivals,
}

/// Whether the head of a request has arrived, and the request is not done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arrivals(Arc<AtomicBool>);

impl Arrivals {
    /// A head is complete.
    pub(crate) fn arrived(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// The next head is to come.
    pub(crate) fn next(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl<S> Heads<S> {
    pub(crate) fn new(stream: S, account: &Account) -> Self {
        Self { stream, share: account.strangers.share(), read: 0, arrivals: Arrivals::default() }
    }

    /// To be told of heads.
    pub(crate) fn arrivals(&self) -> Arrivals {
        self.arrivals.clone()
    }

    /// Counts bytes that were read.
    fn count(&mut self, bytes: usize) -> io::Result<()> {
        if self.arrivals.0.load(Ordering::Relaxed) {
            self.read = 0;
            self.share.shrink(0);
            return Ok(());
        }
        self.read += bytes;
        let more = self.read.saturating_sub(HEAD_FREE_BYTES + self.share.bytes());
        if more > 0 && self.share.try_grow(more).is_err() {
            return Err(io::Error::other("the unfinished heads of all connections use too much memory"));
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heads<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let bytes = buf.filled().len() - before;
        Poll::Ready(self.count(bytes))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Heads<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::BYTES_MIN;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Strangers do not fill the memory with heads that never end, and keep nobody else out.
    #[tokio::test]
    async fn unfinished_heads_have_a_bound() {
        let account = Account::new(BYTES_MIN);
        let head = vec![b'x'; 60 << 10];
        let each = head.len() - HEAD_FREE_BYTES;
        let (mut held, mut ends) = (Vec::new(), Vec::new());
        for _ in 0..=account.strangers.bytes() / each {
            let (mut theirs, ours) = tokio::io::duplex(head.len());
            theirs.write_all(&head).await.unwrap();
            let mut heads = Heads::new(ours, &account);
            ends.push(heads.read_exact(&mut vec![0; head.len()]).await.is_ok());
            held.push((theirs, heads));
        }
        assert_eq!(ends.iter().filter(|is_read| !**is_read).count(), 1, "the last one finds no room");
        assert!(!ends.pop().unwrap());
        // One of them is complete.
        let (theirs, heads) = &mut held[0];
        heads.arrivals().arrived();
        theirs.write_all(b"body").await.unwrap();
        heads.read_exact(&mut [0; 4]).await.unwrap();
        assert_eq!((heads.share.bytes(), account.strangers.share().try_grow(each)), (0, Ok(())));
        heads.arrivals().next();
        let (mut theirs, ours) = tokio::io::duplex(head.len());
        theirs.write_all(&head).await.unwrap();
        Heads::new(ours, &account).read_exact(&mut vec![0; head.len()]).await.unwrap();
    }
}
