//! Request bodies: read within limits of time, speed and memory, and parsed in place.

use super::app::App;
use super::limits::{
    BATCH_BODY_BYTES_MAX, BODY_BYTES_MAX, BODY_FREE_BYTES, BODY_PARTS, BODY_PROGRESS_BYTES, BODY_STALL_SECONDS_MAX,
    BODY_TIME_MAX, BUFFER_BYTES_MAX, DISCARD_TIME_MAX, FORM_BYTES_MAX, GUEST_FORM_BYTES_MAX,
};
use super::middleware::access;
use super::middleware::gzip::{Flaw, Intake};
use super::middleware::pace::Pace;
use super::problem::{Problem, refuse};
use crate::account::{Budget, Exhausted, Share};
use axum::body::HttpBody;
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, EXPECT};
use bytes::Bytes;
use duetime_core::api::{Nothing, Object, read};
use http_body_util::BodyExt;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How often it is looked how a body comes along.
const SECOND: Duration = Duration::from_secs(1);
/// Most bytes that a connection buffers while its body waits for room: the last piece of the body, and the read buffer.
const BUFFERS_BYTES: usize = 2 * BUFFER_BYTES_MAX;
/// A body may wait if the buffers of all waiting connections need at most this part of the budget. Otherwise it is refused.
const WAITING_PARTS: usize = 4;

/// The text of a body of at most so many bytes.
pub(crate) struct Body<const BYTES_MAX: usize> {
    text: String,
    /// For the text, and for what is parsed from it.
    share: Share,
}

/// The body of a request about one thing.
pub(super) type One = Body<BODY_BYTES_MAX>;
/// The body of a request about many things, or with a payload.
pub(super) type Batch = Body<BATCH_BODY_BYTES_MAX>;
/// A form of the dashboard.
pub(crate) type FormBody = Body<FORM_BYTES_MAX>;
/// A form of a visitor without a session.
pub(crate) type GuestFormBody = Body<GUEST_FORM_BYTES_MAX>;

impl<const BYTES_MAX: usize> Body<BYTES_MAX> {
    /// The text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Drops the text. The share is for what was parsed from it, until the request is done.
    pub(super) fn parsed(mut self) -> Share {
        self.share.shrink(self.share.bytes() / BODY_PARTS);
        self.share
    }

    /// An object; an empty body is an empty one.
    pub(super) fn object<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Problem> {
        let text = if self.text.is_empty() { "{}" } else { &self.text };
        Ok(read::<Object<T>>(text)?.0)
    }
}

impl<const BYTES_MAX: usize> FromRequest<App> for Body<BYTES_MAX> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let announced = HttpBody::size_hint(&body).exact();
        let is_gzip = announced != Some(0) && check_media_type(&parts.headers)?;
        // One that could never be held would be refused each time it is repeated.
        let requests = &app.account.requests;
        let bytes_max = BYTES_MAX.min(requests.bytes() / BODY_PARTS);
        if announced.is_some_and(|length| length > bytes_max as u64) {
            return Err(too_large(parts.headers, body, bytes_max, announced).await);
        }
        let announced = announced.and_then(|length| usize::try_from(length).ok());
        let (mut intake, mut sent) = (Intake::new(is_gzip, bytes_max), 0);
        let mut incoming = Incoming::new(body, requests);
        let is_too_large = 'read: {
            while let Some(data) = incoming.next().await? {
                sent += data.len();
                if sent > bytes_max {
                    break 'read true;
                }
                for part in intake.parts(&data) {
                    let wanted = intake.wanted(part, announced);
                    incoming.hold(wanted).await?;
                    intake.hold(wanted);
                    match intake.take(part) {
                        Ok(()) => {}
                        Err(Flaw::TooLarge) => break 'read true,
                        Err(Flaw::NoGzip) => return Err(no_gzip()),
                    }
                }
            }
            false
        };
        let Incoming { body, share, .. } = incoming;
        access::check_again(&parts.extensions)?;
        let bytes = match intake {
            _ if is_too_large => Err(Flaw::TooLarge),
            Intake::Gzip(_) if sent == 0 => Ok(Vec::new()),
            intake => intake.finish(),
        };
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(Flaw::TooLarge) => return Err(too_large(parts.headers, body, bytes_max, None).await),
            Err(Flaw::NoGzip) => return Err(no_gzip()),
        };
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            refuse("malformed_json", format!("in the body: it is not UTF-8 at byte {at}"))
        })?;
        Ok(Self { text, share })
    }
}

