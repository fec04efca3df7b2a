//! Access control: a token is checked before routing, its rights by each group of routes, and the names that it covers by
//! the handler.
//!
//! An id does not tell its queue. If a token does not cover all queues, the queue is looked up before anything else is
//! asked of the engine. A missing job and a job of another queue are answered alike.

use crate::access::{Caller, Refused, Scope};
use crate::dashboard::session;
use crate::http::app::App;
use crate::http::problem::{Problem, refuse};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use duetime_core::model::target::Target;
use duetime_core::{Error, JobId, NewJob, WhenExhausted};
use std::convert::Infallible;

/// Paths that need no token: health checks for the platform, and the API's documentation.
fn is_open(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz" | "/openapi.json" | "/docs") || path.starts_with("/docs/")
}

/// The caller of a request.
///
/// # Errors
/// If a token is required and no valid one is presented, or it makes too many requests.
pub(crate) fn caller(app: &App, path: &str, headers: &HeaderMap) -> Result<Caller, Problem> {
    let Some(tokens) = &app.listener_config.tokens else { return Ok(Caller::Anyone) };
    if app.is_page(path) {
        return session::caller(app, headers);
    }
    if is_open(path) {
        return Ok(Caller::Nobody);
    }
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(refuse(
            "unauthorized",
            "the header `authorization: Bearer TOKEN` is missing, or is there several times",
        ));
    };
    let shown = value.to_str().ok().and_then(|value| value.split_once(' '));
    let shown = shown.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim());
    // Neither the scheme nor the value is repeated: either may be a secret.
    let shown = shown.ok_or_else(|| {
        refuse("unauthorized", "the header `authorization` must be `Bearer TOKEN`, got another scheme or no scheme")
    })?;
    let caller = Caller::of_token(tokens, shown, &app.clock).ok_or_else(unknown)?;
    pass(&caller)?;
    Ok(caller)
}

/// Lets one request of this caller pass.
///
/// # Errors
/// If the token does not count any more, or it makes too many requests.
pub(crate) fn pass(caller: &Caller) -> Result<(), Problem> {
    caller.pass().map_err(|refused| match refused {
        Refused::Unknown => unknown(),
        Refused::TooMany(wait_ms) => Problem::too_many(wait_ms),
    })
}

fn unknown() -> Problem {
    refuse("unauthorized", "the token is unknown, revoked or expired")
}

/// The layer of a group of routes: requires a caller with this right, for any name.
pub(crate) async fn require(State(scope): State<Scope>, caller: Caller, mut request: Request, next: Next) -> Response {
    if let Err(problem) = check_any(&caller, scope) {
        return problem.into_response();
    }
    // For the check once the body has arrived.
    request.extensions_mut().insert(scope);
    next.run(request).await
}

/// Checks the right of the route again: a body may take minutes to arrive.
///
/// # Errors
/// If the caller has lost it in the meantime.
pub(crate) fn check_again(request: &Extensions) -> Result<(), Problem> {
    match (request.get::<Caller>(), request.get::<Scope>()) {
        (Some(caller), Some(&scope)) => check_any(caller, scope),
        _ => Ok(()),
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or(Self::Nobody))
    }
}

/// The answer to a caller without a right: perhaps since the token does not count any more.
fn forbidden(caller: &Caller, scope: Scope, what: &str) -> Problem {
    if !caller.counts() {
        return unknown();
    }
    let (word, rights) = (scope.word(), caller.rights());
    refuse("forbidden", format!("this needs the right `{word}`{what}; the token has: {rights}"))
}

/// Whether this may be done with some name.
///
/// # Errors
/// `forbidden`; or the token does not count any more.
pub(crate) fn check_any(caller: &Caller, scope: Scope) -> Result<(), Problem> {
    if caller.has(scope) { Ok(()) } else { Err(forbidden(caller, scope, "")) }
}

