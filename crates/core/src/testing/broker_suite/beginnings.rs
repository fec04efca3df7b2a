//! The state that a memory needs before it hands anything out.

use super::{ALL, Subject};
use crate::model::id::{floor, generation_above};
use crate::model::job::Job;
use crate::ports::{Beginning, Limits, Rate};
use crate::testing::fixtures::{QUEUE, T0, due, id, job, reserve, success, take};

const GENERATION: u64 = 3;

fn limited(limits: Limits) -> Beginning {
    Beginning { generation: GENERATION, limits: vec![(QUEUE.into(), limits, 1)] }
}

/// It takes jobs and shows them; once it has begun, waiting callers are woken.
pub async fn nothing_is_handed_out_before_the_beginning(s: Subject) {
    s.hold(&[job(1), job(2)]).await;
    assert_eq!(s.handed_out(10).await, []);
    assert!(s.take(take(QUEUE, 10)).await.reserved.leases.is_empty());
    assert_eq!(s.get(id(1)).await.map(|job| job.lease_until), Some(None));
    s.begin(limited(Limits::default())).await;
    s.told_of_one(&[QUEUE, ALL]).await;
    assert_eq!(s.handed_out(10).await, [1, 2].map(id));
}

/// However far back the clock is, and whatever the job counted before.
pub async fn numbers_begin_at_the_floor(s: Subject) {
    s.begin(limited(Limits::default())).await;
    let low = floor(GENERATION);
    s.hold(&[job(1), Job { version: 6, epoch: 4, ..job(2) }, Job { version: low + 6, epoch: low + 4, ..job(3) }]).await;
    for lease in s.leases(reserve(QUEUE, 3)).await {
        assert!(lease.job.version >= low && lease.job.epoch >= low, "{:?}", lease.job);
        assert!(generation_above(lease.job.version) == GENERATION + 1, "no higher than it must be: {:?}", lease.job);
        let settled = s.settled(lease.job.receipt(), success()).await;
        assert!(settled.entries[0].job().version > lease.job.version);
        assert!(lease.job.id != id(3) || lease.job.epoch > low + 4);
    }
}

/// No reserve is answered before they are set.
pub async fn limits_stand_from_the_beginning(s: Subject) {
    s.hold(&[job(1), job(2), job(3)]).await;
    s.begin(limited(Limits { max_running: Some(2), ..Limits::default() })).await;
    assert_eq!(s.handed_out(10).await, [1, 2].map(id));
    s.limit(Limits { paused: true, ..Limits::default() }).await;
    assert_eq!(s.handed_out(10).await, []);
}

/// The memory before may just have let it pass.
pub async fn a_burst_is_used_up_at_the_beginning(s: Subject) {
    s.hold(&[due(1, T0), due(2, T0), due(3, T0)]).await;
    let rate = Some(Rate { per_second: 10.0, burst: Some(2) });
    s.begin(limited(Limits { rate, ..Limits::default() })).await;
    let reserved = s.reserve(reserve(QUEUE, 10)).await;
    assert_eq!((reserved.leases.len(), reserved.next_at), (0, Some(s.now() + 100)));
    s.pass(100);
    assert_eq!(s.handed_out(10).await, [id(1)]);
}
