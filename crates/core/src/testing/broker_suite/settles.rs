//! The end of a lease.

use super::Subject;
use crate::json::Timestamp;
use crate::limits::LEASE_MS_DEFAULT;
use crate::model::id::{JobId, Receipt};
use crate::model::job::{AttemptError, Job, Stage, State};
use crate::ports::{Broker, Change, Detail, Edited, Extended, Lease, OutboxEntry, Run, Settle, Settled, Update};
use crate::rules::{Again, Decision, Finish};
use crate::testing::fixtures::{
    QUEUE, T0, again, cancel, finish, followed, id, job, reserve, reserve_from, success, take,
};

/// It is no longer handed out, and its entry has its full final state.
pub async fn success_ends_a_job(s: Subject) {
    s.hold(&[job(1)]).await;
    let job = s.one().await;
    s.pass(500);
    let result = Some((*b"done").into());
    let decision = Decision::Finish(Finish { result, message: Some("fine".into()), ..Finish::new(Stage::Succeeded) });
    let settled = s.settled(job.receipt(), decision).await;
    assert_eq!(settled.states, [Some(State::Succeeded)]);
    let [OutboxEntry::Changed(ended)] = &settled.entries[..] else { panic!("{:?}", settled.entries) };
    assert_eq!((ended.stage, ended.finished_at, ended.lease_until), (Stage::Succeeded, Some(Timestamp(s.now())), None));
    assert_eq!((ended.message.as_deref(), ended.result.as_deref()), (Some("fine"), Some(&b"done"[..])));
    assert_eq!((ended.attempt, ended.epoch, ended.updated_at), (1, job.epoch, Timestamp(s.now())));
    assert!(ended.version > job.version);
    assert_eq!(s.outcomes().await.len(), 1);
    s.pass(3_600_000);
    assert_eq!(s.handed_out(1).await, []);
}

/// With the error of the attempt, as the message too.
pub async fn a_failure_is_kept_with_its_error(s: Subject) {
    s.hold(&[job(1)]).await;
    let job = s.one().await;
    let error = AttemptError { attempt: 1, at: Timestamp(T0), message: "broken".into(), crashed: true };
    let failed = Finish { error: Some(error.clone()), crashes: Some(5), ..Finish::new(Stage::Failed) };
    assert_eq!(s.settle(job.receipt(), Decision::Finish(failed)).await, Some(State::Failed));
    let entry = s.outcomes().await.remove(0);
    assert_eq!((&entry.job().errors[..], entry.job().crashes), (&[error][..], 5));
    assert_eq!(entry.job().message.as_deref(), Some("broken"));
}

/// At the decided time, with the decided numbers, and with an entry.
pub async fn a_job_goes_on_later(s: Subject) {
    s.hold(&[job(1)]).await;
    let job = s.one().await;
    let error = AttemptError { attempt: 1, at: Timestamp(T0), message: "not yet".into(), crashed: false };
    let error_of = Some(error.clone());
    let decision = Again { due_at: T0 + 15_000, attempt: 1, crashes: 2, error: error_of, ..Again::default() };
    let settled = s.settled(job.receipt(), Decision::Again(decision)).await;
    assert_eq!(settled.states, [Some(State::Scheduled)]);
    let [OutboxEntry::Changed(waiting)] = &settled.entries[..] else { panic!("{:?}", settled.entries) };
    assert_eq!(s.get(id(1)).await.as_ref(), Some(waiting));
    assert_eq!((waiting.due_at, waiting.crashes, &waiting.errors[..]), (Timestamp(T0 + 15_000), 2, &[error][..]));
    s.pass(14_999);
    assert_eq!(s.handed_out(1).await, []);
    s.pass(1);
    let second = s.one().await;
    assert_eq!((second.attempt, second.crashes, second.first_due_at), (2, 2, Timestamp(T0)));
}

/// A receipt of an earlier lease, of no lease, or of an unknown job is refused, and nothing is recorded.
pub async fn a_stale_receipt_changes_nothing(s: Subject) {
    s.hold(&[job(1)]).await;
    let first = s.one().await;
    s.settle(first.receipt(), again(&first, T0)).await;
    assert_eq!(s.settle(first.receipt(), success()).await, None, "released");
    let second = s.one().await;
    let noted = s.outcomes().await.len();
    let future = Receipt { id: id(1), epoch: second.epoch + 1 };
    let unknown = Receipt { id: id(2), epoch: second.epoch };
    for receipt in [first.receipt(), future, unknown] {
        let settled = s.settled(receipt, success()).await;
        assert!(settled.states == [None] && settled.entries.is_empty(), "{settled:?}");
    }
    assert_eq!(s.get(id(1)).await, Some(second.clone()));
    assert_eq!(s.outcomes().await.len(), noted);
    assert_eq!(s.settle(second.receipt(), success()).await, Some(State::Succeeded));
}

