//! Ids, and new jobs.

use super::Subject;
use super::fixture::*;
use crate::api::Span;
use crate::json::Timestamp;
use crate::limits::DAY_MS;
use crate::model::follow_up::{FollowUp, Previous};
use crate::model::id::sequence_at;
use crate::model::job::{AttemptError, Job, KeyUntil, NewJob, Stage, State};
use crate::model::marks::Marks;
use crate::model::meta::Meta;
use crate::model::options::JobOptions;
use crate::model::retry::{Backoff, Exponential, Retry, WhenExhausted};
use crate::ports::{Queues, Recorded, Retention};
use std::sync::Arc;

fn traced() -> Option<Arc<JobOptions>> {
    JobOptions { trace: Some(text(TRACE)), ..JobOptions::default() }.shared()
}

/// Neither after each other nor at the same time; a clock that steps back does not matter.
pub async fn blocks_of_ids_never_overlap(subject: Subject) {
    let ledger = &subject.ledger;
    let (a, b, c) = tokio::join!(ledger.allot(1_000, NOW), ledger.allot(1, NOW), ledger.allot(7, NOW - 5_000));
    let late = ledger.allot(10, NOW + 1).await.unwrap();
    let mut blocks = [a.unwrap(), b.unwrap(), c.unwrap(), late];
    assert_eq!(blocks.clone().map(|block| block.end - block.start), [1_000, 1, 7, 10]);
    assert!(blocks[3].start >= sequence_at(NOW + 1));
    blocks.sort_by_key(|block| block.start);
    assert!(blocks.is_sorted_by(|a, b| a.end <= b.start), "{blocks:?}");
}

/// Every field of a new job.
pub async fn a_job_comes_back_as_it_was(subject: Subject) {
    let job = job_with(1, |job| {
        job.queue = text("orders");
        job.kind = text("größe\n");
        job.payload = Arc::from([0, 255, 10, 39].as_slice());
        job.due_at = Timestamp(NOW + 5);
        job.first_due_at = Timestamp(NOW + 5);
        job.priority = u32::MAX;
        let backoff = Exponential { first: Span(1), factor: 1.5, max: Span(9), jitter: 0.25 };
        let retry = Retry {
            backoff: Some(Backoff::Exponential(backoff)),
            jitter: Some(0.5),
            max_attempts: Some(0),
            max_age: Some(Span(7)),
            max_crashes: Some(3),
            when_exhausted: Some(WhenExhausted::Move(text("dead"))),
        };
        let marks = Marks::from_iter([("parks", 4)]).shared();
        job.options = JobOptions {
            retry,
            target: target(),
            trace: Some(text(TRACE)),
            meta: Some(Meta::from_iter([("tenant", "7"), ("user", "ä b")]).into()),
            then: Some([FollowUp::from(&NewJob::new(*b"{}"))].into()),
            otherwise: Some([FollowUp::from(&NewJob::new(*b"\xff"))].into()),
            previous: Some(Previous::new(&job.clone(), State::Failed, None, Some(text("why"))).into()),
            moves: 2,
            releases: 3,
            marks,
            imported: true,
            sent: Some(NewJob::new(*b"sent").sent()),
        }
        .shared();
        job.origin = Some(text("of its push"));
        job.lease = Some(Span(1_000));
        job.expires = Some(Span(60_000));
        job.key = Some(text("Order-1 "));
        job.key_until = KeyUntil::Started;
        job.tags = [text("b"), text("a\"'")].into();
    });
    record(&*subject.ledger, std::slice::from_ref(&job)).await;
    assert_eq!(row(&*subject.ledger, job.id).await, Some(job));
}

