//! Leases: complete, fail, release, extend, progress; and many settles, or extensions, at once.

use crate::access::{Caller, Scope};
use crate::dashboard::Language;
use crate::http::app::App;
use crate::http::batch;
use crate::http::body::{Batch, One};
use crate::http::call::Call;
use crate::http::middleware::access;
use crate::http::middleware::sending::Room;
use crate::http::problem::Problem;
use crate::http::reply::{self, Answered};
use crate::http::segment::Segment;
use duetime_core::api::schema::{ExtendAnswers, Extensions, SettleAnswers, Settles};
use duetime_core::api::{Answer, Complete, Extend, ExtendOne, Progress, Settle, complete_follow_ups};
use duetime_core::engine::{Answers, Extension, Outcome, Settlement};
use duetime_core::rules::{Failure, Park, Release};
use duetime_core::{Error, FollowUps, JobOptions, NewJob, Receipt};
use std::sync::Arc;

/// Complete a job.
#[utoipa::path(
    post, path = "/v1/leases/{receipt}/complete", operation_id = "complete", tag = "work",
    request_body = Option<Complete<'_>>,
    responses((status = 200, description = "The state of the job.", body = Settlement)),
    extensions(("x-codes" = json!(["lease_lost"]))),
)]
pub(crate) async fn complete(Call(app, caller): Call, Segment(receipt): Segment<Receipt>, body: One) -> Answered {
    let outcome = Outcome::try_from(body.object::<Complete<'_>>()?)?;
    settle_one(&app, &caller, receipt, outcome).await
}

/// Fail an attempt.
///
/// The job is retried by its retry rule, unless `final` is true or its attempts are used up.
#[utoipa::path(
    post, path = "/v1/leases/{receipt}/fail", operation_id = "fail", tag = "work",
    request_body = Option<Failure>,
    responses((status = 200, description = "The state of the job.", body = Settlement)),
    extensions(("x-codes" = json!(["lease_lost"]))),
)]
pub(crate) async fn fail(Call(app, caller): Call, Segment(receipt): Segment<Receipt>, body: One) -> Answered {
    let outcome = Outcome::Fail(body.object()?);
    settle_one(&app, &caller, receipt, outcome).await
}

/// Release a job.
///
/// The job is handed out again. The attempt does not count.
#[utoipa::path(
    post, path = "/v1/leases/{receipt}/release", operation_id = "release", tag = "work",
    request_body = Option<Release>,
    responses((status = 200, description = "The state of the job.", body = Settlement)),
    extensions(("x-codes" = json!(["lease_lost"]))),
)]
pub(crate) async fn release(Call(app, caller): Call, Segment(receipt): Segment<Receipt>, body: One) -> Answered {
    let outcome = Outcome::Release(body.object()?);
    settle_one(&app, &caller, receipt, outcome).await
}

/// Park a job.
///
/// The job has failed. It is kept, without a limit of time, until it is retried or deleted.
#[utoipa::path(
    post, path = "/v1/leases/{receipt}/park", operation_id = "park", tag = "work",
    request_body = Option<Park>,
    responses((status = 200, description = "The state of the job.", body = Settlement)),
    extensions(("x-codes" = json!(["lease_lost"]))),
)]
pub(crate) async fn park(Call(app, caller): Call, Segment(receipt): Segment<Receipt>, body: One) -> Answered {
    let outcome = Outcome::Park(body.object()?);
    settle_one(&app, &caller, receipt, outcome).await
}

async fn settle_one(app: &App, caller: &Caller, receipt: Receipt, mut outcome: Outcome) -> Answered {
    check(app, caller, receipt).await?;
    if let Outcome::Complete { then: then @ Some(_), .. } = &mut outcome {
        let queue = app.engine.queues_of(&[receipt.id]).await?.pop().flatten();
        check_then(app, caller, receipt, queue, then)?;
    }
    let settlement = reply::only(app.engine.settle(vec![(receipt, outcome)]).await)?;
    Ok(reply::ok(&settlement))
}

/// Extend a lease.
#[utoipa::path(
    post, path = "/v1/leases/{receipt}/extend", operation_id = "extend", tag = "work",
    request_body = Option<Extend>,
    responses((status = 200, description = "The lease is extended.", body = Extension)),
    extensions(("x-codes" = json!(["lease_lost"]))),
)]
pub(crate) async fn extend(Call(app, caller): Call, Segment(receipt): Segment<Receipt>, body: One) -> Answered {
    let lease_ms = body.object::<Extend>()?.lease.map(|span| span.0);
    check(&app, &caller, receipt).await?;
    let extension = reply::only(app.engine.extend(vec![(receipt, lease_ms)]).await)?;
    Ok(reply::ok(&extension))
}

/// Extend many leases.
///
/// The answer has one result per lease, in order.
#[utoipa::path(
    post, path = "/v1/extend", operation_id = "extend_many", tag = "work",
    request_body = Extensions,
    responses((status = 200, description = "One result per lease.", body = ExtendAnswers)),
)]
pub(crate) async fn extend_many(Call(app, caller): Call, language: Language, body: Batch) -> Answered {
    let mut batch = batch::read(body.text(), |one: ExtendOne| <(Receipt, Option<u64>)>::try_from(one))?;
    let _parsed = body.parsed();
    check_each(&app, &caller, &mut batch).await?;
    let room = Room::of_batch(&app, &batch).await?;
    let (leases, merge) = batch.split();
    let receipts: Vec<_> = leases.iter().map(|(receipt, _)| *receipt).collect();
    let answers = app.engine.extend(leases).await;
    Ok(room.hold_done(reply::told(language, merge.answers(each(receipts, answers)))))
}

