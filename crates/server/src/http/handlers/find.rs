//! `GET /v1/jobs`: find, and peek.

use crate::access::Scope;
use crate::http::app::Call;
use crate::http::limits::PAGE_ANSWER_BYTES;
use crate::http::middleware::access;
use crate::http::middleware::sending::Room;
use crate::http::reply::{self, Answered};
use crate::http::shown;
use axum::extract::RawQuery;
use duetime_core::api::schema::{Cursor, Key, Kind, QueueName, StateWord, Tag};
use duetime_core::api::{Find, Instant, Page};
use duetime_core::limits::PAGE_JOBS_DEFAULT;

/// Find jobs.
///
/// Live jobs of one queue come in due order. A search by state without a queue lists one queue after the other. Everything
/// else comes in the order of ids. A page may be short and still have a next one.
#[utoipa::path(
    get, path = "/v1/jobs", operation_id = "find_jobs", tag = "jobs",
    params(
        ("queue" = Option<QueueName>, Query, description = "In this queue."),
        ("state" = Option<Vec<StateWord>>, Query, description = "In one of these states; may be repeated, or list several with commas."),
        ("tag" = Option<Tag>, Query, description = "With this tag."),
        ("key" = Option<Key>, Query, description = "With this key; needs a queue."),
        ("kind" = Option<Kind>, Query, description = "Of this kind."),
        ("due_from" = Option<Instant>, Query, description = "Due from this instant on."),
        ("due_to" = Option<Instant>, Query, description = "Due up to this instant."),
        ("cursor" = Option<Cursor>, Query, description = "Where the page begins: `next_cursor` of the page before."),
        ("limit" = Option<usize>, Query, description = "At most so many; by default 100.", minimum = 1, maximum = 1_000),
    ),
    responses((status = 200, description = "A page.", body = Page<'_>)),
    extensions(("x-codes" = json!(["too_many_bodies"]))),
)]
pub(crate) async fn find(Call(app, caller): Call, RawQuery(text): RawQuery) -> Answered {
    let find: Find = text.unwrap_or_default().parse()?;
    access::check_queue(&caller, Scope::Read, find.query.queue.as_deref())?;
    let limit = find.limit.unwrap_or(PAGE_JOBS_DEFAULT);
    let room = Room::new(&app, PAGE_ANSWER_BYTES).await?;
    let mut listed = app.engine.find(&find.query, find.cursor.as_deref(), limit).await?;
    listed.jobs.iter_mut().for_each(|job| shown::job(&caller, job));
    room.hold(reply::ok(&Page::new(&listed, app.engine.now()))).await
}