/// As in an import: it is counted and pruned as if it had ended here, and holds no key.
pub async fn a_job_that_has_ended_comes_back(subject: Subject) {
    let ledger = &*subject.ledger;
    let ended = |n, stage, finished_at: Timestamp| {
        job_with(n, |job| {
            (job.stage, job.finished_at, job.started_at) =
                (stage, Some(finished_at), Some(Timestamp(finished_at.0 - 1)));
            (job.attempt, job.crashes, job.epoch, job.version) = (3, 1, 7, 9);
            job.result = Some(Arc::from([0, 255].as_slice()));
            job.message = Some(text("over"));
            job.errors = vec![AttemptError { attempt: 1, at: Timestamp(NOW), message: text("no"), crashed: true }];
            job.key = Some(text("k"));
            job.tags = [text("t")].into();
            (job.progress, job.options) = (progress(40), traced());
        })
    };
    let holder = job_with(4, |job| job.key = Some(text("k")));
    let jobs = [
        ended(1, Stage::Succeeded, Timestamp(NOW - 2 * DAY_MS)),
        ended(2, Stage::Failed, Timestamp(NOW - 2 * DAY_MS)),
        ended(3, Stage::Cancelled, Timestamp(NOW)),
        holder,
    ];
    assert_eq!(ledger.record(jobs.to_vec(), WATERMARK).await.unwrap(), [Recorded::Created; 4]);
    assert_eq!(ledger.record(jobs.to_vec(), WATERMARK).await.unwrap(), [Recorded::Repeat; 4]);
    for job in &jobs {
        assert_eq!(row(ledger, job.id).await.as_ref(), Some(job));
    }
    let page = ledger.pending(u64::MAX, None, 10).await.unwrap();
    assert_eq!(page.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [jobs[3].id]);
    let tally = ledger.tallies(Queues::first()).await.unwrap()[0].1;
    assert_eq!((tally.pending, tally.succeeded, tally.failed, tally.cancelled), (1, 1, 1, 1));
    assert_eq!(ledger.prune(Retention::default(), NOW, 10).await.unwrap(), 1);
    assert_eq!(row(ledger, jobs[0].id).await, None);
}

/// Empty values, and the largest ones.
pub async fn extreme_values_come_back(subject: Subject) {
    let empty = job_with(1, |job| job.payload = Arc::from([].as_slice()));
    let large = job_with(2, |job| {
        job.payload = (0..3_000_000_u32).map(|n| n as u8).collect();
        job.message = Some(text(&"m".repeat(64 << 10)));
        job.errors = vec![AttemptError { attempt: 1, at: Timestamp(NOW), message: text("e\0e"), crashed: true }; 20];
        job.key = Some(text("a\0b"));
        job.due_at = Timestamp(i64::MAX as u64);
        job.version = i64::MAX as u64;
    });
    record(&*subject.ledger, &[empty.clone(), large.clone()]).await;
    let rows = subject.ledger.get(&[empty.id, large.id]).await.unwrap();
    assert_eq!(rows, [Some(empty), Some(large)]);
}

/// A push sent twice makes one job.
pub async fn a_repeat_is_told_and_changes_nothing(subject: Subject) {
    let job = keyed(1, "k");
    record(&*subject.ledger, std::slice::from_ref(&job)).await;
    let repeat = job_with(1, |job| job.payload = Arc::from(b"other".as_slice()));
    let recorded = subject.ledger.record(vec![repeat, job.clone(), self::job(2)], WATERMARK).await.unwrap();
    assert_eq!(recorded, [Recorded::Repeat, Recorded::Repeat, Recorded::Created]);
    assert_eq!(row(&*subject.ledger, job.id).await, Some(job));
}

/// Nothing is recorded if a live job holds the key; a finished one holds none.
pub async fn a_held_key_names_its_holder(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[keyed(1, "k")]).await;
    let recorded = ledger.record(vec![keyed(2, "k"), keyed(3, "other")], WATERMARK).await.unwrap();
    assert_eq!(recorded, [Recorded::KeyHeld(id(1)), Recorded::Created]);
    assert_eq!(row(ledger, id(2)).await, None);
    apply(ledger, &[ended(&keyed(1, "k"), Stage::Succeeded)]).await;
    record(ledger, &[keyed(2, "k")]).await;
}

