//! `POST /v1/queues/{queue}/jobs`: push one job, or an array.

use super::app::App;
use super::batch;
use super::body::Batch;
use super::problem::Problem;
use super::reply;
use super::segment::{Queue, Segment};
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{HeaderValue, LOCATION};
use axum::response::Response;
use duetime::wire::{Answer, Push, Pushed};
use duetime_core::Error;
use duetime_core::engine::{self, PushOutcome};

pub(super) async fn push(
    State(app): State<App>,
    Segment(Queue(queue)): Segment<Queue>,
    body: Batch,
) -> Result<Response, Problem> {
    if body.text().trim_ascii_start().starts_with('[') {
        let batch = batch::read(body.text(), |job: Push<'_>| job.into_job(queue.clone()))?;
        drop(body);
        let (jobs, merge) = batch.split();
        let answers = app.engine.push(jobs).await?;
        let now = app.engine.now();
        let answer = |answer: Result<engine::Pushed, Error>| {
            Answer::from(answer.map(|pushed| Pushed::new(&pushed, now)).map_err(Problem::from))
        };
        return Ok(reply::ok(&merge.answers(answers.into_iter().map(answer))));
    }
    let job = body.object::<Push<'_>>()?.into_job(queue)?;
    drop(body);
    let pushed = reply::only(app.engine.push(vec![job]).await?)?;
    let status = match pushed.outcome {
        PushOutcome::Created => StatusCode::CREATED,
        PushOutcome::Kept | PushOutcome::Replaced => StatusCode::OK,
    };
    let mut response = reply::with_status(status, &Pushed::new(&pushed, app.engine.now()));
    let location =
        HeaderValue::try_from(format!("/v1/jobs/{}", pushed.job.id)).expect("digits are allowed in a header");
    response.headers_mut().insert(LOCATION, location);
    Ok(response)
}
