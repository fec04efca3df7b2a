//! Bounds the memory of answers that are being sent, and disconnects readers that are too slow.
//!
//! A handler whose answer may be large takes a share of the budget before it reads from the stores, and attaches it to the
//! response. An answer without one gets its share here, before it is sent. The share is released with the last part of the body. The HTTP
//! library asks for the next part when most of the previous one is sent, so the parts show how fast the reader is.

use super::pace::Pace;
use crate::account::{Account, Budget, Share};
use crate::http::app::App;
use crate::http::batch::Batch;
use crate::http::limits::ELEMENT_ANSWER_BYTES;
use crate::http::problem::{Problem, refuse};
use axum::body::{Body, Bytes, HttpBody};
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use http_body::{Frame, SizeHint};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::Notify;

/// The size of a part. Smaller answers are not watched.
const PART_BYTES: usize = 64 << 10;
/// How often the progress of an answer is checked.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Room for an answer that is being made.
pub(crate) struct Room(Share);

impl Room {
    /// Room for an answer of about so many bytes.
    ///
    /// # Errors
    /// If other answers do not make room in time.
    pub(crate) async fn new(app: &App, bytes: usize) -> Result<Self, Problem> {
        let mut share = app.account.answers.share();
        share.grow(bytes).await.map_err(|_| full())?;
        Ok(Self(share))
    }

    /// Room for the answer to a batch, before it is carried out.
    ///
    /// # Errors
    /// If other answers do not make room in time.
    pub(crate) async fn of_batch<T>(app: &App, batch: &Batch<T>) -> Result<Self, Problem> {
        Self::new(app, batch.len() * ELEMENT_ANSWER_BYTES).await
    }

    /// Room for an answer of about so many bytes that is in memory already.
    ///
    /// # Errors
    /// If others do not make room in time, or wait for it.
    pub(crate) async fn of_made(app: &App, bytes: usize) -> Result<Self, Problem> {
        if bytes <= PART_BYTES {
            return Ok(Self(app.account.answers.share()));
        }
        Ok(Self(app.account.made(bytes).await.map_err(|_| full())?))
    }

    /// Attaches this room to the answer of a request that has changed something, and cannot be refused any more.
    pub(crate) fn hold_done(mut self, mut response: Response) -> Response {
        let bytes = bytes_of(&response);
        if bytes > PART_BYTES {
            match bytes.checked_sub(self.0.bytes()) {
                None => self.0.shrink(bytes),
                // It was more than expected.
                Some(more) => drop(self.0.try_grow(more)),
            }
            attach(&mut response, self.0);
        }
        response
    }

    /// Attaches this room to the answer until it is sent.
    ///
    /// # Errors
    /// If there is no room for the size that it really has.
    pub(crate) async fn hold(mut self, mut response: Response) -> Result<Response, Problem> {
        let bytes = bytes_of(&response);
        if bytes <= PART_BYTES {
            return Ok(response);
        }
        self.0.resize(bytes).await.map_err(|_| full())?;
        attach(&mut response, self.0);
        Ok(response)
    }
}

/// Gives an answer its share if its handler has not. A question that finds no room is refused; a request that may have changed something is
/// answered: its answer is not much larger than the request.
pub(crate) async fn with_share(account: &Account, method: &Method, mut response: Response) -> Response {
    let bytes = bytes_of(&response);
    if bytes <= PART_BYTES || response.extensions().get::<HeldShare>().is_some() {
        return response;
    }
    match account.made(bytes).await {
        Ok(share) => attach(&mut response, share),
        Err(_) if method.is_safe() => return full().into_response(),
        Err(_) => {}
    }
    response
}

/// The size of an answer, or what is known of it.
fn bytes_of(response: &Response) -> usize {
    usize::try_from(response.body().size_hint().lower()).unwrap_or(usize::MAX)
}

fn attach(response: &mut Response, share: Share) {
    response.extensions_mut().insert(HeldShare(Arc::new(Mutex::new(Some(share)))));
}

fn full() -> Problem {
    refuse(
        "too_many_bodies",
        "other answers use all memory for answers (--requests-memory-max) at the moment; try again",
    )
}

/// The share of an answer, beside it.
#[derive(Clone)]
struct HeldShare(Arc<Mutex<Option<Share>>>);

/// The progress of the answer that a connection is sending.
#[derive(Default)]
pub(crate) struct SendProgress {
    left: AtomicUsize,
    sent: AtomicUsize,
    begun: Notify,
}

impl SendProgress {
    /// Splits a large answer into parts, and watches them.
    pub(crate) fn watch(self: &Arc<Self>, mut response: Response) -> Response {
        let held: Option<HeldShare> = response.extensions_mut().remove();
        let share = held.and_then(|held| held.0.lock().ok()?.take());
        let bytes = response.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = bytes.or(share.as_ref().map(Share::bytes)).filter(|&bytes| bytes > PART_BYTES);
        let Some(bytes) = bytes else { return response };
        self.left.store(bytes, Ordering::Relaxed);
        self.sent.store(0, Ordering::Relaxed);
        self.begun.notify_one();
        let progress = self.clone();
        response.map(|body| Body::new(Sending { body, part: Bytes::new(), progress, _share: share }))
    }

    /// Waits until a reader is too slow.
    pub(crate) async fn stalled(&self, budget: &Budget) {
        loop {
            self.begun.notified().await;
            let mut pace = Pace::default();
            let mut look = tokio::time::interval(LOOK_EVERY);
            look.tick().await;
            while self.left.load(Ordering::Relaxed) > 0 {
                look.tick().await;
                pace.came(self.sent.swap(0, Ordering::Relaxed));
                if pace.second_over(self.left.load(Ordering::Relaxed), budget.is_short()) {
                    return;
                }
            }
        }
    }
}

/// A body that is sent in parts.
struct Sending {
    body: Body,
    /// The rest of the last frame.
    part: Bytes,
    progress: Arc<SendProgress>,
    _share: Option<Share>,
}

impl HttpBody for Sending {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.part.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.part = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                end => return Poll::Ready(end),
            }
        }
        let bytes = self.part.len().min(PART_BYTES);
        let part = self.part.split_to(bytes);
        self.progress.sent.fetch_add(bytes, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.part.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, here) = (self.body.size_hint(), self.part.len() as u64);
        let upper = hint.upper();
        hint.set_lower(hint.lower() + here);
        if let Some(upper) = upper {
            hint.set_upper(upper + here);
        }
        hint
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.progress.left.store(0, Ordering::Relaxed);
    }
}