/// The first of a batch wins.
pub async fn a_key_is_held_within_a_batch(subject: Subject) {
    let jobs = vec![keyed(1, "k"), keyed(2, "k"), keyed(3, "K"), keyed(4, "k")];
    let recorded = subject.ledger.record(jobs, WATERMARK).await.unwrap();
    let held = Recorded::KeyHeld(id(1));
    assert_eq!(recorded, [Recorded::Created, held, Recorded::Created, held]);
}

fn from_push(n: u64, origin: &str) -> Job {
    job_with(n, |job| job.origin = Some(text(origin)))
}

/// A push that is repeated under another id gets the job of the first one, however that ended, as long as its record is
/// kept.
pub async fn an_origin_names_the_job_of_the_first_push(subject: Subject) {
    let ledger = &*subject.ledger;
    let first = job_with(1, |job| (job.origin, job.key) = (Some(text("o\0")), Some(text("k"))));
    record(ledger, std::slice::from_ref(&first)).await;
    assert_eq!(row(ledger, first.id).await.as_ref(), Some(&first));
    let elsewhere = job_with(4, |job| (job.origin, job.queue) = (Some(text("o\0")), text("elsewhere")));
    let repeat = job_with(2, |job| (job.origin, job.key) = (Some(text("o\0")), Some(text("k"))));
    let recorded = ledger.record(vec![repeat, from_push(3, "o"), elsewhere], WATERMARK).await.unwrap();
    assert_eq!(recorded, [Recorded::Known(id(1)), Recorded::Created, Recorded::Created]);
    assert_eq!(row(ledger, id(2)).await, None);
    assert_eq!(ledger.record(vec![first.clone()], WATERMARK).await.unwrap(), [Recorded::Repeat]);
    let ended = job_with(1, |job| {
        *job = first.clone();
        (job.stage, job.version, job.finished_at) =
            (Stage::Succeeded, first.version + 2, Some(Timestamp(NOW - 2 * DAY_MS)));
    });
    apply(ledger, std::slice::from_ref(&ended)).await;
    assert_eq!(ledger.record(vec![from_push(5, "o\0")], WATERMARK).await.unwrap(), [Recorded::Known(id(1))]);
    assert_eq!(row(ledger, first.id).await, Some(ended));
    assert_eq!(ledger.prune(Retention::default(), NOW, 10).await.unwrap(), 1);
    assert_eq!(ledger.record(vec![from_push(5, "o\0")], WATERMARK).await.unwrap(), [Recorded::Created]);
}

/// Without recording anything: the job with its origin, or else the one that holds its key.
pub async fn what_a_push_would_meet_is_known(subject: Subject) {
    let ledger = &*subject.ledger;
    let with =
        |n, origin: &str, key: &str| job_with(n, |job| (job.origin, job.key) = (Some(text(origin)), Some(text(key))));
    let first = with(1, "o", "k");
    record(ledger, std::slice::from_ref(&first)).await;
    let elsewhere = job_with(7, |job| {
        *job = with(7, "o", "k");
        job.queue = text("elsewhere");
    });
    let pushes =
        [job(2), from_push(3, "o"), from_push(4, "O"), keyed(5, "k"), with(6, "o", "l"), elsewhere, with(8, "p", "k")];
    let (known, held) = (Some(Recorded::Known(id(1))), Some(Recorded::KeyHeld(id(1))));
    assert_eq!(ledger.known(&pushes).await.unwrap(), [None, known, None, held, known, None, held]);
    assert_eq!(ledger.known(&[]).await.unwrap(), []);
    apply(ledger, &[ended(&first, Stage::Failed)]).await;
    assert_eq!(ledger.known(&[keyed(5, "k"), with(8, "o", "k")]).await.unwrap(), [None, known]);
    assert_eq!(ledger.get(&[id(2), id(3), id(5)]).await.unwrap(), [None, None, None]);
}

