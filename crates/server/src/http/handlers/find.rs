//! `GET /v1/jobs`: find, and peek.

use crate::access::Scope;
use crate::http::call::QueryCall;
use crate::http::limits::PAGE_ANSWER_BYTES;
use crate::http::middleware::access;
use crate::http::middleware::sending::Room;
use crate::http::page::PageQuery;
use crate::http::redaction;
use crate::http::reply::{self, Answered};
use duetime_core::api::schema::{Key, Kind, QueueName, StateWord, Tag};
use duetime_core::api::{Find, Page, Timestamp};
use duetime_core::limits::PAGE_JOBS_DEFAULT;

/// Find jobs.
///
/// Live jobs of one queue come in due order. Jobs that have ended (`failed`, `succeeded`, `cancelled`) come in the order in
/// which they ended, newest first; parked jobs come before them. A search for live jobs by state without a queue lists one
/// queue after the other. Live and ended jobs of a queue come with the live ones first, by id, then those that have ended. Every search by
/// key or tag, and one without a queue and a state, is in the order of ids. A page may be short and still have a next one. The pages are no snapshot: a job that changes meanwhile can be missing
/// or come twice, and one that is made due later can come again on each page.
#[utoipa::path(
    get, path = "/v1/jobs", operation_id = "find_jobs", tag = "jobs",
    params(
        ("queue" = Option<QueueName>, Query, description = "Only jobs in this queue."),
        ("state" = Option<Vec<StateWord>>, Query, description = "Only jobs in these states; repeatable, or separated by \
         commas."),
        ("tag" = Option<Tag>, Query, description = "Only jobs with this tag."),
        ("key" = Option<Key>, Query, description = "Only jobs with this key, in `queue` or in any queue."),
        ("kind" = Option<Kind>, Query, description = "Only jobs of this kind."),
        ("due_from" = Option<Timestamp>, Query, description = "Only jobs due at or after this time."),
        ("due_to" = Option<Timestamp>, Query, description = "Only jobs due at or before this time."),
        PageQuery,
    ),
    responses((status = 200, description = "A page.", body = Page<'_>)),
    extensions(("x-codes" = json!(["too_many_bodies"]))),
)]
pub(crate) async fn find(QueryCall(app, caller, query): QueryCall) -> Answered {
    let find: Find = query.parse()?;
    access::check_queue(&caller, Scope::Read, find.query.queue.as_deref())?;
    let limit = find.limit.unwrap_or(PAGE_JOBS_DEFAULT);
    let room = Room::new(&app, PAGE_ANSWER_BYTES).await?;
    let mut listed = app.engine.find(&find.query, find.cursor.as_deref(), limit).await?;
    listed.jobs.iter_mut().for_each(|job| redaction::job(&caller, job));
    room.hold(reply::ok(&Page::new(&listed, app.engine.now()))).await
}
