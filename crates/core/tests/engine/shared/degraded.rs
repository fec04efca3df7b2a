//! A degraded state ends with its cause, even without requests.

use super::super::fixture::{job, pass};
use super::{World, seconds};
use duetime_core::State;
use duetime_core::api::DegradedCode;
use duetime_core::testing::shared::Presence;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_broker_that_takes_jobs_again_is_found_out_without_a_push() {
    let (world, leader, other) = World::with_two().await;
    for node in [&leader, &other] {
        world.broker.set_presence(Presence::Stalled);
        let engine = node.engine.clone();
        let push = tokio::spawn(async move { engine.push(vec![job()]).await });
        seconds(3).await;
        push.await.unwrap().unwrap();
        let degraded = node.engine.health().degraded;
        assert!(degraded.iter().any(|what| what.code == DegradedCode::Holding), "{degraded:?}");
        world.broker.set_presence(Presence::There);
        seconds(5).await;
        assert_eq!(node.engine.health().degraded, []);
    }
}

/// The leader records outcomes that this process could not record.
#[tokio::test(start_paused = true)]
async fn outcomes_that_another_recorded_are_not_missed() {
    let (world, leader, other) = World::with_two().await;
    leader.push(job()).await;
    let lease = other.lease().await;
    world.ledger.set_away(true);
    other.complete(lease.receipt()).await.unwrap();
    pass(Duration::from_millis(100)).await;
    let degraded = other.engine.health().degraded;
    assert!(degraded.iter().any(|what| what.code == DegradedCode::Recording), "{degraded:?}");
    world.ledger.set_away(false);
    seconds(6).await;
    assert_eq!(world.row(lease.id).state(0), State::Succeeded);
    assert_eq!(other.engine.health().degraded, []);
}

/// An alert that looks at `duetime_ready` needs it most then.
#[tokio::test(start_paused = true)]
async fn the_metrics_are_there_while_the_broker_is_away() {
    let (world, leader, _) = World::with_two().await;
    leader.push(job()).await;
    let scheduled = "duetime_jobs_scheduled{queue=\"default\"}";
    assert!(leader.engine.exposition().await.finish().contains(scheduled));
    world.broker.set_presence(Presence::Away);
    seconds(10).await;
    let text = leader.engine.exposition().await.finish();
    assert!(text.contains("duetime_ready 0.0\n") && !text.contains(scheduled), "{text}");
}
