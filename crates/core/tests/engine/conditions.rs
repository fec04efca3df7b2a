//! Changes of schedules and settings on the condition that they are as they were read.

use super::fixture::{Bench, job, pass};
use async_trait::async_trait;
use duetime_core::engine::{Options, Pause, Precondition, QueueSettings, Stores};
use duetime_core::json::Span;
use duetime_core::ports::{Document, PutIf, Registry};
use duetime_core::testing::{ModelLedger, TokioClock};
use duetime_core::{Engine, Error, Schedule, Timing};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn every(ms: u64) -> Schedule {
    Schedule::new(Timing::Every(Span(ms)), job())
}

/// Ticks change the document of a schedule, but not what was set.
#[tokio::test(start_paused = true)]
async fn a_schedule_that_ticked_is_still_the_one_that_was_read() {
    let bench = Bench::new().await;
    let engine = &bench.engine;
    let first = engine.set_schedule_if("s", every(2_000), Precondition::Nothing).await.unwrap();
    for _ in 0..50 {
        pass(Duration::from_millis(100)).await;
    }
    assert!(engine.schedule("s").await.unwrap().last.is_some(), "it has ticked");
    let read = Precondition::Version(first.version);
    let second = engine.set_schedule_if("s", every(3_000), read).await.unwrap();
    let stale = engine.set_schedule_if("s", every(4_000), read).await.unwrap_err();
    assert_eq!(stale, Error::Changed { kind: "schedule", name: "s".into(), current: second.version });
    assert_eq!(engine.preview_schedule_if("s", every(4_000), read).await.unwrap_err(), stale);
    assert_eq!(engine.delete_schedule_if("s", read).await.unwrap_err(), stale);
    assert_eq!(engine.schedule("s").await.unwrap().schedule, second.schedule);
    engine.delete_schedule_if("s", Precondition::Version(second.version)).await.unwrap();
    assert_eq!(engine.delete_schedule_if("s", Precondition::Something).await.unwrap_err().code(), "schedule_not_found");
}

#[tokio::test(start_paused = true)]
async fn settings_have_a_version() {
    let bench = Bench::new().await;
    let engine = &bench.engine;
    assert_eq!(engine.queue_versioned("q").await.unwrap().1, 0);
    let lease = |ms| move |known| QueueSettings { lease: Some(ms), ..known };
    let (_, first) = engine.reconfigure_if("q", Precondition::Nothing, lease(Span(5_000))).await.unwrap();
    engine.pause("q", Pause::UntilResumed).await.unwrap();
    let stale = engine.reconfigure_if("q", Precondition::Version(first), lease(Span(6_000))).await.unwrap_err();
    let (status, now) = engine.queue_versioned("q").await.unwrap();
    assert_eq!(stale, Error::Changed { kind: "queue", name: "q".into(), current: now });
    assert_eq!((status.settings.lease, status.settings.paused), (Some(Span(5_000)), true));
    let (set, _) = engine.reconfigure_if("q", Precondition::Version(now), lease(Span(6_000))).await.unwrap();
    assert_eq!((set.lease, set.paused), (Some(Span(6_000)), true));
}

/// A registry in which another process changes a schedule just before it is removed for the first time.
struct Meddled {
    registry: ModelLedger,
    is_done: AtomicBool,
}

#[async_trait]
impl Registry for Meddled {
    async fn document(&self, kind: &str, name: &str) -> Result<Option<Document>, Error> {
        self.registry.document(kind, name).await
    }

    async fn documents(&self, kind: &str) -> Result<Vec<Document>, Error> {
        self.registry.documents(kind).await
    }

    async fn put_if(&self, kind: &str, name: &str, body: &str, version: u64) -> Result<PutIf, Error> {
        self.registry.put_if(kind, name, body, version).await
    }

    async fn remove(&self, kind: &str, name: &str, version: Option<u64>) -> Result<bool, Error> {
        if !self.is_done.swap(true, Ordering::SeqCst) {
            let Document { body, version, .. } = self.document(kind, name).await?.expect("it is removed");
            let entry: serde_json::Value = serde_json::from_str(&body).unwrap();
            let set = entry["version"].as_u64().unwrap();
            let body = body.replace(&format!("\"version\":{set}"), &format!("\"version\":{}", set + 1));
            self.put_if(kind, name, &body, version).await?;
        }
        self.registry.remove(kind, name, version).await
    }
}

/// Whatever another process does between the reading and the removal.
#[tokio::test(start_paused = true)]
async fn a_schedule_that_was_changed_is_not_deleted_as_it_was_read() {
    let (clock, ledger) = (Arc::new(TokioClock::new()), ModelLedger::default());
    let registry = Arc::new(Meddled { registry: ledger.clone(), is_done: AtomicBool::new(false) });
    let stores = Stores { registry, ..Stores::one_process(clock, Arc::new(ledger)) };
    let engine = Engine::start(stores, Options::default()).await.unwrap();
    let read = engine.set_schedule_if("s", every(2_000), Precondition::Nothing).await.unwrap();
    let refused = engine.delete_schedule_if("s", Precondition::Version(read.version)).await.unwrap_err();
    assert_eq!(refused, Error::Changed { kind: "schedule", name: "s".into(), current: read.version + 1 });
    engine.delete_schedule_if("s", Precondition::Version(read.version + 1)).await.unwrap();
}
