//! The broker falls back to an older copy of its memory. What the ledger has in a later state is handed out to nobody, whoever begins
//! the memory, however long that takes, and whatever dies.

use super::super::takes::take;
use super::*;
use duetime_core::api::DegradedCode;
use duetime_core::engine::{QueueSettings, TakeRequest};

/// Jobs that the copy has, and what became of them since.
struct Before {
    same: JobId,
    outdated: Vec<JobId>,
    /// Edited to be due in a minute.
    moved: JobId,
}

/// All of them are due in the copy.
async fn older_copy(world: &World, other: &Node) -> Before {
    let ended = other.push(job()).await;
    let ended = {
        assert_eq!(other.lease().await.id, ended.id);
        world.held(ended.id).await.unwrap()
    };
    let (cancelled, removed) = (other.push(job()).await, other.push(job()).await);
    let (taken, moved, same) = (other.push(job()).await, other.push(job()).await, other.push(job()).await);
    world.broker.copy();
    assert_eq!(other.complete(ended.receipt()).await, Ok(State::Succeeded));
    assert_eq!(other.cancel(cancelled.id).await, CancelOutcome::Cancelled);
    other.engine.delete(vec![removed.id.into()]).await.pop().unwrap().unwrap();
    let take = TakeRequest { from: Source::Jobs(vec![taken.id.into()]), ..take(1, None) };
    assert_eq!(other.engine.take(take).await.unwrap().leases.len(), 1);
    let later = Patch { due: Some(Due::After(Span(60_000))), ..Patch::default() };
    other.engine.update(moved.id.into(), later).await.unwrap();
    pass(Duration::from_millis(50)).await;
    Before { same: same.id, outdated: vec![ended.id, cancelled.id, removed.id, taken.id], moved: moved.id }
}

