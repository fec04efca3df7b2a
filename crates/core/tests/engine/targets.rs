//! Targets, traces and metadata of single jobs.

use super::fixture::{Bench, job};
use duetime_core::engine::{Outcome, QueueSettings};
use duetime_core::rules::Failure;
use duetime_core::{JobOptions, Meta, NewJob, Retry, Target, WhenExhausted};
use std::sync::Arc;

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn target(url: &str) -> Target {
    serde_json::from_value(serde_json::json!({ "url": url })).unwrap()
}

fn aimed() -> NewJob {
    NewJob {
        options: JobOptions {
            target: Some(Arc::new(target("https://a.example/one"))),
            trace: Some(TRACE.into()),
            meta: Some(tenant("7")),
            ..JobOptions::default()
        },
        ..job()
    }
}

fn tenant(name: &str) -> Arc<Meta> {
    Arc::new(Meta::from_iter([("tenant", name)]))
}

async fn with_target(bench: &Bench) {
    let settings = QueueSettings { target: Some(target("https://a.example/all")), ..QueueSettings::default() };
    bench.engine.configure("default", settings).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_job_has_a_target_only_where_its_queue_has_one() {
    let bench = Bench::new().await;
    let refused = bench.try_push(aimed()).await.unwrap_err();
    assert!(refused.code() == "invalid" && refused.to_string().contains("has no target in its settings"), "{refused}");
    with_target(&bench).await;
    let pushed = bench.push(aimed()).await;
    assert_eq!(*pushed.options(), aimed().options);
    assert_eq!(bench.ledger.jobs(), [pushed]);
}

#[tokio::test(start_paused = true)]
async fn a_copy_in_another_queue_keeps_the_trace_and_the_metadata() {
    let bench = Bench::new().await;
    with_target(&bench).await;
    let retry = Retry { when_exhausted: Some(WhenExhausted::Move("dead".into())), ..Retry::default() };
    bench.push(NewJob { options: JobOptions { retry, ..aimed().options }, ..aimed() }).await;
    let lease = bench.lease().await;
    let failure = Failure { message: "no".into(), is_final: true, ..Failure::default() };
    bench.settle(&lease, Outcome::Fail(failure)).await.unwrap();
    let copy = bench.ledger.jobs().into_iter().find(|job| &*job.queue == "dead").unwrap();
    assert_eq!(
        (&copy.options().target, copy.options().trace.as_deref(), copy.meta().get("tenant")),
        (&None, Some(TRACE), Some("7")),
        "a target is for its own queue"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_no_target_trace_or_metadata_is_refused() {
    let bench = Bench::new().await;
    with_target(&bench).await;
    let none = JobOptions::default();
    for (field, options) in [
        ("target.url", JobOptions { target: Some(Arc::new(target("ftp://a.example"))), ..none.clone() }),
        ("trace", JobOptions { trace: Some("00-1-2-01".into()), ..none.clone() }),
        ("meta", JobOptions { meta: Some(tenant(&"7".repeat(257))), ..none }),
    ] {
        let refused = bench.try_push(NewJob { options, ..job() }).await.unwrap_err();
        assert_eq!(refused.code(), "invalid", "{refused}");
        assert!(refused.to_string().contains(&format!("`{field}` must be")), "{refused}");
    }
}
