//! Queues: statistics and settings.

use crate::access::Scope;
use crate::http::audit_log::Jobs;
use crate::http::body::{Empty, One};
use crate::http::call::{Call, QueryCall};
use crate::http::etag;
use crate::http::limits::ENTRY_ANSWER_BYTES;
use crate::http::middleware::access;
use crate::http::middleware::sending::Room;
use crate::http::page::{self, Page, PageQuery};
use crate::http::redaction;
use crate::http::reply::{self, Answered};
use crate::http::segment::{Name, Segment};
use axum::http::HeaderMap;
use duetime_core::Error;
use duetime_core::api::schema::{ETag, Star};
use duetime_core::api::{DeletedQueue, Nothing, Parameters, PauseBody, Purged, Queue, QueueChanges, Queues};
use duetime_core::engine::{Configured, Query, QueueStatus};
use duetime_core::json::Timestamp;
use duetime_core::limits::STEP_QUEUES_MAX;
use duetime_core::model::name;
use duetime_core::ports::after;
use std::sync::Arc;

/// List the queues.
///
/// Lists all queues that have jobs or settings, by name.
#[utoipa::path(
    get, path = "/v1/queues", operation_id = "list_queues", tag = "queues",
    params(PageQuery),
    responses((status = 200, description = "A page.", body = Queues)),
    extensions(("x-codes" = json!(["too_many_bodies"]))),
)]
pub(crate) async fn list(QueryCall(app, caller, query): QueryCall) -> Answered {
    let (cursor, limit) = page::asked(&query)?;
    let room = Room::new(&app, limit * ENTRY_ANSWER_BYTES).await?;
    let mut queues: Vec<QueueStatus> = Vec::new();
    if let Some(cursor) = &cursor {
        let is_wrong = |_| Error::invalid("cursor", "the `next_cursor` of an earlier answer", cursor);
        name::check_queue(cursor).map_err(is_wrong)?;
    }
    let mut from = cursor.map_or_else(Arc::default, |cursor| after(&cursor));
    // From one name that the caller may see to the next; one more than is shown tells whether there are more.
    while let Some(first) = caller.first_from(Scope::Read, &from) {
        let asked = (limit + 1 - queues.len()).min(STEP_QUEUES_MAX);
        let some = app.engine.queues_from(&first, asked).await?;
        let Some(last) = some.last() else { break };
        from = after(&last.queue);
        let is_all = some.len() < asked;
        queues.extend(some.into_iter().filter(|status| caller.may(Scope::Read, &status.queue)));
        if is_all || queues.len() > limit {
            break;
        }
    }
    let Page { mut shown, next_cursor } = page::cut(queues, |status| &status.queue, limit);
    shown.iter_mut().for_each(|status| redaction::queue(&caller, status));
    room.hold(reply::ok(&Queues { queues: shown, next_cursor })).await
}

/// Show a queue.
///
/// A queue need not be created: an unused name is shown as an empty queue. The ETag is the version of the settings; the
/// counts change without it.
#[utoipa::path(
    get, path = "/v1/queues/{queue}", operation_id = "get_queue", tag = "queues",
    responses((status = 200, description = "The counts and settings of the queue.", body = Queue)),
)]
pub(crate) async fn get(Call(app, caller): Call, Segment(Name(queue)): Segment<Name>, headers: HeaderMap) -> Answered {
    access::check(&caller, Scope::Read, &queue)?;
    let (mut status, version) = app.engine.queue_versioned(&queue).await?;
    redaction::queue(&caller, &mut status);
    status.target_held_until = app.target_held_until(&queue).map(Timestamp);
    Ok(reply::unless_known(reply::ok(&status), version, &headers))
}