/// The other one is new, and comes first.
pub async fn a_repeat_beside_a_job_that_takes_its_key_is_known(subject: Subject) {
    let ledger = &*subject.ledger;
    let of_push = |n| Job { origin: Some(text("push")), ..keyed(n, "k") };
    let first = record_ended(ledger, &[of_push(1)], Stage::Succeeded).await.remove(0);
    let recorded = ledger.record(vec![keyed(2, "k"), of_push(3)], WATERMARK).await.unwrap();
    assert_eq!(recorded, [Recorded::Created, Recorded::Known(first.id)]);
}

/// Also among many jobs without other options, and within a batch.
pub async fn a_batch_with_origins_may_be_repeated(subject: Subject) {
    let batch = |from: u64| (0..100).map(|n| from_push(from + n, &format!("batch-{n}"))).collect::<Vec<_>>();
    record(&*subject.ledger, &batch(1)).await;
    let recorded = subject.ledger.record(batch(1_001), WATERMARK).await.unwrap();
    assert_eq!(recorded, (1..=100).map(|n| Recorded::Known(id(n))).collect::<Vec<_>>());
    let recorded = subject.ledger.record(vec![from_push(2_001, "twice"), from_push(2_002, "twice")], WATERMARK).await;
    assert_eq!(recorded.unwrap(), [Recorded::Created, Recorded::Known(id(2_001))]);
}

/// However many push at the same time.
pub async fn concurrent_pushes_of_one_origin_make_one_job(subject: Subject) {
    let pushes: Vec<_> = (1..=50)
        .map(|n| {
            let ledger = subject.ledger.clone();
            tokio::spawn(async move { ledger.record(vec![from_push(n, "o")], WATERMARK).await.unwrap()[0] })
        })
        .collect();
    let (mut created, mut known) = (Vec::new(), Vec::new());
    for (n, push) in (1..).zip(pushes) {
        match push.await.unwrap() {
            Recorded::Created => created.push(id(n)),
            Recorded::Known(first) => known.push(first),
            other => panic!("expected a first push and repeats, got {other:?}"),
        }
    }
    assert_eq!(created.len(), 1);
    assert_eq!(known, vec![created[0]; 49]);
}

/// Keys belong to their queue.
pub async fn keys_of_other_queues_are_free(subject: Subject) {
    let other = job_with(2, |job| {
        job.queue = text("Default");
        job.key = Some(text("k"));
    });
    record(&*subject.ledger, &[keyed(1, "k"), other]).await;
}

/// Each field that is mostly at its default, in batches of jobs that differ only in it.
pub async fn every_kind_of_job_in_bulk(subject: Subject) {
    let ledger = &*subject.ledger;
    let kinds: [fn(&mut crate::Job); 20] = [
        |_| {},
        |job| job.lease = Some(Span(5_000)),
        |job| job.expires = Some(Span(7)),
        |job| job.priority = 0,
        |job| job.first_due_at.0 -= 1,
        |job| job.updated_at.0 += 1,
        |job| job.attempt = 1,
        |job| job.crashes = 1,
        |job| job.epoch = 9,
        |job| job.cancel_asked = true,
        |job| job.key_until = KeyUntil::Started,
        |job| job.key = Some(text(&format!("k{}", job.id))),
        |job| job.tags = [text("t")].into(),
        |job| job.options = JobOptions::from(Retry { max_attempts: Some(2), ..Retry::default() }).shared(),
        |job| job.message = Some(text("m")),
        |job| job.result = Some(Arc::from(b"r".as_slice())),
        |job| job.started_at = Some(Timestamp(NOW - 1)),
        |job| job.options = traced(),
        |job| job.progress = progress(100),
        |job| job.kind = text(&format!("kind {}", job.id.get() % 2_048)),
    ];
    let jobs: Vec<crate::Job> =
        (0..).zip(kinds).flat_map(|(n, set)| (1..=70).map(move |m| job_with(n * 70 + m, set))).collect();
    record(ledger, &jobs).await;
    let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
    for (row, job) in ledger.get(&ids).await.unwrap().into_iter().zip(jobs) {
        assert_eq!(row, Some(job));
    }
    assert_eq!(ledger.tallies(Queues::first()).await.unwrap()[0].1.pending, 20 * 70);
}

