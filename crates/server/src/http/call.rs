//! What handlers take from a request: the state, the caller, and the job of the path.

use super::app::App;
use super::etag;
use super::middleware::access;
use super::problem::{Problem, refuse};
use super::segment::Segment;
use crate::access::{Caller, Scope};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use duetime_core::JobRef;

/// The state and the caller of a request.
pub(super) struct Call(pub(super) App, pub(super) Caller);

impl FromRequestParts<App> for Call {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        NoQuery::from_request_parts(parts, app).await?;
        let QueryCall(app, caller, _) = QueryCall::from_request_parts(parts, app).await?;
        Ok(Self(app, caller))
    }
}

/// The same for a route with query parameters, and the query.
pub(super) struct QueryCall(pub(super) App, pub(super) Caller, pub(super) String);

impl FromRequestParts<App> for QueryCall {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let Ok(caller) = Caller::from_request_parts(parts, app).await;
        Ok(Self(app.clone(), caller, parts.uri.query().unwrap_or_default().to_owned()))
    }
}

/// Refuses query parameters.
pub(super) struct NoQuery;

impl<S: Sync> FromRequestParts<S> for NoQuery {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        match parts.uri.query().filter(|query| !query.is_empty()) {
            None => Ok(Self),
            Some(query) => {
                Err(refuse("invalid", format!("{} has no query parameters, got {query:?}", parts.uri.path())))
            }
        }
    }
}

/// The job of the path, in the version that `If-Match` names, for a caller who may change it; and the body.
pub(super) struct Changing<B>(pub(super) App, pub(super) Caller, pub(super) JobRef, pub(super) B);

impl<B: FromRequest<App, Rejection = Problem> + Send> FromRequest<App> for Changing<B> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let Call(_, caller) = Call::from_request_parts(&mut parts, app).await?;
        let Segment(id) = Segment::from_request_parts(&mut parts, app).await?;
        let target = etag::target(id, &parts.headers)?;
        // The body first, since it may take minutes to arrive.
        let body = B::from_request(Request::from_parts(parts, body), app).await?;
        access::check_job(app, &caller, Scope::Change, id).await?;
        Ok(Self(app.clone(), caller, target, body))
    }
}
