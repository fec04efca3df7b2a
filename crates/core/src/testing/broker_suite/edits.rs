//! Changes from outside.

use super::Subject;
use crate::json::{Span, Timestamp};
use crate::model::job::{AttemptError, Job, KeyUntil, Stage, State};
use crate::model::options::JobOptions;
use crate::model::retry::Retry;
use crate::ports::{Broker, Change, Edit, Edited, Extended, OutboxEntry, Put, Queues, Room, Update};
use crate::rules::{Again, Decision, Finish};
use crate::testing::fixtures::{QUEUE, T0, again, cancel, due, edit, finish, followed, id, job, success};
use std::sync::Arc;

/// Ready or scheduled: it ends, with the message, and is no longer handed out.
pub async fn a_waiting_job_is_cancelled(s: Subject) {
    s.hold(&[job(1), due(2, T0 + 500)]).await;
    for n in [1, 2] {
        let change = Change::cancel(Some("not needed".into()));
        let (edited, entries) = s.edit_with_entries(edit(id(n), change)).await;
        let Edited::Changed(job) = edited else { panic!("{edited:?}") };
        assert_eq!((job.stage, job.finished_at), (Stage::Cancelled, Some(Timestamp(T0))));
        assert_eq!(job.message.as_deref(), Some("not needed"));
        assert!(job.version > 1);
        assert!(matches!(&entries[..], [OutboxEntry::Changed(noted)] if *noted == job));
    }
    s.pass(500);
    assert_eq!(s.handed_out(10).await, []);
    assert_eq!(s.outcomes().await.len(), 2);
}

/// The worker sees it at the next extension, and keeps its lease until then.
pub async fn a_running_job_is_asked_to_stop(s: Subject) {
    s.hold(&[job(1)]).await;
    let running = s.one().await;
    let (edited, entries) = s.edit_with_entries(edit(id(1), cancel())).await;
    let Edited::CancelAsked(asked) = edited else { panic!("{edited:?}") };
    assert!(asked.cancel_asked && asked.version > running.version);
    assert_eq!((asked.lease_until, asked.epoch), (running.lease_until, running.epoch));
    assert!(matches!(&entries[..], [OutboxEntry::Changed(noted)] if *noted == asked));
    assert_eq!(s.get(id(1)).await, Some(asked));
    let extended = s.extend(running.receipt(), None).await;
    assert!(matches!(extended, Extended::Until { cancel_asked: true, .. }), "{extended:?}");
    assert_eq!(s.settle(running.receipt(), finish(Stage::Cancelled)).await, Some(State::Cancelled));
}

/// Nor deleted, nor expired.
pub async fn a_running_job_is_not_updated(s: Subject) {
    s.hold(&[job(1)]).await;
    let running = s.one().await;
    let update = Change::Update(Update { priority: Some(1), ..Update::default() });
    for change in [update, Change::Delete, Change::expire()] {
        assert_eq!(s.edit(id(1), change).await, Edited::Running(running.clone()));
    }
    assert!(s.outcomes().await.is_empty());
}

/// If the worker completes all the same, it has.
pub async fn a_cancelled_run_can_succeed(s: Subject) {
    s.hold(&[job(1)]).await;
    let running = s.one().await;
    s.edit(id(1), cancel()).await;
    assert_eq!(s.settle(running.receipt(), success()).await, Some(State::Succeeded));
}

/// Even if the decision to go on was made just before the cancellation.
pub async fn a_cancelled_run_does_not_go_on(s: Subject) {
    s.hold(&[job(1)]).await;
    let running = s.one().await;
    let decided = again(&running, s.now());
    s.edit(id(1), cancel()).await;
    assert_eq!(s.settle(running.receipt(), decided).await, Some(State::Cancelled));
    s.pass(60_000);
    assert_eq!(s.handed_out(1).await, []);
}