/// The body of a request whose path says everything.
pub(super) struct Empty;

impl FromRequest<App> for Empty {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let Nothing {} = One::from_request(request, app).await?.object()?;
        Ok(Self)
    }
}

/// The body of a request that has none: it is not read.
pub(super) struct Unread;

impl FromRequest<App> for Unread {
    type Rejection = Problem;

    async fn from_request(_: Request, _: &App) -> Result<Self, Problem> {
        Ok(Self)
    }
}

/// A body that comes in.
struct Incoming<'a> {
    body: axum::body::Body,
    budget: &'a Arc<Budget>,
    share: Share,
    pace: Pace,
    deadline: Instant,
    second_ends: Instant,
}

impl<'a> Incoming<'a> {
    fn new(body: axum::body::Body, budget: &'a Arc<Budget>) -> Self {
        let now = Instant::now();
        let (deadline, second_ends) = (now + BODY_TIME_MAX, now + SECOND);
        Self { body, budget, share: budget.share(), pace: Pace::default(), deadline, second_ends }
    }

    /// The next piece; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        loop {
            let Ok(frame) = timeout_at(self.second_ends.min(self.deadline), self.body.frame()).await else {
                self.check_time()?;
                continue;
            };
            let Some(frame) = frame else { return Ok(None) };
            let frame =
                frame.map_err(|_| refuse("body_unreadable", "the connection broke before the whole body arrived"))?;
            if let Ok(data) = frame.into_data() {
                self.pace.came(data.len());
                return Ok(Some(data));
            }
        }
    }

    fn check_time(&mut self) -> Result<(), Problem> {
        let now = Instant::now();
        if now >= self.deadline {
            let seconds = BODY_TIME_MAX.as_secs();
            return Err(refuse("timeout", format!("the body did not arrive within {seconds} s")));
        }
        if now >= self.second_ends {
            self.second_ends = now + SECOND;
            if self.pace.second_over(self.share.bytes() / BODY_PARTS, self.budget.is_short()) {
                let (least, seconds) = (BODY_PROGRESS_BYTES >> 10, BODY_STALL_SECONDS_MAX);
                return Err(refuse(
                    "timeout",
                    format!(
                        "the body arrives too slowly: at least {least} KiB in {seconds} s are needed, and more while others wait"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Holds a text of so many bytes in all.
    async fn hold(&mut self, bytes: usize) -> Result<(), Problem> {
        let counted = if bytes <= BODY_FREE_BYTES { 0 } else { BODY_PARTS * bytes };
        let more = counted.saturating_sub(self.share.bytes());
        if more == 0 {
            return Ok(());
        }
        let grown = match self.share.try_grow(more) {
            Err(Exhausted) if self.budget.waiting() < self.budget.bytes() / WAITING_PARTS / BUFFERS_BYTES => {
                self.share.grow(more).await
            }
            grown => grown,
        };
        // The time for which it waited is not the sender's.
        self.second_ends = Instant::now() + SECOND;
        grown.map_err(|Exhausted| {
            refuse(
                "too_many_bodies",
                "other requests use all memory for requests (--requests-memory-max) at the moment; try again",
            )
        })
    }
}

fn no_gzip() -> Problem {
    refuse("body_unreadable", "the body is not complete, valid gzip, although its `content-encoding` says so")
}

/// Whether the body is in gzip.
fn check_media_type(headers: &HeaderMap) -> Result<bool, Problem> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("something unreadable"));
    let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
    let encoding = text(CONTENT_ENCODING).filter(|encoding| !encoding.eq_ignore_ascii_case("identity"));
    let is_gzip = encoding.is_some_and(|encoding| encoding.eq_ignore_ascii_case("gzip"));
    if let Some(encoding) = encoding.filter(|_| !is_gzip || encodings.nth(1).is_some()) {
        return Err(refuse("media_type", format!("`content-encoding` must be gzip or left out, got {encoding}")));
    }
    let Some(media_type) = text(CONTENT_TYPE) else { return Ok(is_gzip) };
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(is_gzip);
    }
    Err(refuse("media_type", format!("`content-type` must be application/json, got {media_type}")))
}

/// Refuses a body, once its sender had time to finish: one that still writes would lose the answer with the connection.
async fn too_large(
    headers: HeaderMap,
    mut body: axum::body::Body,
    bytes_max: usize,
    announced: Option<u64>,
) -> Problem {
    // A client that waits for `100 Continue` has sent nothing yet.
    if !headers.contains_key(EXPECT) {
        let deadline = Instant::now() + DISCARD_TIME_MAX;
        while let Ok(Some(Ok(_))) = timeout_at(deadline, body.frame()).await {}
    }
    let got = announced.map_or_else(|| "more".to_owned(), |bytes| bytes.to_string());
    refuse("body_too_large", format!("the body must have at most {bytes_max} bytes, got {got}"))
}

#[cfg(test)]
mod tests {
    use super::super::listener_config::ListenerConfig;
    use super::*;
    use crate::account::Account;
    use crate::deliver::Policy;
    use duetime_core::engine::{Options, Stores};
    use duetime_core::{Engine, SystemClock};
    use duetime_store::sqlite::Sqlite;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use futures_util::{StreamExt, stream};
    use std::io::Write;

    /// The edge over a store in memory, with room for so many bytes of bodies.
    async fn app(bytes: usize) -> App {
        let sqlite = Arc::new(Sqlite::memory().unwrap());
        let stores = Stores::one_process(Arc::new(SystemClock::new()), sqlite);
        let engine = Engine::start(stores, Options::default()).await.unwrap();
        let app = App::new(engine, ListenerConfig::plain(), Policy::default(), Arc::default());
        tokio::time::pause();
        App { account: Account::with_requests(BODY_PARTS * bytes), ..app }
    }

    /// A body of this many bytes, after which its sender stalls.
    fn stalling(bytes: usize) -> Request {
        let first = stream::iter([Ok::<_, std::io::Error>(vec![b' '; bytes])]);
        Request::new(axum::body::Body::from_stream(first.chain(stream::pending())))
    }

    fn whole(bytes: usize) -> Request {
        Request::new(axum::body::Body::from(vec![b' '; bytes]))
    }

    async fn refusal(request: Request, app: &App) -> Option<(u16, String)> {
        let refused = Batch::from_request(request, app).await.err().map(duetime_core::api::Problem::from);
        refused.map(|problem| (problem.status, problem.code))
    }

    #[tokio::test]
    async fn a_body_that_does_not_come_is_given_up() {
        let app = app(1 << 20).await;
        for sent in [0, 1 << 10, 1 << 19] {
            let begun = Instant::now();
            assert_eq!(refusal(stalling(sent), &app).await, Some((408, "timeout".to_owned())));
            let seconds = begun.elapsed().as_secs();
            assert!(seconds <= u64::from(BODY_STALL_SECONDS_MAX) + 1, "{seconds}");
        }
    }

    #[tokio::test]
    async fn a_sender_who_dawdles_costs_nobody_else() {
        let app = app(1 << 20).await;
        let dawdling = futures_util::future::join_all((0..8).map(|_| refusal(stalling(1 << 17), &app)));
        let mut dawdling = Box::pin(dawdling);
        assert!(futures_util::poll!(&mut dawdling).is_pending());
        // They hold the whole budget until another request needs it.
        let begun = Instant::now();
        let (dawdled, read) = tokio::join!(dawdling, async {
            let read = Batch::from_request(whole(1 << 19), &app).await.map(|body| body.text.len());
            (read.map_err(duetime_core::api::Problem::from), begun.elapsed())
        });
        assert!(read.0.is_ok_and(|bytes| bytes == 1 << 19) && read.1 <= 3 * SECOND, "{:?}", read.1);
        assert!(dawdled.iter().all(|refused| *refused == Some((408, "timeout".to_owned()))), "{dawdled:?}");
    }

    #[tokio::test]
    async fn a_body_for_which_there_is_no_room_is_refused() {
        let app = app(1 << 20).await;
        let read = Batch::from_request(whole(900 << 10), &app).await.unwrap();
        assert_eq!(refusal(whole(200 << 10), &app).await, Some((503, "too_many_bodies".to_owned())));
        assert_eq!(refusal(whole(100 << 10), &app).await, None);
        drop(read);
        assert_eq!(refusal(whole(200 << 10), &app).await, None);
    }

    /// Their connections hold memory that no share counts.
    #[tokio::test]
    async fn few_bodies_wait_for_room() {
        let app = app(1 << 20).await;
        let mut all = app.account.requests.share();
        all.grow(app.account.requests.bytes()).await.unwrap();
        let most = app.account.requests.bytes() / WAITING_PARTS / BUFFERS_BYTES;
        assert_eq!(most, 4);
        let mut waiting: Vec<_> = (0..most).map(|_| Box::pin(refusal(whole(1 << 17), &app))).collect();
        for waits in &mut waiting {
            assert!(futures_util::poll!(waits).is_pending());
        }
        let refused = futures_util::poll!(Box::pin(refusal(whole(1 << 17), &app)));
        assert_eq!(refused, std::task::Poll::Ready(Some((503, "too_many_bodies".to_owned()))));
        drop(all);
        for waits in waiting {
            assert_eq!(waits.await, None);
        }
    }

    /// Many that wait for room do not delay a small request.
    #[tokio::test]
    async fn a_small_body_needs_no_room() {
        let app = app(1 << 20).await;
        let mut all = app.account.requests.share();
        all.grow(app.account.requests.bytes()).await.unwrap();
        let begun = Instant::now();
        assert_eq!(refusal(whole(BODY_FREE_BYTES), &app).await, None);
        assert_eq!(begun.elapsed(), Duration::ZERO);
        let refused = refusal(whole(BODY_FREE_BYTES + 1), &app).await;
        assert_eq!(refused, Some((503, "too_many_bodies".to_owned())));
    }

    /// It would be refused as often as it is repeated.
    #[tokio::test]
    async fn a_body_that_can_never_be_held_is_too_large() {
        let app = app(1 << 20).await;
        assert_eq!(refusal(whole((1 << 20) + 1), &app).await, Some((413, "body_too_large".to_owned())));
        assert_eq!(refusal(whole(1 << 20), &app).await, None);
    }

    /// What is parsed from a body is in memory until it is stored.
    #[tokio::test]
    async fn what_was_parsed_counts_until_the_request_is_done() {
        let app = app(1 << 20).await;
        let parsed = Batch::from_request(whole(1 << 20), &app).await.unwrap().parsed();
        assert_eq!(refusal(whole(600 << 10), &app).await, Some((503, "too_many_bodies".to_owned())));
        assert_eq!(refusal(whole(400 << 10), &app).await, None);
        drop(parsed);
        assert_eq!(refusal(whole(1 << 20), &app).await, None);
    }

    #[tokio::test]
    async fn what_a_packed_body_becomes_counts() {
        let app = app(6 << 20).await;
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&vec![b' '; 3 << 20]).unwrap();
        let packed = encoder.finish().unwrap();
        let request = || {
            let body = axum::body::Body::from(packed.clone());
            Request::builder().header(CONTENT_ENCODING, "gzip").body(body).unwrap()
        };
        let read = Batch::from_request(request(), &app).await.unwrap();
        assert_eq!(refusal(request(), &app).await, Some((503, "too_many_bodies".to_owned())));
        drop(read);
        assert_eq!(refusal(request(), &app).await, None);
    }
}
