//! Pushes that are repeated.

use super::fixture::{Bench, job, pass};
use super::schedules::{World, seconds};
use duetime_core::api::Span;
use duetime_core::engine::{Patch, Precondition, PushOutcome};
use duetime_core::json::Timestamp;
use duetime_core::limits::{DAY_MS, HOUR_MS};
use duetime_core::ports::{InboxRow, Ledger, Retention};
use duetime_core::testing::mortal::Life;
use duetime_core::{Due, Error, Job, JobId, NewJob, OnConflict, Schedule, State};
use std::time::Duration;

fn from_push(origin: &str) -> NewJob {
    NewJob { origin: Some(origin.into()), ..job() }
}

impl Bench {
    async fn repeat(&self, job: NewJob) -> (PushOutcome, JobId) {
        let pushed = self.try_push(job).await.unwrap();
        (pushed.outcome, pushed.job.id)
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeat_is_answered_with_the_first_job_whatever_became_of_it() {
    let bench = Bench::new().await;
    let first = bench.push(from_push("o")).await.id;
    assert_eq!(bench.repeat(from_push("o")).await, (PushOutcome::Repeated, first));
    let lease = bench.lease().await;
    assert_eq!((lease.job.id, lease.job.origin.as_deref()), (first, Some("o")));
    assert_eq!(bench.repeat(from_push("o")).await, (PushOutcome::Repeated, first));
    bench.complete(&lease).await.unwrap();
    let repeat = bench.try_push(from_push("o")).await.unwrap();
    assert_eq!((repeat.outcome, repeat.job.id), (PushOutcome::Repeated, first));
    assert_eq!(repeat.job.state(bench.engine.now()), State::Succeeded);
    assert!(bench.reserve(9, Duration::ZERO).await.is_empty());
    assert_eq!(bench.ledger.jobs().len(), 1);

    let retention = Retention { succeeded: Span(0), failed: Span(0) };
    pass(Duration::from_secs(1)).await;
    assert_eq!(bench.ledger.prune(retention, bench.engine.now(), 9).await.unwrap(), 1);
    assert_eq!(bench.repeat(from_push("o")).await.0, PushOutcome::Created);
}

#[tokio::test(start_paused = true)]
async fn a_batch_may_be_repeated_also_where_a_part_of_it_was_made() {
    let bench = Bench::new().await;
    let first = bench.push(from_push("b")).await.id;
    let batch = || ["a", "b", "c", "c"].map(from_push).to_vec();
    let push = async || {
        let pushed = bench.engine.push(batch()).await.unwrap().into_iter().map(Result::unwrap);
        pushed.map(|pushed| (pushed.outcome, pushed.job.id)).collect::<Vec<_>>()
    };
    let pushed = push().await;
    let outcomes: Vec<_> = pushed.iter().map(|(outcome, _)| *outcome).collect();
    let (new, old) = (PushOutcome::Created, PushOutcome::Repeated);
    assert_eq!((outcomes, pushed[1].1, pushed[3].1), (vec![new, old, new, old], first, pushed[2].1));
    let again = push().await;
    assert_eq!(again, pushed.iter().map(|(_, id)| (old, *id)).collect::<Vec<_>>());
    assert_eq!(bench.reserve(9, Duration::ZERO).await.len(), 3);
}

/// The contents of the two pushes are compared. Later changes of the job do not matter.
#[tokio::test(start_paused = true)]
async fn an_origin_with_other_content_is_refused_and_it_is_said_what_differs() {
    let mut bench = Bench::new().await;
    let sent = NewJob {
        due: Due::After(Span(5_000)),
        tags: vec!["t".into()],
        payload: (*br#"{"a": 1, "b": 2}"#).into(),
        ..from_push("o")
    };
    let first = bench.push(sent.clone()).await.id;
    pass(Duration::from_secs(2)).await;
    let edit = Patch { priority: Some(7), payload: Some((*b"edited").into()), ..Patch::default() };
    bench.engine.update(first.into(), edit).await.unwrap();
    for stage in ["held by the broker", "after a restart", "after the end"] {
        match stage {
            "held by the broker" => {}
            "after a restart" => {
                let Bench { ledger, clock, life, .. } = bench;
                life.die();
                bench = Bench::over(ledger, clock).await;
            }
            _ => {
                pass(Duration::from_secs(9)).await;
                let lease = bench.lease().await;
                bench.complete(&lease).await.unwrap();
            }
        }
        assert_eq!(bench.repeat(sent.clone()).await, (PushOutcome::Repeated, first), "{stage}");
        let edited = NewJob { priority: 7, payload: (*b"edited").into(), ..sent.clone() };
        for (other, expected) in [
            (NewJob { payload: (*br#"{"a": 1, "b": 3}"#).into(), ..sent.clone() }, "payload"),
            (NewJob { due: Due::After(Span(3_000)), ..sent.clone() }, "due_at"),
            (NewJob { tags: Vec::new(), key: Some("k".into()), ..sent.clone() }, "key, tags"),
            (edited, "payload, priority"),
        ] {
            match bench.try_push(other).await.unwrap_err() {
                Error::OriginReused { queue, origin, first: of, differs } => {
                    assert_eq!((&*queue, &*origin, of), ("default", "o", first));
                    assert_eq!(differs.join(", "), expected, "{stage}");
                }
                other => panic!("{stage}: {other}"),
            }
        }
    }
    assert_eq!(bench.ledger.jobs().len(), 1);
}

/// A map has another order in each process of some languages.
#[tokio::test(start_paused = true)]
async fn json_that_is_written_otherwise_is_no_other_content() {
    let bench = Bench::new().await;
    let with = |payload: &str| NewJob { payload: payload.as_bytes().into(), ..from_push("o") };
    let first = bench.push(with(r#"{"a":1,"b":[2,3]}"#)).await.id;
    assert_eq!(bench.repeat(with(r#"{ "b": [2, 3], "a": 1 }"#)).await, (PushOutcome::Repeated, first));
    assert_eq!(bench.try_push(with(r#"{"a":1,"b":[3,2]}"#)).await.unwrap_err().code(), "origin_reused");
}

/// The jobs of one batch are compared with each other; the others are pushed.
#[tokio::test(start_paused = true)]
async fn a_batch_with_one_origin_for_two_jobs_is_refused_for_the_second() {
    let bench = Bench::new().await;
    let other = NewJob { kind: "other".into(), ..from_push("o") };
    let answers = bench.engine.push(vec![from_push("o"), other, from_push("p")]).await.unwrap();
    let outcomes: Vec<_> =
        answers.iter().map(|answer| answer.as_ref().map_err(|error| error.code()).map(|p| p.outcome)).collect();
    assert_eq!(outcomes, [Ok(PushOutcome::Created), Err("origin_reused"), Ok(PushOutcome::Created)]);
}

/// The holder of a key becomes another job, and a repeat of the push that made it still finds it.
#[tokio::test(start_paused = true)]
async fn a_job_that_was_replaced_is_compared_with_the_push_that_made_it() {
    let bench = Bench::new().await;
    let keyed = |kind: &str, origin: &str| NewJob {
        key: Some("k".into()),
        kind: kind.into(),
        on_conflict: OnConflict::Replace,
        ..from_push(origin)
    };
    let first = bench.push(keyed("a", "one")).await.id;
    assert_eq!(bench.repeat(keyed("b", "two")).await, (PushOutcome::Replaced, first));
    assert_eq!(bench.repeat(keyed("a", "one")).await, (PushOutcome::Repeated, first));
    assert_eq!(bench.try_push(keyed("b", "one")).await.unwrap_err().code(), "origin_reused");
}

/// Its caller says nothing but its name, and cannot know of an edit in between.
#[tokio::test(start_paused = true)]
async fn a_run_by_hand_is_repeated_though_the_schedule_was_edited() {
    let bench = Bench::new().await;
    let schedule = |payload: &[u8]| Schedule::every(Span(HOUR_MS), NewJob::new(payload));
    let run = async || bench.engine.run_schedule("s", Some("o".into()), Precondition::Anything).await.unwrap();
    bench.engine.set_schedule("s", schedule(b"1")).await.unwrap();
    let first = run().await;
    bench.engine.set_schedule("s", schedule(b"2")).await.unwrap();
    let again = run().await;
    assert_eq!((again.outcome, again.job.id), (PushOutcome::Repeated, first.job.id));
    let reserved = bench.engine.run_schedule("s", Some("duetime:o".into()), Precondition::Anything).await;
    assert_eq!(reserved.unwrap_err().code(), "invalid");
}

/// A row that is met again is done with. Of another one with its origin, the application sees the reason in its table.
#[tokio::test(start_paused = true)]
async fn a_row_of_the_inbox_that_reuses_an_origin_is_rejected() {
    let world = World::new();
    let _node = world.node(Life::plain()).await;
    let insert = |payload: &[u8]| {
        let row =
            InboxRow { queue: "default".into(), kind: "k".into(), payload: payload.into(), ..InboxRow::default() };
        world.ledger.insert(InboxRow { origin: Some("o".into()), ..row });
    };
    insert(b"1");
    seconds(5).await;
    assert_eq!((world.ledger.jobs().len(), world.ledger.inbox_rows().len()), (1, 0));
    insert(b"1");
    insert(b"2");
    seconds(2).await;
    let rows = world.ledger.inbox_rows();
    let [(row, Some(why))] = &rows[..] else { panic!("{rows:?}") };
    assert!(*row.payload == *b"2" && why.starts_with("origin_reused: "), "{rows:?}");
    assert_eq!(world.ledger.jobs().len(), 1);
}

/// The origin takes precedence over the key: a repeat is not a conflict.
#[tokio::test(start_paused = true)]
async fn an_origin_counts_before_a_key() {
    let bench = Bench::new().await;
    let keyed = |origin: &str| NewJob { key: Some("k".into()), on_conflict: OnConflict::Reject, ..from_push(origin) };
    let first = bench.push(keyed("o")).await.id;
    assert_eq!(bench.repeat(keyed("o")).await, (PushOutcome::Repeated, first));
    assert_eq!(bench.try_push(keyed("p")).await.unwrap_err().code(), "key_conflict");
    let lease = bench.lease().await;
    bench.complete(&lease).await.unwrap();
    assert_eq!(bench.repeat(keyed("p")).await.0, PushOutcome::Created, "the refused push has left no origin");
}

#[tokio::test(start_paused = true)]
async fn origins_belong_to_their_queue_and_have_limits() {
    let bench = Bench::new().await;
    bench.push(from_push("o")).await;
    for (queue, origin) in [("mail", "o"), ("default", "O"), ("default", "o ")] {
        let job = NewJob { queue: queue.into(), ..from_push(origin) };
        assert_eq!(bench.repeat(job).await.0, PushOutcome::Created, "{queue} {origin:?}");
    }
    for wrong in ["", "duetime:mine", &"o".repeat(256)] {
        let error = bench.try_push(from_push(wrong)).await.unwrap_err();
        assert!(matches!(&error, Error::Invalid(invalid) if invalid.what == "origin"), "{wrong}: {error}");
    }
    bench.push(from_push(&"o".repeat(255))).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_handed_on_twice_has_one_copy() {
    let bench = Bench::new().await;
    let original = bench.push(job()).await;
    let hand_on = async |job: &Job| bench.engine.hand_on(job, &"out".into()).await.unwrap();
    let copy = hand_on(&original).await;
    assert_eq!(copy.outcome, PushOutcome::Created);
    bench.engine.cancel(vec![copy.job.id.into()]).await.pop().unwrap().unwrap();
    let edited = Job { priority: 1, ..original.clone() };
    let again = hand_on(&edited).await;
    assert_eq!((again.outcome, again.job.id), (PushOutcome::Repeated, copy.job.id), "also after its end, or an edit");
    let retried = Job { first_due_at: Timestamp(original.first_due_at.0 + 1), ..original };
    assert_eq!(hand_on(&retried).await.outcome, PushOutcome::Created);
}

#[tokio::test(start_paused = true)]
async fn an_imported_job_is_not_made_again() {
    let bench = Bench::new().await;
    let first = bench.push(from_push("o")).await;
    let id = JobId::new(first.id.get() + 1_024).unwrap();
    let far = first.due_at.0 + 3 * DAY_MS;
    let copy = Job { id, due_at: Timestamp(far), first_due_at: Timestamp(far), ..first.clone() };
    let imported = bench.engine.import(vec![copy]).await.unwrap().pop().unwrap().unwrap();
    assert_eq!((imported.id, imported.is_new), (first.id, false));
    assert_eq!(bench.ledger.jobs().len(), 1);
}