/// Sooner, later, and in the order.
pub async fn an_update_moves_a_job(s: Subject) {
    s.hold(&[job(1), job(2), due(3, T0 + 9_000), due(4, T0 + 9_000)]).await;
    let to = |due_at| Change::Update(Update { due_at: Some(due_at), ..Update::default() });
    let (edited, entries) = s.edit_with_entries(edit(id(1), to(T0 + 9_000))).await;
    let Edited::Changed(moved) = edited else { panic!("{edited:?}") };
    assert_eq!(
        (moved.due_at, moved.first_due_at, moved.stage),
        (Timestamp(T0 + 9_000), Timestamp(T0 + 9_000), Stage::Pending)
    );
    assert!(matches!(&entries[..], [OutboxEntry::Rewritten(noted)] if *noted == moved));
    s.edit(id(3), to(T0)).await;
    s.edit(id(4), Change::Update(Update { due_at: Some(T0), priority: Some(0), ..Update::default() })).await;
    assert_eq!(s.handed_out(10).await, [4, 2, 3].map(id));
    s.pass(9_000);
    assert_eq!(s.handed_out(10).await, [id(1)]);
}

/// It changes the fields that it names.
pub async fn an_update_keeps_what_it_does_not_name(s: Subject) {
    s.hold(&[Job { key: Some("k".into()), ..job(1) }]).await;
    let update = Update { payload: Some((*b"new").into()), tags: Some(["t".into()].into()), ..Update::default() };
    s.edit(id(1), Change::Update(update)).await;
    let job = s.one().await;
    assert_eq!((&*job.payload, &*job.tags), (&b"new"[..], &["t".into()][..]));
    assert_eq!((job.due_at, job.priority, job.key.as_deref()), (Timestamp(T0), 1_024, Some("k")));
}

/// With everything that was sent, which counts from then on: its lease, its deadline to start, the end of its key.
pub async fn a_replaced_job_starts_anew(s: Subject) {
    let old = Job {
        key: Some("k".into()),
        origin: Some("o".into()),
        lease: Some(Span(5_000)),
        tags: ["t".into()].into(),
        ..job(1)
    };
    s.hold(std::slice::from_ref(&old)).await;
    let failed = s.one().await;
    let error = AttemptError { attempt: 1, at: Timestamp(T0), message: "no ink".into(), crashed: true };
    let once_more = Again { due_at: T0, attempt: 1, crashes: 1, error: Some(error), ..Again::default() };
    assert_eq!(s.settle(failed.receipt(), Decision::Again(once_more)).await, Some(State::Ready));
    let options = JobOptions::from(Retry { max_attempts: Some(3), ..Retry::default() });
    let sent = Job {
        kind: "other".into(),
        payload: (*b"new").into(),
        priority: 3,
        lease: Some(Span(90_000)),
        expires: Some(Span(500)),
        key: old.key.clone(),
        key_until: KeyUntil::Started,
        origin: Some("later".into()),
        tags: ["u".into()].into(),
        options: options.shared(),
        ..due(2, T0 + 2_000)
    };
    let replace = Change::Replace(Arc::new(sent.clone()));
    let (edited, entries) = s.edit_with_entries(edit(id(1), replace.clone())).await;
    let Edited::Changed(replaced) = edited else { panic!("{edited:?}") };
    let (epoch, version) = (failed.epoch, replaced.version);
    assert!(version > failed.version, "{version}");
    assert_eq!(replaced, Job { id: id(1), origin: old.origin, epoch, version, ..sent.clone() });
    assert!(matches!(&entries[..], [OutboxEntry::Rewritten(noted)] if *noted == replaced));
    assert_eq!(s.get(id(1)).await.as_ref(), Some(&replaced));
    assert_eq!(s.settle(failed.receipt(), success()).await, None, "that run is over");
    s.pass(2_000);
    let running = s.one().await;
    assert_eq!((&*running.kind, running.attempt, running.lease_until), ("other", 1, Some(Timestamp(T0 + 92_000))));
    assert_eq!(s.edit(id(1), replace.clone()).await, Edited::Running(running.clone()));
    // It has released its key, and holds it no second time.
    s.hold(&[Job { key: Some("k".into()), ..job(3) }]).await;
    assert_eq!(s.settle(running.receipt(), again(&running, s.now())).await, Some(State::Ready));
    assert_eq!(s.edit(id(1), replace.clone()).await, Edited::Unfit { id: id(1), state: State::Ready });
    assert!(matches!(s.edit(id(3), replace).await, Edited::Changed(_)));
    // Each of them, whatever else stays.
    let mut last = sent.clone();
    let set: [fn(&mut Job); 5] = [
        |job| job.kind = "third".into(),
        |job| job.lease = None,
        |job| job.expires = Some(Span(400)),
        |job| job.key_until = KeyUntil::Finished,
        |job| job.options = None,
    ];
    for set in set {
        set(&mut last);
        s.edit(id(3), Change::Replace(Arc::new(last.clone()))).await;
        let now = s.get(id(3)).await.unwrap();
        assert_eq!((&now.kind, now.lease, now.key_until), (&last.kind, last.lease, last.key_until));
        assert_eq!((now.expires, &now.options), (last.expires, &last.options));
    }
    s.pass(401);
    let unstarted = s.broker.expired(10).await.unwrap().unstarted;
    assert_eq!(unstarted.iter().map(|job| job.id).collect::<Vec<_>>(), [id(3)]);
}