/// Change a queue's settings.
///
/// Settings that are left out stay unchanged. `null` resets one to its default.
#[utoipa::path(
    put, path = "/v1/queues/{queue}", operation_id = "set_queue", tag = "queues",
    params(("if-none-match" = Option<Star>, Header, description = "`*`: only if it does not exist yet; otherwise 412.")),
    request_body = Option<QueueChanges>,
    responses(
        (status = 200, description = "The settings after the change.", body = Configured, headers(("etag" = ETag, description = "The \
         version of the settings."))),
    ),
    extensions(("x-codes" = json!(["version_mismatch"]))),
)]
pub(crate) async fn put(
    Call(app, caller): Call,
    Segment(Name(queue)): Segment<Name>,
    headers: HeaderMap,
    body: One,
) -> Answered {
    access::check(&caller, Scope::Admin, &queue)?;
    let expected = etag::expected(&headers)?;
    let changes = body.object::<QueueChanges>()?;
    let given = changes.given();
    access::check_ends(&caller, Scope::Admin, given.target.as_ref(), given.when_exhausted.as_ref())?;
    if let Some(target) = &given.target {
        app.targets.check(&queue, target)?;
    }
    let change = move |old| changes.apply(&old);
    let (new, version) = app.engine.reconfigure_if(&queue, expected, change).await?;
    Ok(reply::versioned(reply::ok(&Configured::new(queue, new)), version))
}

/// Pause a queue.
///
/// No more jobs are handed out, until a time or until the queue is resumed. Running jobs finish.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/pause", operation_id = "pause_queue", tag = "queues",
    request_body = Option<PauseBody>,
    responses((status = 200, description = "The settings after the change.", body = Configured)),
)]
pub(crate) async fn pause(Call(app, caller): Call, Segment(Name(queue)): Segment<Name>, body: One) -> Answered {
    access::check(&caller, Scope::Admin, &queue)?;
    let pause = body.object::<PauseBody>()?.try_into()?;
    let settings = app.engine.pause_by(&queue, pause, caller.token_name()).await?;
    Ok(reply::ok(&Configured::new(queue, settings)))
}

/// Resume a queue.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/resume", operation_id = "resume_queue", tag = "queues",
    request_body = Option<Nothing>,
    responses((status = 200, description = "The settings after the change.", body = Configured)),
)]
pub(crate) async fn resume(Call(app, caller): Call, Segment(Name(queue)): Segment<Name>, _: Empty) -> Answered {
    access::check(&caller, Scope::Admin, &queue)?;
    let settings = app.engine.resume(&queue).await?;
    Ok(reply::ok(&Configured::new(queue, settings)))
}

/// Purge a queue.
///
/// All its waiting jobs are cancelled. Their records have the message `purged`.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/purge", operation_id = "purge_queue", tag = "queues",
    request_body = Option<Nothing>,
    responses((status = 200, description = "The number of jobs or locks.", body = Purged)),
)]
pub(crate) async fn purge(Call(app, caller): Call, Segment(Name(queue)): Segment<Name>, _: Empty) -> Answered {
    access::check(&caller, Scope::Admin, &queue)?;
    let purged = app.engine.purge(&queue).await?;
    let mut response = reply::ok(&Purged { purged });
    let selection = Query { queue: Some(queue), ..Query::default() };
    let counts = Some([("cancelled", purged)].into());
    response.extensions_mut().insert(Jobs { selection, counts, ..Jobs::default() });
    Ok(response)
}

/// Delete a queue.
///
/// Deletes its settings, its counts and the records of its jobs. Is refused while jobs wait or run in it, or a schedule pushes to
/// it. By force, schedules do not count, waiting jobs are cancelled, and running ones are asked to stop: repeat the call until
/// none runs. A push makes the queue anew.
#[utoipa::path(
    delete, path = "/v1/queues/{queue}", operation_id = "delete_queue", tag = "queues",
    params(("force" = Option<bool>, Query, description = "Whether to cancel its jobs first; by default `false`.")),
    responses((status = 200, description = "What was deleted. A repeat finds nothing.", body = DeletedQueue)),
    extensions(("x-codes" = json!(["queue_in_use"]))),
)]
pub(crate) async fn delete(QueryCall(app, caller, query): QueryCall, Segment(Name(queue)): Segment<Name>) -> Answered {
    access::check(&caller, Scope::Admin, &queue)?;
    let force = Parameters::read(&query, &["force"])?.force.unwrap_or(false);
    let deleted = app.engine.delete_queue(&queue, force).await?;
    let mut response = reply::ok(&deleted);
    let selection = Query { queue: Some(queue), ..Query::default() };
    let counts = Some([("cancelled", deleted.cancelled), ("deleted", deleted.deleted)].into());
    response.extensions_mut().insert(Jobs { selection, counts, ..Jobs::default() });
    Ok(response)
}
