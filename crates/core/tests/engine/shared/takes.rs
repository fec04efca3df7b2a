//! Takes beside a ledger: whichever process dies at any step, a job returned by a take is not handed out again.

use super::super::fixture::{job, pass};
use super::super::takes::take;
use super::{Node, World, seconds};
use duetime_core::engine::Outcome;
use duetime_core::rules::Failure;
use duetime_core::testing::mortal::When;
use duetime_core::{Error, Job, JobId, State};
use std::time::Duration;

/// Longer than the lease of a job being taken, and than the time until a dead engine is noticed.
const LATER: u64 = 40;

impl Node {
    async fn take(&self, request_id: &str) -> Result<Vec<JobId>, Error> {
        let taken = self.engine.take(take(10, Some(request_id))).await?;
        Ok(taken.leases.iter().map(|lease| lease.job.id).collect())
    }

    /// Takes, and dies during it.
    async fn take_unheard(&self, request_id: &str, verb: &'static str, when: When) {
        self.life.die_at(verb, when);
        let (engine, request) = (self.engine.clone(), take(10, Some(request_id)));
        tokio::spawn(async move { engine.take(request).await });
        pass(Duration::from_millis(1)).await;
        assert!(self.life.is_over());
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_ledger_is_away_nothing_is_taken() {
    let (world, leader, other) = World::with_two().await;
    let Job { id, .. } = leader.push(job()).await;
    world.ledger.set_away(true);
    assert_eq!(leader.take("a").await.unwrap_err().code(), "store_unavailable");
    assert_eq!(other.lease().await.attempt, 1, "the attempt of the take does not count");
    world.flush().await;
    world.ledger.set_away(false);
    seconds(3).await;
    assert_eq!(leader.take("a").await.unwrap(), [id]);
}

/// The commit came, and its answer did not.
#[tokio::test(start_paused = true)]
async fn a_take_of_which_nobody_knows_whether_it_was_recorded_is_answered_later() {
    let (_world, leader, other) = World::with_two().await;
    let Job { id, .. } = leader.push(job()).await;
    leader.life.mute(Some("apply"));
    assert_eq!(leader.take("a").await.unwrap_err().code(), "store_unavailable");
    assert!(other.leases().await.is_empty());
    leader.life.mute(None);
    for node in [&other, &leader, &other] {
        assert_eq!(node.take("a").await.unwrap(), [id]);
    }
    seconds(LATER).await;
    assert!(other.leases().await.is_empty());
    assert_eq!(leader.take("b").await.unwrap(), []);
}

/// Even if nobody asks, or if the broker forgot the request.
#[tokio::test(start_paused = true)]
async fn what_is_recorded_as_taken_never_runs() {
    for flushes in [false, true] {
        let (world, leader, other) = World::with_two().await;
        let Job { id, .. } = leader.push(job()).await;
        leader.life.mute(Some("apply"));
        leader.take("a").await.unwrap_err();
        leader.life.mute(None);
        if flushes {
            world.flush().await;
        }
        seconds(LATER).await;
        assert!(other.leases().await.is_empty());
        assert_eq!((other.take("b").await.unwrap(), world.row(id).state(0)), (vec![], State::Succeeded));
        assert_eq!(world.held(id).await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn who_dies_before_a_take_is_recorded_has_taken_nothing() {
    let (_world, leader, other) = World::with_two().await;
    let Job { id, .. } = leader.push(job()).await;
    other.take_unheard("a", "apply", When::Before).await;
    assert!(leader.leases().await.is_empty());
    assert_eq!(leader.take("a").await.unwrap_err().code(), "store_unavailable", "it is not known yet");
    seconds(LATER).await;
    let leased = leader.lease().await;
    assert_eq!((leased.id, leased.attempt, leased.crashes), (id, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn who_dies_after_a_take_is_recorded_has_taken_the_jobs() {
    for (verb, when) in [("apply", When::After), ("settle", When::After), ("forget", When::Before)] {
        for asks in [false, true] {
            let (world, leader, other) = World::with_two().await;
            let Job { id, .. } = leader.push(job()).await;
            other.take_unheard("a", verb, when).await;
            if asks {
                assert_eq!(leader.take("a").await.unwrap(), [id], "{verb}");
            }
            seconds(LATER).await;
            assert!(leader.leases().await.is_empty(), "{verb}");
            assert_eq!(leader.take("a").await.unwrap(), [id], "{verb}");
            assert_eq!(leader.engine.health().backlog, 0, "{verb}");
            world.flush().await;
            seconds(LATER).await;
            assert!(leader.leases().await.is_empty(), "{verb}");
        }
    }
}

/// A failover brings back taken jobs; the next take checks the ledger's row.
#[tokio::test(start_paused = true)]
async fn what_a_failover_brings_back_is_not_taken_twice() {
    let (world, leader, _other) = World::with_two().await;
    let Job { id, .. } = leader.push(job()).await;
    world.broker.copy();
    assert_eq!(leader.take("a").await.unwrap(), [id]);
    world.fall_back().await;
    assert_eq!(leader.take("b").await.unwrap(), []);
}

/// The process stood still, so its take was recorded after the job had been loaded again. It fails, and the job runs.
#[tokio::test(start_paused = true)]
async fn a_take_that_is_recorded_after_the_broker_was_emptied_gives_way_to_the_next_end() {
    let (world, leader, other) = World::with_two().await;
    let Job { id, .. } = leader.push(job()).await;
    other.life.freeze_at("apply", When::Before, Duration::from_secs(5));
    let engine = other.engine.clone();
    let taken = tokio::spawn(async move { engine.take(take(10, Some("a"))).await });
    world.flush().await;
    seconds(3).await;
    let lease = leader.lease().await;
    seconds(3).await;
    assert_eq!(taken.await.unwrap().unwrap_err().code(), "store_unavailable");
    assert_eq!(world.row(id).message.as_deref(), Some("taken"));
    let end = Failure { message: "no".into(), is_final: true, ..Failure::default() };
    assert_eq!(leader.settle(lease.receipt(), Outcome::Fail(end)).await, Ok(State::Failed));
    seconds(3).await;
    let row = world.row(id);
    assert_eq!((row.state(0), row.epoch), (State::Failed, lease.epoch));
}
