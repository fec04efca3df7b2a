//! Changes from outside, of rows that no broker holds.

use super::Subject;
use super::fixture::*;
use crate::json::{Span, Timestamp};
use crate::limits::DAY_MS;
use crate::model::id::Numbers;
use crate::model::job::{AttemptError, Job, KeyUntil, Stage, State};
use crate::model::marks::Marks;
use crate::model::options::JobOptions;
use crate::model::retry::Retry;
use crate::ports::{Change, Edit, Edited, Ledger, OutboxEntry, Queues, Recorded, Selector, Update};
use std::sync::Arc;

fn cancel() -> Change {
    Change::cancel(None)
}

/// The job of an edit that was made; the row says the same.
async fn changed(ledger: &dyn Ledger, edit: Edit) -> Job {
    let Edited::Changed(job) = self::edit(ledger, edit).await else { panic!("the edit fits") };
    assert_eq!(row(ledger, job.id).await, Some(job.clone()));
    job
}

/// With its message, its key and its place among waiting jobs.
pub async fn a_cancel_ends_a_waiting_job(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[keyed(1, "k"), job(2)]).await;
    let cancelled = changed(ledger, change(&job(1), Change::cancel(Some(text("no more"))))).await;
    let expected = Job {
        stage: Stage::Cancelled,
        message: Some(text("no more")),
        version: Numbers::Ledger.after(job(1).version),
        updated_at: Timestamp(LATER),
        finished_at: Some(Timestamp(LATER)),
        ..keyed(1, "k")
    };
    assert_eq!(cancelled, expected);
    assert_eq!(pending(ledger, WATERMARK, 10).await, [2]);
    record(ledger, &[keyed(3, "k")]).await;
}

/// The broker would hold the job if its lease still were one.
pub async fn a_cancel_takes_a_lost_lease_with_it(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[job(1)]).await;
    apply(ledger, &[leased(&job(1))]).await;
    let cancelled = changed(ledger, change(&job(1), cancel())).await;
    assert_eq!((cancelled.stage, cancelled.lease_until), (Stage::Cancelled, None));
    assert_eq!(row(ledger, id(1)).await.unwrap().lease_until, None);
}

/// Of finished jobs too.
pub async fn a_delete_removes_row_and_tags(subject: Subject) {
    let ledger = &*subject.ledger;
    let waiting = Job { tags: [text("t")].into(), ..keyed(1, "k") };
    record(ledger, std::slice::from_ref(&waiting)).await;
    let done = record_ended(ledger, &[tagged(2, &["t"])], Stage::Failed).await.remove(0);
    for job in [waiting, done] {
        assert_eq!(edit(ledger, change(&job, Change::Delete)).await, Edited::Changed(job.clone()));
        assert_eq!(edit(ledger, change(&job, Change::Delete)).await, Edited::Unknown);
    }
    assert_eq!(found(ledger, all(Selector::Tag(text("t")))).await, [0; 0]);
    assert_eq!(ledger.tallies(Queues::first()).await.unwrap(), []);
    record(ledger, &[keyed(3, "k")]).await;
}

/// Those that are named; the others stay.
pub async fn an_update_gives_new_values(subject: Subject) {
    let ledger = &*subject.ledger;
    let old = Job { tags: [text("a"), text("b")].into(), ..keyed(1, "k") };
    record(ledger, std::slice::from_ref(&old)).await;
    let update = Update {
        due_at: None,
        priority: Some(0),
        payload: Some(Arc::from(b"new".as_slice())),
        tags: Some([text("b"), text("c")].into()),
        marks: Marks::from_iter([("parks", 1)]).shared(),
    };
    let marks = update.marks.clone();
    let new = changed(ledger, change(&old, Change::Update(update))).await;
    let expected = Job {
        priority: 0,
        payload: Arc::from(b"new".as_slice()),
        tags: [text("b"), text("c")].into(),
        options: JobOptions { marks, ..old.options().clone() }.shared(),
        version: Numbers::Ledger.after(old.version),
        updated_at: Timestamp(LATER),
        ..old
    };
    assert_eq!(new, expected);
    assert_eq!(found(ledger, all(Selector::Tag(text("a")))).await, [0; 0]);
    assert_eq!(found(ledger, all(Selector::Tag(text("c")))).await, [1]);
    assert_eq!(ledger.record(vec![keyed(2, "k")], WATERMARK).await.unwrap(), [Recorded::KeyHeld(id(1))]);
}

