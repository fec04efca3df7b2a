//! Reports that are read in the background.

use super::fixture::{Bench, job, pass};
use async_trait::async_trait;
use duetime_core::api::{DueBucket, DueCounts, FailureGroup, Failures, Span, Timestamp};
use duetime_core::engine::{Options, Outcome, Stores};
use duetime_core::limits::{DAY_MS, HOUR_MS, MINUTE_MS};
use duetime_core::ports::{DueTally, FailedJob, Reports};
use duetime_core::rules::Failure;
use duetime_core::testing::{ModelLedger, TokioClock};
use duetime_core::{Due, Engine, Error, NewJob};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

async fn due(engine: &Engine, queue: Option<&str>) -> DueCounts {
    engine.due_counts(queue, SECOND).await.unwrap()
}

/// The buckets that are not empty.
fn busy(counts: &DueCounts) -> Vec<DueBucket> {
    counts.buckets.iter().flatten().filter(|bucket| bucket.jobs > 0).copied().collect()
}

fn sum(counts: &DueCounts) -> u64 {
    counts.buckets.iter().flatten().map(|bucket| bucket.jobs).sum()
}

#[tokio::test(start_paused = true)]
async fn jobs_are_counted_by_due_time() {
    let bench = Bench::new().await;
    let delays = [0, 0, MINUTE_MS, 90_000, HOUR_MS, 90 * MINUTE_MS, DAY_MS + HOUR_MS, 29 * DAY_MS, 31 * DAY_MS];
    for delay in delays {
        bench.push(NewJob { due: Due::After(Span(delay)), ..job() }).await;
    }
    bench.push(NewJob { queue: "other".into(), ..job() }).await;
    bench.lease_first().await;
    let now = bench.engine.now();
    let counts = due(&bench.engine, Some("default")).await;
    let as_of = counts.as_of.unwrap().0;
    assert!((now..now + 100).contains(&as_of), "{counts:?}");
    let buckets = counts.buckets.clone().unwrap();
    assert_eq!(buckets.len(), 1 + 60 + 23 + 29 + 1);
    assert_eq!((buckets[0].from, buckets[0].to), (None, Some(Timestamp(as_of))));
    assert_eq!(buckets.last().unwrap().to, None);
    for pair in buckets.windows(2) {
        assert_eq!(pair[1].from.unwrap().0, pair[0].to.unwrap().0 + 1, "without gaps");
    }
    let ends: Vec<_> = busy(&counts).iter().map(|bucket| (bucket.to.map(|to| to.0 - as_of), bucket.jobs)).collect();
    let minutes = |n| Some(n * MINUTE_MS);
    let expected = [
        (Some(0), 2),
        (minutes(1), 1),
        (minutes(2), 1),
        (minutes(60), 1),
        (minutes(120), 1),
        (Some(2 * DAY_MS), 1),
        (Some(29 * DAY_MS), 1),
        (None, 1),
    ];
    assert_eq!(ends, expected);
    let status = bench.queue("default").await;
    assert_eq!(sum(&counts), status.tally.pending);
    assert_eq!(sum(&due(&bench.engine, None).await), 10);
    assert_eq!(sum(&due(&bench.engine, Some("none")).await), 0);
    assert_eq!(bench.engine.due_counts(Some("-"), SECOND).await.unwrap_err().code(), "invalid");
}

#[tokio::test(start_paused = true)]
async fn a_reading_is_kept_for_a_while() {
    let bench = Bench::new().await;
    bench.push(job()).await;
    let first = due(&bench.engine, None).await;
    bench.push(job()).await;
    pass(9 * SECOND).await;
    assert_eq!(due(&bench.engine, None).await, first);
    pass(SECOND).await;
    // Also the first caller does not get the old one.
    let second = due(&bench.engine, None).await;
    assert_eq!((sum(&first), sum(&second)), (1, 2));
    assert!(second.as_of > first.as_of);
}

