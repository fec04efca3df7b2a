//! Queues: statistics and settings.

use super::access;
use super::app::App;
use super::body::One;
use super::problem::Problem;
use super::reply;
use super::segment::{self, Segment};
use crate::access::{Caller, Scope};
use axum::extract::State;
use axum::response::Response;
use duetime::wire::{Configured, Nothing, PauseBody, Purged, Queue, Queues, SettingsBody};

pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Response, Problem> {
    let mut queues = app.engine.queues().await?;
    queues.retain(|status| caller.may(Scope::Read, &status.queue));
    Ok(reply::ok(&Queues { queues: queues.iter().map(Queue::from).collect() }))
}

pub(super) async fn get(
    State(app): State<App>,
    Segment(segment::Queue(queue)): Segment<segment::Queue>,
    caller: Caller,
) -> Result<Response, Problem> {
    access::check(&caller, Scope::Read, &queue)?;
    Ok(reply::ok(&Queue::from(&app.engine.queue(&queue).await?)))
}

pub(super) async fn put(
    State(app): State<App>,
    Segment(segment::Queue(queue)): Segment<segment::Queue>,
    caller: Caller,
    body: One,
) -> Result<Response, Problem> {
    access::check(&caller, Scope::Admin, &queue)?;
    let changes = body.object::<SettingsBody>()?;
    if let Some(Some(target)) = &changes.target {
        app.targets.check(&queue, target)?;
    }
    let (target, end) = (changes.target.as_ref(), changes.when_exhausted.as_ref());
    let (target, end) = (target.and_then(Option::as_ref), end.and_then(Option::as_ref));
    access::check_ends(&caller, Scope::Admin, target, end)?;
    let new = app.engine.reconfigure(&queue, move |old| changes.clone().apply(&old)).await?;
    Ok(reply::ok(&Configured::new(queue, &new)))
}

pub(super) async fn pause(
    State(app): State<App>,
    Segment(segment::Queue(queue)): Segment<segment::Queue>,
    caller: Caller,
    body: One,
) -> Result<Response, Problem> {
    access::check(&caller, Scope::Admin, &queue)?;
    let until = body.object::<PauseBody>()?.until(app.engine.now())?;
    let settings = app.engine.pause(&queue, until).await?;
    Ok(reply::ok(&Configured::new(queue, &settings)))
}

pub(super) async fn resume(
    State(app): State<App>,
    Segment(segment::Queue(queue)): Segment<segment::Queue>,
    caller: Caller,
    body: One,
) -> Result<Response, Problem> {
    access::check(&caller, Scope::Admin, &queue)?;
    body.object::<Nothing>()?;
    let settings = app.engine.resume(&queue).await?;
    Ok(reply::ok(&Configured::new(queue, &settings)))
}

pub(super) async fn purge(
    State(app): State<App>,
    Segment(segment::Queue(queue)): Segment<segment::Queue>,
    caller: Caller,
    body: One,
) -> Result<Response, Problem> {
    access::check(&caller, Scope::Admin, &queue)?;
    body.object::<Nothing>()?;
    Ok(reply::ok(&Purged { purged: app.engine.purge(&queue).await? }))
}
