//! Schedules: list, show, set, pause, run, delete.
//!
//! The `ETag` says whether what was set has changed; ticks change nothing of that.

use super::push;
use crate::access::{Caller, Scope};
use crate::http::app::App;
use crate::http::body::{Empty, One};
use crate::http::call::{Call, QueryCall};
use crate::http::etag;
use crate::http::middleware::access;
use crate::http::middleware::sending::Room;
use crate::http::page::{self, Page, PageQuery};
use crate::http::problem::{Problem, refuse};
use crate::http::redaction;
use crate::http::reply::{self, Answered};
use crate::http::segment::{Name, Segment};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use duetime_core::api::schema::{Key, Star};
use duetime_core::api::{Nothing, Parameters, PauseBody, Pushed, Runs, ScheduleBody, Schedules, dry_run};
use duetime_core::engine::Precondition;
use duetime_core::limits::{NEXT_RUNS_SHOWN, SCHEDULES_BYTES_MAX};
use duetime_core::schedule::ScheduleStatus;
use duetime_core::{Error, NewJob};
use std::sync::Arc;

/// How often a change is tried if others change the schedule meanwhile.
const TRIES: u32 = 5;

/// List the schedules, by name.
#[utoipa::path(
    get, path = "/v1/schedules", operation_id = "list_schedules", tag = "schedules",
    params(PageQuery),
    responses((status = 200, description = "A page.", body = Schedules)),
    extensions(("x-codes" = json!(["too_many_bodies"]))),
)]
pub(crate) async fn list(QueryCall(app, caller, query): QueryCall) -> Answered {
    // All are read.
    let room = Room::new(&app, SCHEDULES_BYTES_MAX).await?;
    let mut schedules = app.engine.schedules().await?;
    schedules.retain(|status| caller.may(Scope::Read, &status.schedule.job.queue));
    let page = page::of(schedules, |status| &status.name, &query)?;
    let Page { mut shown, next_cursor } =
        page.within(|status| &status.name, |status| status.schedule.job.payload.len());
    shown.iter_mut().for_each(|status| redaction::schedule(&caller, status));
    room.hold(reply::ok(&Schedules { schedules: shown, next_cursor })).await
}

/// Show a schedule.
///
/// The answer includes its next ten runs and the result of the last one.
#[utoipa::path(
    get, path = "/v1/schedules/{name}", operation_id = "get_schedule", tag = "schedules",
    responses((status = 200, description = "The schedule.", body = ScheduleStatus)),
    extensions(("x-codes" = json!(["schedule_not_found"]))),
)]
pub(crate) async fn get(Call(app, caller): Call, Segment(Name(name)): Segment<Name>, headers: HeaderMap) -> Answered {
    let mut status = app.engine.schedule(&name).await?;
    if !caller.may(Scope::Read, &status.schedule.job.queue) {
        return Err(Error::NoSchedule(name).into());
    }
    redaction::schedule(&caller, &mut status);
    Ok(reply::unless_known(reply::schedule(&status), status.version, &headers))
}

/// Show the next runs of a schedule.
///
/// Each run is also shown in the schedule's time zone, and whether a change of the clock moves or repeats it.
#[utoipa::path(
    get, path = "/v1/schedules/{name}/next", operation_id = "next_runs", tag = "schedules",
    params(
        ("limit" = Option<usize>, Query, description = "Maximum number of results; 10 by default.", minimum = 1, maximum = 100),
    ),
    responses((status = 200, description = "The runs, in order.", body = Runs)),
    extensions(("x-codes" = json!(["schedule_not_found"]))),
)]
pub(crate) async fn next(QueryCall(app, caller, query): QueryCall, Segment(Name(name)): Segment<Name>) -> Answered {
    let query = Parameters::read(&query, &["limit"])?;
    let status = app.engine.schedule(&name).await?;
    if !caller.may(Scope::Read, &status.schedule.job.queue) {
        return Err(Error::NoSchedule(name).into());
    }
    Ok(reply::ok(&Runs { runs: status.runs(query.limit.unwrap_or(NEXT_RUNS_SHOWN))? }))
}

