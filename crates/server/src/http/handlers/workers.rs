//! Workers, as this server knows them.

use crate::access::Scope;
use crate::http::app::Call;
use crate::http::page;
use crate::http::reply::{self, Answered};
use axum::extract::RawQuery;
use duetime_core::api::Workers;
use duetime_core::api::schema::Cursor;

/// List the workers.
///
/// Lists the workers that named themselves in a reserve from this server, by name. Other servers list their own. At most
/// 10,000 are kept, in memory, for an hour after they were last seen.
#[utoipa::path(
    get, path = "/v1/workers", operation_id = "list_workers", tag = "work",
    params(
        ("cursor" = Option<Cursor>, Query, description = "The `next_cursor` of the previous page."),
        ("limit" = Option<usize>, Query, description = "Maximum number of results; 100 by default.", minimum = 1, maximum = 1_000),
    ),
    responses((status = 200, description = "A page.", body = Workers)),
)]
pub(crate) async fn list(Call(app, caller): Call, RawQuery(query): RawQuery) -> Answered {
    let (cursor, limit) = page::asked(query.as_deref())?;
    Ok(reply::ok(&app.engine.workers(cursor.as_deref(), limit, |queue| caller.may(Scope::Read, queue))))
}
