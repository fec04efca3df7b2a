//! `GET /metrics`: the metrics of the engine, of deliveries and of the log, as text for Prometheus.

use crate::access::Scope;
use crate::http::call::Call;
use crate::http::middleware::access;
use crate::http::problem::Problem;
use crate::log;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use duetime_core::engine::exposition::MEDIA_TYPE;

/// Show metrics for Prometheus.
///
/// The format is OpenMetrics. Counters count the work of this process since its start.
#[utoipa::path(
    get, path = "/metrics", operation_id = "metrics", tag = "server",
    responses(
        (status = 200, description = "The metrics.", body = String, content_type = "application/openmetrics-text"),
    ),
)]
pub(crate) async fn metrics(Call(app, caller): Call) -> Result<Response, Problem> {
    // They tell of all queues.
    access::check_all(&caller, Scope::Read)?;
    let mut text = app.engine.exposition().await;
    let help = "Log lines that were lost because standard error was not read fast enough";
    text.counters("duetime_log_lines_lost", help, [(None, log::lines_lost())]);
    let deliveries = app.deliveries.by_outcome().map(|(outcome, times)| (Some(("outcome", outcome)), times));
    text.histograms("duetime_delivery_seconds", "Deliveries to targets, by result", deliveries);
    Ok(([(CONTENT_TYPE, MEDIA_TYPE)], text.finish()).into_response())
}
