//! Limits on running jobs of a queue, and on the rate at which they are handed out.

use super::{Subject, ids};
use crate::limits::LEASE_MS_DEFAULT;
use crate::model::job::Job;
use crate::ports::{Limits, Pick, Queues, Rate, Reserve};
use crate::rules::{Decision, Finish};
use crate::testing::fixtures::{QUEUE, T0, again, due, id, job, reserve, reserve_from, success, take};

fn at_once(max_running: u32) -> Limits {
    Limits { max_running: Some(max_running), ..Limits::default() }
}

fn often(per_second: f64, burst: u32) -> Limits {
    Limits { rate: Some(Rate { per_second, burst: Some(burst) }), ..Limits::default() }
}

fn jobs(count: u64) -> Vec<Job> {
    (1..=count).map(job).collect()
}

/// However much is requested, and by however many callers.
pub async fn no_more_run_than_may(s: Subject) {
    s.limit(at_once(3)).await;
    s.hold(&jobs(10)).await;
    assert_eq!(s.handed_out(2).await, [1, 2].map(id));
    let running = s.leases(reserve(QUEUE, 100)).await;
    assert_eq!(running.len(), 1);
    let reserved = s.reserve(reserve(QUEUE, 100)).await;
    assert!(reserved.leases.is_empty());
    assert_eq!(reserved.next_at, None, "no clock says when there is room");
    s.settle(running[0].job.receipt(), success()).await;
    assert_eq!(s.handed_out(100).await, [id(4)]);
}

/// However a lease ends, there is room, and waiting callers are woken.
pub async fn room_is_told(s: Subject) {
    s.limit(at_once(1)).await;
    s.hold(&jobs(4)).await;
    let first = s.one().await;
    assert_eq!(s.handed_out(1).await, []);
    s.told_of(QUEUE).await;
    s.settle(first.receipt(), success()).await;
    s.told_of(QUEUE).await;
    let second = s.one().await;
    assert_eq!(s.handed_out(1).await, []);
    s.settle(second.receipt(), again(&second, T0 + 3_600_000)).await;
    s.told_of(QUEUE).await;
    let third = s.one().await;
    assert_eq!((third.id, s.handed_out(1).await), (id(3), vec![]));
    s.pass(LEASE_MS_DEFAULT);
    assert_eq!(s.crashed().await, [id(3)]);
    assert_eq!(s.handed_out(1).await, [], "until it is decided on, it counts");
    s.settle(third.receipt(), again(&third, T0)).await;
    s.told_of(QUEUE).await;
    assert_eq!(s.handed_out(2).await, [id(3)]);
}

/// A look reports when there is room, and changes nothing.
pub async fn a_look_leases_nothing(s: Subject) {
    s.hold(&jobs(6)).await;
    let look = || s.reserve(reserve(QUEUE, 0));
    let looked = look().await;
    assert_eq!((looked.leases.len(), looked.next_at.is_some_and(|at| at <= s.now())), (0, true));
    s.limit(often(1.0, 2)).await;
    s.pass(10_000);
    assert!(look().await.next_at.is_some_and(|at| at <= s.now()), "a burst may pass");
    assert_eq!(s.handed_out(10).await, [1, 2].map(id));
    let free_at = look().await.next_at.unwrap();
    assert!((1..=1_000).contains(&(free_at - s.now())), "{free_at}");
    assert_eq!(look().await.next_at, Some(free_at));
    s.pass(1_000);
    assert_eq!(s.handed_out(10).await, [id(3)]);
    s.limit(at_once(3)).await;
    assert_eq!(look().await.next_at, None, "no clock says when there is room");
}

/// A limit that is lifted, lowered, or gone.
pub async fn limits_change(s: Subject) {
    s.limit(at_once(1)).await;
    s.hold(&jobs(10)).await;
    assert_eq!(s.handed_out(10).await, [id(1)]);
    s.limit(at_once(4)).await;
    s.told_of(QUEUE).await;
    let more = s.leases(reserve(QUEUE, 10)).await;
    assert_eq!(more.len(), 3);
    s.limit(at_once(2)).await;
    s.settle(more[0].job.receipt(), success()).await;
    assert_eq!(s.handed_out(10).await, [], "three still run");
    s.limit(Limits::default()).await;
    assert_eq!(s.handed_out(10).await.len(), 6);
}

