//! Workers, as this server knows them.

use crate::access::Scope;
use crate::http::call::QueryCall;
use crate::http::limits::ENTRY_ANSWER_BYTES;
use crate::http::middleware::sending::Room;
use crate::http::page::{self, PageQuery};
use crate::http::reply::{self, Answered};
use duetime_core::api::Workers;

/// List the workers.
///
/// Lists the workers that reserve jobs from this server, by name. Workers without a name are listed by their address, as
/// `unnamed@10.0.0.7`. Other servers list their own. At most 10,000 are kept, in memory, for an hour after they were last
/// seen.
#[utoipa::path(
    get, path = "/v1/workers", operation_id = "list_workers", tag = "work",
    params(PageQuery),
    responses((status = 200, description = "A page.", body = Workers)),
    extensions(("x-codes" = json!(["too_many_bodies"]))),
)]
pub(crate) async fn list(QueryCall(app, caller, query): QueryCall) -> Answered {
    let (cursor, limit) = page::asked(&query)?;
    let room = Room::new(&app, limit * ENTRY_ANSWER_BYTES).await?;
    let workers = app.engine.workers(cursor.as_deref(), limit, |queue| caller.may(Scope::Read, queue));
    room.hold(reply::ok(&workers)).await
}