/// The same id twice in a batch.
pub async fn a_repeat_within_a_batch(subject: Subject) {
    let recorded = subject.ledger.record(vec![job(1), job(2), job(1)], WATERMARK).await.unwrap();
    assert_eq!(recorded, [Recorded::Created, Recorded::Created, Recorded::Repeat]);
}

/// Checked, not wrapped.
pub async fn numbers_beyond_63_bits_are_refused(subject: Subject) {
    let ledger = &*subject.ledger;
    let beyond = job_with(2, |job| job.priority = 0);
    for set in [|job: &mut crate::Job| job.version = 1 << 63, |job: &mut crate::Job| job.expires = Some(Span(u64::MAX))]
    {
        let mut beyond = beyond.clone();
        set(&mut beyond);
        let error = ledger.record(vec![job(1), beyond], WATERMARK).await.unwrap_err();
        assert_eq!(error.code(), "invalid");
    }
    assert_eq!(ledger.get(&[id(1), id(2)]).await.unwrap(), [None, None], "a verb that fails has changed nothing");
    assert_eq!(ledger.tallies(Queues::first()).await.unwrap(), []);
}

/// Even if they share a transaction of the store.
pub async fn a_bad_batch_hurts_no_other(subject: Subject) {
    let ledger = &*subject.ledger;
    let bad = job_with(2, |job| job.version = u64::MAX);
    let (a, b, c) = tokio::join!(
        ledger.record(vec![job(1)], WATERMARK),
        ledger.record(vec![bad], WATERMARK),
        ledger.record(vec![job(3)], WATERMARK)
    );
    assert_eq!((a.unwrap(), c.unwrap()), (vec![Recorded::Created], vec![Recorded::Created]));
    assert_eq!(b.unwrap_err().code(), "invalid");
    let rows = ledger.get(&[id(1), id(2), id(3)]).await.unwrap();
    assert_eq!(rows, [Some(job(1)), None, Some(job(3))]);
}

/// Nothing to do is not an error.
pub async fn an_empty_batch(subject: Subject) {
    assert_eq!(subject.ledger.record(Vec::new(), WATERMARK).await.unwrap(), []);
    subject.ledger.apply(Vec::new(), WATERMARK).await.unwrap();
    assert_eq!(subject.ledger.get(&[]).await.unwrap(), []);
    assert_eq!(subject.ledger.edit(Vec::new(), NOW, WATERMARK).await.unwrap(), []);
}

/// The largest batch, with one conflict in it, beside small ones.
pub async fn many_at_once(subject: Subject) {
    let ledger = &*subject.ledger;
    record(ledger, &[job(5_000)]).await;
    let (large, small) = tokio::join!(
        ledger.record((1..=10_000).map(job).collect(), WATERMARK),
        ledger.record(vec![job(10_001)], WATERMARK)
    );
    let large = large.unwrap();
    assert_eq!(large.iter().filter(|&&recorded| recorded == Recorded::Created).count(), 9_999);
    assert_eq!(large[4_999], Recorded::Repeat);
    assert_eq!(small.unwrap(), [Recorded::Created]);
    assert_eq!(ledger.tallies(Queues::first()).await.unwrap()[0].1.pending, 10_001);
}

/// However many ask at the same time.
pub async fn concurrent_keys_have_one_winner(subject: Subject) {
    let pushes: Vec<_> = (1..=50)
        .map(|n| {
            let ledger = subject.ledger.clone();
            tokio::spawn(async move { ledger.record(vec![keyed(n, "k")], WATERMARK).await.unwrap()[0] })
        })
        .collect();
    let mut created = Vec::new();
    let mut holders = Vec::new();
    for (n, push) in (1..).zip(pushes) {
        match push.await.unwrap() {
            Recorded::Created => created.push(id(n)),
            Recorded::KeyHeld(holder) => holders.push(holder),
            Recorded::Repeat | Recorded::Known(_) => panic!("no id or origin was there before"),
        }
    }
    assert_eq!(created.len(), 1);
    assert_eq!(holders, vec![created[0]; 49]);
}