/// By its new due time.
pub async fn an_update_sets_a_new_bucket(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[job(1)]).await;
    for due_at in [NOW + DAY_MS, NOW] {
        let update = Update { due_at: Some(due_at), ..Update::default() };
        let job = changed(ledger, change(&job(1), Change::Update(update))).await;
        assert_eq!((job.due_at, job.first_due_at), (Timestamp(due_at), Timestamp(due_at)));
        let is_near = due_at < WATERMARK;
        assert_eq!(pending(ledger, WATERMARK, 10).await.len(), usize::from(is_near));
        assert_eq!(pending(ledger, u64::MAX, 10).await, [1]);
    }
}

/// With everything that was sent, if it holds its key.
pub async fn a_replaced_job_starts_anew(subject: Subject) {
    let ledger = &*subject.ledger;
    let old = Job { origin: Some(text("o")), lease: Some(Span(5_000)), tags: [text("a")].into(), ..keyed(1, "k") };
    record(ledger, std::slice::from_ref(&old)).await;
    let errors = vec![AttemptError { attempt: 1, at: Timestamp(NOW), message: text("ink"), crashed: true }];
    let failed = Job { crashes: 1, errors, message: Some(text("ink")), progress: progress(50), ..again(&old, NOW) };
    apply(ledger, std::slice::from_ref(&failed)).await;
    let options = JobOptions::from(Retry { max_attempts: Some(3), ..Retry::default() });
    let sent = Job {
        kind: text("größer"),
        payload: Arc::from(b"new".as_slice()),
        due_at: Timestamp(NOW + DAY_MS),
        first_due_at: Timestamp(NOW + DAY_MS),
        priority: 3,
        lease: Some(Span(90_000)),
        expires: Some(Span(500)),
        key_until: KeyUntil::Started,
        origin: Some(text("later")),
        tags: [text("b")].into(),
        options: options.shared(),
        ..keyed(2, "k")
    };
    let replace = Change::Replace(Arc::new(sent.clone()));
    let replaced = changed(ledger, change(&old, replace.clone())).await;
    let version = Numbers::Ledger.after(failed.version);
    let kept = Job { id: id(1), origin: old.origin.clone(), epoch: failed.epoch, ..sent };
    assert_eq!(replaced, Job { version, updated_at: Timestamp(LATER), ..kept });
    assert_eq!(found(ledger, all(Selector::Tag(text("a")))).await, [0; 0]);
    assert_eq!(found(ledger, all(Selector::Tag(text("b")))).await, [1]);
    assert_eq!(ledger.record(vec![keyed(3, "k")], WATERMARK).await.unwrap(), [Recorded::KeyHeld(id(1))]);
    // A broker that made the change.
    let plain = Job { version: replaced.version + 1, lease: None, expires: None, options: None, ..keyed(1, "k") };
    let plain = Job { origin: replaced.origin, epoch: replaced.epoch, ..plain };
    ledger.apply(vec![OutboxEntry::Rewritten(plain.clone())], WATERMARK).await.unwrap();
    assert_eq!(row(ledger, id(1)).await, Some(plain.clone()));
    // It releases its key when it starts.
    let started = Job { key_until: KeyUntil::Started, ..again(&plain, NOW) };
    ledger.apply(vec![OutboxEntry::Rewritten(started.clone())], WATERMARK).await.unwrap();
    record(ledger, &[keyed(3, "k")]).await;
    let unfit = Edited::Unfit { id: id(1), state: State::Ready };
    assert_eq!(edit(ledger, change(&old, replace)).await, unfit);
    assert_eq!(row(ledger, id(1)).await, Some(started));
}

/// It looks like a new job with a history.
pub async fn a_retry_starts_over_and_keeps_errors(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[tagged(1, &["t"])]).await;
    let errors = vec![AttemptError { attempt: 1, at: Timestamp(NOW), message: text("ink"), crashed: false }];
    let failed = Job {
        crashes: 2,
        errors,
        message: Some(text("ink")),
        result: Some(Arc::from(b"half".as_slice())),
        cancel_asked: true,
        ..ended(&tagged(1, &["t"]), Stage::Failed)
    };
    apply(ledger, std::slice::from_ref(&failed)).await;
    let expected = Job {
        stage: Stage::Pending,
        due_at: Timestamp(LATER),
        first_due_at: Timestamp(LATER),
        attempt: 0,
        crashes: 0,
        cancel_asked: false,
        result: None,
        version: Numbers::Ledger.after(failed.version),
        updated_at: Timestamp(LATER),
        started_at: None,
        finished_at: None,
        ..failed.clone()
    };
    assert_eq!(changed(ledger, change(&failed, Change::RETRY)).await, expected);
    assert_eq!(pending(ledger, WATERMARK, 10).await, [1]);
    assert_eq!(ledger.prune(crate::ports::Retention::default(), LATER + 90 * DAY_MS, 10).await.unwrap(), 0);
    // One of many that are spread over a span.
    record(ledger, &[tagged(2, &["t"])]).await;
    let failed = ended(&tagged(2, &["t"]), Stage::Failed);
    apply(ledger, std::slice::from_ref(&failed)).await;
    let spread = Change::Retry { after: crate::json::Span(5_000), keeps_attempts: false, marks: None };
    let retried = changed(ledger, change(&failed, spread)).await;
    assert_eq!((retried.due_at, retried.first_due_at), (Timestamp(LATER + 5_000), Timestamp(LATER + 5_000)));
    assert_eq!(row(ledger, failed.id).await, Some(retried));
}

