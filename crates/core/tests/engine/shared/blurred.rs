//! The broker's clock is only known within bounds: delays are not cut short, and nothing proceeds before its time.

use super::super::fixture::job;
use super::{World, seconds};
use duetime_core::api::{Span, Timestamp};
use duetime_core::engine::Pause;
use duetime_core::engine::{Outcome, Patch};
use duetime_core::ports::InboxRow;
use duetime_core::rules::Failure;
use duetime_core::{Clock, Due, Job, NewJob};

const BEHIND_MS: u64 = 150;
const AHEAD_MS: u64 = 120;
const DELAY_MS: u64 = 700;

impl World {
    /// The job is due no earlier than the delay after this instant by the broker's own clock, and not much later.
    fn assert_in_time(&self, job: &Job, since: u64) {
        let delay_ms = job.due_at.0 - since;
        assert!((DELAY_MS..=DELAY_MS + AHEAD_MS).contains(&delay_ms), "after {delay_ms} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn no_delay_is_cut_short() {
    let (world, leader, _other) = World::with_two().await;
    world.broker.blur_clock(BEHIND_MS, AHEAD_MS);
    let (clock, due) = (&world.clock, Due::After(Span(DELAY_MS)));
    let pushed = leader.push(NewJob { due, ..job() }).await;
    world.assert_in_time(&pushed, clock.wall());

    let patch = Patch { due: Some(due), ..Patch::default() };
    world.assert_in_time(&leader.engine.update(pushed.id.into(), patch).await.unwrap(), clock.wall());
    seconds(2).await;
    let failure = Failure { message: "no".into(), is_final: false, retry_after: Some(Span(DELAY_MS)) };
    for outcome in [Outcome::release(Span(DELAY_MS)), Outcome::Fail(failure)] {
        let lease = leader.lease().await;
        leader.settle(lease.receipt(), outcome).await.unwrap();
        world.assert_in_time(&world.held(lease.id).await.unwrap(), clock.wall());
        seconds(2).await;
    }
    let lease = leader.lease().await;
    leader.complete(lease.receipt()).await.unwrap();

    let since = clock.wall();
    let delay_ms = i64::try_from(DELAY_MS).ok();
    let row = InboxRow { queue: "default".into(), kind: "k".into(), delay_ms, ..InboxRow::default() };
    world.ledger.insert(row);
    seconds(2).await;
    let inserted = leader.lease().await;
    assert!(inserted.due_at >= Timestamp(since + DELAY_MS), "{} ms early", since + DELAY_MS - inserted.due_at.0);
}

#[tokio::test(start_paused = true)]
async fn no_pause_ends_early() {
    let (world, leader, other) = World::with_two().await;
    world.broker.blur_clock(BEHIND_MS, AHEAD_MS);
    let until = leader.engine.now_at_most() + 2_000;
    leader.engine.pause("default", Pause::Until(Timestamp(until))).await.unwrap();
    other.push(job()).await;
    while leader.engine.queue("default").await.unwrap().counts.paused {
        assert!(world.clock.wall() < until + 5_000);
        super::super::fixture::pass(std::time::Duration::from_millis(10)).await;
    }
    assert!(world.clock.wall() >= until, "{} ms early", until - world.clock.wall());
    leader.lease().await;
}
