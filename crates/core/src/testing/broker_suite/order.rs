//! The selection and order of jobs that are handed out.

use super::{Subject, ids};
use crate::limits::RESERVE_BYTES_MAX;
use crate::model::job::{Job, Payload};
use crate::ports::{Limits, Pick, Reserve, Take, Window};
use crate::testing::fixtures::{QUEUE, T0, due, id, job, reserve, reserve_from, reserve_named, take};
use std::sync::Arc;

/// A job is handed out at its `due_at`, and not a millisecond before.
pub async fn nothing_is_early(s: Subject) {
    s.hold(&[due(1, T0 + 1), due(2, T0 + 3_600_000)]).await;
    assert_eq!(s.handed_out(10).await, []);
    s.pass(1);
    assert_eq!(s.handed_out(10).await, [id(1)]);
    s.pass(3_599_998);
    assert_eq!(s.handed_out(10).await, []);
    s.pass(1);
    assert_eq!(s.handed_out(10).await, [id(2)]);
}

/// A low number is more urgent than an early time; all of `u32` counts.
pub async fn priority_comes_first(s: Subject) {
    let priorities = [u32::MAX, 1_024, 0, u32::MAX - 1, 7];
    let jobs = (1..).zip(priorities).map(|(n, priority)| Job { priority, ..due(n, T0 - 10 * n) });
    s.hold(&jobs.collect::<Vec<_>>()).await;
    assert_eq!(s.handed_out(10).await, [3, 5, 2, 4, 1].map(id));
}

/// Also among jobs that wait for their time, that became due at different looks, and that came late.
pub async fn then_the_due_time_then_the_id(s: Subject) {
    s.hold(&[due(4, T0 + 5), due(3, T0 + 5), due(2, T0 + 9), due(9, T0 - 5), due(8, T0 - 5)]).await;
    s.pass(5);
    assert_eq!(s.handed_out(1).await, [id(8)]);
    s.pass(5);
    s.hold(&[due(1, T0 + 5), due(7, T0 - 50)]).await;
    assert_eq!(s.handed_out(10).await, [7, 9, 1, 3, 4, 2].map(id));
}

/// However urgent the jobs of later queues are.
pub async fn queues_come_in_their_order(s: Subject) {
    let of = |n, queue: &str, priority| Job { queue: queue.into(), priority, ..job(n) };
    s.hold(&[of(1, "a", 0), of(2, "b", 9), of(3, "b", 8), of(4, "c", 0)]).await;
    assert_eq!(ids(s.leases(reserve_from(&["b", "none", "a"], 10)).await), [3, 2, 1].map(id));
    assert_eq!(ids(s.leases(reserve_from(&["c", "c"], 10)).await), [id(4)]);
}

/// The rest stays for the next one.
pub async fn a_reserve_stops_at_its_limit(s: Subject) {
    s.hold(&(1..=5).map(job).collect::<Vec<_>>()).await;
    assert_eq!(s.handed_out(0).await, []);
    let first = s.reserve(reserve(QUEUE, 2)).await;
    assert_eq!(ids(first.leases), [1, 2].map(id));
    assert!(first.next_at.is_some_and(|at| at <= T0), "more is due: {:?}", first.next_at);
    assert_eq!(s.handed_out(2).await, [3, 4].map(id));
    assert_eq!(s.handed_out(2).await, [id(5)]);
    assert_eq!(s.handed_out(2).await, []);
}

/// Both ends are inside; jobs that are not due are not.
pub async fn a_window_is_inclusive(s: Subject) {
    s.hold(&[due(1, T0 - 30), due(2, T0 - 20), due(3, T0 - 10), due(4, T0), due(5, T0 + 10)]).await;
    let within =
        async |from, to| ids(s.take(Take { window: Window { from, to }, ..take(QUEUE, 10) }).await.reserved.leases);
    assert_eq!(within(T0 - 29, T0 - 21).await, []);
    assert_eq!(within(T0 - 20, T0 - 10).await, [2, 3].map(id));
    assert_eq!(within(T0 + 5, T0 + 20).await, []);
    assert_eq!(within(T0, T0 + 20).await, [id(4)]);
    assert_eq!(within(0, T0).await, [id(1)]);
}

