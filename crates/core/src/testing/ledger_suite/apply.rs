//! Outcomes of jobs.

use super::Subject;
use super::fixture::*;
use crate::json::Timestamp;
use crate::model::job::{AttemptError, Job, KeyUntil, Stage};
use crate::model::marks::Marks;
use crate::model::options::JobOptions;
use crate::ports::{Change, Edit, Edited, OutboxEntry, Queues, Recorded, Selector};
use std::sync::Arc;

/// Every field that a change can have.
pub async fn every_field_comes_back(subject: Subject) {
    let ledger = &*subject.ledger;
    let of_trace = |job: Job| Job {
        options: JobOptions { target: target(), trace: Some(text(TRACE)), moves: 3, ..JobOptions::default() }.shared(),
        ..job
    };
    record(ledger, &[of_trace(tagged(1, &["a"]))]).await;
    let error = |attempt| AttemptError {
        attempt,
        at: Timestamp(NOW + 3),
        message: text("out of \"ink\""),
        crashed: attempt == 2,
    };
    let waits = Job {
        due_at: Timestamp(NOW + 9),
        first_due_at: Timestamp(NOW + 8),
        priority: 3,
        attempt: 4,
        crashes: 2,
        message: Some(text("out of ink")),
        errors: vec![error(1), error(2)],
        cancel_asked: true,
        progress: progress(40),
        ..again(&of_trace(tagged(1, &["a"])), NOW + 9)
    };
    apply(ledger, std::slice::from_ref(&waits)).await;
    assert_eq!(row(ledger, id(1)).await, Some(waits.clone()));

    let running = leased(&waits);
    apply(ledger, std::slice::from_ref(&running)).await;
    assert_eq!(row(ledger, id(1)).await, Some(running.clone()));

    let done = Job { result: Some(Arc::from(b"42".as_slice())), ..ended(&running, Stage::Failed) };
    apply(ledger, std::slice::from_ref(&done)).await;
    assert_eq!(row(ledger, id(1)).await, Some(done));
}

/// For any other content of the outcome, and even if no progress was reported.
pub async fn how_far_a_job_had_come_stays_with_its_end(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[job(1), job(2), job(3)]).await;
    let told = |n| Job { progress: progress(60), ..ended(&job(n), Stage::Succeeded) };
    let waits = Job { progress: progress(60), ..again(&job(3), NOW + 5) };
    apply(ledger, &[told(1), ended(&job(2), Stage::Succeeded), waits.clone()]).await;
    assert_eq!(row(ledger, id(1)).await, Some(told(1)));
    assert_eq!(row(ledger, id(2)).await, Some(ended(&job(2), Stage::Succeeded)));
    assert_eq!(row(ledger, id(3)).await, Some(waits.clone()));
    // The end of a later run without progress.
    let failed = ended(&Job { progress: None, ..waits }, Stage::Failed);
    apply(ledger, std::slice::from_ref(&failed)).await;
    assert_eq!(row(ledger, id(3)).await, Some(failed));
}

/// Whichever comes first; the same version twice does no harm.
pub async fn the_higher_version_wins(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[job(1)]).await;
    let done = ended(&job(1), Stage::Succeeded);
    let older = Job { version: done.version - 1, ..again(&job(1), NOW + 5) };
    apply(ledger, std::slice::from_ref(&done)).await;
    let same = Job { version: done.version, message: Some(text("late")), ..done.clone() };
    apply(ledger, &[older, same]).await;
    assert_eq!(row(ledger, id(1)).await, Some(done));
}