/// Create or replace a schedule.
///
/// If its times change, the next run is the first new one from now on. A paused schedule stays paused unless the body has
/// `paused`.
#[utoipa::path(
    put, path = "/v1/schedules/{name}", operation_id = "set_schedule", tag = "schedules",
    params(
        ("dry_run" = Option<bool>, Query, description = "With `true`, nothing is saved; the answer shows the result."),
        ("if-none-match" = Option<Star>, Header, description = "`*`: only if it does not exist yet; otherwise 412."),
    ),
    request_body = ScheduleBody<'_>,
    responses((status = 200, description = "The schedule after the change.", body = ScheduleStatus)),
    extensions(("x-codes" = json!(["version_mismatch"]))),
)]
pub(crate) async fn put(
    QueryCall(app, caller, query): QueryCall,
    Segment(Name(name)): Segment<Name>,
    headers: HeaderMap,
    body: One,
) -> Answered {
    let expected = etag::expected(&headers)?;
    let is_dry = dry_run(&query)?;
    let schedule = body.object::<ScheduleBody<'_>>()?.into_schedule()?;
    let _parsed = body.parsed();
    let job = &schedule.job;
    access::check(&caller, Scope::Admin, &job.queue)?;
    access::check_ends_of(&app, &caller, Scope::Admin, job)?;
    let mut tries = TRIES;
    loop {
        tries -= 1;
        let expected = match present(&app, &caller, &name).await? {
            Present::Any => expected,
            Present::Nothing => expected.check("schedule", &name, 0).map(|()| Precondition::Nothing)?,
            Present::Own(version) => {
                expected.check("schedule", &name, version).map(|()| Precondition::Version(version))?
            }
            Present::Foreign => {
                let detail = "a schedule with this name exists for another queue; choose another name";
                return Err(refuse("forbidden", detail));
            }
        };
        let status = if is_dry {
            app.engine.preview_schedule_if(&name, schedule.clone(), expected).await
        } else {
            app.engine.set_schedule_if(&name, schedule.clone(), expected).await
        };
        match status {
            // It changed after it was read.
            Err(Error::Changed { .. }) if tries > 0 => {}
            status => return Ok(reply::schedule(&status?)),
        }
    }
}

/// Pause a schedule.
///
/// It pushes no jobs, until a time or until it is resumed. A run that has begun may still push its job. Runs during the
/// pause are skipped.
#[utoipa::path(
    post, path = "/v1/schedules/{name}/pause", operation_id = "pause_schedule", tag = "schedules",
    request_body = Option<PauseBody>,
    responses((status = 200, description = "The schedule after the change.", body = ScheduleStatus)),
    extensions(("x-codes" = json!(["schedule_not_found", "version_mismatch"]))),
)]
pub(crate) async fn pause(
    Call(app, caller): Call,
    Segment(Name(name)): Segment<Name>,
    headers: HeaderMap,
    body: One,
) -> Answered {
    let pause = body.object::<PauseBody>()?.try_into()?;
    let _parsed = body.parsed();
    let set = |expected| app.engine.pause_schedule(&name, pause, expected);
    Ok(reply::schedule(&change(&app, &caller, &name, &headers, |_| Ok(()), set).await?))
}

/// Resume a schedule.
///
/// Its next run is the first from now on.
#[utoipa::path(
    post, path = "/v1/schedules/{name}/resume", operation_id = "resume_schedule", tag = "schedules",
    request_body = Option<Nothing>,
    responses((status = 200, description = "The schedule after the change.", body = ScheduleStatus)),
    extensions(("x-codes" = json!(["schedule_not_found", "version_mismatch"]))),
)]
pub(crate) async fn resume(
    Call(app, caller): Call,
    Segment(Name(name)): Segment<Name>,
    headers: HeaderMap,
    _: Empty,
) -> Answered {
    let resume = |expected| app.engine.resume_schedule(&name, expected);
    Ok(reply::schedule(&change(&app, &caller, &name, &headers, |_| Ok(()), resume).await?))
}