/// If two callers set limits at once, the one with the older settings may reach the broker last.
pub async fn older_limits_change_nothing(s: Subject) {
    s.hold(&jobs(2)).await;
    let queue = QUEUE.into();
    let paused = Limits { paused: true, ..Limits::default() };
    s.broker.limit(&queue, Limits::default(), 2).await.unwrap();
    s.broker.limit(&queue, paused, 1).await.unwrap();
    assert_eq!(s.handed_out(1).await, [id(1)]);
    s.broker.limit(&queue, paused, 3).await.unwrap();
    s.broker.limit(&queue, Limits::default(), 2).await.unwrap();
    assert_eq!(s.handed_out(1).await, []);
    s.broker.limit(&queue, Limits::default(), 3).await.unwrap();
    assert_eq!(s.handed_out(1).await, [id(2)], "the same version may be told again");
}

/// Other queues have their own limits, and those after a full one are tried.
pub async fn a_full_queue_is_passed_over(s: Subject) {
    s.limit(at_once(1)).await;
    let others = (11..=13).map(|n| Job { queue: "other".into(), ..job(n) });
    s.hold(&jobs(3).into_iter().chain(others).collect::<Vec<_>>()).await;
    let both = [QUEUE, "other"];
    assert_eq!(ids(s.leases(reserve_from(&both, 2)).await), [1, 11].map(id));
    assert_eq!(ids(s.leases(reserve_from(&both, 10)).await), [12, 13].map(id));
}

/// A reserve by id is limited, too.
pub async fn a_named_job_needs_room_too(s: Subject) {
    s.limit(at_once(1)).await;
    s.hold(&jobs(2)).await;
    let named = |n| Reserve::new(Pick::Named(vec![id(n).into()]), 1);
    let first = s.reserve(named(1)).await;
    assert_eq!(ids(first.leases.clone()), [id(1)]);
    let second = s.reserve(named(2)).await;
    assert_eq!((second.leases.len(), second.refused.len()), (0, 1));
    s.settle(first.leases[0].job.receipt(), success()).await;
    assert_eq!(ids(s.reserve(named(2)).await.leases), [id(2)]);
}

/// A taken job does not run, but is counted as running until the take is recorded.
pub async fn a_take_needs_no_room(s: Subject) {
    s.limit(at_once(1)).await;
    s.hold(&jobs(3)).await;
    let taken = s.take(take(QUEUE, 2)).await.reserved.leases;
    for lease in &taken {
        s.settle(lease.job.receipt(), Decision::Finish(Finish::taken())).await;
    }
    assert_eq!(ids(taken), [1, 2].map(id));
    assert_eq!(s.handed_out(2).await, [id(3)]);
}

/// A burst, and then one per period; a caller that looks at the announced time finds one.
pub async fn a_rate_holds(s: Subject) {
    s.limit(often(10.0, 3)).await;
    s.hold(&jobs(20)).await;
    let reserved = s.reserve(reserve(QUEUE, 100)).await;
    assert_eq!(ids(reserved.leases), [1, 2, 3].map(id));
    assert_eq!(reserved.next_at, Some(s.now() + 100));
    s.pass(99);
    let early = s.reserve(reserve(QUEUE, 100)).await;
    assert_eq!((early.leases.len(), early.next_at), (0, Some(s.now() + 1)));
    s.pass(1);
    assert_eq!(s.handed_out(100).await, [id(4)]);
    s.pass(250);
    assert_eq!(s.handed_out(1).await, [id(5)]);
    let reserved = s.reserve(reserve(QUEUE, 100)).await;
    assert_eq!(ids(reserved.leases), [id(6)]);
    assert_eq!(reserved.next_at, Some(s.now() + 50), "what was left of a period counts");
    s.pass(3_600_000);
    let handed_out = s.handed_out(100).await;
    assert_eq!(handed_out.len(), 3, "a rest is no reason for more than a burst");
}