/// A broker that fell back to before the end decides about the job in a higher version, for example that it waits again.
pub async fn what_has_ended_is_changed_by_no_entry(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[job(1), job(2), job(3)]).await;
    let done: Vec<Job> = (1..4).map(|n| ended(&job(n), Stage::Succeeded)).collect();
    apply(ledger, &done).await;
    let later = |job: &Job| Job { version: job.version + 100, ..again(job, NOW + 5) };
    let stale = vec![
        OutboxEntry::Changed(later(&job(1))),
        OutboxEntry::Rewritten(Job { payload: Arc::from(b"new".as_slice()), ..later(&job(2)) }),
        OutboxEntry::Changed(ended(&later(&job(3)), Stage::Failed)).followed_by(vec![copy(4, &job(3))]),
    ];
    ledger.apply(stale, WATERMARK).await.unwrap();
    assert_eq!(ledger.get(&[id(1), id(2), id(3)]).await.unwrap(), done.iter().cloned().map(Some).collect::<Vec<_>>());
    assert_eq!(found(ledger, all(Selector::All)).await, [1, 2, 3], "no copy");
    let tally = ledger.tallies(Queues::first()).await.unwrap()[0].1;
    assert_eq!((tally.succeeded, tally.failed, tally.totals.failed), (3, 0, 0));
    ledger.apply(vec![OutboxEntry::Removed(later(&job(1)))], WATERMARK).await.unwrap();
    assert_eq!(row(ledger, id(1)).await, None, "a removal counts");
}

/// A broker was emptied before an end was recorded, and handed the job out again. The ledger recorded the first end during
/// the second run.
pub async fn the_end_of_a_later_lease_replaces_that_of_an_earlier_one(subject: Subject) {
    let ledger = &*subject.ledger;
    let first = |n| Job { version: 100, ..ended(&tagged(n, &["t"]), Stage::Failed) };
    let later = |n| Job { version: 201, epoch: NOW + 1, ..ended(&tagged(n, &["t"]), Stage::Succeeded) };
    record(ledger, &(1..6).map(|n| tagged(n, &["t"])).collect::<Vec<_>>()).await;
    apply(ledger, &(1..6).map(first).collect::<Vec<_>>()).await;
    apply(ledger, &[later(1), first(1), Job { epoch: NOW, ..later(2) }, Job { version: 99, ..later(3) }]).await;
    let rewritten = Job { payload: Arc::from(b"new".as_slice()), ..later(4) };
    let copy = copy(6, &tagged(5, &["t"]));
    let moved =
        vec![OutboxEntry::Rewritten(rewritten.clone()), OutboxEntry::Changed(later(5)).followed_by(vec![copy.clone()])];
    ledger.apply(moved, WATERMARK).await.unwrap();
    let rows = [later(1), first(2), first(3), rewritten, later(5), copy];
    assert_eq!(ledger.get(&(1..7).map(id).collect::<Vec<_>>()).await.unwrap(), rows.map(Some));
    assert_eq!(found(ledger, all(Selector::Tag(text("t")))).await, [1, 2, 3, 4, 5, 6]);
}

/// A broker was emptied between the lease of a take and its record, and handed the job out again. Nobody got the taken job.
pub async fn the_end_of_a_later_lease_replaces_a_take(subject: Subject) {
    let ledger = &*subject.ledger;
    let taken = Job { version: 101, message: Some(text("taken")), ..ended(&job(1), Stage::Succeeded) };
    let later = Job { version: 200, epoch: NOW + 1, ..ended(&job(1), Stage::Failed) };
    record(ledger, &[job(1)]).await;
    apply(ledger, &[taken.clone(), Job { epoch: taken.epoch, ..later.clone() }]).await;
    assert_eq!(row(ledger, id(1)).await, Some(taken), "the same lease");
    apply(ledger, std::slice::from_ref(&later)).await;
    assert_eq!(row(ledger, id(1)).await, Some(later));
}

/// The caller got the answer that the job is cancelled, so a late end changes nothing.
pub async fn what_an_edit_has_ended_stays(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[job(1)]).await;
    let edit = Edit { id: id(1), version: None, change: Change::cancel(None) };
    let edited = ledger.edit(vec![edit], NOW + 2, WATERMARK).await.unwrap();
    assert!(matches!(edited[..], [Edited::Changed(_)]), "{edited:?}");
    let cancelled = row(ledger, id(1)).await;
    apply(ledger, &[Job { version: 200, epoch: NOW + 5, ..ended(&job(1), Stage::Succeeded) }]).await;
    assert_eq!(row(ledger, id(1)).await, cancelled);
}

