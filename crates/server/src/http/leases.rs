//! Leases: complete, fail, release, extend, progress; and many settles, or extensions, at once.

use super::access;
use super::app::App;
use super::batch;
use super::body::{Batch, One};
use super::problem::Problem;
use super::reply;
use super::segment::Segment;
use crate::access::{Caller, Scope};
use axum::extract::State;
use axum::response::Response;
use duetime::wire::{self, Answer, Complete, Extend, ExtendOne, Extended, Fail, Progress, Release, Settle, Settled};
use duetime_core::Receipt;
use duetime_core::engine::{Answers, Outcome};

pub(super) async fn complete(
    State(app): State<App>,
    Segment(receipt): Segment<Receipt>,
    caller: Caller,
    body: One,
) -> Result<Response, Problem> {
    let outcome = Outcome::try_from(body.object::<Complete<'_>>()?)?;
    settle_one(&app, &caller, receipt, outcome).await
}

pub(super) async fn fail(
    State(app): State<App>,
    Segment(receipt): Segment<Receipt>,
    caller: Caller,
    body: One,
) -> Result<Response, Problem> {
    let outcome = Outcome::from(body.object::<Fail>()?);
    settle_one(&app, &caller, receipt, outcome).await
}

pub(super) async fn release(
    State(app): State<App>,
    Segment(receipt): Segment<Receipt>,
    caller: Caller,
    body: One,
) -> Result<Response, Problem> {
    let outcome = Outcome::from(body.object::<Release>()?);
    settle_one(&app, &caller, receipt, outcome).await
}

async fn settle_one(app: &App, caller: &Caller, receipt: Receipt, outcome: Outcome) -> Result<Response, Problem> {
    check(app, caller, receipt).await?;
    let settlement = reply::only(app.engine.settle(vec![(receipt, outcome)]).await)?;
    Ok(reply::ok(&Settled::from(settlement)))
}

pub(super) async fn extend(
    State(app): State<App>,
    Segment(receipt): Segment<Receipt>,
    caller: Caller,
    body: One,
) -> Result<Response, Problem> {
    let lease_ms = body.object::<Extend>()?.lease.map(|span| span.0);
    check(&app, &caller, receipt).await?;
    let extension = reply::only(app.engine.extend(vec![(receipt, lease_ms)]).await)?;
    Ok(reply::ok(&Extended::from(extension)))
}

pub(super) async fn extend_many(State(app): State<App>, caller: Caller, body: Batch) -> Result<Response, Problem> {
    let mut batch = batch::read(body.text(), |one: ExtendOne| <(Receipt, Option<u64>)>::try_from(one))?;
    drop(body);
    check_each(&app, &caller, &mut batch).await?;
    let (leases, merge) = batch.split();
    let receipts: Vec<_> = leases.iter().map(|(receipt, _)| *receipt).collect();
    let answers = app.engine.extend(leases).await;
    Ok(reply::ok(&merge.answers(each(receipts, answers, Extended::from))))
}

pub(super) async fn progress(
    State(app): State<App>,
    Segment(receipt): Segment<Receipt>,
    caller: Caller,
    body: One,
) -> Result<Response, Problem> {
    let Progress { percent, note } = body.object::<Progress>()?;
    check(&app, &caller, receipt).await?;
    let extension = app.engine.progress(receipt, percent, note.map(|note| note.0)).await?;
    Ok(reply::ok(&Extended::from(extension)))
}

pub(super) async fn settle(State(app): State<App>, caller: Caller, body: Batch) -> Result<Response, Problem> {
    let mut batch = batch::read(body.text(), |one: Settle<'_>| <(Receipt, Outcome)>::try_from(one))?;
    drop(body);
    check_each(&app, &caller, &mut batch).await?;
    let (outcomes, merge) = batch.split();
    let receipts: Vec<_> = outcomes.iter().map(|(receipt, _)| *receipt).collect();
    let answers = app.engine.settle(outcomes).await;
    Ok(reply::ok(&merge.answers(each(receipts, answers, Settled::from))))
}

async fn check(app: &App, caller: &Caller, receipt: Receipt) -> Result<(), Problem> {
    access::check_jobs(app, caller, Scope::Work, &[receipt.id]).await
}

/// Refuses the leases of queues that the caller has no right to.
async fn check_each<T>(app: &App, caller: &Caller, batch: &mut batch::Batch<(Receipt, T)>) -> Result<(), Problem> {
    let ids: Vec<_> = batch.asked.iter().map(|(receipt, _)| receipt.id).collect();
    batch.refuse(access::check_each(app, caller, Scope::Work, &ids).await?);
    Ok(())
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