/// With the same state, and with its entry unless that was forgotten; but not for another decision.
pub async fn an_end_is_answered_again(s: Subject) {
    s.hold(&[job(1)]).await;
    let receipt = s.one().await.receipt();
    let first = s.settled(receipt, success()).await;
    let repeat = s.settled(receipt, success()).await;
    assert_eq!(repeat.states, [Some(State::Succeeded)]);
    assert_eq!(repeat.entries.len(), 1, "it, too, is answered once that is recorded");
    assert_eq!(repeat.entries[0].job(), first.entries[0].job());
    assert_eq!(s.settle(receipt, finish(Stage::Failed)).await, None);
    s.forget(id(1), first.entries[0].job().version).await;
    let repeat = s.settled(receipt, success()).await;
    assert!(repeat.states == [Some(State::Succeeded)] && repeat.entries.is_empty(), "{repeat:?}");
}

/// Before jobs that are due later.
pub async fn a_release_keeps_the_place(s: Subject) {
    s.hold(&[job(1), job(2), job(3)]).await;
    let first = s.one().await;
    let released = Again { due_at: first.due_at.0, is_release: true, ..Again::default() };
    let settled = s.settled(first.receipt(), Decision::Again(released)).await;
    assert_eq!(settled.states, [Some(State::Ready)]);
    assert!(matches!(&settled.entries[..], [OutboxEntry::Changed(noted)] if noted.releases() == 1), "{settled:?}");
    s.pass(10);
    let leases = s.leases(reserve(QUEUE, 3)).await;
    assert_eq!(leases[0].job.attempt, 1, "the released attempt does not count");
    assert_eq!((leases[0].job.releases(), &*leases[0].job.payload), (1, &b"payload"[..]), "the release does");
    assert!(leases[0].job.epoch > first.epoch);
    assert_eq!(super::ids(leases), [1, 2, 3].map(id));
}

/// The failed job, and the copy that starts with it, in one entry. The copy is put when the ledger has it.
pub async fn a_moved_job_leaves_both(s: Subject) {
    s.hold(&[job(1)]).await;
    let running = s.one().await;
    let copy = Job { queue: "dead".into(), ..job(2) };
    let moved = Finish { successors: vec![copy.clone()], ..Finish::new(Stage::Failed) };
    let settled = s.settled(running.receipt(), Decision::Finish(moved)).await;
    assert_eq!(settled.states, [Some(State::Failed)]);
    let [OutboxEntry::Followed(failed, successors)] = &settled.entries[..] else { panic!("{:?}", settled.entries) };
    assert_eq!(
        (failed.job().id, failed.job().stage, &successors[..]),
        (id(1), Stage::Failed, std::slice::from_ref(&copy))
    );
    assert!(matches!(&s.outcomes().await[..], [OutboxEntry::Followed(..)]));
    assert_eq!(s.get(id(2)).await, None);
}

/// Without the jobs that are to begin with it nothing happens, and the lease goes on. A broker that leaves them out would lose them.
pub async fn an_end_that_others_follow_needs_them(s: Subject) {
    s.hold(&[followed(1), followed(2), followed(3), followed(4)]).await;
    let next = |n: u64| Job { queue: "next".into(), ..job(n) };
    let with = |stage, n| Decision::Finish(Finish { successors: vec![next(n)], ..Finish::new(stage) });
    let result = Some((*b"done").into());
    for (n, end) in [
        Decision::Finish(Finish { result, ..Finish::new(Stage::Succeeded) }),
        success(),
        finish(Stage::Failed),
        finish(Stage::Cancelled),
    ]
    .into_iter()
    .enumerate()
    {
        let running = s.one().await;
        let (receipt, stage) = (running.receipt(), end.end().unwrap());
        let refused = s.settled(receipt, end.clone()).await;
        assert_eq!((refused.states.as_slice(), refused.entries.len()), (&[None][..], 0), "{end:?}");
        assert!(matches!(&refused.undecided[..], [(0, settle)] if settle.decision == end), "{refused:?}");
        assert_eq!(s.get(running.id).await, Some(running), "its lease goes on");
        let n = n as u64 + 10;
        let settled = s.settled(receipt, with(stage, n)).await;
        assert_eq!((settled.states[0], settled.undecided.len()), (stage.end_state(), 0));
        let [entry] = &settled.entries[..] else { panic!("{settled:?}") };
        assert_eq!((entry.job().stage, entry.successors()), (stage, &[next(n)][..]));
        for repeat in [with(stage, n + 10), end] {
            let repeated = s.settled(receipt, repeat).await;
            assert_eq!(repeated.states[0], stage.end_state());
            let begun: Vec<&Job> = repeated.entries.iter().flat_map(OutboxEntry::successors).collect();
            assert_eq!(
                (begun, repeated.entries.len()),
                (vec![&next(n)], 1),
                "a repeat has all of the first, and nothing new"
            );
        }
    }
    let mut noted: Vec<JobId> = s.outcomes().await.iter().flat_map(OutboxEntry::successors).map(|job| job.id).collect();
    noted.sort_unstable();
    assert_eq!(noted, [10, 11, 12, 13].map(id));
}