/// It returns the job as it is.
pub async fn an_edit_of_another_version_changes_nothing(s: Subject) {
    s.hold(&[job(1)]).await;
    let of = |version| Edit { version: Some(version), ..edit(id(1), cancel()) };
    assert_eq!(s.edit_with_entries(of(2)).await.0, Edited::Mismatch(job(1)));
    assert!(s.outcomes().await.is_empty());
    assert!(matches!(s.edit_with_entries(of(1)).await.0, Edited::Changed(_)));
}

/// Both are made, one after the other, though both may have been decided from one reading, in the same millisecond.
pub async fn two_edits_at_once_are_both_made(s: Subject) {
    let update = |update: Update| edit(id(1), Change::Update(update));
    let payload = || update(Update { payload: Some((*b"new").into()), ..Update::default() });
    let priority = || update(Update { priority: Some(7), ..Update::default() });
    let tags = || update(Update { tags: Some(["t".into()].into()), ..Update::default() });
    s.hold(&[job(1)]).await;
    let (a, b, c) =
        tokio::join!(s.edit_with_entries(payload()), s.edit_with_entries(priority()), s.edit_with_entries(tags()),);
    let version = |edited| if let Edited::Changed(job) = edited { job.version } else { panic!("{edited:?}") };
    let mut versions = [a.0, b.0, c.0].map(version);
    versions.sort_unstable();
    assert!(versions[0] < versions[1] && versions[1] < versions[2], "{versions:?}");
    let job = s.one().await;
    assert_eq!((&*job.payload, job.priority, &*job.tags), (&b"new"[..], 7, &["t".into()][..]));
}

/// The others get a mismatch, although they change another part of the job.
pub async fn of_edits_of_one_version_one_is_made(s: Subject) {
    s.hold(&[job(1)]).await;
    let of_version = |change: Update| Edit { version: Some(1), ..edit(id(1), Change::Update(change)) };
    let (a, b, c, d) = tokio::join!(
        s.edit_with_entries(of_version(Update { payload: Some((*b"a").into()), ..Update::default() })),
        s.edit_with_entries(of_version(Update { payload: Some((*b"b").into()), ..Update::default() })),
        s.edit_with_entries(of_version(Update { priority: Some(7), ..Update::default() })),
        s.edit_with_entries(of_version(Update { tags: Some(["t".into()].into()), ..Update::default() })),
    );
    let edited = [a.0, b.0, c.0, d.0];
    let made: Vec<&Job> =
        edited.iter().filter_map(|edited| if let Edited::Changed(job) = edited { Some(job) } else { None }).collect();
    let refused = edited.iter().filter(|edited| matches!(edited, Edited::Mismatch(_))).count();
    assert_eq!((made.len(), refused), (1, 3), "{edited:?}");
    assert_eq!(s.get(id(1)).await.as_ref(), Some(made[0]));
}

/// As long as its end is not forgotten.
pub async fn a_finished_job_is_unfit(s: Subject) {
    s.hold(&[job(1)]).await;
    let running = s.one().await;
    let ended = s.settled(running.receipt(), success()).await.entries.remove(0);
    let unfit = Edited::Unfit { id: id(1), state: State::Succeeded };
    for change in [cancel(), Change::Delete, Change::Update(Update::default()), Change::RETRY] {
        assert_eq!(s.edit(id(1), change).await, unfit);
    }
    s.forget(id(1), ended.job().version).await;
    assert_eq!(s.edit(id(1), cancel()).await, Edited::Unknown, "the ledger knows");
}

