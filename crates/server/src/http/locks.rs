//! Locks: acquire, renew, release, look.
//!
//! A request that waits ends with its connection, as a reserve does: then its place in line is given up.

use super::access;
use super::app::App;
use super::body::One;
use super::problem::Problem;
use super::reply;
use super::segment::{Lock, Segment};
use crate::access::{Caller, Scope};
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use duetime::wire::{self, LockAsked, LockBody, LockGranted, LockPage, LockQuery, LocksReleased};
use duetime_core::Error;
use duetime_core::limits::PAGE_LOCKS_DEFAULT;

pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    RawQuery(text): RawQuery,
) -> Result<Response, Problem> {
    let query = LockQuery::read(&text.unwrap_or_default(), &["cursor", "limit"])?;
    let limit = query.limit.unwrap_or(PAGE_LOCKS_DEFAULT);
    let mut locks = app.engine.list_locks(query.cursor.as_deref(), limit).await?;
    // A page may be short, and say where to go on.
    locks.locks.retain(|holding| caller.may(Scope::Lock, &holding.name));
    Ok(reply::ok(&LockPage::from(locks)))
}

pub(super) async fn get(
    State(app): State<App>,
    Segment(Lock(name)): Segment<Lock>,
    caller: Caller,
) -> Result<Response, Problem> {
    access::check(&caller, Scope::Lock, &name)?;
    let holding = app.engine.inspect(&name).await?;
    Ok(reply::ok(&holding.as_ref().map_or_else(|| LockBody::free(name), LockBody::from)))
}

pub(super) async fn put(
    State(app): State<App>,
    Segment(Lock(name)): Segment<Lock>,
    caller: Caller,
    body: One,
) -> Result<Response, Problem> {
    access::check(&caller, Scope::Lock, &name)?;
    let asked = body.object::<wire::Lock>()?.into_asked(name.clone())?;
    drop(body);
    let grant = match asked {
        LockAsked::Acquire(request) => tokio::select! {
            biased;
            grant = app.engine.acquire(request) => grant?,
            () = app.stopping.cancelled() => return Err(Error::Stopping.into()),
        },
        LockAsked::Renew { owner, fence, ttl_ms } => app.engine.renew(&name, &owner, fence, ttl_ms).await?,
    };
    Ok(reply::ok(&LockGranted::from(grant)))
}

pub(super) async fn delete(
    State(app): State<App>,
    Segment(Lock(name)): Segment<Lock>,
    caller: Caller,
    RawQuery(text): RawQuery,
) -> Result<Response, Problem> {
    access::check(&caller, Scope::Lock, &name)?;
    let query = LockQuery::read(&text.unwrap_or_default(), &["owner", "fence"])?;
    app.engine.release_lock(&name, query.owner()?, query.fence()?).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn delete_all(
    State(app): State<App>,
    caller: Caller,
    RawQuery(text): RawQuery,
) -> Result<Response, Problem> {
    // The owner's locks may have any names.
    access::check_all(&caller, Scope::Lock)?;
    let query = LockQuery::read(&text.unwrap_or_default(), &["owner"])?;
    let released = app.engine.release_all(query.owner()?).await?;
    Ok(reply::ok(&LocksReleased::from(released)))
}