/// The worker did not know of the cancel when it gave the job back. Another attempt is no end, so it needs no jobs.
pub async fn a_cancel_that_comes_before_an_end_changes_what_follows(s: Subject) {
    s.hold(&[followed(1)]).await;
    let running = s.one().await;
    assert_eq!(s.settle(running.receipt(), again(&running, T0)).await, Some(State::Ready));
    let running = s.one().await;
    assert!(matches!(s.edit(id(1), cancel()).await, Edited::CancelAsked(_)));
    for decision in
        [again(&running, T0), Decision::Finish(Finish { successors: vec![job(2)], ..Finish::new(Stage::Failed) })]
    {
        let refused = s.settled(running.receipt(), decision).await;
        assert_eq!((refused.states[0], refused.undecided.len()), (None, 1));
    }
    let cancelled = Decision::Finish(Finish { successors: vec![job(2)], ..Finish::new(Stage::Cancelled) });
    let settled = s.settled(running.receipt(), cancelled).await;
    assert_eq!((settled.states[0], settled.entries[0].successors()), (Some(State::Cancelled), &[job(2)][..]));
}

/// Only the entry that removes its record.
pub async fn a_dropped_job_leaves_nothing(s: Subject) {
    s.hold(&[job(1)]).await;
    let running = s.one().await;
    let dropped = Finish { drop: true, ..Finish::new(Stage::Failed) };
    let settled = s.settled(running.receipt(), Decision::Finish(dropped)).await;
    let [OutboxEntry::Removed(removed)] = &settled.entries[..] else { panic!("{:?}", settled.entries) };
    assert!(removed.version > running.version, "the ledger knows that it is the later state");
    assert_eq!(s.get(id(1)).await, None);
    assert_eq!(s.put(&[job(1)]).await, [crate::ports::Put::Tombstone]);
}

/// Though nothing else of it is left: its reply may have been lost.
pub async fn the_end_of_a_dropped_job_is_answered_again(s: Subject) {
    s.hold(&[job(1)]).await;
    let receipt = s.one().await.receipt();
    let dropped = Decision::Finish(Finish { drop: true, ..Finish::new(Stage::Failed) });
    let first = s.settled(receipt, dropped).await;
    for _ in 0..2 {
        assert_eq!(s.settle(receipt, finish(Stage::Failed)).await, Some(State::Failed));
        assert_eq!(s.settle(receipt, success()).await, None, "that is another end");
        assert_eq!(s.settle(Receipt { epoch: receipt.epoch - 1, ..receipt }, finish(Stage::Failed)).await, None);
        s.forget(id(1), first.entries[0].job().version).await;
    }
}

