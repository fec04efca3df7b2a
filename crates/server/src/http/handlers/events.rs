//! `GET /v1/events`: what happens to jobs, as server-sent events.
//!
//! A stream holds little: all read from the engine's ring, and the HTTP library asks for the next bytes only once it is rid of
//! those before. Who reads more slowly than the ring turns is told so, and the stream ends: the reader comes back, and
//! reads the state of jobs anew.

use crate::access::{Caller, STREAMS_MAX, Scope};
use crate::http::app::{App, Call};
use crate::http::limits::{EVENT_CHUNK_BYTES, EVENT_STREAMS_MAX, HEARTBEAT_EVERY};
use crate::http::problem::refuse;
use crate::http::reply::Answered;
use axum::body::{Body, Bytes};
use axum::extract::RawQuery;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::response::IntoResponse;
use duetime_core::api::{EventQuery, Instant, LOST, STOPPING, SUBSCRIBED};
use duetime_core::engine::events::{Event, Subscription};
use futures_util::stream;
use serde::Serialize;
use serde_json::json;
use std::convert::Infallible;
use std::fmt::Write;
use tokio::sync::OwnedSemaphorePermit;

/// When a client that lost its stream had better come back, in milliseconds.
const RETRY_MS: u64 = 1_000;
/// Asks proxies to pass on what comes.
const BUFFERING: (HeaderName, &str) = (HeaderName::from_static("x-accel-buffering"), "no");

/// What happens to jobs, as server-sent events.
///
/// The first event is `subscribed`. From then on each one is named by what happened, and tells of one job. Comments are signs
/// of life. Who reads too slowly gets `lost` as the last event; a server that stops says `stopping`.
#[utoipa::path(
    get, path = "/v1/events", operation_id = "events", tag = "jobs",
    params(
        ("queue" = Option<Vec<String>>, Query, description = "Of this queue, or with `*` at the end of those that begin so; may be repeated."),
        ("what" = Option<Vec<String>>, Query, description = "Where this happened, such as `started`; may be repeated."),
    ),
    responses(
        (status = 200, description = "The events.", body = String, content_type = "text/event-stream"),
    ),
    extensions(("x-codes" = json!(["too_many_streams"]))),
)]
pub(crate) async fn events(Call(app, caller): Call, RawQuery(query): RawQuery) -> Answered {
    let EventQuery(filter) = query.unwrap_or_default().parse()?;
    let Ok(slot) = app.event_streams.clone().try_acquire_owned() else {
        let detail = format!("expected at most {EVENT_STREAMS_MAX} streams of events at once, got one more");
        return Err(refuse("too_many_streams", detail));
    };
    let of_token = match &caller {
        Caller::Token(known) => Some(known.stream().ok_or_else(|| {
            let detail =
                format!("expected at most {STREAMS_MAX} streams of events at once with one token, got one more");
            refuse("too_many_streams", detail)
        })?),
        Caller::Anyone | Caller::Nobody => None,
    };
    let listener = app.engine.subscribe(filter).await?;
    let mut opening = format!("retry: {RETRY_MS}\n");
    append(&mut opening, SUBSCRIBED, &json!({ "at": Instant(app.engine.now()) }));
    let told = EventStream { app, listener, caller, opening: Some(opening), _room: (slot, of_token) };
    let told = stream::unfold(Some(told), |told| async {
        let mut told = told?;
        let (text, goes_on) = told.next().await;
        Some((Ok::<_, Infallible>(Bytes::from(text)), goes_on.then_some(told)))
    });
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store"), BUFFERING];
    Ok((headers, Body::from_stream(told)).into_response())
}

struct EventStream {
    app: App,
    listener: Subscription,
    /// Who listens: only queues that they have a right to are told of.
    caller: Caller,
    opening: Option<String>,
    _room: (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>),
}

impl EventStream {
    /// The next text, and whether there is more to come.
    async fn next(&mut self) -> (String, bool) {
        if let Some(opening) = self.opening.take() {
            return (opening, true);
        }
        let mut text = String::new();
        let heartbeat = tokio::time::sleep(HEARTBEAT_EVERY);
        tokio::pin!(heartbeat);
        loop {
            let told = match self.listener.try_next() {
                _ if self.app.stopping.is_cancelled() => None,
                Some(told) => Some(told),
                None if !text.is_empty() => return (text, true),
                None => tokio::select! {
                    biased;
                    () = self.app.stopping.cancelled() => None,
                    told = self.listener.next() => told,
                    () = &mut heartbeat => {
                        let is_let = self.app.listener_config.still_lets(&self.caller, self.app.engine.now());
                        let text = if is_let { ":\n\n".to_owned() } else { stopping() };
                        return (text, is_let);
                    }
                },
            };
            // Looked at with each chunk, once something has come.
            if text.is_empty() && !self.app.listener_config.still_lets(&self.caller, self.app.engine.now()) {
                return (stopping(), false);
            }
            match told {
                Some(Event::Transition(transition)) => {
                    if self.caller.may(Scope::Read, &transition.queue) {
                        append(&mut text, transition.what.word(), &*transition);
                    }
                }
                Some(Event::Missed) => {
                    append(&mut text, LOST, &json!({}));
                    return (text, false);
                }
                None => {
                    append(&mut text, STOPPING, &json!({}));
                    return (text, false);
                }
            }
            if text.len() >= EVENT_CHUNK_BYTES {
                return (text, true);
            }
        }
    }
}

/// The last event of a stream that ends in good order.
fn stopping() -> String {
    let mut text = String::new();
    append(&mut text, STOPPING, &json!({}));
    text
}

/// Appends an event.
fn append(text: &mut String, event: &str, data: &impl Serialize) {
    let data = serde_json::to_string(data).expect("events have no maps");
    write!(text, "event: {event}\ndata: {data}\n\n").expect("text takes all");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deliver::Policy;
    use crate::http::listener_config::ListenerConfig;
    use duetime_core::engine::{Options, Stores};
    use duetime_core::{Engine, SystemClock};
    use duetime_store::sqlite::Sqlite;
    use http_body_util::BodyExt;
    use std::sync::Arc;

    async fn app() -> App {
        let sqlite = Arc::new(Sqlite::memory().unwrap());
        let stores = Stores::one_process(Arc::new(SystemClock::new()), sqlite);
        App::new(
            Engine::start(stores, Options::default()).await.unwrap(),
            ListenerConfig::local(),
            Policy::default(),
            Arc::default(),
        )
    }

    async fn open(app: &App) -> Answered {
        events(Call(app.clone(), Caller::Anyone), RawQuery(None)).await
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
}
