//! Queues: statistics and settings.

use super::app::App;
use super::body::One;
use super::problem::Problem;
use super::reply;
use super::segment::{self, Segment};
use axum::extract::State;
use axum::response::Response;
use duetime::wire::{Configured, Nothing, PauseBody, Purged, Queue, Queues, SettingsBody};

pub(super) async fn list(State(app): State<App>) -> Result<Response, Problem> {
    let queues = app.engine.queues().await?;
    Ok(reply::ok(&Queues { queues: queues.iter().map(Queue::from).collect() }))
}

pub(super) async fn get(
    State(app): State<App>,
    Segment(segment::Queue(queue)): Segment<segment::Queue>,
) -> Result<Response, Problem> {
    Ok(reply::ok(&Queue::from(&app.engine.queue(&queue).await?)))
}

pub(super) async fn put(
    State(app): State<App>,
    Segment(segment::Queue(queue)): Segment<segment::Queue>,
    body: One,
) -> Result<Response, Problem> {
    let changes = body.object::<SettingsBody>()?;
    if let Some(Some(target)) = &changes.target {
        app.targets.check(&queue, target)?;
    }
    let new = app.engine.reconfigure(&queue, move |old| changes.clone().apply(&old)).await?;
    Ok(reply::ok(&Configured::new(queue, &new)))
}

pub(super) async fn pause(
    State(app): State<App>,
    Segment(segment::Queue(queue)): Segment<segment::Queue>,
    body: One,
) -> Result<Response, Problem> {
    let until = body.object::<PauseBody>()?.until(app.engine.now())?;
    let settings = app.engine.pause(&queue, until).await?;
    Ok(reply::ok(&Configured::new(queue, &settings)))
}

pub(super) async fn resume(
    State(app): State<App>,
    Segment(segment::Queue(queue)): Segment<segment::Queue>,
    body: One,
) -> Result<Response, Problem> {
    body.object::<Nothing>()?;
    let settings = app.engine.resume(&queue).await?;
    Ok(reply::ok(&Configured::new(queue, &settings)))
}

pub(super) async fn purge(
    State(app): State<App>,
    Segment(segment::Queue(queue)): Segment<segment::Queue>,
    body: One,
) -> Result<Response, Problem> {
    body.object::<Nothing>()?;
    Ok(reply::ok(&Purged { purged: app.engine.purge(&queue).await? }))
}
