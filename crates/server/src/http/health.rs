//! For the platform: whether the process lives, and whether it hands out jobs.

use super::app::App;
use super::reply;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use duetime::wire::{Alive, Health};

/// Whether the process lives.
#[utoipa::path(
    get, path = "/healthz", operation_id = "healthz", tag = "server",
    responses(
        (status = 200, description = "It does.", body = Alive),
    ),
)]
pub(super) async fn alive() -> Response {
    reply::ok(&Alive { status: "ok".to_owned(), version: Some(env!("CARGO_PKG_VERSION").to_owned()) })
}

/// Whether jobs are handed out.
///
/// And what does not work as it should, in words.
#[utoipa::path(
    get, path = "/readyz", operation_id = "readyz", tag = "server",
    responses(
        (status = 200, description = "They are.", body = Health),
        (status = 503, description = "They are not, or not yet.", body = Health),
    ),
)]
pub(super) async fn ready(State(app): State<App>) -> Response {
    let health = Health::from(app.engine.health());
    let status = if health.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    reply::with_status(status, &health)
}
