//! `GET /v1/events`: what happens to jobs, as server-sent events.
//!
//! A stream needs little memory: all streams read from the engine's ring, and few texts of each are in memory at once, since the HTTP
//! library would ask for many before it has sent the first. If a reader falls a whole ring behind, its stream ends with `lost`. The reader then
//! reconnects and reads the state of jobs again.

use crate::access::{Caller, STREAMS_MAX, Scope};
use crate::http::app::App;
use crate::http::call::QueryCall;
use crate::http::limits::{EVENT_CHUNK_BYTES, EVENT_STREAMS_MAX, EVENT_TEXTS_MAX, EVENTS_TOGETHER, HEARTBEAT_EVERY};
use crate::http::middleware::access;
use crate::http::problem::refuse;
use crate::http::reply::Answered;
use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::response::IntoResponse;
use duetime_core::api::{self, ACTIVITY, EventQuery, LOST, STOPPING, SUBSCRIBED};
use duetime_core::engine::events::{Event, Subscription};
use futures_util::future::BoxFuture;
use futures_util::stream;
use serde_json::json;
use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// When a client that lost its stream should reconnect, in milliseconds.
const RETRY_MS: u64 = 1_000;
/// Asks proxies to pass on what comes.
const BUFFERING: (HeaderName, &str) = (HeaderName::from_static("x-accel-buffering"), "no");

/// Stream job events, as server-sent events.
///
/// The first event is `subscribed`. Each later event has the name of the transition and the job. Comments keep the
/// connection alive. If the client reads too slowly, the last event is `lost`. If the server stops, it is `stopping`.
///
/// With `every`, events only say that something happened (`activity`), at most once in this time. A client that shows jobs
/// then reads them again. If more than 10 such events a second are due on all streams, they are spread over a longer time.
#[utoipa::path(
    get, path = "/v1/events", operation_id = "events", tag = "jobs",
    params(
        ("queue" = Option<Vec<String>>, Query, description = "Only events of this queue, or of queues with this prefix if it \
         ends with `*`; repeatable."),
        ("what" = Option<Vec<String>>, Query, description = "Only events of this type, such as `started`; repeatable."),
        ("recent" = Option<bool>, Query, description = "With `true`, the stream begins with the last events before it: up to 50 \
         of all that this server has seen. On Redis, ends of jobs are among them only if somebody was reading events."),
        ("every" = Option<String>, Query, description = "Send only `activity`, at most once in this time: `100ms` to `10s`."),
    ),
    responses((status = 200, description = "The events.", body = String, content_type = "text/event-stream")),
    extensions(("x-codes" = json!(["too_many_streams"]))),
)]
pub(crate) async fn events(QueryCall(app, caller, query): QueryCall) -> Answered {
    let EventQuery { filter, every, recent: is_late } = query.parse()?;
    let Ok(slot) = app.event_streams.clone().try_acquire_owned() else {
        let detail = format!("the server has {EVENT_STREAMS_MAX} open event streams, the limit; close one");
        return Err(refuse("too_many_streams", detail));
    };
    let of_token = match &caller {
        Caller::Token(holder) => Some(holder.stream().ok_or_else(|| {
            let detail = format!("this token has {STREAMS_MAX} open event streams, the limit; close one");
            refuse("too_many_streams", detail)
        })?),
        Caller::Anyone | Caller::Nobody => None,
    };
    let (subscription, recent) = app.engine.subscribe_late(filter).await?;
    let mut opening = format!("retry: {RETRY_MS}\n");
    append(&mut opening, SUBSCRIBED, &now(&app));
    for transition in recent.iter().filter(|it| is_late && caller.may(Scope::Read, &it.queue)) {
        append(&mut opening, transition.what.word(), transition.json());
    }
    let stream = EventStream {
        app,
        subscription,
        caller,
        every,
        opening: Some(opening),
        not_before: Instant::now(),
        turn: None,
        texts: Arc::new(Semaphore::new(EVENT_TEXTS_MAX)),
        _room: (slot, of_token),
    };
    let body = stream::unfold(Some(stream), |stream| async {
        let mut stream = stream?;
        let (text, goes_on) = stream.next().await;
        Some((Ok::<_, Infallible>(Bytes::from_owner(text)), goes_on.then_some(stream)))
    });
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store"), BUFFERING];
    Ok((headers, Body::from_stream(body)).into_response())
}

struct EventStream {
    app: App,
    subscription: Subscription,
    /// The reader: it learns only of queues that it has a right to.
    caller: Caller,
    /// Only that something happened, and not more often.
    every: Option<Duration>,
    opening: Option<String>,
    /// Events until then are sent together.
    not_before: Instant,
    /// Ends when it is the reader's turn to learn that something happened.
    turn: Option<BoxFuture<'static, ()>>,
    /// Room for texts that are not sent yet.
    texts: Arc<Semaphore>,
    _room: (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>),
}

/// A text, and its room until it is sent. Heartbeats and the last text take none.
struct Text {
    text: String,
    _room: Option<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

impl EventStream {
    /// The next text, and whether there is more to come.
    async fn next(&mut self) -> (Text, bool) {
        if let Some(opening) = self.opening.take() {
            return (Text { text: opening, _room: self.texts.clone().try_acquire_owned().ok() }, true);
        }
        let (app, reader, texts) = (self.app.clone(), self.caller.clone(), self.texts.clone());
        let check = || access::check_any(&reader, Scope::Read);
        let next = async {
            let room = texts.acquire_owned().await.expect("it is never closed");
            let (text, goes_on) = match self.every {
                None => self.transitions().await,
                Some(every) => self.activity(every).await,
            };
            (Text { text, _room: Some(room) }, goes_on)
        };
        let stopping = || (Text { text: last(STOPPING), _room: None }, false);
        let next = tokio::select! {
            biased;
            () = app.stopping.cancelled() => return stopping(),
            _ = reader.until_lost(check) => return stopping(),
            next = next => next,
            () = tokio::time::sleep(HEARTBEAT_EVERY) => (Text { text: ":\n\n".to_owned(), _room: None }, true),
        };
        if check().is_ok() { next } else { stopping() }
    }