/// In the long run, for any requests.
pub async fn a_rate_holds_in_the_long_run(s: Subject) {
    s.limit(often(700.0, 5)).await;
    s.hold(&(1..=1_000).map(job).collect::<Vec<_>>()).await;
    let (start, mut count) = (s.now(), 0);
    while s.now() < start + 1_000 {
        let reserved = s.reserve(reserve(QUEUE, 3)).await;
        count += reserved.leases.len();
        let next_at = reserved.next_at.expect("more waits");
        s.pass(next_at.saturating_sub(s.now()));
    }
    assert!((700..=707).contains(&count), "{count}");
}

/// It delays jobs by no more than a burst lasts, whoever looks first, and lets nothing more pass.
pub async fn a_clock_set_back_does_not_block_a_rate(s: Subject) {
    const HOUR: i64 = 3_600_000;
    s.limit(often(10.0, 3)).await;
    s.hold(&(1..=20).map(|n| due(n, T0 - 2 * HOUR as u64)).collect::<Vec<_>>()).await;
    assert_eq!(s.handed_out(100).await, [1, 2, 3].map(id));
    s.clock.step(-HOUR);
    let reserved = s.reserve(reserve(QUEUE, 100)).await;
    assert_eq!((reserved.leases.len(), reserved.next_at), (0, Some(s.now() + 100)));
    s.pass(99);
    let reserved = s.reserve(reserve(QUEUE, 100)).await;
    assert_eq!((reserved.leases.len(), reserved.next_at), (0, Some(s.now() + 1)));
    s.pass(1);
    assert_eq!(s.handed_out(100).await, [id(4)]);
    // It was ahead for a moment.
    s.clock.step(2 * HOUR);
    assert_eq!(s.handed_out(100).await, [5, 6, 7].map(id));
    s.clock.step(-2 * HOUR);
    let next_due = async || s.broker.next_due(&QUEUE.into()).await.unwrap();
    assert_eq!(next_due().await, Some(s.now() + 100));
    s.pass(99);
    assert_eq!(next_due().await, Some(s.now() + 1));
    s.pass(1);
    assert!(next_due().await.is_some_and(|at| at <= s.now()), "a look is enough");
    assert_eq!(s.handed_out(100).await, [id(8)]);
    s.clock.step(-1_000);
    let named = Reserve::new(Pick::Named(vec![id(9).into()]), 1);
    assert_eq!(s.reserve(named.clone()).await.leases.len(), 0);
    s.pass(100);
    assert_eq!(ids(s.reserve(named).await.leases), [id(9)]);
    s.clock.step(-1_000);
    let merged = Reserve::new(Pick::MostUrgent(vec![QUEUE.into()]), 10);
    assert_eq!(s.reserve(merged.clone()).await.leases.len(), 0);
    s.pass(100);
    assert_eq!(ids(s.reserve(merged).await.leases), [id(10)]);
    s.pass(300);
    assert_eq!(s.handed_out(100).await, [11, 12, 13].map(id), "no more than a burst");
}

/// What passed at the slower rate is at most a burst of the faster one.
pub async fn a_faster_rate_is_not_held_up_by_a_slower_one(s: Subject) {
    s.limit(often(0.001, 1)).await;
    s.hold(&jobs(9)).await;
    assert_eq!(s.handed_out(9).await, [id(1)]);
    assert_eq!(s.handed_out(9).await, []);
    s.limit(often(10.0, 3)).await;
    assert_eq!(s.reserve(reserve(QUEUE, 9)).await.next_at, Some(s.now() + 100));
    s.pass(100);
    assert_eq!(s.handed_out(9).await, [id(2)]);
}

