//! Bounded puts: if a queue has no room its jobs stay in the ledger.

use super::Subject;
use crate::json::Timestamp;
use crate::model::job::Job;
use crate::ports::{Put, Room};
use crate::testing::fixtures::*;

/// A bound that leaves no room.
const NONE: Room = Room::Within(Some(1));

async fn put(s: &Subject, jobs: &[Job]) -> Vec<Put> {
    s.broker.put(jobs.to_vec(), s.broker.reading(), NONE).await.expect("put")
}

fn in_queue(n: u64, queue: &str) -> Job {
    Job { queue: queue.into(), ..job(n) }
}

/// Each job is answered separately; a refused one is not held.
pub async fn a_queue_without_room_is_told(s: Subject) {
    assert_eq!(put(&s, &[job(1), job(2)]).await, [Put::Held, Put::Full]);
    assert_eq!(put(&s, &[job(3), in_queue(4, "other"), in_queue(5, "other")]).await, [Put::Full, Put::Held, Put::Full]);
    assert_eq!(s.get(id(2)).await, None);
    assert_eq!(s.handed_out(10).await, [id(1)]);
}

/// However full it is, so that every queue goes on.
pub async fn a_queue_that_holds_nothing_waiting_gets_a_job_in(s: Subject) {
    s.hold(&[in_queue(1, "other"), in_queue(2, "other"), in_queue(3, "other")]).await;
    for n in 4..8 {
        assert_eq!(put(&s, &[job(n), job(n + 1)]).await, [Put::Held, Put::Full]);
        let leased = s.one().await;
        assert_eq!(leased.id, id(n));
        if n % 2 == 0 {
            s.settle(leased.receipt(), success()).await;
        }
    }
}

/// Restored leases, and jobs that were requested by id.
pub async fn what_is_handed_out_at_once_needs_no_room(s: Subject) {
    s.hold(&[job(1)]).await;
    let leased = Job {
        lease_until: Some(Timestamp(s.now() + 10_000)),
        started_at: Some(Timestamp(s.now())),
        epoch: 1,
        ..job(2)
    };
    assert_eq!(put(&s, &[leased]).await, [Put::Held]);
    s.hold(&[job(3)]).await;
}

/// A put may be repeated, and bring a later version.
pub async fn what_is_held_needs_no_room(s: Subject) {
    s.hold(&[job(1), job(2)]).await;
    let newer = Job { version: job(2).version + 1, ..job(2) };
    assert_eq!(put(&s, &[job(1), newer.clone(), job(3)]).await, [Put::Held, Put::Held, Put::Full]);
    assert_eq!(s.get(id(2)).await, Some(newer));
}