/// Nobody changes it until its take has ended. If that does not happen in time, it is reported separately from crashes.
pub async fn what_is_to_be_taken_is_let_alone(s: Subject) {
    s.hold(&[job(1), job(2)]).await;
    let leased = s.take(take(QUEUE, 2)).await.reserved;
    let [first, second] = &leased.leases[..] else { panic!("{leased:?}") };
    let job = &first.job;
    assert_eq!((job.id, job.stage, job.message.as_deref()), (id(1), Stage::Pending, None));
    assert_eq!(
        (job.attempt, job.started_at, job.lease_until),
        (1, Some(Timestamp(T0)), Some(Timestamp(T0 + <dyn Broker>::TAKE_LEASE_MS)))
    );
    for change in [cancel(), Change::Delete] {
        assert_eq!(s.edit(id(1), change).await, Edited::Running(job.clone()));
    }
    assert_eq!(s.get(id(1)).await.as_ref(), Some(job));
    s.pass(<dyn Broker>::TAKE_LEASE_MS);
    let expired = s.broker.expired(10).await.unwrap();
    let receipts = |jobs: &[Job]| jobs.iter().map(Job::receipt).collect::<Vec<_>>();
    assert_eq!(receipts(&expired.crashed), []);
    assert_eq!(receipts(&expired.untaken), [first.job.receipt(), second.job.receipt()]);
    assert_eq!(s.settle(job.receipt(), Decision::Finish(Finish::taken())).await, Some(State::Succeeded));
    let ended = s.get(id(1)).await.unwrap();
    assert_eq!((ended.stage, ended.message.as_deref()), (Stage::Succeeded, Some("taken")));
    s.settle(second.job.receipt(), crate::rules::after_unclaimed(&second.job, s.now())).await;
    let again = s.one().await;
    assert_eq!((again.id, again.attempt, again.message), (id(2), 1, None));
    s.pass(3_600_000);
    assert_eq!(s.crashed().await, [id(2)], "it was not leased to be taken");
}

/// Otherwise another would get a job whose holder was promised more time.
pub async fn a_decision_from_a_reading_loses_against_an_extension(s: Subject) {
    s.hold(&[job(1), job(2)]).await;
    assert_eq!(s.handed_out(2).await, [1, 2].map(id));
    s.pass(LEASE_MS_DEFAULT);
    let read = s.broker.expired(10).await.unwrap().crashed;
    assert_eq!(read.len(), 2);
    assert!(matches!(s.extend(read[0].receipt(), None).await, Extended::Until { .. }));
    let extended = s.get(id(1)).await.unwrap();
    let decide = |job: &Job| Settle { version: Some(job.version), ..Settle::new(job.receipt(), again(job, T0)) };
    let settled = s.broker.settle(read.iter().map(decide).collect()).await.unwrap();
    assert_eq!(settled.states, [None, Some(State::Ready)], "only what was not extended is given up");
    assert_eq!(settled.runs.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true]);
    assert_eq!(settled.entries.iter().map(|entry| entry.job().id).collect::<Vec<_>>(), [id(2)]);
    assert_eq!(s.get(id(1)).await.as_ref(), Some(&extended));
    assert_eq!(s.handed_out(2).await, [id(2)]);
    let success = Settle { version: Some(extended.version), ..Settle::new(extended.receipt(), success()) };
    assert_eq!(s.broker.settle(vec![success]).await.unwrap().states, [Some(State::Succeeded)]);
}

/// The job is still there to be cancelled.
pub async fn a_decision_from_a_reading_loses_against_a_cancellation(s: Subject) {
    s.hold(&[job(1)]).await;
    let read = s.one().await;
    assert!(matches!(s.edit(id(1), cancel()).await, Edited::CancelAsked(_)));
    for decision in [again(&read, T0), finish(Stage::Failed), success()] {
        let settle = Settle { version: Some(read.version), ..Settle::new(read.receipt(), decision) };
        assert_eq!(s.broker.settle(vec![settle]).await.unwrap().states, [None]);
    }
    assert_eq!(s.get(id(1)).await.unwrap().state(s.now()), State::Running);
}

/// Nor is it dropped. Its holder had decided before it was asked to stop.
pub async fn a_cancelled_run_leaves_no_copy(s: Subject) {
    let failed = || Finish { crashes: Some(3), ..Finish::new(Stage::Failed) };
    let copy = Job { queue: "dead".into(), ..job(9) };
    let ends = [failed(), Finish { drop: true, ..failed() }, Finish { successors: vec![copy], ..failed() }];
    for (n, end) in (1..).zip(ends) {
        s.hold(&[job(n)]).await;
        let running = s.one().await;
        assert!(matches!(s.edit(id(n), cancel()).await, Edited::CancelAsked(_)));
        let settled = s.settled(running.receipt(), Decision::Finish(end)).await;
        assert_eq!(settled.states, [Some(State::Cancelled)]);
        let [OutboxEntry::Changed(ended)] = &settled.entries[..] else { panic!("{:?}", settled.entries) };
        assert_eq!((ended.stage, ended.crashes), (Stage::Cancelled, 3));
    }
}

