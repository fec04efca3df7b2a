//! Locks: acquire, renew, release, look.
//!
//! A request that waits ends with its connection, as a reserve does: then its place in line is given up.

use crate::access::{Names, Scope};
use crate::http::app::App;
use crate::http::body::One;
use crate::http::call::{Call, QueryCall};
use crate::http::limits::ENTRY_ANSWER_BYTES;
use crate::http::middleware::access;
use crate::http::middleware::sending::Room;
use crate::http::page::PageQuery;
use crate::http::reply::{self, Answered};
use crate::http::segment::{Name, Segment};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use duetime_core::Error;
use duetime_core::api::schema::Owner;
use duetime_core::api::{self, LockBody, LockOperation, Parameters};
use duetime_core::engine::LockList;
use duetime_core::limits::{PAGE_LOCKS_DEFAULT, PAGE_LOCKS_MAX};
use duetime_core::ports::{Grant, Released};
use std::sync::Arc;

/// List the locks that are held
#[utoipa::path(
    get, path = "/v1/locks", operation_id = "list_locks", tag = "locks",
    params(PageQuery),
    responses((status = 200, description = "A page.", body = LockList)),
    extensions(("x-codes" = json!(["too_many_bodies"]))),
)]
pub(crate) async fn list(QueryCall(app, caller, query): QueryCall) -> Answered {
    let query = Parameters::read(&query, &["cursor", "limit"])?;
    let limit = query.limit.unwrap_or(PAGE_LOCKS_DEFAULT);
    let cursor = query.cursor.as_deref();
    let room = Room::new(&app, limit.min(PAGE_LOCKS_MAX) * ENTRY_ANSWER_BYTES).await?;
    let locks = match caller.names(Scope::Lock) {
        None => app.engine.list_locks(cursor, limit).await?,
        Some(names) => list_own(&app, names, cursor, limit).await?,
    };
    room.hold(reply::ok(&locks)).await
}

/// A page of the locks that have these names. A lock with another name is neither shown nor named by the cursor.
async fn list_own(app: &App, names: Vec<Names>, cursor: Option<&str>, limit: usize) -> Result<LockList, Error> {
    let mut listed = LockList::default();
    for names in Names::in_order(names.iter().collect()) {
        let mut cursor: Option<Arc<str>> = cursor.map(Arc::from);
        loop {
            let left = limit.saturating_sub(listed.locks.len());
            let page = app.engine.list_locks_in(names.beginning(), cursor.as_deref(), left).await?;
            listed.locks.extend(page.locks.into_iter().filter(|holding| names.has(&holding.name)));
            if listed.locks.len() == limit {
                // Perhaps there are none beyond; then the next page is empty.
                listed.next_cursor = listed.locks.last().map(|last| last.name.clone());
                return Ok(listed);
            }
            cursor = page.next_cursor.filter(|_| !names.is_one());
            if cursor.is_none() {
                break;
            }
        }
    }
    Ok(listed)
}

/// Show a lock.
///
/// A lock need not be created: a name that nobody holds is shown as free.
#[utoipa::path(
    get, path = "/v1/locks/{name}", operation_id = "get_lock", tag = "locks",
    responses((status = 200, description = "The owner.", body = LockBody)),
)]
pub(crate) async fn get(Call(app, caller): Call, Segment(Name(name)): Segment<Name>) -> Answered {
    access::check(&caller, Scope::Lock, &name)?;
    let holding = app.engine.inspect(&name).await?;
    Ok(reply::ok(&holding.as_ref().map_or_else(|| LockBody::free(name), LockBody::from)))
}

/// Acquire a lock, or renew it.
///
/// Without `fence`, the lock is acquired, first come, first served; with `wait`, the request waits for it. With the fence
/// of a grant, the lock is renewed.
#[utoipa::path(
    put, path = "/v1/locks/{name}", operation_id = "acquire_lock", tag = "locks",
    request_body = api::Lock,
    responses((status = 200, description = "The lock is held by the caller.", body = Grant)),
    extensions(("x-codes" = json!(["lock_held", "lock_lost"]))),
)]
pub(crate) async fn put(Call(app, caller): Call, Segment(Name(name)): Segment<Name>, body: One) -> Answered {
    access::check(&caller, Scope::Lock, &name)?;
    let asked = body.object::<api::Lock>()?.into_operation(name.clone())?;
    let _parsed = body.parsed();
    let grant = match asked {
        LockOperation::Acquire(request) => {
            let owner = request.owner.clone();
            let check = || access::check(&caller, Scope::Lock, &name);
            let grant = tokio::select! {
                biased;
                grant = app.engine.acquire(request) => grant?,
                () = app.stopping.cancelled() => return Err(Error::Stopping.into()),
                problem = caller.until_lost(check) => return Err(problem),
            };
            if let Err(problem) = check() {
                app.engine.release_lock(&name, &owner, grant.fence).await?;
                return Err(problem);
            }
            grant
        }
        LockOperation::Renew { owner, fence, ttl } => app.engine.renew(&name, &owner, fence, ttl).await?,
    };
    Ok(reply::ok(&grant))
}

/// Release a lock.
#[utoipa::path(
    delete, path = "/v1/locks/{name}", operation_id = "release_lock", tag = "locks",
    params(
        ("owner" = Owner, Query, description = "The owner."),
        ("fence" = u64, Query, description = "The fence."),
    ),
    responses((status = 204, description = "Released, or it was not held by this owner.")),
    extensions(("x-codes" = json!(["lock_lost"]))),
)]
pub(crate) async fn delete(QueryCall(app, caller, query): QueryCall, Segment(Name(name)): Segment<Name>) -> Answered {
    access::check(&caller, Scope::Lock, &name)?;
    let query = Parameters::read(&query, &["owner", "fence"])?;
    app.engine.release_lock(&name, query.owner()?, query.fence()?).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Release all locks of an owner.
#[utoipa::path(
    delete, path = "/v1/locks", operation_id = "release_locks", tag = "locks",
    params(("owner" = Owner, Query, description = "The owner.")),
    responses((status = 200, description = "The number of jobs or locks.", body = Released)),
)]
pub(crate) async fn delete_all(QueryCall(app, caller, query): QueryCall) -> Answered {
    // The owner's locks may have any names.
    access::check_all(&caller, Scope::Lock)?;
    let query = Parameters::read(&query, &["owner"])?;
    Ok(reply::ok(&app.engine.release_all(query.owner()?).await?))
}