/// It does not bring back a pruned job.
pub async fn an_entry_of_an_unknown_job_is_nothing(subject: Subject) {
    let ledger = &*subject.ledger;
    apply(ledger, &[ended(&job(1), Stage::Succeeded), again(&job(2), NOW)]).await;
    ledger.apply(vec![OutboxEntry::Rewritten(job(3)), OutboxEntry::Removed(job(4))], WATERMARK).await.unwrap();
    assert_eq!(found(ledger, all(Selector::All)).await, [0; 0]);
    assert_eq!(ledger.tallies(Queues::first()).await.unwrap(), []);
}

/// For the next job with it.
pub async fn a_final_entry_frees_the_key(subject: Subject) {
    for (n, stage) in [(1, Stage::Succeeded), (2, Stage::Failed), (3, Stage::Cancelled)] {
        record_ended(&*subject.ledger, &[keyed(n, "k")], stage).await;
    }
}

/// Unless its key was only held until it was first handed out.
pub async fn a_job_that_waits_again_keeps_its_key(subject: Subject) {
    let ledger = &*subject.ledger;
    let until_started = Job { key_until: KeyUntil::Started, ..keyed(2, "started") };
    record(ledger, &[keyed(1, "finished"), until_started.clone()]).await;
    apply(ledger, &[again(&keyed(1, "finished"), NOW + 5), again(&until_started, NOW + 5)]).await;
    let recorded = ledger.record(vec![keyed(3, "finished"), keyed(4, "started")], WATERMARK).await.unwrap();
    assert_eq!(recorded, [Recorded::KeyHeld(id(1)), Recorded::Created]);
}

/// And is found by the new tags only.
pub async fn a_rewritten_job_has_new_payload_and_tags(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[tagged(1, &["a", "b"])]).await;
    let mut new = again(&tagged(1, &["b", "c"]), NOW + 5);
    new.payload = Arc::from(b"new".as_slice());
    ledger.apply(vec![OutboxEntry::Rewritten(new.clone())], WATERMARK).await.unwrap();
    let old = Job { version: new.version - 1, ..job(1) };
    ledger.apply(vec![OutboxEntry::Rewritten(old)], WATERMARK).await.unwrap();
    assert_eq!(row(ledger, id(1)).await, Some(new));
    for (tag, numbers) in [("a", vec![]), ("b", vec![1]), ("c", vec![1])] {
        assert_eq!(found(ledger, all(Selector::Tag(text(tag)))).await, numbers, "{tag}");
    }
}

/// And also a new state, as after a park.
pub async fn a_rewritten_job_has_new_options(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[job(1)]).await;
    let marks = Marks::from_iter([("parks", 2), ("hold_s", 50_000)]).shared();
    let options = JobOptions { releases: 1, marks, ..JobOptions::default() }.shared();
    let new = Job { options, priority: 9, finished_at: None, ..ended(&job(1), Stage::Failed) };
    ledger.apply(vec![OutboxEntry::Rewritten(new.clone())], WATERMARK).await.unwrap();
    assert_eq!(row(ledger, id(1)).await, Some(new));
}

