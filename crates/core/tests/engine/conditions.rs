//! Changes of schedules and settings on the condition that they are as they were read.

use super::fixture::{Bench, job, pass};
use duetime_core::engine::Pause;
use duetime_core::engine::{Expected, QueueSettings};
use duetime_core::{Error, Schedule, Timing};
use std::time::Duration;

fn every(ms: u64) -> Schedule {
    Schedule::new(Timing::Every(ms), job())
}

/// Ticks change the document of a schedule, but not what was set.
#[tokio::test(start_paused = true)]
async fn a_schedule_that_ticked_is_still_the_one_that_was_read() {
    let bench = Bench::new().await;
    let engine = &bench.engine;
    let first = engine.set_schedule_if("s", every(2_000), Expected::Nothing).await.unwrap();
    for _ in 0..50 {
        pass(Duration::from_millis(100)).await;
    }
    assert!(engine.schedule("s").await.unwrap().last.is_some(), "it has ticked");
    let read = Expected::Version(first.version);
    let second = engine.set_schedule_if("s", every(3_000), read).await.unwrap();
    let stale = engine.set_schedule_if("s", every(4_000), read).await.unwrap_err();
    assert_eq!(stale, Error::Changed { kind: "schedule", name: "s".into(), current: second.version });
    assert_eq!(engine.preview_schedule_if("s", every(4_000), read).await.unwrap_err(), stale);
    assert_eq!(engine.delete_schedule_if("s", read).await.unwrap_err(), stale);
    assert_eq!(engine.schedule("s").await.unwrap().schedule, second.schedule);
    engine.delete_schedule_if("s", Expected::Version(second.version)).await.unwrap();
    assert_eq!(engine.delete_schedule_if("s", Expected::Something).await.unwrap_err().code(), "schedule_not_found");
}

#[tokio::test(start_paused = true)]
async fn settings_have_a_version() {
    let bench = Bench::new().await;
    let engine = &bench.engine;
    assert_eq!(engine.queue_versioned("q").await.unwrap().1, 0);
    let lease = |ms| move |known| QueueSettings { lease_ms: Some(ms), ..known };
    let (_, first) = engine.reconfigure_if("q", Expected::Nothing, lease(5_000)).await.unwrap();
    engine.pause("q", Pause::UntilResumed).await.unwrap();
    let stale = engine.reconfigure_if("q", Expected::Version(first), lease(6_000)).await.unwrap_err();
    let (status, now) = engine.queue_versioned("q").await.unwrap();
    assert_eq!(stale, Error::Changed { kind: "queue", name: "q".into(), current: now });
    assert_eq!((status.settings.lease_ms, status.settings.paused), (Some(5_000), true));
    let (set, _) = engine.reconfigure_if("q", Expected::Version(now), lease(6_000)).await.unwrap();
    assert_eq!((set.lease_ms, set.paused), (Some(6_000), true));
}