/// Report the progress of a job.
///
/// This also extends the lease.
#[utoipa::path(
    post, path = "/v1/leases/{receipt}/progress", operation_id = "progress", tag = "work",
    request_body = Progress,
    responses((status = 200, description = "The lease is extended.", body = Extension)),
    extensions(("x-codes" = json!(["lease_lost"]))),
)]
pub(crate) async fn progress(Call(app, caller): Call, Segment(receipt): Segment<Receipt>, body: One) -> Answered {
    let Progress { percent, note } = body.object::<Progress>()?;
    check(&app, &caller, receipt).await?;
    let extension = app.engine.progress(receipt, percent, note).await?;
    Ok(reply::ok(&extension))
}

/// Settle many leases.
///
/// Each element has `complete`, `fail` or `release`. The answer has one result per lease, in order.
#[utoipa::path(
    post, path = "/v1/settle", operation_id = "settle", tag = "work",
    request_body = Settles,
    responses((status = 200, description = "One result per lease.", body = SettleAnswers)),
)]
pub(crate) async fn settle(Call(app, caller): Call, language: Language, body: Batch) -> Answered {
    let mut batch = batch::read(body.text(), |one: Settle<'_>| <(Receipt, Outcome)>::try_from(one))?;
    let _parsed = body.parsed();
    check_each(&app, &caller, &mut batch).await?;
    check_each_then(&app, &caller, &mut batch).await?;
    let room = Room::of_batch(&app, &batch).await?;
    let (outcomes, merge) = batch.split();
    let receipts: Vec<_> = outcomes.iter().map(|(receipt, _)| *receipt).collect();
    let answers = app.engine.settle(outcomes).await;
    Ok(room.hold_done(reply::told(language, merge.answers(each(receipts, answers)))))
}

/// Reports a lease of a queue as ended if the caller has no right to the queue.
async fn check(app: &App, caller: &Caller, receipt: Receipt) -> Result<(), Error> {
    match access::allowed(app, caller, Scope::Work, &[receipt.id]).await?[..] {
        [true] => Ok(()),
        _ => Err(Error::LeaseLost(receipt)),
    }
}

/// The same for each lease of a batch.
async fn check_each<T>(app: &App, caller: &Caller, batch: &mut batch::Batch<(Receipt, T)>) -> Result<(), Problem> {
    let receipts: Vec<_> = batch.asked().map(|(receipt, _)| *receipt).collect();
    let ids: Vec<_> = receipts.iter().map(|receipt| receipt.id).collect();
    let allowed = access::allowed(app, caller, Scope::Work, &ids).await?;
    let judge = |(receipt, is_allowed): (Receipt, bool)| {
        if is_allowed { Ok(()) } else { Err(Problem::of_lease(receipt, Error::LeaseLost(receipt))) }
    };
    batch.refuse(receipts.into_iter().zip(allowed).map(judge).collect());
    Ok(())
}

/// Writes out the queues of the jobs that a worker adds to the end of a job in this queue, and checks that it may push them.
fn check_then(
    app: &App,
    caller: &Caller,
    receipt: Receipt,
    queue: Option<Arc<str>>,
    then: &mut FollowUps,
) -> Result<(), Problem> {
    let queue = queue.ok_or(Error::LeaseLost(receipt))?;
    let mut options = JobOptions { then: then.take(), ..JobOptions::default() };
    complete_follow_ups(&mut options, &queue)?;
    let end = NewJob { queue, options, ..NewJob::new([]) };
    access::check_ends_of(app, caller, Scope::Push, &end)?;
    *then = end.options.then;
    Ok(())
}

/// The same for each end of a batch.
async fn check_each_then(
    app: &App,
    caller: &Caller,
    batch: &mut batch::Batch<(Receipt, Outcome)>,
) -> Result<(), Problem> {
    let adds = |(_, outcome): &&(Receipt, Outcome)| matches!(outcome, Outcome::Complete { then: Some(_), .. });
    let ids: Vec<_> = batch.asked().filter(adds).map(|(receipt, _)| receipt.id).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let mut queues = app.engine.queues_of(&ids).await?.into_iter();
    let judge = |(_, (receipt, outcome)): (usize, &mut (Receipt, Outcome))| match outcome {
        Outcome::Complete { then: then @ Some(_), .. } => {
            let queue = queues.next().expect("one for each");
            check_then(app, caller, *receipt, queue, then).map_err(|problem| Problem::of_lease(*receipt, problem))
        }
        _ => Ok(()),
    };
    let judgements = batch.placed().map(judge).collect();
    batch.refuse(judgements);
    Ok(())
}

/// The answer for each lease. A problem names its lease.
fn each<T>(receipts: Vec<Receipt>, answers: Answers<T>) -> impl Iterator<Item = Answer<T>> {
    receipts.into_iter().zip(answers).map(|(receipt, answer)| match answer {
        Ok(done) => Answer::Done(done),
        Err(error) => Answer::Problem(Box::new(Problem::of_lease(receipt, error).into())),
    })
}
