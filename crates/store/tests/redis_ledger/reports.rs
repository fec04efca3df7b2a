//! Readings of many jobs.

use super::Bench;
use duetime_core::model::job::Job;
use duetime_core::ports::{DueTally, Ledger, Queues, Reports};
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
