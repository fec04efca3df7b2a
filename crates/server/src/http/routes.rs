//! Which path does what.

use super::app::App;
use super::problem::{Problem, Refusal};
use super::{bulk, events, find, handout, health, job, leases, locks, metrics, push, queues, schedules};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, Uri};
use axum::routing::{get, post};

/// All of them.
pub(super) fn routes(app: App) -> Router {
    Router::new()
        .route("/v1/queues/{queue}/jobs", post(push::push))
        .route("/v1/queues/{queue}/reserve", post(handout::reserve))
        .route("/v1/queues/{queue}/take", post(handout::take))
        .route("/v1/queues", get(queues::list))
        .route("/v1/queues/{queue}", get(queues::get).put(queues::put))
        .route("/v1/queues/{queue}/pause", post(queues::pause))
        .route("/v1/queues/{queue}/resume", post(queues::resume))
        .route("/v1/queues/{queue}/purge", post(queues::purge))
        .route("/v1/reserve", post(handout::reserve_anywhere))
        .route("/v1/leases/{receipt}/complete", post(leases::complete))
        .route("/v1/leases/{receipt}/fail", post(leases::fail))
        .route("/v1/leases/{receipt}/release", post(leases::release))
        .route("/v1/leases/{receipt}/extend", post(leases::extend))
        .route("/v1/leases/{receipt}/progress", post(leases::progress))
        .route("/v1/settle", post(leases::settle))
        .route("/v1/extend", post(leases::extend_many))
        .route("/v1/jobs", get(find::find))
        .route("/v1/jobs/cancel", post(bulk::cancel))
        .route("/v1/jobs/retry", post(bulk::retry))
        .route("/v1/jobs/delete", post(bulk::delete))
        .route("/v1/jobs/{id}", get(job::get).patch(job::patch).delete(job::delete))
        .route("/v1/jobs/{id}/cancel", post(job::cancel))
        .route("/v1/jobs/{id}/retry", post(job::retry))
        .route("/v1/jobs/{id}/run", post(job::run))
        .route("/v1/locks", get(locks::list).delete(locks::delete_all))
        .route("/v1/locks/{name}", get(locks::get).put(locks::put).delete(locks::delete))
        .route("/v1/schedules", get(schedules::list))
        .route("/v1/schedules/{name}", get(schedules::get).put(schedules::put).delete(schedules::delete))
        .route("/v1/events", get(events::events))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(metrics::metrics))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        // Bodies have limits of their own.
        .layer(DefaultBodyLimit::disable())
        .with_state(app)
}

async fn no_route(method: Method, uri: Uri) -> Problem {
    Refusal::NoRoute.because(format!("expected a path of the API, got {method} {}", uri.path()))
}

async fn no_method(method: Method, uri: Uri) -> Problem {
    let path = uri.path();
    Refusal::Method.because(format!("expected a method that {path} has (see the header allow), got {method}"))
}
