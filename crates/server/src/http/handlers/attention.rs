//! The problems that an operator should look at.

use crate::access::Scope;
use crate::dashboard::Language;
use crate::http::call::Call;
use crate::http::reply::{self, Answered};
use duetime_core::api::Attention;

/// Show what needs attention.
///
/// The list of what is wrong, as this server sees it: jobs that wait and no worker that asks, targets that do not answer, new
/// dead letters, paused queues, failed runs of schedules, and what is degraded. It is empty if all is well. The dashboard,
/// `duetime status` and the metric `duetime_attention` show the same list. It is made at most once a second.
#[utoipa::path(
    get, path = "/v1/attention", operation_id = "attention", tag = "server",
    responses((status = 200, description = "The list.", body = Attention)),
)]
pub(crate) async fn get(Call(app, caller): Call, language: Language) -> Answered {
    Ok(reply::told(language, app.engine.attention(|queue| caller.may(Scope::Read, queue)).await))
}