/// The window filters; the order within is the same. Also over many priorities without a match.
pub async fn a_window_goes_by_priority_too(s: Subject) {
    let early = (1..=9_000).map(|n| Job { priority: n as u32, ..due(n, T0 - 1_000) });
    let late = (1..=4).map(|n| Job { priority: 20_000 - n as u32, ..due(10_000 + n, T0 - 10) });
    s.hold(&early.chain(late).collect::<Vec<_>>()).await;
    let window = Window { from: T0 - 10, to: T0 };
    let mut got = Vec::new();
    while got.len() < 3 {
        let leases = s.take(Take { window, ..take(QUEUE, 3 - got.len()) }).await.reserved.leases;
        assert!(!leases.is_empty(), "a take goes on until it finds something");
        got.extend(ids(leases));
    }
    assert_eq!(got, [10_004, 10_003, 10_002].map(id));
}

/// A pause only affects handing out.
pub async fn a_paused_queue_hands_out_nothing(s: Subject) {
    s.limit(Limits { paused: true, ..Limits::default() }).await;
    s.hold(&[job(1), Job { queue: "other".into(), ..job(2) }]).await;
    assert_eq!(ids(s.leases(reserve_from(&[QUEUE, "other"], 10)).await), [id(2)]);
    s.limit(Limits { paused: false, ..Limits::default() }).await;
    assert_eq!(s.handed_out(10).await, [id(1)]);
}

/// A caller that looks at each announced instant finds each job when it is due, after few looks.
pub async fn the_next_instant_is_told(s: Subject) {
    assert_eq!(s.reserve(reserve(QUEUE, 1)).await.next_at, None);
    let delays = [40, 7_000, 300_000, 3_599_000];
    let jobs = delays.iter().zip(1..).map(|(delay, n)| due(n, T0 + delay));
    s.hold(&jobs.chain([Job { queue: "other".into(), ..due(9, T0 + 3) }]).collect::<Vec<_>>()).await;
    for delay in delays {
        for looks in 0.. {
            let reserved = s.reserve(reserve(QUEUE, 1)).await;
            if !reserved.leases.is_empty() {
                assert_eq!(s.now(), T0 + delay, "it was found in time");
                break;
            }
            let next_at = reserved.next_at.expect("a job waits");
            assert!(next_at > s.now() && next_at <= T0 + delay, "{next_at}");
            assert!(looks < 10, "{looks} looks for one job");
            s.pass(next_at - s.now());
        }
    }
    assert_eq!(s.reserve(reserve(QUEUE, 1)).await.next_at, None);
    assert!(s.reserve(reserve_from(&[QUEUE, "other"], 1)).await.leases.len() == 1);
}

/// One answer is held in memory as a whole, by the store and by the server: large jobs come a few at a time, however they are asked for.
pub async fn a_reserve_stops_at_its_bytes(s: Subject) {
    const BYTES: usize = 1 << 20;
    const JOBS: u64 = 60;
    let payload: Payload = vec![b'x'; BYTES].into();
    let large = |n: u64| Job {
        queue: if n.is_multiple_of(2) { QUEUE } else { "other" }.into(),
        payload: payload.clone(),
        ..job(n)
    };
    for some in (1..=JOBS).map(large).collect::<Vec<_>>().chunks(8) {
        s.hold(some).await;
    }
    let both = || reserve_from(&[QUEUE, "other"], 1_000);
    let named = reserve_named(&(1..=JOBS).map(id).collect::<Vec<_>>());
    let (mut known, most) = (Vec::new(), RESERVE_BYTES_MAX / BYTES + 1);
    for asked in [
        reserve(QUEUE, 1_000),
        Reserve::new(Pick::MostUrgent([QUEUE, "other"].map(Arc::from).to_vec()), 1_000),
        named,
        both(),
    ] {
        let reserved = s.reserve(asked).await;
        assert!((1..=most).contains(&reserved.leases.len()), "{} at once", reserved.leases.len());
        known.extend(ids(reserved.leases));
        let is_named = reserved.next_at.is_none();
        assert!(
            is_named || known.len() as u64 == JOBS || reserved.next_at.is_some_and(|at| at <= s.now()),
            "more is there"
        );
    }
    // A store may have a lower bound.
    loop {
        let some = s.reserve(both()).await.leases;
        if some.is_empty() {
            break;
        }
        known.extend(ids(some));
    }
    known.sort_unstable();
    assert_eq!(known, (1..=JOBS).map(id).collect::<Vec<_>>());
}
