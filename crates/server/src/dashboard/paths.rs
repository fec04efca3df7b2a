//! Paths of the pages, and how to go to one.

use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use duetime_core::api::path_segment;
use url::form_urlencoded;

/// Dead letters.
pub(super) const FAILED: &str = "/failed";
/// The outcome of an action that changed nothing.
pub(super) const NOTHING: &str = "nothing";
/// A placeholder in a path for a name that the query has.
pub(super) const IN_QUERY: &str = "-";

/// Whether a path is one of the dashboard's.
pub(crate) fn is_page(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    matches!(
        first,
        "" | "queues"
            | "jobs"
            | "failed"
            | "search"
            | "schedules"
            | "workers"
            | "locks"
            | "events"
            | "live"
            | "sign-in"
            | "sign-out"
            | "assets"
    )
}

/// Goes to a page that tells how many came to which outcome.
pub(super) fn went(to: &str, done: &[(String, u64)]) -> Response {
    let told: Vec<String> = done.iter().map(|(word, count)| format!("{word}.{count}")).collect();
    let told = if told.is_empty() { NOTHING.to_owned() } else { told.join("-") };
    let glue = if to.contains('?') { '&' } else { '?' };
    see_other(&format!("{to}{glue}done={told}"))
}

/// Goes to a page of the dashboard.
pub(super) fn see_other(to: &str) -> Response {
    let to = HeaderValue::try_from(to).unwrap_or(HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(LOCATION, to)]).into_response()
}

/// A path with a query.
pub(super) fn with_query<'a>(path: &str, pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(pairs);
    let query = query.finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

/// The page of something with a name. Browsers resolve `.` and `..` in paths, so these names are in the query.
pub(super) fn page_path(folder: &str, name: &str) -> String {
    match name {
        "." | ".." => with_query(&format!("{folder}/{IN_QUERY}"), std::iter::once(("name", name))),
        name => format!("{folder}/{}", path_segment(name)),
    }
}

/// A path of this server and nothing else, to go to after a form.
pub(super) fn local(path: &str) -> &str {
    // Browsers read a backslash as a slash, and leave out tabs.
    let is_local = path.starts_with('/') && !path.starts_with("//") && !path.contains(['\\', '\t', '\r', '\n']);
    if is_local { path } else { "/" }
}
