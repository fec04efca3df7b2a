//! Targets and traces of single jobs.

use super::fixture::{Bench, job};
use duetime_core::engine::QueueSettings;
use duetime_core::{NewJob, Target};
use std::sync::Arc;

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn target(url: &str) -> Target {
    serde_json::from_value(serde_json::json!({ "url": url })).unwrap()
}

fn aimed() -> NewJob {
    NewJob { target: Some(Arc::new(target("https://a.example/one"))), trace: Some(TRACE.into()), ..job() }
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
    assert_eq!((&pushed.target, &pushed.trace), (&aimed().target, &aimed().trace));
    assert_eq!(bench.ledger.jobs(), [pushed]);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_target_or_trace_is_refused() {
    let bench = Bench::new().await;
    with_target(&bench).await;
    let (here, none) = (Some(Arc::new(target("ftp://a.example"))), None);
    for (target, trace) in [(here, None), (none, Some("00-1-2-01".into()))] {
        let refused = bench.try_push(NewJob { target, trace, ..job() }).await.unwrap_err();
        assert_eq!(refused.code(), "invalid", "{refused}");
    }
}