/// Including changes that the ledger does not have yet.
pub async fn a_settle_from_a_head_keeps_what_the_job_holds(s: Subject) {
    s.hold(&[job(1), job(2)]).await;
    let update = Update { payload: Some((*b"another").into()), ..Update::default() };
    assert!(matches!(s.edit(id(2), Change::Update(update)).await, Edited::Changed(_)));
    let mut leased = s.leases(reserve(QUEUE, 2)).await;
    leased.sort_by_key(|lease| lease.job.id);
    let heads = s.broker.get(&[1, 2].map(id), Detail::Head).await.unwrap().into_iter().flatten();
    let settle =
        |head: Job| Settle { read: Some(Box::new(head.clone())), ..Settle::new(head.receipt(), again(&head, T0)) };
    let settled = s.broker.settle(heads.map(settle).collect()).await.unwrap();
    assert_eq!(settled.states, [Some(State::Ready); 2]);
    let entry = settled.entries.iter().find(|entry| entry.job().id == id(2));
    assert!(matches!(entry, Some(OutboxEntry::Rewritten(job)) if *job.payload == *b"another"), "{entry:?}");
    for (n, payload) in [(1, &b"payload"[..]), (2, &b"another"[..])] {
        assert_eq!(*s.get(id(n)).await.unwrap().payload, *payload);
    }
}

/// The holder of a lease decides, whatever has changed since the job was read.
pub async fn a_settle_from_an_old_head_counts(s: Subject) {
    s.hold(&[job(1), job(2)]).await;
    let leased = s.leases(reserve(QUEUE, 2)).await;
    let settles = leased.iter().map(|Lease { job, .. }| Settle {
        read: Some(Box::new(job.clone())),
        ..Settle::new(job.receipt(), again(job, T0))
    });
    let settles: Vec<Settle> = settles.collect();
    assert!(matches!(s.extend(leased[0].job.receipt(), None).await, Extended::Until { .. }));
    assert!(matches!(s.edit(leased[1].job.id, cancel()).await, Edited::CancelAsked(_)));
    let settled = s.broker.settle(settles.clone()).await.unwrap();
    assert_eq!(settled.states, [Some(State::Ready), Some(State::Cancelled)]);
    assert_eq!(s.broker.settle(settles).await.unwrap().states[0], None, "that was settled before");
}

/// Only once, however it ended.
pub async fn a_settle_says_which_run_it_ended(s: Subject) {
    let other = Job { queue: "other".into(), kind: "k".into(), ..job(2) };
    let third = Job { tags: vec!["t".into()].into(), kind: "l".into(), ..job(3) };
    let fourth = Job { priority: 7, tags: vec!["t".into(), "u".into()].into(), kind: "m".into(), ..job(4) };
    s.hold(&[job(1), other, third, fourth]).await;
    let began = s.now();
    let mut leases = s.leases(reserve_from(&[QUEUE, "other"], 4)).await;
    leases.sort_by_key(|lease| lease.job.id);
    s.pass(500);
    // Now the kinds are requested, too.
    if let Some(events) = &s.events {
        events.announce(true).await.unwrap();
    }
    let told = |run: Run| (run.queue, run.kind, run.attempt, run.due_at, run.started_at);
    let runs = |settled: Settled| settled.runs.into_iter().map(|run| run.map(told));
    let (plain, failed) = (leases[0].job.clone(), leases[2].job.clone());
    let decisions = vec![
        Settle::new(plain.receipt(), success()),
        Settle::new(leases[1].job.receipt(), again(&leases[1].job, T0 + 5)),
        Settle::new(failed.receipt(), finish(Stage::Failed)),
        Settle::new(leases[3].job.receipt(), success()),
    ];
    let settled = s.broker.settle(decisions).await.unwrap();
    let expected = leases.iter().map(|lease| {
        let Job { queue, kind, attempt, due_at, .. } = lease.job.clone();
        // The second one waits again.
        let due_at = if lease.job.id == id(2) { T0 + 5 } else { due_at.0 };
        Some((queue, Some(kind), attempt, due_at, began))
    });
    let expected: Vec<_> = expected.collect();
    assert_eq!(runs(settled).collect::<Vec<_>>(), expected);
    for (receipt, decision) in [(plain.receipt(), success()), (failed.receipt(), finish(Stage::Failed))] {
        let repeat = s.broker.settle(vec![Settle::new(receipt, decision)]).await.unwrap();
        assert_eq!(runs(repeat).collect::<Vec<_>>(), [None]);
    }
}
