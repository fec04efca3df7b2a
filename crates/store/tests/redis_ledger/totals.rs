//! All-time totals of a queue.

use super::Bench;
use duetime_core::Clock;
use duetime_core::json::{Span, Timestamp};
use duetime_core::model::job::{Job, Stage};
use duetime_core::ports::{Broker, Change, Edit, Ledger, Queues, Retention, Settle};
use duetime_core::rules::{Decision, Finish};
use duetime_core::testing::fixtures::{QUEUE, cancel, id, job, success, take};

/// Totals survive repeats, pruning and retries.
#[tokio::test]
async fn totals_only_grow() {
    let bench = Bench::new("totals").await;
    let totals = async || {
        let tallies = bench.redis.tallies(Queues::first()).await.unwrap();
        let of = tallies.into_iter().find(|(queue, _)| **queue == *QUEUE).unwrap().1.totals;
        [of.pushed, of.succeeded, of.failed, of.cancelled]
    };
    for _ in 0..2 {
        bench.record(&[job(1), job(2), job(3), job(4)]).await;
    }
    assert_eq!(totals().await, [4, 0, 0, 0]);
    let first = bench.complete_one().await;
    bench.redis.settle(vec![Settle::new(first.receipt(), success())]).await.unwrap();
    bench.redis.take(take(QUEUE, 1)).await.unwrap();
    assert_eq!(totals().await, [4, 2, 0, 0]);

    // Failed, retried by hand, and completed; dropped instead of becoming a dead letter; cancelled.
    let third = bench.one().await;
    let failed = Finish::new(Stage::Failed);
    for _ in 0..2 {
        bench.redis.settle(vec![Settle::new(third.receipt(), Decision::Finish(failed.clone()))]).await.unwrap();
    }
    assert_eq!(totals().await, [4, 2, 1, 0]);
    let retry = Edit { id: third.id, version: None, change: Change::RETRY };
    Ledger::edit(&bench.redis, vec![retry], 0, 0).await.unwrap();
    Ledger::edit(&bench.redis, vec![Edit { id: id(4), version: None, change: cancel() }], 0, 0).await.unwrap();
    bench.complete_one().await;
    assert_eq!(totals().await, [4, 3, 1, 1]);
    bench.record(&[job(5)]).await;
    let fifth = bench.one().await;
    let dropped = Finish { drop: true, ..failed };
    for _ in 0..2 {
        bench.redis.settle(vec![Settle::new(fifth.receipt(), Decision::Finish(dropped.clone()))]).await.unwrap();
    }
    assert_eq!(totals().await, [5, 3, 2, 1]);

    // Of an import, twice; then all is pruned.
    let now = bench.clock.wall();
    let imported = Job { stage: Stage::Cancelled, finished_at: Some(Timestamp(now)), ..job(6) };
    for _ in 0..2 {
        bench.record(std::slice::from_ref(&imported)).await;
    }
    assert_eq!(totals().await, [6, 3, 2, 2]);
    let all = Retention { succeeded: Span(0), failed: Span(0) };
    // Jobs that have just ended are kept until the call that ended them can no longer be repeated.
    bench.clock.advance(20_001);
    assert!(bench.redis.prune(all, now + 1, 1_000).await.unwrap() > 0);
    assert_eq!(totals().await, [6, 3, 2, 2]);
}

/// Redis is both broker and ledger, so it keeps a queue as long as it has a record of it.
#[tokio::test]
async fn a_queue_is_removed_once_it_has_no_records() {
    let bench = Bench::new("removed-queue").await;
    bench.record(&[job(1)]).await;
    let remove = async || Broker::remove_queue(&bench.redis, &QUEUE.into(), 0).await.unwrap();
    assert!(!remove().await);
    let done = bench.complete_one().await;
    assert!(!remove().await);
    assert_eq!(bench.redis.tallies(Queues::first()).await.unwrap()[0].1.totals.pushed, 1);
    let delete = Edit { id: done.id, version: None, change: Change::Delete };
    Ledger::edit(&bench.redis, vec![delete], bench.clock.wall(), 0).await.unwrap();
    assert!(remove().await);
    assert_eq!(bench.redis.tallies(Queues::first()).await.unwrap(), []);
    bench.record(&[job(2)]).await;
    assert_eq!(bench.redis.tallies(Queues::first()).await.unwrap()[0].1.totals.pushed, 1, "it begins anew");
}