/// However long it holds it.
pub async fn a_retry_holds_the_key_again(subject: Subject) {
    let ledger = &*subject.ledger;
    let finished = keyed(1, "finished");
    let started = Job { key_until: KeyUntil::Started, ..keyed(2, "started") };
    for job in record_ended(ledger, &[finished, started], Stage::Succeeded).await {
        changed(ledger, change(&job, Change::RETRY)).await;
    }
    let recorded = ledger.record(vec![keyed(3, "finished"), keyed(4, "started")], WATERMARK).await.unwrap();
    assert_eq!(recorded, [Recorded::KeyHeld(id(1)), Recorded::KeyHeld(id(2))]);
}

/// And changes nothing.
pub async fn a_retry_of_a_taken_key_names_the_holder(subject: Subject) {
    let ledger = &*subject.ledger;
    let done = record_ended(ledger, &[keyed(1, "k")], Stage::Failed).await.remove(0);
    record(ledger, &[keyed(2, "k")]).await;
    assert_eq!(edit(ledger, change(&done, Change::RETRY)).await, Edited::KeyHeld(id(2), done.queue.clone(), text("k")));
    assert_eq!(row(ledger, id(1)).await, Some(done));
}

/// Its own key is no conflict.
pub async fn a_waiting_job_that_is_due_now_keeps_its_key(subject: Subject) {
    let ledger = &*subject.ledger;
    let later = Job { due_at: Timestamp(LATER + 1), first_due_at: Timestamp(LATER + 1), ..keyed(1, "k") };
    record(ledger, std::slice::from_ref(&later)).await;
    let now = Update { due_at: Some(LATER), ..Update::default() };
    let changed = changed(ledger, change(&later, Change::Update(now))).await;
    assert_eq!((changed.due_at, changed.live_key()), (Timestamp(LATER), Some(&text("k"))));
}

/// A job without a limit, with time left, or that has started is not expired.
pub async fn an_expiry_only_where_not_started_in_time(subject: Subject) {
    let ledger = &*subject.ledger;
    let expiring = |n, expires_ms| Job { expires: Some(expires_ms), ..job(n) };
    let late = expiring(1, Span(LATER - NOW - 1));
    let early = expiring(2, Span(LATER - NOW));
    let tried = expiring(3, Span(1));
    record(ledger, &[late.clone(), early.clone(), tried.clone(), job(4)]).await;
    let tried = again(&tried, NOW);
    apply(ledger, std::slice::from_ref(&tried)).await;
    let failed = changed(ledger, change(&late, Change::expire())).await;
    assert_eq!((failed.stage, failed.finished_at), (Stage::Failed, Some(Timestamp(LATER))));
    assert!(failed.message.unwrap().starts_with("expired"));
    for job in [early, tried, job(4)] {
        let unfit = Edited::Unfit { id: job.id, state: State::Ready };
        assert_eq!(edit(ledger, change(&job, Change::expire())).await, unfit);
        assert_eq!(row(ledger, job.id).await, Some(job));
    }
}

/// The answer contains the job's state.
pub async fn a_change_that_does_not_fit_changes_nothing(subject: Subject) {
    let ledger = &*subject.ledger;
    let done = record_ended(ledger, &[job(1)], Stage::Succeeded).await.remove(0);
    for change in [cancel(), Change::Update(Update::default()), Change::expire()] {
        let unfit = Edited::Unfit { id: id(1), state: State::Succeeded };
        assert_eq!(edit(ledger, self::change(&done, change)).await, unfit);
    }
    record(ledger, &[job(2)]).await;
    let unfit = Edited::Unfit { id: id(2), state: State::Ready };
    assert_eq!(edit(ledger, change(&job(2), Change::RETRY)).await, unfit);
    assert_eq!(ledger.get(&[id(1), id(2)]).await.unwrap(), [Some(done), Some(job(2))]);
}

