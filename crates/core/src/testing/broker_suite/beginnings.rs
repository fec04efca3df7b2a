//! The state that a memory needs before it hands anything out.

use super::{ALL, Subject};
use crate::clock::Millis;
use crate::json::Timestamp;
use crate::model::id::{floor, generation_above};
use crate::model::job::{Job, State};
use crate::ports::{Beginning, Detail, Limits, Listing, Put, Queues, Rate, Window};
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

/// Of a memory that is an older copy, the engine drops what the ledger has in a later state.
pub async fn what_is_outdated_is_listed_and_dropped_before_the_beginning(s: Subject) {
    let leased = Job { version: 4, epoch: 4, lease_until: Some(Timestamp(T0 + 60_000)), ..job(3) };
    let newer = Job { version: 9, ..job(4) };
    s.hold(&[job(1), job(2), leased, newer, due(5, T0 + 60_000)]).await;
    let queues = s.broker.queues_in(s.broker.partition(QUEUE), "", 9).await.unwrap();
    assert_eq!(queues, [QUEUE.into()]);
    let counts = s.broker.counts(Queues::Named(queues)).await.unwrap()[0].1;
    assert_eq!((counts.scheduled, counts.ready, counts.running), (1, 3, 1));
    let mut listed = Vec::new();
    for states in [vec![State::Scheduled, State::Ready], vec![State::Running]] {
        let (queue, window, detail) = (QUEUE.into(), Window::ALL, Detail::Head);
        let listing = Listing { queue, states, window, after: None, limit: 9, detail };
        listed.extend(s.broker.list(listing).await.unwrap().into_iter().map(|job| (job.id, job.version)));
    }
    listed.sort_unstable();
    assert_eq!(listed, [(1, 1), (2, 1), (3, 4), (4, 9), (5, 1)].map(|(n, version)| (id(n), version)));
    let mut gone = s.broker.forget(&[(id(1), 2), (id(3), 5), (id(4), 8), (id(5), 3)], Millis::MAX).await.unwrap();
    gone.sort_unstable();
    assert_eq!(gone, [1, 3, 5].map(id));
    assert_eq!(s.put(&[job(1), Job { version: 3, ..due(5, T0 + 60_000) }]).await, [Put::Tombstone, Put::Held]);
    s.begin(limited(Limits::default())).await;
    assert_eq!(s.handed_out(10).await, [2, 4].map(id));
    s.pass(60_000);
    assert_eq!(s.handed_out(10).await, [id(5)]);
    assert!(!s.crashed().await.contains(&id(3)));
}
