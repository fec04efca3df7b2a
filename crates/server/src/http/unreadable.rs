//! Requests that are not HTTP. Hyper answers them with an empty body, and they never reach a handler; a person who has typed
//! something into the wrong port reads one line instead.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection whose empty refusals get a body.
pub(super) struct Explained<S> {
    stream: S,
    /// The rest of a refusal that is written in place of hyper's.
    left: Vec<u8>,
}

impl<S> Explained<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, left: Vec::new() }
    }
}

/// A refusal by hyper, with a body. Handlers never answer these statuses with an empty one.
fn explained(written: &[u8]) -> Option<Vec<u8>> {
    let status = written.strip_prefix(b"HTTP/1.1 ")?;
    let (status, why) = [
        (
            "400 Bad Request",
            "this port speaks HTTP, and this is not a valid HTTP/1.1 request; /docs lists all requests",
        ),
        ("414 URI Too Long", "the URL is too long"),
        ("431 Request Header Fields Too Large", "the request has too many or too long headers"),
    ]
    .into_iter()
    .find(|(known, _)| status.starts_with(known.as_bytes()))?;
    let head = std::str::from_utf8(written).ok()?.strip_suffix("\r\n\r\n")?;
    head.contains("\r\ncontent-length: 0").then(|| {
        let body = format!("{}: {why}\n", &status[..3]);
        let length = body.len();
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    })
}

impl<S: AsyncWrite + Unpin> Explained<S> {
    fn poll_left(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.left.is_empty() {
            match ready!(Pin::new(&mut self.stream).poll_write(context, &self.left))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => drop(self.left.drain(..written)),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Explained<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        match parts.first() {
            Some(first) if this.left.is_empty() => this.left = explained(first).unwrap_or_default(),
            _ => {}
        }
        if this.left.is_empty() {
            return Pin::new(&mut this.stream).poll_write_vectored(context, parts);
        }
        // Called again with the same parts until all is written.
        ready!(this.poll_left(context))?;
        Poll::Ready(Ok(parts[0].len()))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Explained<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn an_empty_refusal_gets_a_body_and_nothing_else_is_changed() {
        let refusal = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\ndate: today\r\n\r\n";
        for (written, expected) in [
            (refusal, "\r\n\r\n400: this port speaks HTTP, and"),
            ("HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}", "content-length: 2\r\n\r\n{}"),
            ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "content-length: 0\r\n\r\n"),
            ("the rest of a body", "the rest of a body"),
        ] {
            // Less room than the answer needs.
            let (ours, mut theirs) = tokio::io::duplex(7);
            let mut ours = Explained::new(ours);
            let write = async {
                ours.write_all(written.as_bytes()).await.unwrap();
                ours.shutdown().await.unwrap();
            };
            let mut read = String::new();
            let (_, all) = tokio::join!(write, theirs.read_to_string(&mut read));
            all.unwrap();
            assert!(read.contains(expected), "{read}");
            assert_eq!(read == written, !expected.contains("400"), "{read}");
        }
    }
}
