//! Limits of queues: one engine sets them, and all engines apply them.

use super::super::fixture::job;
use super::{Node, World, seconds};
use duetime_core::api::Span;
use duetime_core::engine::Pause;
use duetime_core::engine::QueueSettings;
use duetime_core::ports::{Broker, Limits};
use duetime_core::testing::mortal::When;
use duetime_core::{Due, NewJob};

#[tokio::test(start_paused = true)]
async fn a_paused_queue_stays_paused_after_a_flush() {
    let (world, leader, other) = World::with_two().await;
    other.engine.pause("default", Pause::UntilResumed).await.unwrap();
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
    other.engine.pause("default", Pause::UntilResumed).await.unwrap();
    other.engine.resume("default").await.unwrap();
    world.broker.limit(&"default".into(), Limits { paused: true, ..Limits::default() }, 1).await.unwrap();
    other.push(job()).await;
    assert_eq!(leader.leases().await.len(), 1);
}

/// Others find out when they read the settings.
#[tokio::test(start_paused = true)]
async fn limits_hold_though_who_set_them_died_before_telling() {
    let (world, leader, other) = World::with_two().await;
    let dying = world.node().await;
    other.push(NewJob { due: Due::After(Span(2_500)), ..job() }).await;
    dying.life.die_at("limit", When::Before);
    configure_unheard(&dying, QueueSettings { paused: true, ..QueueSettings::default() }).await;
    seconds(3).await;
    assert!(leader.leases().await.is_empty() && other.leases().await.is_empty());
    let dying = world.node().await;
    dying.life.die_at("limit", When::Before);
    configure_unheard(&dying, QueueSettings::default()).await;
    seconds(2).await;
    assert_eq!(leader.leases().await.len(), 1);
}

/// It is announced which settings are to be changed before they are: who dies in between has changed nothing.
#[tokio::test(start_paused = true)]
async fn who_dies_before_settings_are_stored_has_set_nothing() {
    let (world, leader, other) = World::with_two().await;
    let dying = world.node().await;
    dying.life.die_at("put_if", When::After);
    configure_unheard(&dying, QueueSettings { paused: true, ..QueueSettings::default() }).await;
    other.push(job()).await;
    seconds(2).await;
    assert_eq!(leader.leases().await.len(), 1);
    other.engine.pause("default", Pause::UntilResumed).await.unwrap();
    seconds(2).await;
    assert!(leader.engine.queue("default").await.unwrap().settings.paused);
}

/// More changes than are named at a time: all settings are read once.
#[tokio::test(start_paused = true)]
async fn settings_of_many_queues_reach_others() {
    let (_world, leader, other) = World::with_two().await;
    let settings = QueueSettings { lease: Some(Span(7_000)), ..QueueSettings::default() };
    for n in 0..700 {
        other.engine.configure(&format!("q{n}"), settings.clone()).await.unwrap();
    }
    seconds(15).await;
    for n in 0..700 {
        let known = leader.engine.queue(&format!("q{n}")).await.unwrap();
        assert_eq!(known.settings.lease, Some(Span(7_000)), "q{n}");
    }
}

async fn configure_unheard(node: &Node, settings: QueueSettings) {
    let engine = node.engine.clone();
    tokio::spawn(async move { engine.configure("default", settings).await });
    seconds(1).await;
    assert!(node.life.is_over());
}
