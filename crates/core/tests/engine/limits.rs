//! Values beyond a limit are refused; nothing is clamped.

use super::fixture::{Bench, job, request};
use duetime_core::api::{Span, Timestamp};
use duetime_core::engine::{Outcome, Query, ReserveRequest, Source};
use duetime_core::limits::{DELAY_MS_MAX, HOUR_MS, LEASE_MS_MAX, SCHEDULE_PAYLOAD_BYTES_MAX, SCHEDULES_BYTES_MAX};
use duetime_core::ports::Registry as _;
use duetime_core::rules::Failure;
use duetime_core::{Due, Error, NewJob, Receipt, Schedule, Timing};
use std::time::Duration;

fn field(error: &Error) -> &str {
    match error {
        Error::Invalid(invalid) => &invalid.what,
        other => panic!("{other}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_push_beyond_a_limit_names_it() {
    let bench = Bench::new().await;
    let cases = [
        ("queue", NewJob { queue: "-x".into(), ..job() }),
        ("kind", NewJob { kind: "".into(), ..job() }),
        ("key", NewJob { key: Some("k".repeat(256).into()), ..job() }),
        ("tags", NewJob { tags: (0..17).map(|i| i.to_string().into()).collect(), ..job() }),
        ("tag", NewJob { tags: vec!["t".repeat(256).into()], ..job() }),
        ("delay", NewJob { due: Due::After(Span(DELAY_MS_MAX + 1)), ..job() }),
        ("due_at", NewJob { due: Due::At(Timestamp(1_795_132_800)), ..job() }),
        ("due_at", NewJob { due: Due::At(Timestamp(u64::MAX)), ..job() }),
        ("lease", NewJob { lease: Some(Span(999)), ..job() }),
        ("lease", NewJob { lease: Some(Span(LEASE_MS_MAX + 1)), ..job() }),
        ("payload", NewJob { payload: vec![0; (1 << 20) + 1].into(), ..job() }),
    ];
    for (what, job) in cases {
        assert_eq!(field(&bench.try_push(job).await.unwrap_err()), what);
    }
    assert!(bench.ledger.jobs().is_empty());
    bench.push(NewJob { due: Due::After(Span(DELAY_MS_MAX)), payload: vec![0; 1 << 20].into(), ..job() }).await;
    let batch = bench.engine.push(vec![job(); 10_001]).await;
    assert_eq!(field(&batch.unwrap_err()), "jobs");
}

/// Every process reads them all.
#[tokio::test(start_paused = true)]
async fn all_schedules_together_have_a_bound_in_bytes() {
    let bench = Bench::new().await;
    let large = || Schedule::new(Timing::Every(Span(HOUR_MS)), NewJob::new(vec![b'x'; SCHEDULE_PAYLOAD_BYTES_MAX]));
    bench.engine.set_schedule("s0", large()).await.unwrap();
    // The others are stored without the engine, which would read all of them each time.
    let body = bench.ledger.document("schedule", "s0").await.unwrap().unwrap().body;
    for n in 1..SCHEDULES_BYTES_MAX / body.len() {
        bench.ledger.put_if("schedule", &format!("s{n}"), &body, 0).await.unwrap();
    }
    let refused = bench.engine.set_schedule("more", large()).await.unwrap_err();
    assert!(field(&refused) == "schedule" && refused.to_string().contains("together"), "{refused}");
    bench.ledger.remove("schedule", "s1", None).await.unwrap();
    bench.engine.set_schedule("more", large()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_wrong_job_of_a_batch_stops_no_other() {
    let bench = Bench::new().await;
    let answers = bench.engine.push(vec![job(), NewJob { kind: "".into(), ..job() }, job()]).await.unwrap();
    assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(bench.reserve(10, Duration::ZERO).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_reserve_beyond_a_limit_names_it() {
    let bench = Bench::new().await;
    let second = Duration::from_secs(1);
    for (what, request) in [
        ("limit", request(0, second)),
        ("limit", request(1_001, second)),
        ("free", request(1, second).free(2)),
        ("free", ReserveRequest { from: Source::Jobs(Vec::new()), ..request(1, second).free(1) }),
        ("wait", request(1, 61 * second)),
        ("lease", ReserveRequest { lease: Some(Span(5)), ..request(1, second) }),
    ] {
        assert_eq!(field(&bench.engine.reserve(request).await.unwrap_err()), what);
    }
    assert_eq!(field(&bench.engine.find(&Query::default(), None, 1_001).await.unwrap_err()), "limit");
}

#[tokio::test(start_paused = true)]
async fn a_settle_beyond_a_limit_leaves_the_lease() {
    let bench = Bench::new().await;
    bench.push(job()).await;
    let lease = bench.lease().await;
    let long = Outcome::Fail(Failure { message: "m".repeat((64 << 10) + 1).into(), ..Failure::default() });
    assert_eq!(field(&bench.settle(&lease, long).await.unwrap_err()), "message");
    let large = Outcome::complete(Some(vec![0; (1 << 20) + 1].into()));
    assert_eq!(field(&bench.settle(&lease, large).await.unwrap_err()), "result");
    bench.complete(&lease).await.unwrap();
    let unknown = Receipt { id: lease.job.id, epoch: 1 };
    let answer = bench.engine.settle(vec![(unknown, Outcome::release(Span(0)))]).await;
    assert_eq!(answer, [Err(Error::LeaseLost(unknown))]);
}