/// As that of a waiting one. A retry and a deletion are left to the ledger, which compares it.
pub async fn the_version_of_a_finished_job_is_compared(s: Subject) {
    s.hold(&[job(1)]).await;
    let before = s.one().await;
    s.settled(before.receipt(), success()).await;
    let ended = s.get(id(1)).await.expect("its end is noted");
    let unfit = Edited::Unfit { id: id(1), state: State::Succeeded };
    let replace = Change::Replace(Arc::new(job(2)));
    for change in [cancel(), Change::Update(Update::default()), replace, Change::expire()] {
        let of = |version| Edit { version: Some(version), ..edit(id(1), change.clone()) };
        assert_eq!(s.edit_with_entries(of(before.version)).await.0, Edited::Mismatch(ended.clone()), "{change:?}");
        assert_eq!(s.edit_with_entries(of(ended.version)).await.0, unfit, "{change:?}");
    }
    for change in [Change::Delete, Change::RETRY] {
        let stale = Edit { version: Some(before.version), ..edit(id(1), change) };
        assert_eq!(s.edit_with_entries(stale).await.0, unfit);
    }
}

/// The entry removes its record.
pub async fn a_deleted_job_is_gone(s: Subject) {
    s.hold(&[job(1)]).await;
    let (edited, entries) = s.edit_with_entries(edit(id(1), Change::Delete)).await;
    assert!(matches!(edited, Edited::Changed(_)), "{edited:?}");
    let [OutboxEntry::Removed(removed)] = &entries[..] else { panic!("{entries:?}") };
    assert!(removed.version > 1);
    assert_eq!(s.get(id(1)).await, None);
    assert_eq!(s.handed_out(1).await, []);
}

/// Its row is still pending in the ledger until the entry is recorded: an edit there would outlive the removal.
pub async fn a_removed_job_is_not_edited_behind_its_entry(s: Subject) {
    s.hold(&[job(1), job(2)]).await;
    s.edit(id(1), Change::Delete).await;
    let running = s.one().await;
    let dropped = Finish { drop: true, ..Finish::new(Stage::Failed) };
    s.settle(running.receipt(), Decision::Finish(dropped)).await;
    let edited = s.edit(id(1), cancel()).await;
    assert!(matches!(edited, Edited::Unfit { state, .. } if !state.is_live()), "{edited:?}");
    let edited = s.edit(id(2), Change::Update(Update::default())).await;
    assert_eq!(edited, Edited::Unfit { id: id(2), state: State::Failed });
}

/// Only if it is late.
pub async fn a_late_job_is_expired_by_hand(s: Subject) {
    s.hold(&[Job { expires: Some(Span(100)), ..job(1) }, job(2)]).await;
    s.pass(100);
    for n in [1, 2] {
        assert_eq!(s.edit(id(n), Change::expire()).await, Edited::Unfit { id: id(n), state: State::Ready });
    }
    s.pass(1);
    let edited = s.edit(id(1), Change::expire()).await;
    assert!(matches!(&edited, Edited::Changed(job) if job.stage == Stage::Failed), "{edited:?}");
    assert_eq!(s.broker.expired(10).await.unwrap().unstarted, []);
    let counts = s.broker.counts(Queues::Named(vec![QUEUE.into()])).await.unwrap()[0].1;
    assert_eq!(counts.ready, 1);
}

/// It leaves no trace; a reading of it may be put.
pub async fn an_unknown_job_is_not_edited(s: Subject) {
    for (n, change) in [(1, cancel()), (2, Change::Delete), (3, Change::Update(Update::default()))] {
        assert_eq!(s.edit(id(n), change).await, Edited::Unknown);
        s.hold(&[job(n)]).await;
    }
    assert!(s.outcomes().await.is_empty(), "it noted nothing");
}

/// No reading from before an edit of the ledger is put, however long the edit takes. A later version shows that it was made,
/// or can no longer be made.
pub async fn a_barred_job_is_not_put_as_it_was(s: Subject) {
    assert_eq!(s.bar(id(1), 5).await, []);
    s.pass(2 * <dyn Broker>::READ_AGE_MS_MAX - 1);
    assert_eq!(s.put(&[Job { version: 4, ..job(1) }]).await, [Put::Tombstone]);
    assert_eq!(s.put(&[Job { version: 5, ..job(1) }]).await, [Put::Tombstone]);
    s.hold(&[Job { version: 6, ..job(1) }]).await;
    assert_eq!(s.handed_out(10).await, [id(1)]);
}

