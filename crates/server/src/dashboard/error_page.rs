//! Errors as pages for browsers: those that the API returns as JSON, and requests refused before a page is rendered.

use super::paths::is_page;
use super::routes::add_headers;
use super::state::Dashboard;
use super::visit::Guest;
use crate::access::Caller;
use crate::http::{App, Peer};
use axum::Router;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::{ACCEPT, ALLOW, CONTENT_TYPE, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Request as HttpRequest, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use duetime_core::api::{Problem, read_bytes};
use http_body_util::{BodyExt, Limited};

/// Longest problem that is read. Longer answers are no problems.
const PROBLEM_BYTES_MAX: usize = 256 << 10;

/// A browser's request, kept to render its error page.
pub(crate) struct Browser(Box<Parts>);

impl Browser {
    /// `None` if the request is not for a page: a program calls the API, or the dashboard is not served.
    pub(crate) fn of<B>(app: &App, peer: Peer, request: &HttpRequest<B>) -> Option<Self> {
        let path = request.uri().path();
        let accepts = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        if !app.has_dashboard() || path.starts_with("/v1/") || !accepts.contains("text/html") {
            return None;
        }
        let (mut parts, ()) = HttpRequest::new(()).into_parts();
        parts.method = request.method().clone();
        parts.uri = request.uri().clone();
        parts.headers = request.headers().clone();
        parts.extensions.insert(peer);
        parts.extensions.insert(request.extensions().get::<Caller>().cloned().unwrap_or(Caller::Nobody));
        Some(Self(Box::new(parts)))
    }

    /// The answer itself, or its error as a page.
    pub(crate) async fn answer(self, app: &App, answer: Response) -> Response {
        let status = answer.status();
        let is_for_people = is_page(self.0.uri.path()) || status == StatusCode::NOT_FOUND;
        let is_html = answer.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
        if is_html || !is_for_people || !(status.is_client_error() || status.is_server_error()) {
            return answer;
        }
        let mut parts = *self.0;
        let dashboard = Dashboard { app: app.clone(), api: Router::new() };
        let Ok(Guest(visit)) = Guest::from_request_parts(&mut parts, &dashboard).await;
        let kept = kept(answer.headers());
        let problem = problem(answer).await;
        let mut page = visit.answer(Err(problem.into()));
        page.headers_mut().extend(kept);
        add_headers(&mut page);
        page
    }
}

/// Headers of an error that its page keeps.
fn kept(headers: &HeaderMap) -> HeaderMap {
    [ALLOW, RETRY_AFTER].into_iter().filter_map(|name| Some((name.clone(), headers.get(name)?.clone()))).collect()
}

async fn problem(answer: Response) -> Problem {
    let status = answer.status();
    let body = Limited::new(answer.into_body(), PROBLEM_BYTES_MAX).collect().await;
    let bytes = body.map(|body| body.to_bytes()).unwrap_or_default();
    read_bytes::<Problem>(&bytes).unwrap_or_else(|_| {
        let title = status.canonical_reason().unwrap_or("Error");
        Problem::new("invalid", status.as_u16(), title, String::from_utf8_lossy(&bytes).into_owned())
    })
}

/// Answers a browser's requests with pages, errors too.
pub(crate) async fn with_error_pages(State(app): State<App>, request: Request, next: Next) -> Response {
    let peer = *request.extensions().get::<Peer>().expect("each request has one");
    let browser = Browser::of(&app, peer, &request);
    let answer = next.run(request).await;
    match browser {
        Some(browser) => browser.answer(&app, answer).await,
        None => answer,
    }
}