/// If one is given.
pub async fn a_version_must_match(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[job(1)]).await;
    let of = |version| Edit { id: id(1), version: Some(version), change: Change::Delete };
    assert_eq!(edit(ledger, of(job(1).version + 1)).await, Edited::Mismatch(job(1)));
    assert_eq!(edit(ledger, of(job(1).version)).await, Edited::Changed(job(1)));
}

/// For any change.
pub async fn an_unknown_job_is_unknown(subject: Subject) {
    for change in [cancel(), Change::Delete, Change::Update(Update::default()), Change::RETRY, Change::expire()] {
        assert_eq!(edit(&*subject.ledger, self::change(&job(1), change)).await, Edited::Unknown);
    }
}

/// In their order, within one batch.
pub async fn edits_of_one_job_follow_each_other(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[job(1), job(2)]).await;
    let edits =
        [cancel(), cancel(), Change::RETRY, Change::Delete, cancel()].map(|change| self::change(&job(1), change));
    let edited = ledger.edit(edits.to_vec(), LATER, WATERMARK).await.unwrap();
    let kinds: Vec<_> = edited
        .iter()
        .map(|edited| match edited {
            Edited::Changed(job) => job.stage.code(),
            Edited::Unfit { .. } => 0,
            Edited::Unknown => 1,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, [Stage::Cancelled.code(), 0, Stage::Pending.code(), Stage::Pending.code(), 1]);
    assert_eq!(ledger.tallies(Queues::first()).await.unwrap()[0].1.pending, 1);
}

/// A broker beside it gives even ones.
pub async fn versions_of_edits_are_odd(subject: Subject) {
    let ledger = &*subject.ledger;
    let handed_back = Job { version: 500, ..job(1) };
    record(ledger, std::slice::from_ref(&handed_back)).await;
    let cancelled = changed(ledger, change(&handed_back, cancel())).await;
    assert_eq!(cancelled.version, 501);
    assert_eq!(changed(ledger, change(&handed_back, Change::RETRY)).await.version, 503);
}

/// Both are made, whatever part of the job they change; of those that name one version, one is.
pub async fn edits_at_once_are_made_one_after_the_other(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[job(1), job(2)]).await;
    let payload = || Change::Update(Update { payload: Some((*b"new").into()), ..Update::default() });
    let priority = || Change::Update(Update { priority: Some(7), ..Update::default() });
    let any = |change| Edit { id: id(1), version: None, change };
    let (a, b) = tokio::join!(edit(ledger, any(payload())), edit(ledger, any(priority())));
    assert!(matches!((&a, &b), (Edited::Changed(a), Edited::Changed(b)) if a.version != b.version), "{a:?} {b:?}");
    let both = row(ledger, id(1)).await.unwrap();
    assert_eq!((&*both.payload, both.priority), (&b"new"[..], 7));
    let of_version = |change| Edit { version: Some(job(2).version), ..self::change(&job(2), change) };
    let (a, b, c) = tokio::join!(
        edit(ledger, of_version(payload())),
        edit(ledger, of_version(priority())),
        edit(ledger, of_version(payload())),
    );
    let made = [a, b, c].into_iter().filter(|edited| matches!(edited, Edited::Changed(_))).count();
    assert_eq!(made, 1);
}

/// In one step. With an id that another job has, nothing happens.
pub async fn what_follows_a_cancel_is_recorded_with_it(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[followed(1), followed(2), job(3)]).await;
    let next = |n: u64| Job { queue: text("next"), ..job(n) };
    let with = |n: u64, new: &[u64]| change(&followed(n), cancel().followed_by(new.iter().map(|&n| next(n)).collect()));
    for refused in [change(&followed(1), cancel()), with(1, &[4, 3])] {
        assert!(matches!(edit(ledger, refused).await, Edited::Undecided(row) if row == followed(1)));
        assert_eq!((row(ledger, id(1)).await, row(ledger, id(4)).await), (Some(followed(1)), None));
    }
    changed(ledger, with(1, &[4, 5])).await;
    assert_eq!((row(ledger, id(4)).await, row(ledger, id(5)).await), (Some(next(4)), Some(next(5))));
    assert!(!matches!(edit(ledger, with(1, &[6])).await, Edited::Changed(_)), "a repeat makes nothing new");
    assert_eq!(row(ledger, id(6)).await, None);
    let counted = ledger.tallies(Queues::Named(vec![text("next")])).await.unwrap();
    assert_eq!(counted.iter().map(|(_, tally)| tally.pending).sum::<u64>(), 2);
}
