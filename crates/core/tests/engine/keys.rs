//! Unique names of live jobs.

use super::fixture::{Bench, job};
use duetime_core::api::Span;
use duetime_core::engine::{Outcome, PushOutcome};
use duetime_core::json::Timestamp;
use duetime_core::model::retry::Retry;
use duetime_core::rules::Failure;
use duetime_core::{Due, Error, Job, JobOptions, KeyUntil, NewJob, OnConflict, State};

fn keyed(on_conflict: OnConflict) -> NewJob {
    NewJob { key: Some("Order-1".into()), on_conflict, ..job() }
}

#[tokio::test(start_paused = true)]
async fn a_repeat_keeps_replaces_or_is_refused() {
    let bench = Bench::new().await;
    let first = bench.push(keyed(OnConflict::Keep)).await;
    let kept = bench.try_push(keyed(OnConflict::Keep)).await.unwrap();
    assert_eq!((kept.outcome, kept.job.id), (PushOutcome::Kept, first.id));

    let other = NewJob { due: Due::After(Span(9_000)), priority: 3, ..keyed(OnConflict::Replace) };
    let other = NewJob { payload: b"other".as_slice().into(), tags: vec!["t".into()], ..other };
    let replaced = bench.try_push(other).await.unwrap();
    assert_eq!((replaced.outcome, replaced.job.id), (PushOutcome::Replaced, first.id));
    let job = bench.engine.job(first.id).await.unwrap();
    assert_eq!((&*job.payload, job.priority, job.tags.len()), (b"other".as_slice(), 3, 1));
    assert_eq!(job.due_at, Timestamp(bench.engine.now() + 9_000));

    let refused = bench.try_push(keyed(OnConflict::Reject)).await.unwrap_err();
    assert!(matches!(refused, Error::KeyConflict { holder, .. } if holder == first.id));
    assert_eq!(bench.ledger.jobs().len(), 1);
}

/// The handler of the old kind must not get the new payload.
#[tokio::test(start_paused = true)]
async fn a_replaced_job_has_all_that_was_sent() {
    let bench = Bench::new().await;
    let retry = Retry { max_attempts: Some(5), ..Retry::default() };
    let origin = Some("first".into());
    let sent = NewJob { lease: Some(Span(9_000)), options: retry.into(), origin, ..keyed(OnConflict::Keep) };
    let first = bench.push(sent.clone()).await;
    let failure = Failure { retry_after: Some(Span(60_000)), ..Failure::default() };
    bench.settle(&bench.lease().await, Outcome::Fail(failure)).await.unwrap();
    let other = NewJob { kind: "other".into(), expires: Some(Span(5_000)), ..keyed(OnConflict::Replace) };
    let other = NewJob { origin: Some("second".into()), key_until: KeyUntil::Started, ..other };
    for _ in 0..2 {
        let replaced = bench.try_push(other.clone()).await.unwrap();
        assert_eq!(
            (replaced.outcome, replaced.job.id),
            (PushOutcome::Replaced, first.id),
            "a repeat meets the key again"
        );
    }
    let repeated = bench.try_push(sent).await.unwrap();
    assert_eq!((repeated.outcome, repeated.job.id), (PushOutcome::Repeated, first.id));
    let leased = bench.lease().await.job;
    assert_eq!(leased.sent(), first.sent());
    let Job { kind, lease, expires, key_until, options, attempt, errors, message, .. } = leased;
    let options = options.and_then(|options| JobOptions { sent: None, ..(*options).clone() }.shared());
    assert_eq!((&*kind, lease, expires, key_until), ("other", None, Some(Span(5_000)), KeyUntil::Started));
    assert_eq!((options, attempt, errors, message), (None, 1, Vec::new(), None));
}

#[tokio::test(start_paused = true)]
async fn keys_compare_byte_by_byte_and_by_queue() {
    let bench = Bench::new().await;
    for (queue, key) in [("default", "Order-1"), ("default", "order-1"), ("default", "order-1 "), ("mail", "Order-1")] {
        let job = NewJob { queue: queue.into(), key: Some(key.into()), ..job() };
        assert_eq!(bench.try_push(job).await.unwrap().outcome, PushOutcome::Created, "{queue} {key:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_running_holder_is_not_replaced_and_a_finished_one_is_free() {
    let bench = Bench::new().await;
    bench.push(keyed(OnConflict::Keep)).await;
    let lease = bench.lease().await;
    let refused = bench.try_push(keyed(OnConflict::Replace)).await.unwrap_err();
    assert_eq!(refused.code(), "key_conflict");
    bench.complete(&lease).await.unwrap();
    assert_eq!(bench.try_push(keyed(OnConflict::Reject)).await.unwrap().outcome, PushOutcome::Created);
}

#[tokio::test(start_paused = true)]
async fn a_key_until_started_is_free_once_its_job_is_handed_out() {
    let bench = Bench::new().await;
    let job = || NewJob { key_until: KeyUntil::Started, ..keyed(OnConflict::Reject) };
    bench.push(job()).await;
    assert!(bench.try_push(job()).await.is_err());
    let lease = bench.lease().await;
    let second = bench.try_push(job()).await.unwrap();
    assert_eq!(second.outcome, PushOutcome::Created);
    bench.complete(&lease).await.unwrap();
    assert_eq!(bench.lease().await.job.id, second.job.id);
}

#[tokio::test(start_paused = true)]
async fn a_retry_by_hand_needs_the_key_to_be_free() {
    let bench = Bench::new().await;
    let first = bench.push(keyed(OnConflict::Keep)).await;
    bench.complete(&bench.lease().await).await.unwrap();
    let second = bench.push(keyed(OnConflict::Reject)).await;
    let refused = bench.engine.retry(vec![first.id.into()]).await.pop().unwrap().unwrap_err();
    assert!(matches!(refused, Error::KeyConflict { holder, .. } if holder == second.id));
    bench.complete(&bench.lease().await).await.unwrap();
    bench.engine.retry(vec![first.id.into()]).await.pop().unwrap().unwrap();
    assert_eq!(bench.state(first.id).await, State::Ready);
    assert!(bench.try_push(keyed(OnConflict::Reject)).await.is_err());
}
