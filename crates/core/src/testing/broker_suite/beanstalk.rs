//! The verbs of the beanstalk protocol.

use super::{Subject, ids};
use crate::model::beanstalk::{BURIED, Beanstalk, KIND};
use crate::model::job::{Job, Stage, State};
use crate::ports::{Change, Edited, Lease, Limits, OutboxEntry, Reserve};
use crate::rules::{Decision, Return};
use crate::testing::fixtures::{QUEUE, T0, cancel, due, edit, id, job, reserve_from, reserve_named};

fn counted(job: &Job) -> Beanstalk {
    job.options().beanstalk.unwrap_or_default()
}

fn release(due_at: u64, priority: u32, delay_ms: u64) -> Decision {
    Decision::Return(Return { due_at, release: Some((priority, delay_ms)) })
}

/// With its payload and a new priority; the attempt counts, and so does the release.
pub async fn a_released_job_counts_its_attempt(s: Subject) {
    s.hold(&[job(1), Job { priority: 7, ..job(2) }]).await;
    let first = s.one().await;
    assert_eq!(first.id, id(2));
    let settled = s.settled(first.receipt(), release(T0, 5_000, 0)).await;
    assert_eq!(settled.states, [Some(State::Ready)]);
    let [OutboxEntry::Rewritten(noted)] = &settled.entries[..] else { panic!("{:?}", settled.entries) };
    assert_eq!(s.get(id(2)).await.as_ref(), Some(noted));
    assert_eq!((noted.priority, noted.attempt, noted.due_at, noted.payload.len()), (5_000, 1, T0, 7));
    assert_eq!(counted(noted), Beanstalk { delay_ms: Some(0), ..Beanstalk::default() });
    assert_eq!(noted.releases(), 1);
    // A head has no payload; the job keeps it.
    assert_eq!(s.one().await.id, id(1), "it is less urgent now");
    let again = s.one().await;
    assert_eq!((again.id, again.attempt, &*again.payload), (id(2), 2, &b"payload"[..]));
    s.settled(again.receipt(), release(T0 + 50, 3, 50)).await;
    assert_eq!(s.handed_out(1).await, []);
    s.pass(50);
    let again = s.one().await;
    assert_eq!((again.attempt, again.releases(), counted(&again).delay_ms), (3, 2, Some(50)));
    // A client that has gone releases nothing, and its attempt counts.
    s.settled(again.receipt(), Decision::Return(Return { due_at: T0, release: None })).await;
    let again = s.one().await;
    assert_eq!((again.attempt, again.releases(), again.priority), (4, 2, 3));
}

/// It has failed, without an end time: it is kept.
pub async fn a_buried_job_has_failed(s: Subject) {
    s.hold(&[Job { kind: KIND.into(), ..job(1) }]).await;
    let running = s.one().await;
    let settled = s.settled(running.receipt(), Decision::Bury(9)).await;
    assert_eq!(settled.states, [Some(State::Failed)]);
    let [OutboxEntry::Rewritten(buried)] = &settled.entries[..] else { panic!("{:?}", settled.entries) };
    assert_eq!((buried.stage, buried.finished_at, buried.priority), (Stage::Failed, None, 9));
    assert_eq!((buried.message.as_deref(), counted(buried).buries), (Some(BURIED), 1));
    assert_eq!((buried.attempt, &*buried.payload), (1, &b"payload"[..]));
    assert_eq!(s.handed_out(1).await, []);
    assert_eq!(s.settle(running.receipt(), Decision::Bury(9)).await, Some(State::Failed), "a repeat");
}

/// For every action of its client except a completion.
pub async fn a_returned_job_that_is_to_stop_is_cancelled(s: Subject) {
    s.hold(&[job(1), job(2)]).await;
    for decision in [release(T0, 1, 0), Decision::Bury(1)] {
        let running = s.one().await;
        s.edit(running.id, cancel()).await;
        assert_eq!(s.settle(running.receipt(), decision).await, Some(State::Cancelled));
    }
}

