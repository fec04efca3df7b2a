//! Whoever delivers says what lists may be targets: asked at every door by which a target comes in.

use super::fixture::{Bench, job};
use duetime_core::Invalid;
use duetime_core::api::Span;
use duetime_core::engine::{Options, Pause, QueueSettings};
use duetime_core::model::target::RedisList;
use duetime_core::testing::{ModelLedger, TokioClock};
use duetime_core::{Due, Error, Job, JobOptions, NewJob, Schedule, Target, Timing};
use std::sync::Arc;

fn check(list: &RedisList) -> Result<(), Invalid> {
    if &*list.layout == "stack" { Ok(()) } else { Err(Invalid::new("target.redis_list.as", "\"stack\"", &list.layout)) }
}

fn list(layout: &str) -> Target {
    Target::RedisList(RedisList { url: "redis://a".into(), key: "k".into(), layout: layout.into() })
}

#[tokio::test(start_paused = true)]
async fn a_layout_that_nobody_knows_comes_in_by_no_door() {
    let options = Options { list_check: check, ..Options::default() };
    let (ledger, clock) = (ModelLedger::default(), Arc::new(TokioClock::new()));
    let bench = Bench::over_with(ledger.clone(), clock.clone(), options).await;
    let engine = &bench.engine;
    let of_queue = |layout| QueueSettings { target: Some(list(layout)), ..QueueSettings::default() };
    engine.configure("default", of_queue("stack")).await.unwrap();
    let options = |layout: &str| JobOptions { target: Some(list(layout).into()), ..JobOptions::default() };
    let new = |layout: &str| NewJob { due: Due::After(Span(60_000)), options: options(layout), ..job() };
    let schedule = |layout: &str| {
        let job = NewJob { options: options(layout), ..job() };
        Schedule::new(Timing::Every(Span(60_000)), job)
    };
    let known: Job = engine.push(vec![new("stack")]).await.unwrap().remove(0).unwrap().job;
    engine.delete(vec![known.id.into()]).await.remove(0).unwrap();
    engine.import(vec![known.clone()]).await.unwrap().remove(0).unwrap();
    engine.set_schedule("s", schedule("stack")).await.unwrap();

    let elsewhere = Job { options: options("heap").shared(), ..known };
    let refusals: [(&str, Error); 4] = [
        ("a push", engine.push(vec![new("heap")]).await.unwrap().remove(0).unwrap_err()),
        ("an import", engine.import(vec![elsewhere]).await.unwrap().remove(0).unwrap_err()),
        ("a schedule", engine.set_schedule("t", schedule("heap")).await.unwrap_err()),
        ("a queue", engine.configure("other", of_queue("heap")).await.unwrap_err()),
    ];
    for (door, error) in refusals {
        assert_eq!(error.to_string(), "`target.redis_list.as` must be \"stack\", got heap", "{door}");
    }

    // Another process, which delivers nothing, has set it: the queue can still be paused.
    let other = Bench::over(ledger, clock).await;
    other.engine.configure("default", of_queue("heap")).await.unwrap();
    engine.pause("default", Pause::UntilResumed).await.unwrap();
}
