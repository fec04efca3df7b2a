//! What a handler leaves of a request's body: a refusal often comes before the body was read. The next request on the connection begins behind it.
//! So a short remainder that comes at once is read. Otherwise the answer says that the connection is closed.

use super::limits::{REMAINDER_BYTES_MAX, REMAINDER_TIME_MAX};
use axum::body::Bytes;
use axum::http::header::{CONNECTION, EXPECT, HeaderValue};
use axum::response::Response;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::time::{Instant, timeout_at};

/// The body of a request that may be left unread.
#[derive(Clone)]
pub(super) struct SharedBody(Arc<Mutex<State>>);

struct State {
    body: Incoming,
    has_ended: bool,
}

/// The remainder of a body.
pub(super) struct Remainder {
    body: SharedBody,
    /// The client waits for `100 Continue` before it sends the body.
    is_awaited: bool,
}

/// The same request, whose handler may leave a remainder.
pub(super) fn keep(request: hyper::Request<Incoming>) -> (hyper::Request<SharedBody>, Remainder) {
    let is_awaited = request.headers().contains_key(EXPECT);
    let request = request.map(|body| SharedBody(Arc::new(Mutex::new(State { has_ended: body.is_end_stream(), body }))));
    let body = request.body().clone();
    (request, Remainder { body, is_awaited })
}

impl SharedBody {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Body for SharedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let mut state = self.state();
        let polled = Pin::new(&mut state.body).poll_frame(context);
        state.has_ended |= matches!(polled, Poll::Ready(None)) || state.body.is_end_stream();
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.state().body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.state().body.size_hint()
    }
}

impl Remainder {
    /// Reads the remainder, or has the answer say that the connection is closed.
    pub(super) async fn end(mut self, mut answer: Response) -> Response {
        if !self.body.state().has_ended && (self.is_awaited || !self.is_read().await) {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }

    async fn is_read(&mut self) -> bool {
        let (deadline, mut bytes) = (Instant::now() + REMAINDER_TIME_MAX, 0);
        let is_long = |bytes: u64| bytes > REMAINDER_BYTES_MAX;
        if is_long(self.body.size_hint().lower()) {
            return false;
        }
        while let Ok(Some(Ok(frame))) = timeout_at(deadline, self.body.frame()).await {
            bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
            if is_long(bytes) {
                return false;
            }
        }
        self.body.state().has_ended
    }
}
