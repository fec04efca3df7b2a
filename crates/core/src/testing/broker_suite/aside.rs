//! Jobs that are given back with another priority, or set aside; and what a port keeps with them.

use super::{Subject, ids};
use crate::json::Timestamp;
use crate::model::job::{Job, Stage, State};
use crate::model::marks::Marks;
use crate::ports::{Change, Edited, Lease, Limits, OutboxEntry, Pick, Reserve, Update};
use crate::rules::{Again, Decision, PARKED, Park};
use crate::testing::fixtures::{QUEUE, T0, cancel, due, edit, id, job, reserve_named};
use std::sync::Arc;

fn marks(parks: u64) -> Option<Arc<Marks>> {
    Marks::from_iter([("parks", parks)]).shared()
}

/// The attempt counts, and so does the release.
fn given_back(job: &Job, due_at: u64, priority: u32) -> Decision {
    let (attempt, crashes) = (job.attempt, job.crashes);
    let (priority, marks) = (Some(priority), marks(due_at - T0));
    Decision::Again(Again { due_at, attempt, crashes, is_release: true, priority, marks, ..Again::default() })
}

fn abandoned(job: &Job) -> Decision {
    Decision::Again(Again { due_at: T0, attempt: job.attempt, ..Again::default() })
}

fn park(message: &str, priority: Option<u32>) -> Decision {
    Decision::Park(Park { message: message.into(), priority }, marks(1))
}

/// With its payload.
pub async fn a_returned_job_has_a_new_priority(s: Subject) {
    s.hold(&[job(1), Job { priority: 7, ..job(2) }]).await;
    let first = s.one().await;
    assert_eq!(first.id, id(2));
    let settled = s.settled(first.receipt(), given_back(&first, T0, 5_000)).await;
    assert_eq!(settled.states, [Some(State::Ready)]);
    let [OutboxEntry::Rewritten(noted)] = &settled.entries[..] else { panic!("{:?}", settled.entries) };
    assert_eq!(s.get(id(2)).await.as_ref(), Some(noted));
    assert_eq!((noted.priority, noted.attempt, noted.due_at, noted.payload.len()), (5_000, 1, Timestamp(T0), 7));
    assert_eq!((noted.options().marks.clone(), noted.releases()), (marks(0), 1));
    // A head has no payload; the job keeps it.
    assert_eq!(s.one().await.id, id(1), "it is less urgent now");
    let again = s.one().await;
    assert_eq!((again.id, again.attempt, &*again.payload), (id(2), 2, &b"payload"[..]));
    s.settled(again.receipt(), given_back(&again, T0 + 50, 3)).await;
    assert_eq!(s.handed_out(1).await, []);
    s.pass(50);
    let again = s.one().await;
    assert_eq!((again.attempt, again.releases(), again.options().marks.clone()), (3, 2, marks(50)));
    // A holder that has gone releases nothing, and its attempt counts.
    s.settled(again.receipt(), abandoned(&again)).await;
    let again = s.one().await;
    assert_eq!((again.attempt, again.releases(), again.priority), (4, 2, 3));
    assert_eq!(again.options().marks, marks(50));
}

/// It has failed, without an end time: it is kept.
pub async fn a_parked_job_has_failed(s: Subject) {
    s.hold(&[job(1)]).await;
    let running = s.one().await;
    let settled = s.settled(running.receipt(), park("no stamps", Some(9))).await;
    assert_eq!(settled.states, [Some(State::Failed)]);
    let [OutboxEntry::Rewritten(parked)] = &settled.entries[..] else { panic!("{:?}", settled.entries) };
    assert_eq!((parked.stage, parked.finished_at, parked.priority), (Stage::Failed, None, 9));
    assert_eq!((parked.message.as_deref(), parked.options().marks.clone()), (Some("no stamps"), marks(1)));
    assert_eq!((parked.attempt, &*parked.payload), (1, &b"payload"[..]));
    assert_eq!(s.handed_out(1).await, []);
    assert_eq!(s.settle(running.receipt(), park("no stamps", Some(9))).await, Some(State::Failed), "a repeat");
}

/// And keeps its priority and its marks.
pub async fn a_park_without_a_reason_has_one(s: Subject) {
    s.hold(&[Job { priority: 7, ..job(1) }]).await;
    let settled = s.settled(s.one().await.receipt(), Decision::Park(Park::default(), None)).await;
    let [OutboxEntry::Rewritten(parked)] = &settled.entries[..] else { panic!("{:?}", settled.entries) };
    assert_eq!((parked.message.as_deref(), parked.priority, &parked.options), (Some(PARKED), 7, &None));
}

/// For every end except a completion.
pub async fn a_returned_job_that_is_to_stop_is_cancelled(s: Subject) {
    s.hold(&[job(1), job(2)]).await;
    for decision in [|job: &Job| given_back(job, T0, 1), |_: &Job| park("", None)] {
        let running = s.one().await;
        s.edit(running.id, cancel()).await;
        assert_eq!(s.settle(running.receipt(), decision(&running)).await, Some(State::Cancelled));
    }
}

/// With an update that makes it due now; those of a running one stay.
pub async fn marks_change_with_a_waiting_job(s: Subject) {
    s.hold(&[due(1, T0 + 5_000)]).await;
    let now = |parks| Change::Update(Update { due_at: Some(T0), marks: marks(parks), ..Update::default() });
    let (edited, entries) = s.edit_with_entries(edit(id(1), now(3))).await;
    let Edited::Changed(changed) = edited else { panic!("{edited:?}") };
    assert_eq!((changed.due_at, changed.options().marks.clone()), (Timestamp(T0), marks(3)));
    assert!(matches!(&entries[..], [OutboxEntry::Rewritten(noted)] if *noted == changed));
    assert_eq!(s.handed_out(1).await, [id(1)]);
    assert!(matches!(s.edit(id(1), now(4)).await, Edited::Running(_)));
    assert_eq!(s.get(id(1)).await.unwrap().options().marks, marks(3));
}

/// In one step, and only on request. When given back, it is due.
pub async fn a_scheduled_job_is_reserved_early(s: Subject) {
    s.hold(&[due(1, T0 + 5_000), Job { priority: 7, ..due(2, T0 + 5_000) }, due(3, T0 + 5_000)]).await;
    let early = |n| Reserve::new(Pick::Early(id(n).into()), 1);
    assert_eq!(s.reserve(reserve_named(&[id(1)])).await.leases.len(), 0);
    for n in [1, 2] {
        let [Lease { job: running, .. }] = &s.leases(early(n)).await[..] else { panic!("{n} is not leased") };
        assert_eq!(
            (running.state(s.now()), running.due_at, running.attempt),
            (State::Running, Timestamp(T0 + 5_000), 1)
        );
        assert!(matches!(&s.reserve(early(n)).await.refused[..], [(_, Edited::Running(_))]));
        s.settled(running.receipt(), abandoned(running)).await;
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
    let queues = ["c", "a", "b", "none", QUEUE].map(Arc::from);
    let merged = |limit| Reserve::new(Pick::MostUrgent(queues.to_vec()), limit);
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
