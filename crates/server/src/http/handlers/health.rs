//! For the platform: whether the process lives, and whether it hands out jobs.

use crate::access::Caller;
use crate::http::app::App;
use crate::http::call::NoQuery;
use crate::http::reply;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use duetime_core::api::Alive;
use duetime_core::engine::Health;

/// Check that the process answers.
#[utoipa::path(
    get, path = "/healthz", operation_id = "healthz", tag = "server",
    responses((status = 200, description = "The process answers.", body = Alive)),
)]
pub(crate) async fn alive(_: NoQuery) -> Response {
    reply::ok(&Alive { status: "ok".to_owned(), version: Some(env!("CARGO_PKG_VERSION").to_owned()) })
}

/// Check that jobs are handed out and changes are taken.
///
/// The answer also lists what is degraded. If the server requires tokens, only its log has the reasons.
#[utoipa::path(
    get, path = "/readyz", operation_id = "readyz", tag = "server",
    responses(
        (status = 200, description = "Jobs are handed out, and changes are taken.", body = Health),
        (status = 503, description = "No jobs are handed out, or not yet; or changes are refused.", body = Health),
    ),
)]
pub(crate) async fn ready(State(app): State<App>, caller: Caller, _: NoQuery) -> Response {
    let mut health = app.engine.health();
    if matches!(caller, Caller::Nobody) {
        // A store's error may contain addresses and table names.
        health.degraded.iter_mut().for_each(|degraded| degraded.error = None);
    }
    let status = if health.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    reply::with_status(status, &health)
}
