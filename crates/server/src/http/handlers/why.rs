//! Why a job does not run.

use crate::access::Scope;
use crate::dashboard::Language;
use crate::http::app::App;
use crate::http::call::Call;
use crate::http::middleware::access;
use crate::http::reply::{self, Answered};
use crate::http::segment::Segment;
use duetime_core::api::{Reason, ReasonCode, Why};
use duetime_core::model::job::State;
use duetime_core::{Error, JobId};

/// Show why a job does not run.
///
/// The answer is what this server sees now. It does not include workers and targets of other servers. A ready job without a
/// reason is handed out as soon as a worker asks.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/why", operation_id = "why", tag = "jobs",
    responses((status = 200, description = "The reasons.", body = Why)),
    extensions(("x-codes" = json!(["not_found"]))),
)]
pub(crate) async fn get(Call(app, caller): Call, language: Language, Segment(id): Segment<JobId>) -> Answered {
    access::check_job(&app, &caller, Scope::Read, id).await?;
    Ok(reply::told(language, why(&app, id).await?))
}

/// The engine's answer, and whether this server holds back deliveries of the queue.
///
/// # Errors
/// [`Error::NotFound`]; of the stores.
pub(crate) async fn why(app: &App, id: JobId) -> Result<Why, Error> {
    let mut why = app.engine.why(id).await?;
    if why.state == State::Ready
        && let Some(until) = app.target_held_until(&why.queue)
    {
        let detail = "The target of the queue is overloaded or unavailable, so this server delivers nothing.";
        why.reasons.push(Reason::new(ReasonCode::TargetBackingOff, detail, Some(until)));
    }
    Ok(why)
}