    /// Transitions since the last text. Cancel safe.
    async fn transitions(&mut self) -> (String, bool) {
        tokio::time::sleep_until(self.not_before).await;
        let mut text = String::new();
        while text.len() < EVENT_CHUNK_BYTES {
            let event = match self.subscription.try_next() {
                None if text.is_empty() => self.subscription.next().await,
                None => {
                    self.not_before = Instant::now() + EVENTS_TOGETHER;
                    break;
                }
                event => event,
            };
            match event {
                Some(Event::Transition(transition)) => {
                    if self.caller.may(Scope::Read, &transition.queue) {
                        append(&mut text, transition.what.word(), transition.json());
                    }
                }
                Some(Event::Missed) => return (text + &last(LOST), false),
                None => return (text + &last(STOPPING), false),
            }
        }
        (text, true)
    }

    /// Says that something happened, in this reader's turn. Cancel safe.
    async fn activity(&mut self, every: Duration) -> (String, bool) {
        if self.turn.is_none() {
            tokio::time::sleep_until(self.not_before).await;
        }
        while self.turn.is_none() {
            match self.subscription.next().await {
                Some(Event::Transition(it)) if !self.caller.may(Scope::Read, &it.queue) => {}
                Some(_) => self.turn = Some(Box::pin(self.app.turn())),
                None => return (last(STOPPING), false),
            }
        }
        if let Some(turn) = &mut self.turn {
            turn.await;
        }
        // The reader reads everything again, which covers the events skipped here.
        self.subscription.skip();
        (self.turn, self.not_before) = (None, Instant::now() + every);
        let mut text = String::new();
        append(&mut text, ACTIVITY, &now(&self.app));
        (text, true)
    }
}

fn now(app: &App) -> String {
    json!({ "at": api::Timestamp(app.engine.now()) }).to_string()
}

/// An event without data, after which the stream ends.
fn last(event: &str) -> String {
    let mut text = String::new();
    append(&mut text, event, "{}");
    text
}

/// Appends an event.
fn append(text: &mut String, event: &str, json: &str) {
    write!(text, "event: {event}\ndata: {json}\n\n").expect("text takes all");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deliver::Policy;
    use crate::http::limits::ACTIVITY_EVERY;
    use crate::http::listener_config::ListenerConfig;
    use duetime_core::NewJob;
    use duetime_core::engine::{Options, Stores};
    use duetime_core::{Engine, SystemClock};
    use duetime_store::sqlite::Sqlite;
    use futures_util::FutureExt;
    use http_body_util::BodyExt;

    async fn app() -> App {
        let sqlite = Arc::new(Sqlite::memory().unwrap());
        let stores = Stores::one_process(Arc::new(SystemClock::new()), sqlite);
        App::new(
            Engine::start(stores, Options::default()).await.unwrap(),
            ListenerConfig::plain(),
            Policy::default(),
            Arc::default(),
        )
    }

    async fn open(app: &App) -> Answered {
        events(QueryCall(app.clone(), Caller::Anyone, String::new())).await
    }

    #[tokio::test]
    async fn a_stream_too_many_is_refused_and_one_that_ends_makes_room() {
        let app = app().await;
        let kept = app.event_streams.clone().try_acquire_many_owned(EVENT_STREAMS_MAX as u32 - 1).unwrap();
        let last = open(&app).await.unwrap();
        let problem = duetime_core::api::Problem::from(open(&app).await.map(drop).unwrap_err());
        assert_eq!((problem.status, &*problem.code), (503, "too_many_streams"));
        drop(last);
        open(&app).await.unwrap();
        drop(kept);
    }

    #[tokio::test]
    async fn a_stream_on_which_nothing_happens_gives_signs_of_life() {
        let app = app().await;
        let mut body = open(&app).await.unwrap().into_body();
        tokio::time::pause();
        let begin = tokio::time::Instant::now();
        for (text, seconds) in [("event: subscribed", 0), (":", 15), (":", 30)] {
            let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert!(std::str::from_utf8(&frame).unwrap().contains(text), "{frame:?}");
            assert_eq!(begin.elapsed().as_secs(), seconds);
        }
    }

    /// The HTTP library took 16 texts of each stream that is not read.
    #[tokio::test]
    async fn few_texts_of_a_stream_that_is_not_read_are_in_memory() {
        let app = app().await;
        let mut body = open(&app).await.unwrap().into_body();
        let job = NewJob { queue: "q".into(), ..NewJob::new(*b"x") };
        app.engine.push(vec![job; 1_000]).await.unwrap();
        let unread = [body.frame().await, body.frame().await];
        assert!(body.frame().now_or_never().is_none());
        // There was one.
        drop(unread);
        let next = body.frame().now_or_never().unwrap().unwrap().unwrap();
        assert!(next.data_ref().unwrap().starts_with(b"event: pushed"));
    }

    #[tokio::test]
    async fn a_reader_that_goes_leaves_the_line() {
        let app = app().await;
        tokio::time::pause();
        let begin = Instant::now();
        let gone: Vec<_> = (0..100).map(|_| tokio::spawn(app.turn())).collect();
        tokio::task::yield_now().await;
        gone.iter().for_each(tokio::task::JoinHandle::abort);
        for _ in 0..2 {
            app.turn().await;
        }
        assert!(begin.elapsed() <= 2 * ACTIVITY_EVERY, "{:?}", begin.elapsed());
    }
}