#[tokio::test(start_paused = true)]
async fn who_does_not_wait_learns_that_it_is_being_counted() {
    let bench = Bench::new().await;
    bench.push(job()).await;
    let nothing = DueCounts { queue: None, as_of: None, buckets: None };
    assert_eq!(bench.engine.due_counts(None, Duration::ZERO).await.unwrap(), nothing);
    assert_eq!(sum(&due(&bench.engine, None).await), 1);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_told_until_there_is_a_reading() {
    let bench = Bench::new().await;
    bench.push(job()).await;
    bench.ledger.set_away(true);
    assert!(matches!(bench.engine.due_counts(None, SECOND).await, Err(Error::Unavailable(_))));
    bench.ledger.set_away(false);
    assert!(bench.engine.due_counts(None, SECOND).await.is_err(), "it is not asked again at once");
    pass(11 * SECOND).await;
    assert_eq!(sum(&due(&bench.engine, None).await), 1);
    bench.ledger.set_away(true);
    pass(11 * SECOND).await;
    assert_eq!(sum(&due(&bench.engine, None).await), 1);
    pass(SECOND).await;
    assert_eq!(sum(&due(&bench.engine, None).await), 1, "an old reading is better than none");
}

/// Reports whose readings take this long.
struct Slow(ModelLedger, Duration);

#[async_trait]
impl Reports for Slow {
    async fn due(&self, tally: DueTally, after: Option<String>) -> Result<(DueTally, Option<String>), Error> {
        self.0.due(tally, after).await
    }

    async fn failed(&self, limit: usize) -> Result<Vec<FailedJob>, Error> {
        tokio::time::timeout(self.1, std::future::pending::<()>()).await.unwrap_err();
        self.0.failed(limit).await
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_again_for_readings_that_take_long() {
    let ledger = ModelLedger::default();
    let reports = Arc::new(Slow(ledger.clone(), 3 * SECOND));
    let stores = Stores { reports, ..Stores::one_process(Arc::new(TokioClock::new()), Arc::new(ledger)) };
    let engine = Engine::start(stores, Options::default()).await.unwrap();
    assert_eq!(engine.failures(None, SECOND).await.unwrap().as_of, None);
    for _ in 0..4 {
        pass(SECOND).await;
    }
    let first = engine.failures(None, SECOND).await.unwrap();
    assert!(first.as_of.is_some());
    pass(120 * SECOND).await;
    let begin = engine.now();
    assert_eq!(engine.failures(None, SECOND).await.unwrap(), first, "the last one");
    assert_eq!(engine.now(), begin);
    for _ in 0..4 {
        pass(SECOND).await;
    }
    assert!(engine.failures(None, SECOND).await.unwrap().as_of > first.as_of);
}

/// Reports whose readings panic for a while.
struct Panicking {
    ledger: ModelLedger,
    panics: Arc<AtomicBool>,
}

#[async_trait]
impl Reports for Panicking {
    async fn due(&self, tally: DueTally, after: Option<String>) -> Result<(DueTally, Option<String>), Error> {
        assert!(!self.panics.load(Ordering::SeqCst), "a bug");
        self.ledger.due(tally, after).await
    }

    async fn failed(&self, limit: usize) -> Result<Vec<FailedJob>, Error> {
        assert!(!self.panics.load(Ordering::SeqCst), "a bug");
        self.ledger.failed(limit).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_reading_that_panics_is_made_again() {
    let (ledger, panics) = (ModelLedger::default(), Arc::new(AtomicBool::new(true)));
    let reports = Arc::new(Panicking { ledger: ledger.clone(), panics: panics.clone() });
    let stores = Stores { reports, ..Stores::one_process(Arc::new(TokioClock::new()), Arc::new(ledger)) };
    let engine = Engine::start(stores, Options::default()).await.unwrap();
    engine.push(vec![job()]).await.unwrap();
    assert_eq!(engine.due_counts(None, SECOND).await.unwrap_err().code(), "store_unavailable");
    assert_eq!(engine.failures(None, SECOND).await.unwrap_err().code(), "store_unavailable");
    panics.store(false, Ordering::SeqCst);
    pass(11 * SECOND).await;
    let first = due(&engine, None).await;
    assert_eq!(sum(&first), 1);
    assert_eq!(engine.failures(None, SECOND).await.unwrap().groups, Some(Vec::new()));
    panics.store(true, Ordering::SeqCst);
    pass(11 * SECOND).await;
    for _ in 0..3 {
        assert_eq!(due(&engine, None).await, first, "the old one, with its time");
        pass(SECOND).await;
    }
    panics.store(false, Ordering::SeqCst);
    // The time between two readings depends on how long the last one took.
    pass(120 * SECOND).await;
    due(&engine, None).await;
    for _ in 0..3 {
        pass(SECOND).await;
    }
    assert!(due(&engine, None).await.as_of > first.as_of);
    assert!(engine.health().ready);
}

#[tokio::test(start_paused = true)]
async fn of_many_queues_the_largest_are_counted_separately() {
    let bench = Bench::new().await;
    let queues = (0..1_005).map(|n| NewJob { queue: format!("q{n:04}").into(), ..job() });
    // The first five have two jobs.
    let more = (0..5).map(|n| NewJob { queue: format!("q{n:04}").into(), ..job() });
    bench.engine.push(queues.chain(more).collect()).await.unwrap();
    let mut separate = 0;
    for n in 0..1_005 {
        let counts = due(&bench.engine, Some(&format!("q{n:04}"))).await;
        assert!(counts.as_of.is_some());
        if n < 5 {
            assert_eq!(sum(&counts), 2);
        }
        separate += usize::from(counts.buckets.is_some());
    }
    assert_eq!(separate, 1_000);
    assert_eq!(sum(&due(&bench.engine, None).await), 1_010);
}

#[tokio::test(start_paused = true)]
async fn failed_jobs_are_grouped_by_message() {
    let bench = Bench::new().await;
    let nothing = Failures { as_of: None, looked_at: 0, groups: None };
    assert_eq!(bench.engine.failures(None, Duration::ZERO).await.unwrap(), nothing);
    let fail = async |kind: &str, message: &str| {
        pass(SECOND).await;
        bench.push(NewJob { kind: kind.into(), ..job() }).await;
        let lease = bench.lease().await;
        let outcome = Outcome::Fail(Failure { message: message.into(), is_final: true, retry_after: None });
        bench.settle(&lease, outcome).await.unwrap();
        (lease.job.id, Timestamp(bench.engine.now()))
    };
    let (_, first) = fail("mail", "order 4711000 is gone\nat line 3").await;
    fail("mail", "HTTP 503").await;
    let (job, latest) = fail("mail", "order 4711001 is gone").await;
    fail("call", "order 4711002 is gone").await;
    for _ in 0..10 {
        pass(SECOND).await;
    }
    bench.engine.failures(None, SECOND).await.unwrap();
    pass(SECOND).await;
    let failures = bench.engine.failures(Some("default"), SECOND).await.unwrap();
    assert_eq!(failures.looked_at, 4);
    let groups = failures.groups.unwrap();
    let message = "order # is gone".to_owned();
    let ids = groups[1].ids.clone();
    assert_eq!((ids.len(), ids[0]), (2, job));
    let (queue, kind) = ("default".into(), "mail".into());
    let expected = FailureGroup { queue, kind, message, jobs: 2, last_hour: 2, first, latest, job, ids };
    assert_eq!(groups[1], expected);
    assert_eq!(groups.iter().map(|group| group.jobs).collect::<Vec<_>>(), [1, 2, 1], "newest first");
    assert_eq!(bench.engine.failures(Some("none"), SECOND).await.unwrap().groups, Some(Vec::new()));
    assert_eq!(bench.engine.failures(Some("-"), SECOND).await.unwrap_err().code(), "invalid");
}

/// Reports whose count of jobs never ends.
struct Endless(ModelLedger);

#[async_trait]
impl Reports for Endless {
    async fn due(&self, _: DueTally, _: Option<String>) -> Result<(DueTally, Option<String>), Error> {
        std::future::pending().await
    }

    async fn failed(&self, limit: usize) -> Result<Vec<FailedJob>, Error> {
        self.0.failed(limit).await
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_long_reading_and_no_report_for_another() {
    let ledger = ModelLedger::default();
    let reports = Arc::new(Endless(ledger.clone()));
    let stores = Stores { reports, ..Stores::one_process(Arc::new(TokioClock::new()), Arc::new(ledger)) };
    let engine = Engine::start(stores, Options::default()).await.unwrap();
    let begin = engine.now();
    assert_eq!(engine.due_counts(None, SECOND).await.unwrap().as_of, None);
    assert_eq!(engine.now() - begin, 1_000);
    assert_eq!(engine.due_counts(None, SECOND).await.unwrap().as_of, None);
    assert_eq!(engine.failures(None, SECOND).await.unwrap().groups, Some(Vec::new()));
    assert_eq!(engine.now() - begin, 1_000);
}
