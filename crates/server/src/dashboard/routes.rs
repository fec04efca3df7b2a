//! The routes of the pages, and the headers of their answers.

use super::assets;
use super::pages::{
    events, failed, job, jobs, locks, overview, queue, queues, schedule, schedules, search, sign_in, workers,
};
use super::state::Dashboard;
use crate::http::App;
use axum::Router;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::{get, post};

/// Loads nothing from other sites, runs no inline scripts, and forbids framing.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
     base-uri 'none'; frame-ancestors 'none'",
);

/// The pages, which call these routes of the API.
pub(crate) fn routes(app: App, api: Router) -> Router {
    Router::new()
        .route("/", get(overview::page))
        .route("/queues", get(queues::page).post(queues::act))
        .route("/queues/{queue}", get(queue::page).post(queue::act))
        .route("/jobs", get(jobs::page).post(jobs::act))
        .route("/jobs/{id}", get(job::page).post(job::act))
        .route("/search", get(search::page))
        .route("/failed", get(failed::page).post(failed::act))
        .route("/schedules", get(schedules::page).post(schedules::act))
        .route("/schedules/{name}", get(schedule::page).post(schedule::act))
        .route("/workers", get(workers::page))
        .route("/locks", get(locks::page).post(locks::act))
        .route("/events", get(events::page))
        .route("/live", get(events::stream))
        .route("/sign-in", get(sign_in::page).post(sign_in::act))
        .route("/sign-out", post(sign_in::leave))
        .route("/assets/{file}", get(assets::asset))
        .layer(from_fn(with_headers))
        .with_state(Dashboard { app, api })
}

async fn with_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    add_headers(&mut response);
    response
}

pub(super) fn add_headers(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    // With `no-referrer` a browser would send forms with the origin `null`.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}