/// Run a schedule now.
///
/// Pushes its job once, due now, even if the schedule is paused or an earlier job is live. The next run stays as it is.
/// With the header `Idempotency-Key`, the request can be repeated safely.
#[utoipa::path(
    post, path = "/v1/schedules/{name}/run", operation_id = "run_schedule", tag = "schedules",
    params(("Idempotency-Key" = Option<Key>, Header, description = "The origin of the job.")),
    request_body = Option<Nothing>,
    responses(
        (status = 201, description = "The job was pushed.", body = Pushed, headers(("location" = String, description = "The path of the job."))),
        (status = 200, description = "Another job has the key and was kept or replaced; or the request is a repeat.", body = Pushed, headers(("location" = String, description = "The path of the job."))),
    ),
    extensions(("x-codes" = json!(["schedule_not_found", "version_mismatch", "key_conflict", "job_running", "queue_full"]))),
)]
pub(crate) async fn run(
    Call(app, caller): Call,
    Segment(Name(name)): Segment<Name>,
    headers: HeaderMap,
    _: Empty,
) -> Answered {
    let origin = push::idempotency_key(&headers)?;
    let check = |job: &NewJob| access::check_ends_of(&app, &caller, Scope::Admin, job);
    let run = |expected| app.engine.run_schedule(&name, origin.clone(), expected);
    Ok(push::answer(&app, &change(&app, &caller, &name, &headers, check, run).await?))
}

/// Changes a schedule of a queue that the caller has the right to, and that passes this check.
async fn change<T, F: Future<Output = Result<T, Error>>>(
    app: &App,
    caller: &Caller,
    name: &Arc<str>,
    headers: &HeaderMap,
    check: impl Fn(&NewJob) -> Result<(), Problem>,
    change: impl Fn(Precondition) -> F,
) -> Result<T, Problem> {
    let expected = etag::expected(headers)?;
    let mut tries = TRIES;
    loop {
        tries -= 1;
        let ScheduleStatus { schedule, version, .. } = app.engine.schedule(name).await?;
        if !caller.may(Scope::Admin, &schedule.job.queue) {
            return Err(Error::NoSchedule(name.clone()).into());
        }
        expected.check("schedule", name, version)?;
        check(&schedule.job)?;
        match change(Precondition::Version(version)).await {
            // It changed after it was read.
            Err(Error::Changed { .. }) if tries > 0 => {}
            changed => return Ok(changed?),
        }
    }
}

/// Delete a schedule.
///
/// A run that has begun may still push its job. Jobs that it pushed stay.
#[utoipa::path(
    delete, path = "/v1/schedules/{name}", operation_id = "delete_schedule", tag = "schedules",
    responses((status = 204, description = "Deleted.")),
    extensions(("x-codes" = json!(["schedule_not_found", "version_mismatch"]))),
)]
pub(crate) async fn delete(
    Call(app, caller): Call,
    Segment(Name(name)): Segment<Name>,
    headers: HeaderMap,
) -> Answered {
    let expected = etag::expected(&headers)?;
    let expected = match present(&app, &caller, &name).await? {
        Present::Any => expected,
        Present::Own(version) => expected.check("schedule", &name, version).map(|()| Precondition::Version(version))?,
        Present::Nothing | Present::Foreign => return Err(Error::NoSchedule(name).into()),
    };
    app.engine.delete_schedule_if(&name, expected).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The state of a name under which a caller may make a change.
enum Present {
    /// Any state: the caller may change every schedule.
    Any,
    /// There is nothing.
    Nothing,
    /// A schedule of a queue that they have the right to, in this version. A change that expects it holds that right in
    /// the step that makes the change.
    Own(u64),
    /// A schedule of another queue.
    Foreign,
}

async fn present(app: &App, caller: &Caller, name: &str) -> Result<Present, Error> {
    if caller.may_all(Scope::Admin) {
        return Ok(Present::Any);
    }
    match app.engine.schedule(name).await {
        Ok(status) if caller.may(Scope::Admin, &status.schedule.job.queue) => Ok(Present::Own(status.version)),
        // Of one that does not read back, the queue is not known.
        Ok(_) | Err(Error::Damaged(_)) => Ok(Present::Foreign),
        Err(Error::NoSchedule(_)) => Ok(Present::Nothing),
        Err(error) => Err(error),
    }
}
