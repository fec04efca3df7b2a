//! For the platform: whether the process lives, and whether it hands out jobs.

use super::app::App;
use super::reply;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use duetime::wire::{Alive, Health};

pub(super) async fn alive() -> Response {
    reply::ok(&Alive { status: "ok".into(), version: Some(env!("CARGO_PKG_VERSION").to_owned()) })
}

pub(super) async fn ready(State(app): State<App>) -> Response {
    let health = Health::from(app.engine.health());
    let status = if health.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    reply::with_status(status, &health)
}