/// A scheduled job becomes due; a ready one and a running one are left alone.
pub async fn a_scheduled_job_is_kicked(s: Subject) {
    s.hold(&[due(1, T0 + 5_000), job(2)]).await;
    let (edited, entries) = s.edit_with_entries(edit(id(1), Change::Kick { counts: true })).await;
    let Edited::Changed(kicked) = edited else { panic!("{edited:?}") };
    assert_eq!((kicked.due_at, counted(&kicked).kicks, counted(&kicked).delay_ms), (T0, 1, Some(5_000)));
    assert!(matches!(&entries[..], [OutboxEntry::Rewritten(noted)] if *noted == kicked));
    let unfit = s.edit(id(2), Change::Kick { counts: true }).await;
    assert!(matches!(unfit, Edited::Unfit { state: State::Ready, .. }), "{unfit:?}");
    assert_eq!(s.handed_out(2).await, [1, 2].map(id));
    assert!(matches!(s.edit(id(2), Change::Kick { counts: true }).await, Edited::Running(_)));
}

/// In one step, and only on request. When given back, it is due.
pub async fn a_scheduled_job_is_reserved_early(s: Subject) {
    s.hold(&[due(1, T0 + 5_000), Job { priority: 7, ..due(2, T0 + 5_000) }, due(3, T0 + 5_000)]).await;
    let early = |n| Reserve { early: true, ..reserve_named(&[id(n)]) };
    assert_eq!(s.reserve(reserve_named(&[id(1)])).await.leases.len(), 0);
    for n in [1, 2] {
        let [Lease { job: running, .. }] = &s.leases(early(n)).await[..] else { panic!("{n} is not leased") };
        assert_eq!((running.state(s.now()), running.due_at, running.attempt), (State::Running, T0 + 5_000, 1));
        assert!(matches!(&s.reserve(early(n)).await.refused[..], [(_, Edited::Running(_))]));
        s.settled(running.receipt(), Decision::Return(Return { due_at: T0, release: None })).await;
    }
    assert_eq!(s.handed_out(3).await, [2, 1].map(id));
    s.limit(Limits { paused: true, ..Limits::default() }).await;
    assert!(matches!(&s.reserve(early(3)).await.refused[..], [(_, Edited::Unfit { state: State::Scheduled, .. })]));
    s.limit(Limits::default()).await;
    assert_eq!(s.handed_out(3).await, [], "it waits as before");
    s.pass(5_000);
    assert_eq!(s.handed_out(3).await, [id(3)]);
}

/// By priority, due time and id, in any order of the queues; limits hold.
pub async fn the_most_urgent_of_all_queues_comes_first(s: Subject) {
    let of = |n, queue: &str, priority, due_at| Job { queue: queue.into(), priority, ..due(n, due_at) };
    s.hold(&[
        of(1, "a", 1_024, T0),
        of(2, "b", 1_024, T0 - 1),
        of(3, "a", 5, T0),
        of(4, "b", 6, T0 - 9),
        of(5, "c", 5, T0),
        of(6, "c", u32::MAX, T0),
        of(7, "b", 2_000, T0),
        of(8, "a", 0, T0 + 10),
        of(10, QUEUE, 1, T0),
        of(11, QUEUE, 2, T0),
    ])
    .await;
    s.limit(Limits { max_running: Some(1), ..Limits::default() }).await;
    let merged = |limit| Reserve { merges: true, ..reserve_from(&["c", "a", "b", "none", QUEUE], limit) };
    assert_eq!(ids(s.leases(merged(1)).await), [id(10)]);
    let some = s.reserve(merged(3)).await;
    assert!(some.next_at.is_some_and(|at| at <= T0), "more is due: {:?}", some.next_at);
    assert_eq!(ids(some.leases), [3, 5, 4].map(id));
    s.pass(10);
    assert_eq!(ids(s.leases(merged(10)).await), [8, 2, 1, 7, 6].map(id));
    assert_eq!(ids(s.leases(merged(10)).await), []);
    s.limit(Limits { paused: true, ..Limits::default() }).await;
    assert_eq!(ids(s.leases(merged(10)).await), []);
    s.limit(Limits::default()).await;
    assert_eq!(ids(s.leases(merged(10)).await), [id(11)]);
}