/// Both limits together; taken jobs count for a rate.
pub async fn limits_hold_together(s: Subject) {
    s.limit(Limits { max_running: Some(2), ..often(10.0, 3) }).await;
    s.hold(&jobs(9)).await;
    let first = s.leases(reserve(QUEUE, 9)).await;
    assert_eq!(first.len(), 2);
    let taken = s.take(take(QUEUE, 9)).await.reserved.leases;
    s.settle(taken[0].job.receipt(), Decision::Finish(Finish::taken())).await;
    assert_eq!(ids(taken), [id(3)]);
    s.settle(first[0].job.receipt(), success()).await;
    let reserved = s.reserve(reserve(QUEUE, 9)).await;
    assert_eq!((reserved.leases.len(), reserved.next_at), (0, Some(s.now() + 100)));
    s.pass(100);
    assert_eq!(s.handed_out(9).await, [id(4)]);
    s.pass(3_600_000 - 1_000);
    assert_eq!(s.reserve(reserve(QUEUE, 9)).await.leases.len(), 0, "two run");
}

/// The next due time is reported as usual; a limit does not postpone it.
pub async fn a_limit_does_not_hide_what_is_due_later(s: Subject) {
    s.limit(Limits { max_running: Some(1), ..often(1.0, 1) }).await;
    s.hold(&[due(1, T0 + 5_000)]).await;
    assert_eq!(s.reserve(reserve(QUEUE, 1)).await.next_at, Some(T0 + 5_000));
}

/// Jobs that end for good as well as others.
pub async fn a_removed_job_leaves_room(s: Subject) {
    s.limit(at_once(1)).await;
    s.hold(&jobs(2)).await;
    let running = s.one().await;
    let dropped = Finish { drop: true, ..Finish::new(crate::model::job::Stage::Failed) };
    s.settle(running.receipt(), Decision::Finish(dropped)).await;
    assert_eq!(s.handed_out(2).await, [id(2)]);
}

const PAUSED: Limits = Limits { paused: true, max_running: None, rate: None };

/// With its limits; and then it is a new queue.
pub async fn a_removed_queue_is_gone(s: Subject) {
    s.limit(PAUSED).await;
    let queues = async || s.broker.counts(Queues::first()).await.unwrap().len();
    assert_eq!(queues().await, 1);
    assert_eq!(s.broker.remove_queue(&QUEUE.into(), 1).await, Ok(true));
    assert_eq!(queues().await, 0);
    assert_eq!(s.broker.remove_queue(&QUEUE.into(), 0).await, Ok(false), "a repeat");
    s.hold(&jobs(1)).await;
    assert_eq!(s.handed_out(2).await, [id(1)]);
}

/// Whether they wait, are due later, or run. Its limits go.
pub async fn a_queue_with_jobs_is_not_removed(s: Subject) {
    s.limit(Limits { max_running: Some(1), ..often(1.0, 1) }).await;
    s.hold(&[job(1), due(2, T0 + 5_000)]).await;
    let remove = async || s.broker.remove_queue(&QUEUE.into(), 1).await.unwrap();
    assert!(!remove().await);
    let running = s.one().await;
    s.hold(&[job(3)]).await;
    assert_eq!(s.handed_out(2).await, [id(3)], "nothing limits it");
    s.pass(5_000);
    for job in [running, s.get(id(3)).await.unwrap(), s.one().await] {
        assert!(!remove().await);
        s.settle(job.receipt(), success()).await;
    }
    assert!(remove().await);
}

/// A process that was slow may pass them on late.
pub async fn limits_of_a_removed_queue_change_nothing(s: Subject) {
    let limit = async |version| s.broker.limit(&QUEUE.into(), PAUSED, version).await.unwrap();
    limit(6).await;
    s.broker.remove_queue(&QUEUE.into(), 7).await.unwrap();
    limit(6).await;
    limit(7).await;
    assert_eq!(s.broker.counts(Queues::first()).await.unwrap(), [], "it does not come back either");
    s.hold(&jobs(1)).await;
    assert_eq!(s.handed_out(2).await, [id(1)]);
    s.hold(&[job(2)]).await;
    limit(8).await;
    assert_eq!(s.handed_out(2).await, [], "it was set anew");
}
