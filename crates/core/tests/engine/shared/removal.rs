//! Queues are deleted by one engine, and are gone for all.

use super::super::fixture::{job, pass};
use super::{Node, World, seconds};
use duetime_core::Error;
use duetime_core::api::Span;
use duetime_core::engine::{Outcome, Pause, QueueSettings};
use duetime_core::ports::{Broker, Limits, Queues};
use duetime_core::testing::mortal::When;
use std::time::Duration;

impl Node {
    async fn names(&self) -> Vec<String> {
        self.engine.queues().await.unwrap().into_iter().map(|status| status.queue.to_string()).collect()
    }

    async fn is_in_metrics(&self) -> bool {
        self.engine.exposition().await.finish().contains("queue=\"default\"")
    }

    /// Pushes a job, which is done, and pauses the queue for a while.
    async fn use_queue(&self) {
        self.push(job()).await;
        let done = self.lease().await;
        self.settle(done.receipt(), Outcome::complete(None)).await.unwrap();
        self.engine.configure("default", QueueSettings::default().max_running(1)).await.unwrap();
        self.engine.pause("default", Pause::For(Span(20_000))).await.unwrap();
        seconds(2).await;
    }
}

/// The other one has cached the settings, with a pause that ends later; and Redis forgets everything.
#[tokio::test(start_paused = true)]
async fn others_forget_the_queue_and_do_not_bring_it_back() {
    let (world, leader, other) = World::with_two().await;
    other.use_queue().await;
    assert!(leader.engine.queue("default").await.unwrap().settings.paused && other.is_in_metrics().await);
    leader.engine.delete_queue("default", false).await.unwrap();
    seconds(2).await;
    for node in [&leader, &other] {
        assert_eq!(node.engine.queue("default").await.unwrap().settings, QueueSettings::default());
        assert!(node.names().await.is_empty() && !node.is_in_metrics().await);
    }
    seconds(20).await;
    world.flush().await;
    seconds(20).await;
    let new = world.node().await;
    for node in [&leader, &other, &new] {
        assert!(node.names().await.is_empty());
    }
    other.push(job()).await;
    assert_eq!(leader.leases().await.len(), 1, "nothing is paused");
}

/// One that stood still since before the deletion passes on the limits that it knows.
#[tokio::test(start_paused = true)]
async fn limits_that_are_told_late_do_not_stand() {
    let (world, leader, other) = World::with_two().await;
    other.use_queue().await;
    leader.engine.delete_queue("default", false).await.unwrap();
    for version in 1..=2 {
        let paused = Limits { paused: true, ..Limits::default() };
        world.broker.limit(&"default".into(), paused, version).await.unwrap();
    }
    assert_eq!(world.broker.counts(Queues::first()).await.unwrap(), []);
    other.push(job()).await;
    assert_eq!(leader.leases().await.len(), 1);
}

/// It may be pushed at any step: it lives, in a queue that no old setting stops.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_pushed_meanwhile_lives() {
    for verb in ["counts", "tallies", "edit_ledger", "put_if", "limit", "remove", "remove_queue", "remove_tally"] {
        for (when, force) in [(When::Before, false), (When::After, false), (When::Before, true), (When::After, true)] {
            let (world, leader, other) = World::with_two().await;
            other.use_queue().await;
            let deleting = world.node().await;
            seconds(1).await;
            deleting.life.freeze_at(verb, when, Duration::from_millis(300));
            let engine = deleting.engine.clone();
            let deletion = tokio::spawn(async move { engine.delete_queue("default", force).await });
            pass(Duration::from_millis(100)).await;
            assert!(!deletion.is_finished(), "it is at {verb}");
            let pushed = other.push(job()).await;
            seconds(1).await;
            let answer = deletion.await.unwrap();
            assert!(matches!(answer, Ok(_) | Err(Error::QueueInUse { .. })), "{verb} {when:?}: {answer:?}");
            if answer.is_err() {
                other.engine.resume("default").await.unwrap();
            }
            let leases = leader.leases().await;
            let leased: Vec<_> = leases.iter().map(|job| job.id).collect();
            assert_eq!(leased, [pushed.id], "{verb} {when:?}, by force: {force}: {answer:?}");
        }
    }
}

/// Whoever repeats it completes it.
#[tokio::test(start_paused = true)]
async fn a_deletion_whose_process_dies_at_any_step_is_repeated() {
    for verb in ["counts", "tallies", "edit_ledger", "put_if", "limit", "remove", "remove_queue", "remove_tally"] {
        for when in [When::Before, When::After] {
            let (world, leader, other) = World::with_two().await;
            other.use_queue().await;
            let dying = world.node().await;
            seconds(1).await;
            dying.life.die_at(verb, when);
            let engine = dying.engine.clone();
            tokio::spawn(async move { engine.delete_queue("default", false).await });
            seconds(1).await;
            assert!(dying.life.is_over(), "{verb} {when:?}");
            leader.engine.delete_queue("default", false).await.unwrap();
            seconds(2).await;
            assert!(leader.names().await.is_empty() && other.names().await.is_empty(), "{verb} {when:?}");
            other.push(job()).await;
            assert_eq!(leader.leases().await.len(), 1, "{verb} {when:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_deletions_at_once_both_are_answered() {
    let (_world, leader, other) = World::with_two().await;
    other.use_queue().await;
    let (one, two) =
        tokio::join!(leader.engine.delete_queue("default", false), other.engine.delete_queue("default", true));
    assert!(one.unwrap().existed | two.unwrap().existed);
    assert!(leader.names().await.is_empty() && other.names().await.is_empty());
}

/// An outcome that is not recorded yet keeps no queue.
#[tokio::test(start_paused = true)]
async fn a_job_that_has_just_ended_is_not_in_the_way() {
    let (world, leader, other) = World::with_two().await;
    other.push(job()).await;
    let done = leader.lease().await;
    world.ledger.set_away(true);
    leader.settle(done.receipt(), Outcome::complete(None)).await.unwrap();
    world.ledger.set_away(false);
    other.engine.delete_queue("default", false).await.unwrap();
    assert!(leader.names().await.is_empty());
}
