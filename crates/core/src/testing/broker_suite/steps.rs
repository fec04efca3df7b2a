//! A wall clock that is set, while the monotonic one goes on.

use super::{Subject, ids};
use crate::json::{Span, Timestamp};
use crate::limits::LEASE_MS_DEFAULT;
use crate::model::job::{Job, State};
use crate::ports::{Counts, Extended, Put, Queues, Room};
use crate::testing::fixtures::{QUEUE, T0, again, cancel, due, id, job, listing, reserve, success};

const HOUR: i64 = 3_600_000;

/// At the next look.
pub async fn a_clock_set_forward_makes_jobs_due(s: Subject) {
    s.hold(&[due(1, T0 + 3_600_000), due(2, T0 + 3_600_001)]).await;
    assert_eq!(s.handed_out(10).await, []);
    s.clock.step(HOUR);
    assert_eq!(s.handed_out(10).await, [id(1)]);
}

/// Including ready ones, until the clock is there again; in all priorities.
pub async fn a_clock_set_back_holds_jobs_back(s: Subject) {
    let jobs = (1..=3_000).map(|n| Job { priority: n as u32 % 1_500, ..due(n, T0 + n) });
    s.hold(&jobs.collect::<Vec<_>>()).await;
    s.pass(3_600_000);
    assert_eq!(s.handed_out(1).await.len(), 1, "all are ready now");
    s.clock.step(-HOUR);
    let early = Job { priority: 9_999, ..job(5_000) };
    s.hold(std::slice::from_ref(&early)).await;
    let reserved = s.reserve(reserve(QUEUE, 10)).await;
    assert_eq!(ids(reserved.leases), [id(5_000)], "nothing is early, and what is due is found");
    assert!(reserved.next_at.is_some_and(|at| at <= T0 + 1), "{:?}", reserved.next_at);
    s.pass(1);
    assert_eq!(s.handed_out(10).await, [id(1)]);
    s.pass(3_000);
    let mut rest = 0;
    loop {
        let leases = s.leases(reserve(QUEUE, 1_000)).await;
        assert!(leases.iter().all(|lease| lease.job.due_at <= Timestamp(s.now())));
        rest += leases.len();
        if leases.is_empty() {
            break;
        }
    }
    assert_eq!(rest, 2_998);
}

/// New jobs are due by the present reading of the clock.
pub async fn a_clock_set_back_strands_nothing_new(s: Subject) {
    s.hold(&[due(9, T0 + 1)]).await;
    s.pass(3_600_000);
    assert_eq!(s.handed_out(10).await, [id(9)]);
    s.clock.step(-HOUR);
    s.hold(&[job(1), due(2, T0 + 500), due(3, T0 + 3_600_500)]).await;
    let mut reserved = s.reserve(reserve(QUEUE, 10)).await;
    assert_eq!(ids(reserved.leases), [id(1)]);
    for n in [2, 3] {
        loop {
            let next_at = reserved.next_at.expect("a job waits");
            s.pass(next_at.saturating_sub(s.now()));
            reserved = s.reserve(reserve(QUEUE, 10)).await;
            if !reserved.leases.is_empty() {
                break;
            }
        }
        assert_eq!(s.now(), reserved.leases[0].job.due_at.0);
        assert_eq!(reserved.leases[0].job.id, id(n));
    }
}

/// Nor makes it longer.
pub async fn a_stepped_clock_ends_no_lease(s: Subject) {
    for step in [HOUR, -2 * HOUR] {
        s.hold(&[Job { version: s.now(), ..due(step.unsigned_abs(), s.now()) }]).await;
        let running = s.one().await;
        s.clock.step(step);
        assert_eq!(s.crashed().await, []);
        let next_ms = s.broker.expired(10).await.unwrap().next_ms;
        assert!(next_ms.is_some_and(|ms| ms > 0), "{next_ms:?}");
        s.pass(LEASE_MS_DEFAULT - 1);
        assert_eq!(s.crashed().await, []);
        s.pass(1);
        assert_eq!(s.crashed().await, [running.id]);
        assert_eq!(s.settle(running.receipt(), success()).await, Some(State::Succeeded));
    }
}

