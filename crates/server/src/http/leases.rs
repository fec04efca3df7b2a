//! Leases: complete, fail, release, extend, progress; and many settles at once.

use super::app::App;
use super::batch;
use super::body::{Batch, One};
use super::problem::Problem;
use super::reply;
use super::segment::Segment;
use axum::extract::State;
use axum::response::Response;
use duetime::wire::{self, Answer, Complete, Extend, Extended, Fail, Progress, Release, Settle, Settled};
use duetime_core::Receipt;
use duetime_core::engine::Outcome;

pub(super) async fn complete(
    State(app): State<App>,
    Segment(receipt): Segment<Receipt>,
    body: One,
) -> Result<Response, Problem> {
    let outcome = Outcome::try_from(body.object::<Complete<'_>>()?)?;
    settle_one(&app, receipt, outcome).await
}

pub(super) async fn fail(
    State(app): State<App>,
    Segment(receipt): Segment<Receipt>,
    body: One,
) -> Result<Response, Problem> {
    let outcome = Outcome::from(body.object::<Fail>()?);
    settle_one(&app, receipt, outcome).await
}

pub(super) async fn release(
    State(app): State<App>,
    Segment(receipt): Segment<Receipt>,
    body: One,
) -> Result<Response, Problem> {
    let outcome = Outcome::from(body.object::<Release>()?);
    settle_one(&app, receipt, outcome).await
}

async fn settle_one(app: &App, receipt: Receipt, outcome: Outcome) -> Result<Response, Problem> {
    let settlement = reply::only(app.engine.settle(vec![(receipt, outcome)]).await)?;
    Ok(reply::ok(&Settled::from(settlement)))
}

pub(super) async fn extend(
    State(app): State<App>,
    Segment(receipt): Segment<Receipt>,
    body: One,
) -> Result<Response, Problem> {
    let lease_ms = body.object::<Extend>()?.lease.map(|span| span.0);
    let extension = reply::only(app.engine.extend(vec![(receipt, lease_ms)]).await)?;
    Ok(reply::ok(&Extended::from(extension)))
}

pub(super) async fn progress(
    State(app): State<App>,
    Segment(receipt): Segment<Receipt>,
    body: One,
) -> Result<Response, Problem> {
    let Progress { percent, note } = body.object::<Progress>()?;
    let extension = app.engine.progress(receipt, percent, note.map(|note| note.0)).await?;
    Ok(reply::ok(&Extended::from(extension)))
}

pub(super) async fn settle(State(app): State<App>, body: Batch) -> Result<Response, Problem> {
    let batch = batch::read(body.text(), |one: Settle<'_>| <(Receipt, Outcome)>::try_from(one))?;
    drop(body);
    let (outcomes, merge) = batch.split();
    let receipts: Vec<_> = outcomes.iter().map(|(receipt, _)| *receipt).collect();
    let answers = app.engine.settle(outcomes).await;
    let answers = receipts.into_iter().zip(answers).map(|(receipt, answer)| match answer {
        Ok(settlement) => Answer::Done(Settled::from(settlement)),
        Err(error) => {
            let problem = wire::Problem { receipt: Some(receipt), ..Problem::from(error).into() };
            Answer::Problem(Box::new(problem))
        }
    });
    Ok(reply::ok(&merge.answers(answers)))
}
