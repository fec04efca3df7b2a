//! The routes, by the right that a caller needs. Every route is in the OpenAPI document: both are made from the same lists.

use super::app::App;
use super::handlers::{
    attention, bulk, clock, events, find, health, jobs, leases, locks, metrics, push, queues, reports, reserve,
    schedules, why, workers,
};
use super::limits::GZIP_BYTES_MIN;
use super::middleware::{access, audit, language};
use super::openapi::{self, Needs, needing};
use super::problem::{Problem, refuse};
use crate::access::Scope;
use crate::dashboard;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, Uri};
use axum::middleware::{from_fn, from_fn_with_state};
use hyper_util::service::TowerToHyperService;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// All of them, as a service of connections.
pub(super) type Routes = TowerToHyperService<Router>;

/// All of them.
pub(super) fn routes(app: &App) -> Router {
    // Small answers do not get smaller by gzip, and it would hold back events.
    let is_worth_it = SizeAbove::new(GZIP_BYTES_MIN).and(NotForContentType::SSE);
    uncompressed(app).layer(CompressionLayer::new().compress_when(is_worth_it))
}

/// The same without compression.
pub(super) fn uncompressed(app: &App) -> Router {
    let api = Router::from(documented(Some(app)))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn(language::tell))
        // Bodies have their own limits.
        .layer(DefaultBodyLimit::disable())
        .with_state(app.clone());
    if !app.has_dashboard() {
        return api;
    }
    let pages = dashboard::routes(app.clone(), api.clone()).method_not_allowed_fallback(no_method);
    pages.fallback_service(api).layer(from_fn_with_state(app.clone(), dashboard::with_error_pages))
}

/// Every route with its documentation. Without an app, only the documentation is used.
pub(super) fn documented(app: Option<&App>) -> OpenApiRouter<App> {
    let moves_clock = app.is_some_and(|app| app.moves.is_some());
    OpenApiRouter::with_openapi(openapi::frame())
        .merge(needing(open(), Needs::Nothing))
        .merge(of(Scope::Push, pushing()))
        .merge(of(Scope::Work, working()))
        .merge(of(Scope::Lock, locking()))
        .merge(audited(app, of(Scope::Lock, freeing())))
        .merge(of(Scope::Read, reading()))
        .merge(of(Scope::Change, changing()))
        .merge(audited(app, of(Scope::Change, changing_many())))
        .merge(audited(app, of(Scope::Admin, administering())))
        .merge(if moves_clock { of(Scope::Admin, moving()) } else { OpenApiRouter::new() })
}

/// Routes for callers with this right.
fn of(scope: Scope, routes: OpenApiRouter<App>) -> OpenApiRouter<App> {
    needing(routes, Needs::Token(scope)).route_layer(from_fn_with_state(scope, access::require))
}

/// Calls of these routes are audited, even refused ones.
fn audited(app: Option<&App>, routes: OpenApiRouter<App>) -> OpenApiRouter<App> {
    match app {
        Some(app) => routes.route_layer(from_fn_with_state(app.clone(), audit::record_call)),
        None => routes,
    }
}

/// For everybody.
fn open() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(health::alive))
        .routes(routes!(health::ready))
        .routes(routes!(openapi::openapi_json))
        .routes(routes!(openapi::docs))
        .routes(routes!(openapi::style))
}

/// To push jobs.
fn pushing() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(push::push)).routes(routes!(push::push_anywhere))
}

/// To work: to lease or take jobs, and to say what became of them.
fn working() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(reserve::reserve))
        .routes(routes!(reserve::reserve_anywhere))
        .routes(routes!(reserve::take))
        .routes(routes!(reserve::take_anywhere))
        .routes(routes!(leases::complete))
        .routes(routes!(leases::fail))
        .routes(routes!(leases::release))
        .routes(routes!(leases::park))
        .routes(routes!(leases::extend))
        .routes(routes!(leases::progress))
        .routes(routes!(leases::settle))
        .routes(routes!(leases::extend_many))
}

/// To hold locks.
fn locking() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(locks::list)).routes(routes!(locks::get, locks::put, locks::delete))
}

/// To free all locks of an owner, whoever holds them for it.
fn freeing() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(locks::delete_all))
}

/// To look.
fn reading() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(find::find))
        .routes(routes!(jobs::get))
        .routes(routes!(why::get))
        .routes(routes!(queues::list))
        .routes(routes!(queues::get))
        .routes(routes!(reports::history))
        .routes(routes!(reports::due))
        .routes(routes!(reports::failures))
        .routes(routes!(workers::list))
        .routes(routes!(attention::get))
        .routes(routes!(schedules::list))
        .routes(routes!(schedules::get))
        .routes(routes!(schedules::next))
        .routes(routes!(events::events))
        .routes(routes!(metrics::metrics))
}

/// To change a job.
fn changing() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(jobs::patch, jobs::delete))
        .routes(routes!(jobs::cancel))
        .routes(routes!(jobs::retry))
        .routes(routes!(jobs::run))
}

/// To change all jobs that are found.
fn changing_many() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(bulk::cancel))
        .routes(routes!(bulk::retry))
        .routes(routes!(bulk::reschedule))
        .routes(routes!(bulk::delete))
}

/// To change queues and schedules.
fn administering() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(queues::put, queues::delete))
        .routes(routes!(queues::pause))
        .routes(routes!(queues::resume))
        .routes(routes!(queues::purge))
        .routes(routes!(schedules::put, schedules::delete))
        .routes(routes!(schedules::pause))
        .routes(routes!(schedules::resume))
        .routes(routes!(schedules::run))
}

/// To move the clock of a server for tests. No other server has these routes, nor its document.
fn moving() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(clock::get)).routes(routes!(clock::advance))
}

async fn no_route(method: Method, uri: Uri) -> Problem {
    refuse("no_route", format!("there is no path {}, asked for with {method}; see /docs", uri.path()))
}

async fn no_method(method: Method, uri: Uri) -> Problem {
    let path = uri.path();
    refuse("method_not_allowed", format!("{path} does not accept {method}; the header `allow` lists what it accepts"))
}