/// Asking a worker to stop does not touch its lease.
pub async fn a_stepped_clock_spares_a_lease_that_is_cancelled(s: Subject) {
    for step in [HOUR, -2 * HOUR] {
        s.hold(&[Job { version: s.now(), ..due(step.unsigned_abs(), s.now()) }]).await;
        let running = s.one().await;
        s.clock.step(step);
        s.edit(running.id, cancel()).await;
        let until = s.get(running.id).await.unwrap().lease_until;
        assert!(until.is_some_and(|until| until <= Timestamp(s.now() + LEASE_MS_DEFAULT)), "{until:?} can be restored");
        assert_eq!(s.crashed().await, []);
        s.pass(LEASE_MS_DEFAULT - 1);
        assert_eq!(s.crashed().await, []);
        s.pass(1);
        assert_eq!(s.crashed().await, [running.id]);
        assert_eq!(s.settle(running.receipt(), success()).await, Some(State::Succeeded));
    }
}

/// An extension uses the original length of the lease, for any readings of the clock.
pub async fn a_stepped_clock_does_not_stretch_a_lease(s: Subject) {
    s.hold(&[job(1)]).await;
    let running = s.one().await;
    s.extend(running.receipt(), Some(90_000)).await;
    s.clock.step(HOUR);
    s.edit(running.id, cancel()).await;
    let extended = s.extend(running.receipt(), None).await;
    let until = s.now() + LEASE_MS_DEFAULT;
    assert!(matches!(extended, Extended::Until { lease_until, .. } if lease_until == until), "{extended:?}");
    s.clock.step(-HOUR);
    s.pass(LEASE_MS_DEFAULT);
    assert_eq!(s.crashed().await, [id(1)]);
}

/// Its age is unknown.
pub async fn a_reading_from_before_a_step_is_stale(s: Subject) {
    let reading = s.broker.reading();
    s.clock.step(-HOUR);
    assert_eq!(s.broker.put(vec![job(1)], reading, Room::Any).await.unwrap(), [Put::Stale]);
}

/// They do not depend on a clock.
pub async fn numbers_grow_under_a_clock_set_back(s: Subject) {
    s.hold(&[due(1, T0 - 3_600_000)]).await;
    let first = s.one().await;
    s.clock.step(-HOUR);
    s.settle(first.receipt(), again(&first, s.now())).await;
    let second = s.one().await;
    assert_eq!((second.epoch, second.version), (first.version + 4, first.version + 4));
    assert_eq!(second.updated_at, Timestamp(s.now()));
}

/// And so do listings.
pub async fn counts_follow_a_clock_set_back(s: Subject) {
    s.hold(&[due(1, T0 - 7_200_000), Job { priority: 0, ..due(2, T0) }, due(3, T0), due(4, T0 + 10)]).await;
    s.clock.step(-HOUR);
    let queues = vec![QUEUE.into()];
    let counts = s.broker.counts(Queues::Named(queues)).await.unwrap()[0].1;
    // By the clock as it was.
    let oldest_due = Some(Timestamp(T0));
    assert_eq!(counts, Counts { scheduled: 3, ready: 1, oldest_due, ..Counts::default() });
    let of = |states: &[State]| crate::ports::Listing { states: states.to_vec(), ..listing(QUEUE) };
    let ids = |jobs: Vec<Job>| jobs.iter().map(|job| job.id).collect::<Vec<_>>();
    assert_eq!(ids(s.broker.list(of(&[State::Ready])).await.unwrap()), [id(1)]);
    assert_eq!(ids(s.broker.list(of(&[State::Scheduled])).await.unwrap()), [2, 3, 4].map(id));
}

/// A job that was found late, but is no longer late since the clock was set back, waits like any other.
pub async fn what_was_late_is_due_again(s: Subject) {
    let until = |n, expires_ms| Job { expires: Some(expires_ms), ..job(n) };
    s.hold(&[until(1, Span(1_000)), until(2, Span(600_000))]).await;
    s.clock.step(HOUR);
    assert_eq!(s.handed_out(2).await, []);
    s.clock.step(300_000 - HOUR);
    assert_eq!(s.handed_out(2).await, [id(2)]);
    s.clock.step(-300_001);
    assert_eq!(s.handed_out(2).await, [], "nor is it early");
    s.pass(1);
    assert_eq!(s.handed_out(2).await, [id(1)]);
}