/// Also of a job that has no other options, and with an end that says nothing.
pub async fn releases_are_counted_by_any_entry(subject: Subject) {
    let ledger = &*subject.ledger;
    let of_rule = JobOptions { trace: Some(text(TRACE)), ..JobOptions::default() }.shared();
    record(ledger, &[job(1), Job { options: of_rule.clone(), ..job(2) }]).await;
    for options in [None, of_rule] {
        let n = if options.is_none() { 1 } else { 2 };
        let mut waits = Job { options, ..again(&job(n), NOW + 5) };
        waits.set_releases(1);
        apply(ledger, std::slice::from_ref(&waits)).await;
        assert_eq!(row(ledger, id(n)).await, Some(waits.clone()));
        let mut done = ended(&waits, Stage::Succeeded);
        done.set_releases(2);
        apply(ledger, std::slice::from_ref(&done)).await;
        assert_eq!(row(ledger, id(n)).await, Some(done.clone()));
        let Edited::Changed(anew) = edit(ledger, change(&done, Change::RETRY)).await else { panic!("it fits") };
        assert_eq!((anew.releases(), row(ledger, id(n)).await), (0, Some(anew.clone())));
    }
}

fn copy(n: u64, of: &Job) -> Job {
    let Job { payload, key, tags, .. } = of.clone();
    Job { queue: text("dead"), payload, key, tags, ..job(n) }
}

/// The original ends and the copy starts, together.
pub async fn a_moved_job_is_copied_once(subject: Subject) {
    let ledger = &*subject.ledger;
    let original = Job { tags: [text("t")].into(), ..keyed(1, "k") };
    record(ledger, std::slice::from_ref(&original)).await;
    let done = ended(&original, Stage::Failed);
    let copy = copy(2, &original);
    for _ in 0..2 {
        ledger
            .apply(vec![OutboxEntry::Changed(done.clone()).followed_by(vec![copy.clone()])], WATERMARK)
            .await
            .unwrap();
    }
    assert_eq!(ledger.get(&[id(1), id(2)]).await.unwrap(), [Some(done), Some(copy)]);
    assert_eq!(found(ledger, all(Selector::Tag(text("t")))).await, [1, 2]);
    assert_eq!(pending(ledger, WATERMARK, 10).await, [2]);
}

/// A broker fell back to before the end, and the job ran again. Another kind of end begins other jobs.
pub async fn the_end_of_a_second_run_begins_the_same_jobs_no_second_time(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[job(1), job(2)]).await;
    for (n, first, second, begins) in
        [(1, Stage::Succeeded, Stage::Succeeded, false), (2, Stage::Failed, Stage::Succeeded, true)]
    {
        // Brokers beside a ledger give even versions.
        let end = Job { version: 4, ..ended(&job(n), first) };
        let again = Job { version: end.version + 2, epoch: end.epoch + 1, stage: second, ..end.clone() };
        let ends = [(end, 10 * n), (again.clone(), 10 * n + 1)];
        let entries = ends.map(|(end, next)| OutboxEntry::Changed(end).followed_by(vec![copy(next, &job(n))]));
        ledger.apply(entries.to_vec(), WATERMARK).await.unwrap();
        assert_eq!(row(ledger, id(n)).await, Some(again));
        assert!(row(ledger, id(10 * n)).await.is_some());
        assert_eq!(row(ledger, id(10 * n + 1)).await.is_some(), begins);
    }
}

/// When the copy has been removed since.
pub async fn a_moved_job_comes_back_no_second_time(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[job(1)]).await;
    let moved = OutboxEntry::Changed(ended(&job(1), Stage::Failed)).followed_by(vec![copy(2, &job(1))]);
    ledger.apply(vec![moved.clone()], WATERMARK).await.unwrap();
    ledger.apply(vec![OutboxEntry::Removed(copy(2, &job(1))), moved], WATERMARK).await.unwrap();
    assert_eq!(row(ledger, id(2)).await, None);
}

