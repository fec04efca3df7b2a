//! Leases: complete, fail, release, extend, progress; and many settles, or extensions, at once.

use super::app::App;
use super::batch;
use super::body::{Batch, One};
use super::problem::Problem;
use super::reply;
use super::segment::Segment;
use axum::extract::State;
use axum::response::Response;
use duetime::wire::{self, Answer, Complete, Extend, ExtendOne, Extended, Fail, Progress, Release, Settle, Settled};
use duetime_core::Receipt;
use duetime_core::engine::{Answers, Outcome};

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

pub(super) async fn extend_many(State(app): State<App>, body: Batch) -> Result<Response, Problem> {
    let batch = batch::read(body.text(), |one: ExtendOne| <(Receipt, Option<u64>)>::try_from(one))?;
    drop(body);
    let (leases, merge) = batch.split();
    let receipts: Vec<_> = leases.iter().map(|(receipt, _)| *receipt).collect();
    let answers = app.engine.extend(leases).await;
    Ok(reply::ok(&merge.answers(each(receipts, answers, Extended::from))))
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
    Ok(reply::ok(&merge.answers(each(receipts, answers, Settled::from))))
}

/// What is said of each lease: a problem names it.
fn each<T, B>(receipts: Vec<Receipt>, answers: Answers<T>, body: fn(T) -> B) -> impl Iterator<Item = Answer<B>> {
    receipts.into_iter().zip(answers).map(move |(receipt, answer)| match answer {
        Ok(done) => Answer::Done(body(done)),
        Err(error) => {
            let problem = wire::Problem { receipt: Some(receipt), ..Problem::from(error).into() };
            Answer::Problem(Box::new(problem))
        }
    })
}
