//! What limits queues, told by one and kept by all.

use super::super::fixture::job;
use super::{World, seconds};
use duetime_core::engine::QueueSettings;
use duetime_core::ports::{Broker, Limits, Registry};
use duetime_core::{Due, NewJob};

#[tokio::test(start_paused = true)]
async fn a_paused_queue_stays_paused_after_a_flush() {
    let (world, leader, other) = World::with_two().await;
    other.engine.pause("default", None).await.unwrap();
    other.push(job()).await;
    world.flush().await;
    seconds(3).await;
    assert!(leader.leases().await.is_empty());
    other.engine.resume("default").await.unwrap();
    assert_eq!(leader.leases().await.len(), 1);
}

/// Two who set it at once may tell the broker in the other order than they told the registry, and die then.
#[tokio::test(start_paused = true)]
async fn a_pause_that_is_told_late_does_not_stand() {
    let (world, leader, other) = World::with_two().await;
    other.engine.pause("default", None).await.unwrap();
    other.engine.resume("default").await.unwrap();
    world.broker.limit(&"default".into(), Limits { paused: true, ..Limits::default() }, 1).await.unwrap();
    other.push(job()).await;
    assert_eq!(leader.leases().await.len(), 1);
}

/// Others find out when they read the settings.
#[tokio::test(start_paused = true)]
async fn limits_hold_though_who_set_them_died_before_telling() {
    let (world, leader, other) = World::with_two().await;
    other.push(NewJob { due: Due::After(1_500), ..job() }).await;
    let paused = QueueSettings { paused: true, ..QueueSettings::default() };
    let body = serde_json::to_string(&paused).unwrap();
    world.ledger.put_if("queue", "default", &body, 0).await.unwrap();
    seconds(2).await;
    assert!(leader.leases().await.is_empty() && other.leases().await.is_empty());
    let body = serde_json::to_string(&QueueSettings::default()).unwrap();
    world.ledger.put_if("queue", "default", &body, 1).await.unwrap();
    seconds(1).await;
    assert_eq!(leader.leases().await.len(), 1);
}