/// Another job has its id, such as an imported one. Nothing is recorded under it; once it is under another one, the first entry
/// changes nothing, whatever became of the copy.
pub async fn a_copy_whose_id_is_taken_gets_another_one_once(subject: Subject) {
    let ledger = &*subject.ledger;
    let other = Job { queue: text("dead"), ..job(2) };
    record(ledger, &[job(1), other.clone()]).await;
    let done = ended(&job(1), Stage::Failed);
    let moved = |n| OutboxEntry::Changed(done.clone()).followed_by(vec![copy(n, &job(1))]);
    let apply = |entries| ledger.apply(entries, WATERMARK);
    assert_eq!(apply(vec![moved(2)]).await.unwrap(), [id(2)]);
    assert_eq!(ledger.get(&[id(1), id(2)]).await.unwrap(), [Some(job(1)), Some(other.clone())]);
    assert_eq!(apply(vec![moved(3), moved(2), moved(4)]).await.unwrap(), []);
    let rows = [Some(done.clone()), Some(other), Some(copy(3, &job(1))), None];
    assert_eq!(ledger.get(&[1, 2, 3, 4].map(id)).await.unwrap(), rows);
    apply(vec![OutboxEntry::Removed(copy(3, &job(1)))]).await.unwrap();
    assert_eq!(apply(vec![moved(2), moved(3)]).await.unwrap(), []);
    assert_eq!(found(ledger, all(Selector::All)).await, [1, 2]);
}

/// If its key is taken in the new queue, it is kept without the key.
pub async fn a_moved_job_survives_a_taken_key(subject: Subject) {
    let ledger = &*subject.ledger;
    let taken = Job { queue: text("dead"), ..keyed(3, "k") };
    record(ledger, &[keyed(1, "k"), taken]).await;
    let copy = copy(2, &keyed(1, "k"));
    let done = ended(&keyed(1, "k"), Stage::Failed);
    ledger.apply(vec![OutboxEntry::Changed(done).followed_by(vec![copy.clone()])], WATERMARK).await.unwrap();
    assert_eq!(row(ledger, id(2)).await, Some(copy.clone()));
    // Its own end is recorded all the same, and leaves the key with the other.
    apply(ledger, &[again(&copy, NOW + 5)]).await;
    let next = Job { queue: text("dead"), ..keyed(4, "k") };
    assert_eq!(ledger.record(vec![next], WATERMARK).await.unwrap(), [Recorded::KeyHeld(id(3))]);
}

/// With its record, its tags and its key.
pub async fn a_removed_job_is_gone(subject: Subject) {
    let ledger = &*subject.ledger;
    let job = Job { tags: [text("t")].into(), ..keyed(1, "k") };
    record(ledger, std::slice::from_ref(&job)).await;
    ledger.apply(vec![OutboxEntry::Removed(job)], WATERMARK).await.unwrap();
    assert_eq!(row(ledger, id(1)).await, None);
    assert_eq!(found(ledger, all(Selector::Tag(text("t")))).await, [0; 0]);
    assert_eq!(ledger.tallies(Queues::first()).await.unwrap(), []);
    record(ledger, &[keyed(2, "k")]).await;
}

/// The higher version wins here too.
pub async fn a_removal_of_an_older_version_is_nothing(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[job(1)]).await;
    apply(ledger, &[again(&job(1), NOW)]).await;
    ledger.apply(vec![OutboxEntry::Removed(job(1))], WATERMARK).await.unwrap();
    assert_eq!(row(ledger, id(1)).await, Some(again(&job(1), NOW)));
}

/// Any order of entries, in any batches, leaves the row as the highest version says.
pub async fn entries_of_one_job_in_disorder(subject: Subject) {
    let ledger = &*subject.ledger;
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for (n, order) in (1..).zip(orders) {
        record(ledger, &[job(n)]).await;
        let waits = again(&job(n), NOW + 5);
        let done = ended(&waits, Stage::Succeeded);
        let states = [leased(&job(n)), waits, done.clone()];
        apply(ledger, &[states[order[0]].clone(), states[order[1]].clone()]).await;
        apply(ledger, &[states[order[2]].clone()]).await;
        assert_eq!(row(ledger, id(n)).await, Some(done), "{order:?}");
    }
    assert_eq!(ledger.tallies(Queues::first()).await.unwrap()[0].1.succeeded, 6);
}
