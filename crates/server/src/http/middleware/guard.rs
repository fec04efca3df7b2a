//! Checks before routing, and rules for every request.
//!
//! A web page that the user merely visits must not reach the server. Browsers name the page's origin, and the name by which
//! they think to have reached the server ([`hosts`](super::hosts)).

use super::access;
use super::request_id::REQUEST_ID;
use crate::access::Caller;
use crate::http::app::App;
use crate::http::limits::{HEAD_BYTES_MAX, HEADERS_MAX};
use crate::http::problem::{Problem, refuse};
use axum::http::header::{HOST, HeaderValue, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, Request};
use axum::response::{IntoResponse, Response};
use duetime_core::model::trace;
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;
use tracing::Instrument;
use tracing::field::Empty;

/// Checks that the request may be routed, and returns its caller.
pub(crate) fn check<B>(app: &App, request: &Request<B>) -> Result<Caller, Problem> {
    let (uri, headers) = (request.uri(), request.headers());
    let path_bytes = uri.path_and_query().map_or(0, |path| path.as_str().len());
    let bytes = headers.iter().fold(path_bytes, |sum, (name, value)| sum + name.as_str().len() + value.len());
    if bytes > HEAD_BYTES_MAX || headers.len() > HEADERS_MAX {
        let expected = format!("path and headers must have at most {HEAD_BYTES_MAX} bytes and {HEADERS_MAX} headers");
        return Err(refuse("head_too_large", format!("{expected}, got {bytes} and {}", headers.len())));
    }
    if headers.get_all(HOST).iter().count() > 1 {
        return Err(refuse("foreign_host", "the request has several `host` headers; send one".to_owned()));
    }
    let host = headers.get(HOST).map(|value| value.to_str().unwrap_or_default());
    let host = host.or(uri.authority().map(Authority::as_str));
    if let Some(host) = host.filter(|host| !app.listener_config.hosts.has(host)) {
        let detail = format!(
            "`host` must be localhost, an IP address, or a name that the server allows with --allow-host (`allow_host` of a \
             mounted router), got {host:?}"
        );
        return Err(refuse("foreign_host", detail));
    }
    let is_page = app.is_page(uri.path());
    // A proxy may pass on another host than the browser named. Browsers also say whether a form comes from the same origin.
    if !(is_page && headers.get("sec-fetch-site").is_some_and(|site| site == "same-origin")) {
        check_origin(headers, host)?;
    }
    access::caller(app, uri.path(), headers)
}

fn check_origin(headers: &HeaderMap, host: Option<&str>) -> Result<(), Problem> {
    let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().unwrap_or_default();
    let of_ours = origin.split_once("://").is_some_and(|(_, authority)| Some(authority) == host);
    if of_ours {
        return Ok(());
    }
    Err(refuse(
        "foreign_origin",
        format!("`origin` must be missing or this server's own, got {origin:?}; call the API from your backend"),
    ))
}

/// Runs what handles a request, in a span that has its id and those of its trace; a panic in it is answered and logged,
/// and ends nothing else.
pub(crate) async fn shield(
    method: Method,
    path: String,
    id: HeaderValue,
    trace: Option<Arc<str>>,
    handle: impl Future<Output = Response>,
) -> Response {
    let request_id = id.to_str().unwrap_or_default();
    let span = tracing::info_span!("request", request_id, trace_id = Empty, parent_id = Empty);
    if let Some(trace) = &trace {
        let (trace_id, parent_id) = trace::ids(trace);
        span.record("trace_id", trace_id).record("parent_id", parent_id);
    }
    let mut response = answer(method, path, handle).instrument(span).await;
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

async fn answer(method: Method, path: String, handle: impl Future<Output = Response>) -> Response {
    let started = Instant::now();
    let response = AssertUnwindSafe(handle).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!(%method, path, "a handler panicked");
        refuse("internal", "the server failed to handle this request; see its log").into_response()
    });
    let status = response.status().as_u16();
    tracing::debug!(%method, path, status, elapsed_us = started.elapsed().as_micros(), "request");
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The captured log.
    #[derive(Clone, Default)]
    struct Log(Arc<std::sync::Mutex<Vec<u8>>>);

    impl std::io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn what_is_logged_of_a_request_has_the_ids_of_its_trace() {
        let log = Log::default();
        let written = log.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || written.clone()).finish();
        let _until_the_end = tracing::subscriber::set_default(subscriber);
        let trace = Some(Arc::from("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
        shield(Method::GET, "/".to_owned(), HeaderValue::from_static("r-7"), trace, async { panic!("a bug") }).await;
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        let span =
            r#"request{request_id="r-7" trace_id="4bf92f3577b34da6a3ce929d0e0e4736" parent_id="00f067aa0ba902b7"}"#;
        assert!(text.contains(span) && text.contains("a handler panicked"), "{text}");
    }

    #[tokio::test]
    async fn a_panic_is_answered() {
        let response =
            shield(Method::GET, "/".to_owned(), HeaderValue::from_static("r-7"), None, async { panic!("a bug") }).await;
        assert_eq!(response.headers()["request-id"], "r-7");
        assert_eq!(response.status().as_u16(), 500);
        assert_eq!(response.headers()["content-type"], "application/problem+json");
    }
}
