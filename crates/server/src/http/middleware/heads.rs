//! Counts what is read of a head that is not complete: it comes from anyone, and the HTTP library holds all of it. A TLS handshake is
//! counted in the same way below the encryption: the TLS library holds up to 64 KiB of it.
//!
//! Each connection may hold a little without a share. Beyond that it takes one of the budget for strangers, and is closed if there is none.
//! The share is given back when the head is complete. Bodies are counted where they are read.

use crate::account::{Account, Share};
use crate::http::limits::HEAD_FREE_BYTES;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection whose heads are counted.
pub(crate) struct Heads<S> {
    stream: S,
    head: Head,
}

/// The head of the request that a connection is at.
#[derive(Clone, Debug)]
pub(crate) struct Head(Arc<Mutex<HeadState>>);

#[derive(Debug)]
struct HeadState {
    share: Share,
    /// Bytes read of it, and of what came before it in the same read.
    read: usize,
    /// It is complete, and its request is not done.
    is_complete: bool,
}

impl Head {
    /// It is complete: nothing is held for it any more.
    pub(crate) fn arrived(&self) {
        let mut counted = self.counted();
        counted.is_complete = true;
        counted.read = 0;
        counted.share.shrink(0);
    }

    /// Its request is done. The next head is to come.
    pub(crate) fn next(&self) {
        self.counted().is_complete = false;
    }

    fn counted(&self) -> MutexGuard<'_, HeadState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts bytes that were read.
    fn count(&self, bytes: usize) -> io::Result<()> {
        let mut counted = self.counted();
        if counted.is_complete {
            return Ok(());
        }
        counted.read += bytes;
        let more = counted.read.saturating_sub(HEAD_FREE_BYTES + counted.share.bytes());
        if more > 0 && counted.share.try_grow(more).is_err() {
            return Err(io::Error::other("the unfinished heads and handshakes of all connections use too much memory"));
        }
        Ok(())
    }
}

impl<S> Heads<S> {
    pub(crate) fn new(stream: S, account: &Account) -> Self {
        let counted = HeadState { share: account.strangers.share(), read: 0, is_complete: false };
        Self { stream, head: Head(Arc::new(Mutex::new(counted))) }
    }

    /// The head, to be told of requests.
    pub(crate) fn head(&self) -> Head {
        self.head.clone()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heads<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let bytes = buf.filled().len() - before;
        Poll::Ready(self.head.count(bytes))
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
        // One of them is complete: it needs no more of the budget, whether or not anything else comes.
        let (theirs, heads) = &mut held[0];
        heads.head().arrived();
        assert_eq!(account.strangers.share().try_grow(each), Ok(()));
        // Its body is not counted here.
        theirs.write_all(&head).await.unwrap();
        heads.read_exact(&mut vec![0; head.len()]).await.unwrap();
        assert_eq!(account.strangers.share().try_grow(each), Ok(()));
        heads.head().next();
        theirs.write_all(&head).await.unwrap();
        heads.read_exact(&mut vec![0; head.len()]).await.unwrap();
        assert!(account.strangers.share().try_grow(each).is_err());
    }

    /// Each arrives in one read, as most do, beside a connection that has all the budget.
    #[tokio::test]
    async fn requests_of_one_connection_do_not_add_up() {
        let account = Account::new(BYTES_MIN);
        let mut all = account.strangers.share();
        all.grow(account.strangers.bytes()).await.unwrap();
        let (mut theirs, ours) = tokio::io::duplex(HEAD_FREE_BYTES);
        let mut heads = Heads::new(ours, &account);
        for _ in 0..10 {
            theirs.write_all(&[b'x'; HEAD_FREE_BYTES]).await.unwrap();
            heads.read_exact(&mut [0; HEAD_FREE_BYTES]).await.unwrap();
            heads.head().arrived();
            heads.head().next();
        }
        theirs.write_all(&[b'x'; HEAD_FREE_BYTES]).await.unwrap();
        heads.read_exact(&mut [0; HEAD_FREE_BYTES]).await.unwrap();
        theirs.write_all(b"x").await.unwrap();
        assert!(heads.read_exact(&mut [0; 1]).await.is_err(), "a longer one finds no room");
    }
}
