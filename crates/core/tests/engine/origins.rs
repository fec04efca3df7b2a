//! Pushes that are repeated.

use super::fixture::{Bench, job, pass};
use duetime_core::api::Span;
use duetime_core::engine::PushOutcome;
use duetime_core::json::Timestamp;
use duetime_core::limits::DAY_MS;
use duetime_core::ports::{Ledger, Retention};
use duetime_core::{Due, Error, Job, JobId, NewJob, OnConflict, State};
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
    let repeat = bench.try_push(NewJob { due: Due::After(Span(9)), ..from_push("o") }).await.unwrap();
    assert_eq!((repeat.outcome, repeat.job.id), (PushOutcome::Repeated, first));
    assert_eq!(repeat.job.state(bench.engine.now()), State::Succeeded);
    assert!(bench.reserve(9, Duration::ZERO).await.is_empty());
    assert_eq!(bench.ledger.jobs().len(), 1);

    let retention = Retention { succeeded_ms: 0, failed_ms: 0 };
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
    let again = hand_on(&original).await;
    assert_eq!((again.outcome, again.job.id), (PushOutcome::Repeated, copy.job.id), "also after its end");
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