/// Also once the ledger has said which version it made.
pub async fn a_barred_job_is_put_as_it_was_edited(s: Subject) {
    assert_eq!(s.bar(id(1), 1).await, []);
    s.forget(id(1), 7).await;
    assert_eq!(s.put(&[Job { version: 6, ..job(1) }]).await, [Put::Tombstone]);
    s.hold(&[Job { version: 7, ..job(1) }]).await;
}

/// The later reading counts, in any order.
pub async fn a_job_is_barred_for_two_edits(s: Subject) {
    assert_eq!(s.bar(id(1), 7).await, []);
    assert_eq!(s.bar(id(1), 5).await, []);
    assert_eq!(s.put(&[Job { version: 7, ..job(1) }]).await, [Put::Tombstone]);
    s.hold(&[Job { version: 8, ..job(1) }]).await;
}

/// It is edited here, and so is one whose end is not recorded yet.
pub async fn a_job_that_is_here_is_not_barred(s: Subject) {
    s.hold(&[job(1), job(2)]).await;
    let running = s.one().await;
    s.settle(running.receipt(), success()).await;
    for n in [1, 2] {
        assert_eq!(s.bar(id(n), T0 + 9).await, [id(n)]);
    }
    assert_eq!(s.handed_out(10).await, [id(2)]);
}

/// A slow ledger may have been read before it changed the row.
pub async fn a_tombstone_stands_when_the_ledger_has_answered(s: Subject) {
    assert_eq!(s.bar(id(1), 1).await, []);
    s.pass(<dyn Broker>::BARRED_MS - 1);
    let reading = s.broker.reading();
    s.forget(id(1), 5).await;
    s.pass(<dyn Broker>::READ_AGE_MS_MAX);
    assert_eq!(s.broker.put(vec![job(1)], reading, Room::Any).await.unwrap(), [Put::Tombstone]);
}

/// It ended here, was retried by hand in the ledger, and is cancelled before its new reading arrives.
pub async fn the_end_of_a_barred_job_is_still_known(s: Subject) {
    s.hold(&[job(1)]).await;
    let running = s.one().await;
    let ended = s.settled(running.receipt(), success()).await.entries.remove(0).job().clone();
    s.forget(id(1), ended.version).await;
    let retried = Job { stage: Stage::Pending, version: ended.version + 1, finished_at: None, ..ended };
    assert_eq!(s.bar(id(1), retried.version).await, []);
    assert_eq!(s.put(&[retried]).await, [Put::Tombstone], "the ledger is about to cancel it");
    assert_eq!(s.settle(running.receipt(), success()).await, Some(State::Succeeded), "its end is still known");
}

/// If the edit never ends; so the job is not lost.
pub async fn a_tombstone_lapses(s: Subject) {
    assert_eq!(s.bar(id(1), 1).await, []);
    s.pass(crate::limits::HOUR_MS);
    s.hold(&[job(1)]).await;
}

/// Those of a waiting job that others follow: without them nothing happens.
pub async fn an_edit_that_ends_a_job_needs_what_follows(s: Subject) {
    let expires = |n| Job { expires: Some(Span(1)), ..followed(n) };
    s.hold(&[followed(1), expires(2)]).await;
    s.pass(10);
    for (n, change) in [(1, cancel()), (2, Change::expire())] {
        let refused = s.edit_with_entries(edit(id(n), change.clone())).await;
        assert!(
            matches!(&refused, (Edited::Undecided(job), entries) if job.id == id(n) && entries.is_empty()),
            "{refused:?}"
        );
        let whole = change.followed_by(vec![job(n + 10)]);
        let (edited, entries) = s.edit_with_entries(edit(id(n), whole.clone())).await;
        assert!(matches!(&edited, Edited::Changed(job) if !job.is_pending()), "{edited:?}");
        assert!(entries.iter().any(|entry| entry.successors() == [job(n + 10)]), "{entries:?}");
        assert!(!matches!(s.edit(id(n), whole).await, Edited::Changed(_)), "a repeat makes nothing new");
    }
    let noted = s.outcomes().await;
    assert_eq!(noted.iter().map(|entry| entry.successors().len()).sum::<usize>(), 2, "{noted:?}");
}
