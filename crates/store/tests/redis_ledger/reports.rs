//! Readings of many jobs.

use super::Bench;
use duetime_core::model::job::{Job, Stage};
use duetime_core::ports::{Broker, DueTally, Ledger, Queues, Reports, Settle};
use duetime_core::rules::{Decision, Finish};
use duetime_core::testing::fixtures::{QUEUE, T0, due, job};

async fn count(bench: &Bench, mut tally: DueTally) -> DueTally {
    let mut after = None;
    loop {
        (tally, after) = bench.redis.due(tally, after).await.unwrap();
        if after.is_none() {
            return tally;
        }
    }
}

/// Of every priority, running and waiting, whether or not they have ended; step by step over many queues.
#[tokio::test]
async fn jobs_are_counted_by_due_time() {
    let bench = Bench::new("reports").await;
    let bounds = vec![T0, T0 + 10, T0 + 1_000];
    assert_eq!(count(&bench, DueTally::new(bounds.clone(), [])).await.of(None), Some(&[0; 4][..]));
    let urgent = |n, at| Job { priority: 1, ..due(n, at) };
    bench.record(&[job(1), job(2), urgent(3, T0 + 1), due(4, T0 + 10), urgent(5, T0 + 11), due(6, T0 + 1_000)]).await;
    bench.record(&[urgent(7, T0 + 1_001), due(8, T0 + 90_000)]).await;
    let others = (10..40).map(|n| Job { queue: format!("q{n}").into(), ..due(n, T0 + 5) });
    bench.record(&others.collect::<Vec<_>>()).await;
    bench.complete_one().await;
    bench.one().await;
    let tally = count(&bench, DueTally::new(bounds, [QUEUE.into(), "q12".into()])).await;
    assert_eq!(tally.of(Some(QUEUE)), Some(&[1, 2, 2, 2][..]));
    assert_eq!(tally.of(Some("q12")), Some(&[0, 1, 0, 0][..]));
    assert_eq!(tally.of(None), Some(&[1, 32, 2, 2][..]));
    let (_, kept) = bench.redis.tallies(Queues::one(&QUEUE.into())).await.unwrap().remove(0);
    assert_eq!(kept.pending, 7);
}

/// The last one first.
#[tokio::test]
async fn the_latest_failed_jobs_come_first() {
    let bench = Bench::new("failures").await;
    bench.record(&[job(1), job(2), job(3), job(4)]).await;
    for n in 1..=3 {
        bench.clock.advance(1_000);
        let job = bench.one().await;
        let failed = Finish { message: Some(format!("no {n}").into()), ..Finish::new(Stage::Failed) };
        bench.redis.settle(vec![Settle::new(job.receipt(), Decision::Finish(failed))]).await.unwrap();
    }
    bench.complete_one().await;
    let failed = bench.redis.failed(10).await.unwrap();
    let shown: Vec<_> = failed.iter().map(|job| (job.id.sequence(), &*job.message, job.finished_at - T0)).collect();
    assert_eq!(shown, [(3, "no 3", 3_000), (2, "no 2", 2_000), (1, "no 1", 1_000)]);
    assert_eq!((&*failed[0].queue, &*failed[0].kind), (QUEUE, "default"));
    assert_eq!(bench.redis.failed(2).await.unwrap(), failed[..2]);
}