/// Whether this may be done with this name.
///
/// # Errors
/// The same.
pub(crate) fn check(caller: &Caller, scope: Scope, name: &str) -> Result<(), Problem> {
    if caller.may(scope, name) { Ok(()) } else { Err(forbidden(caller, scope, &format!(" for {name:?}"))) }
}

/// Whether this may be done with all names.
///
/// # Errors
/// The same.
pub(crate) fn check_all(caller: &Caller, scope: Scope) -> Result<(), Problem> {
    if caller.may_all(scope) {
        Ok(())
    } else {
        Err(forbidden(caller, scope, " for all names (or name one in the request)"))
    }
}

/// For each job, whether the caller may do this. The others must look as if they did not exist, and the engine is asked
/// nothing more about them.
///
/// # Errors
/// Errors of the stores.
pub(crate) async fn allowed(app: &App, caller: &Caller, scope: Scope, ids: &[JobId]) -> Result<Vec<bool>, Error> {
    if caller.may_all(scope) {
        return Ok(vec![true; ids.len()]);
    }
    app.engine.are_in(ids, |queue| caller.may(scope, queue)).await
}

/// Whether this may be done with a job.
///
/// # Errors
/// [`Error::NotFound`], also for a job of a queue that the caller has no right to; errors of the stores.
pub(crate) async fn check_job(app: &App, caller: &Caller, scope: Scope, id: JobId) -> Result<(), Error> {
    match allowed(app, caller, scope, &[id]).await?[..] {
        [true] => Ok(()),
        _ => Err(Error::NotFound(id)),
    }
}

/// Whether the payload of a job may be changed. A worker runs what it says, so this takes the right to push such a job, beside
/// the right to change it.
///
/// # Errors
/// `forbidden`; errors of the stores.
pub(crate) async fn check_payload(app: &App, caller: &Caller, id: JobId) -> Result<(), Problem> {
    match allowed(app, caller, Scope::Push, &[id]).await?[..] {
        [true] => Ok(()),
        _ => Err(forbidden(caller, Scope::Push, " for the job's queue, to change a payload")),
    }
}

/// Checks that the caller may do this with a queue, or with all queues if none is named.
///
/// # Errors
/// `forbidden`.
pub(crate) fn check_queue(caller: &Caller, scope: Scope, queue: Option<&str>) -> Result<(), Problem> {
    match queue {
        Some(queue) => check(caller, scope, queue),
        None => check_all(caller, scope),
    }
}

/// Whether a job may be delivered to its own target, go on to the queues that it names, and be followed by the jobs that it names.
///
/// # Errors
/// `forbidden`; [`Error::Invalid`] if no caller may have it delivered there.
pub(crate) fn check_ends_of(app: &App, caller: &Caller, scope: Scope, job: &NewJob) -> Result<(), Problem> {
    if let Some(target) = &job.options.target {
        check(caller, Scope::Target, &job.queue)?;
        app.targets.check(&job.queue, target)?;
    }
    for follow_up in job.options.all_follow_ups() {
        let next = NewJob::try_from(follow_up)?;
        check(caller, scope, &next.queue)?;
        check_ends_of(app, caller, scope, &next)?;
    }
    let when_exhausted = job.options.retry.when_exhausted.as_ref();
    check_ends(caller, scope, job.options.target.as_deref(), when_exhausted)
}

/// Checks that jobs may be forwarded to the queues that a target and a rule name.
///
/// # Errors
/// `forbidden`.
pub(crate) fn check_ends(
    caller: &Caller,
    scope: Scope,
    target: Option<&Target>,
    when_exhausted: Option<&WhenExhausted>,
) -> Result<(), Problem> {
    if let Some(Target::Queue(queue)) = target {
        check(caller, scope, queue)?;
    }
    match when_exhausted {
        Some(WhenExhausted::Move(queue)) => check(caller, scope, queue),
        _ => Ok(()),
    }
}
