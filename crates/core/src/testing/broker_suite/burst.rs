//! Many jobs that are due at the same instant.

use super::Subject;
use crate::limits::{BATCH_JOBS_MAX, RESERVE_JOBS_MAX};
use crate::model::job::Job;
use crate::testing::fixtures::{T0, due, reserve};

const BURST: u64 = 50_000;
const AT: u64 = T0 + 60_000;

/// The burst comes out in its order, each job once, and another queue is served all the while.
pub async fn a_burst_keeps_its_order_and_lets_others_through(s: Subject) {
    // A permutation, so that neither ids nor the order of puts show the priority.
    let priority = |n: u64| (n * 7_919 % BURST / 10) as u32;
    let jobs = (1..=BURST).map(|n| Job { queue: "burst".into(), priority: priority(n), ..due(n, AT) });
    for batch in jobs.collect::<Vec<_>>().chunks(BATCH_JOBS_MAX) {
        s.hold(batch).await;
    }
    let steps = BURST / RESERVE_JOBS_MAX as u64;
    let others = (1..=steps).map(|n| Job { queue: "other".into(), ..due(BURST + n, AT) });
    s.hold(&others.collect::<Vec<_>>()).await;
    s.pass(60_000);
    let mut ranks = Vec::new();
    for _ in 0..steps {
        let (burst, other) = tokio::join!(s.leases(reserve("burst", RESERVE_JOBS_MAX)), s.leases(reserve("other", 1)));
        assert_eq!(other.len(), 1, "the other queue is served");
        assert_eq!(burst.len(), RESERVE_JOBS_MAX);
        ranks.extend(burst.iter().map(|lease| (lease.job.priority, lease.job.id)));
    }
    assert!(ranks.is_sorted(), "by priority, then id");
    ranks.dedup();
    assert_eq!(ranks.len() as u64, BURST, "each once");
}