impl Before {
    /// Asks for jobs from now on for this long, and checks what is handed out.
    async fn check(&self, world: &World, node: &Node, count: u64) {
        let mut got = Vec::new();
        for _ in 0..count * 20 {
            for lease in node.leases().await {
                got.push(lease.id);
                node.complete(lease.receipt()).await.unwrap();
            }
            pass(Duration::from_millis(50)).await;
        }
        assert_eq!(got, [self.same], "of {:?} and {}", self.outdated, self.moved);
        for &id in &self.outdated {
            assert_eq!(world.held(id).await, None);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_outdated_is_handed_out_by_whoever_begins_the_memory() {
    for leads in [true, false] {
        let (world, leader, other) = World::with_two().await;
        let before = older_copy(&world, &other).await;
        world.fall_back().await;
        before.check(&world, if leads { &leader } else { &other }, 20).await;
        seconds(60).await;
        assert_eq!(leader.lease().await.id, before.moved, "it is loaded again as it was edited");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_outdated_is_handed_out_while_the_leader_is_dead() {
    let (world, leader, other) = World::with_two().await;
    let before = older_copy(&world, &other).await;
    leader.life.die();
    world.fall_back().await;
    before.check(&world, &other, 20).await;
}

/// The comparison waits for it, and goes on where it was.
#[tokio::test(start_paused = true)]
async fn nothing_is_handed_out_while_the_ledger_is_unavailable() {
    let (world, leader, other) = World::with_two().await;
    let running = other.push(job()).await;
    let lease = other.lease().await;
    let before = older_copy(&world, &other).await;
    world.ledger.set_away(true);
    world.fall_back().await;
    for _ in 0..8 {
        assert!(leader.leases().await.is_empty() && other.leases().await.is_empty());
        assert_eq!(other.complete(lease.receipt()).await.unwrap_err().code(), "store_unavailable");
        seconds(1).await;
    }
    let health = other.engine.health();
    let comparing = health.degraded.iter().find(|part| part.code == DegradedCode::Comparing);
    assert!(comparing.is_some_and(|part| part.error.is_some()), "{health:?}");
    world.ledger.set_away(false);
    before.check(&world, &other, 8).await;
    // The copy has its lease.
    assert_eq!((other.complete(lease.receipt()).await, running.id), (Ok(State::Succeeded), lease.id));
}

#[tokio::test(start_paused = true)]
async fn a_comparison_that_takes_long_is_not_begun_again() {
    let (world, leader, other) = World::with_two().await;
    let before = older_copy(&world, &other).await;
    leader.life.die();
    other.life.freeze_at("versions", When::After, Duration::from_secs(3));
    let calls = other.life.calls("versions");
    world.fall_back().await;
    assert!(other.leases().await.is_empty(), "it waits two seconds at most");
    let lease = loop {
        seconds(1).await;
        match other.leases().await.pop() {
            Some(lease) => break lease,
            None => continue,
        }
    };
    assert_eq!(
        (lease.id, other.life.calls("versions") - calls),
        (before.same, 2),
        "one for what waits, one for what runs"
    );
}

/// Another process compares from the start.
#[tokio::test(start_paused = true)]
async fn a_process_that_dies_between_comparison_and_beginning_has_begun_nothing() {
    let deaths =
        [("versions", When::Before), ("versions", When::After), ("forget", When::Before), ("put_if", When::Before)];
    for (verb, when) in deaths {
        let (world, leader, other) = World::with_two().await;
        let before = older_copy(&world, &other).await;
        other.life.die_at(verb, when);
        world.fall_back().await;
        let engine = other.engine.clone();
        tokio::spawn(async move { engine.reserve(request(10, Duration::ZERO)).await });
        pass(Duration::from_millis(5)).await;
        assert!(other.life.is_over(), "{verb}");
        before.check(&world, &leader, 20).await;
    }
}

/// The comparison of one memory begins no other.
#[tokio::test(start_paused = true)]
async fn a_broker_that_falls_back_once_more_meanwhile_is_compared_from_the_start() {
    let (world, leader, other) = World::with_two().await;
    let before = older_copy(&world, &other).await;
    leader.life.die();
    other.life.freeze_at("put_if", When::Before, Duration::from_secs(3));
    world.fall_back().await;
    // It is older than the first one has become by its comparison.
    world.broker.copy();
    let engine = other.engine.clone();
    let asked = tokio::spawn(async move { engine.reserve(request(10, Duration::ZERO)).await.unwrap().leases.len() });
    seconds(1).await;
    assert!(!asked.is_finished(), "it has compared, and is about to begin");
    world.fall_back().await;
    for &id in &before.outdated {
        assert!(world.held(id).await.is_some_and(|job| job.is_pending()), "it is back");
    }
    seconds(4).await;
    assert_eq!(asked.await.unwrap(), 0);
    before.check(&world, &other, 8).await;
}

#[tokio::test(start_paused = true)]
async fn pushes_and_readings_go_on_while_jobs_are_compared() {
    let (world, leader, other) = World::with_two().await;
    let before = older_copy(&world, &other).await;
    leader.life.die();
    other.life.mute(Some("versions"));
    world.fall_back().await;
    let pushed = other.push(job()).await;
    for _ in 0..5 {
        assert!(other.leases().await.is_empty());
        assert!(world.held(pushed.id).await.is_some_and(|job| job.is_pending()));
        assert_eq!(other.engine.job(before.same).await.unwrap().id, before.same);
        seconds(1).await;
    }
    other.life.mute(None);
    seconds(3).await;
    let got: Vec<JobId> = other.leases().await.iter().map(|job| job.id).collect();
    assert_eq!(got, [before.same, pushed.id]);
}

/// Its worker could not extend it. The broker hands out nothing and takes no extension while it is compared.
#[tokio::test(start_paused = true)]
async fn a_lease_that_ends_while_jobs_are_compared_is_no_crash() {
    for is_compared in [true, false] {
        let (world, leader, other) = World::with_two().await;
        other.push(NewJob { lease: Some(Span(3_000)), ..job() }).await;
        other.lease().await;
        pass(Duration::from_millis(5)).await;
        world.broker.copy();
        leader.life.die();
        if is_compared {
            other.life.freeze_at("versions", When::Before, Duration::from_secs(5));
            world.fall_back().await;
        }
        seconds(8).await;
        let again = other.lease().await;
        assert_eq!((again.attempt, again.crashes), (2, u32::from(!is_compared)));
        assert_eq!(other.crashes(), u64::from(!is_compared));
    }
}

/// A queue has settings, which the broker takes only once the memory has begun.
#[tokio::test(start_paused = true)]
async fn a_process_starts_while_jobs_are_compared() {
    let (world, leader, other) = World::with_two().await;
    let before = older_copy(&world, &other).await;
    let limited = QueueSettings { max_running: Some(1), ..QueueSettings::default() };
    other.engine.configure("default", limited).await.unwrap();
    leader.life.die();
    other.life.die();
    world.fall_back().await;
    let life = Life::plain();
    life.mute(Some("versions"));
    let node = Node { engine: Engine::start(world.stores(life.clone()), Options::default()).await.unwrap(), life };
    assert!(node.leases().await.is_empty(), "it compares");
    node.life.mute(None);
    before.check(&world, &node, 20).await;
    node.push(job()).await;
    node.push(job()).await;
    assert_eq!(node.leases().await.len(), 1, "the limit applies");
}
