//! Hides parts of jobs, queues and schedules from a caller, by the caller's rights.
//!
//! - A caller without the right to set targets sees neither the values of a target's headers nor the query of its URL.
//! - A caller who may change a job, but not read it, sees its state, but not its content.

use super::app::App;
use super::problem::Problem;
use super::reply;
use crate::access::{Caller, Scope};
use axum::response::Response;
use duetime_core::api::JobBody;
use duetime_core::engine::QueueStatus;
use duetime_core::schedule::ScheduleStatus;
use duetime_core::{Error, FollowUp, Job, JobOptions, NewJob, Target};
use std::borrow::Cow;
use std::sync::Arc;

/// Leaves out of a job what the caller may not see.
pub(super) fn job(caller: &Caller, job: &mut Job) {
    if (job.options().target.is_some() || job.options().has_follow_ups())
        && let Some(options) = &mut job.options
    {
        hide_in(caller, &job.queue, Arc::make_mut(options));
    }
}

/// The same for the options of a job in this queue, and for the jobs that follow it.
fn hide_in(caller: &Caller, queue: &str, options: &mut JobOptions) {
    hide(caller, queue, &mut options.target);
    for list in [&mut options.then, &mut options.otherwise].into_iter().flatten() {
        // One that cannot be read is not shown.
        let mut jobs: Vec<NewJob> = list.iter().filter_map(|next| NewJob::try_from(next).ok()).collect();
        jobs.iter_mut().for_each(|job| hide_in(caller, &job.queue, &mut job.options));
        *list = jobs.iter().map(FollowUp::from).collect();
    }
}

/// Leaves out of a queue what the caller may not see.
pub(super) fn queue(caller: &Caller, status: &mut QueueStatus) {
    if let Some(target) = &mut status.settings.target
        && !caller.may(Scope::Admin, &status.queue)
    {
        *target = target.masked();
    }
}

/// Leaves out of a schedule what the caller may not see.
pub(super) fn schedule(caller: &Caller, status: &mut ScheduleStatus) {
    let job = &mut status.schedule.job;
    hide_in(caller, &job.queue, &mut job.options);
}

fn hide(caller: &Caller, queue: &str, target: &mut Option<Arc<Target>>) {
    if let Some(target) = target
        && !caller.may(Scope::Admin, queue)
    {
        *target = Arc::new(target.masked());
    }
}

/// The answer to a change that was refused; only `If-Match` asks for a version here.
pub(super) fn refused(caller: &Caller, error: Error) -> Problem {
    let hides = matches!(&error, Error::KeyConflict { queue, .. } if !caller.may(Scope::Read, queue));
    let problem = Problem::from(error).of_precondition();
    if hides { problem.without_key() } else { problem }
}

/// The answer to a change of a job.
pub(super) fn changed(app: &App, caller: &Caller, mut changed: Job) -> Response {
    job(caller, &mut changed);
    if caller.may(Scope::Read, &changed.queue) {
        return reply::job(app, &changed);
    }
    let body = JobBody {
        payload: None,
        payload_base64: None,
        key: None,
        key_until: None,
        origin: None,
        tags: Cow::Borrowed(&[]),
        target: None,
        trace: None,
        meta: None,
        then: None,
        otherwise: None,
        previous: None,
        message: None,
        errors: Cow::Borrowed(&[]),
        result: None,
        result_base64: None,
        progress: None,
        ..JobBody::new(&changed, app.engine.now())
    };
    reply::versioned(reply::ok(&body), changed.version)
}
