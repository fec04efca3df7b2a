//! Queues with a limit on what waits: what finds no place is refused or dropped, and nothing that was accepted is lost.

use super::fixture::{Bench, job, pass};
use super::schedules::{World, seconds};
use duetime_core::api::{AttentionKind, Span};
use duetime_core::engine::{Outcome, Precondition, PushOutcome, QueueSettings, WhenFull};
use duetime_core::ports::InboxRow;
use duetime_core::rules::Failure;
use duetime_core::schedule::TickOutcome;
use duetime_core::testing::mortal::Life;
use duetime_core::{Due, Error, Job, JobId, NewJob, OnConflict, Schedule, Timing};
use std::time::Duration;

/// Longer than a count is used.
const SOON: Duration = Duration::from_millis(150);

fn limit(jobs: u32) -> QueueSettings {
    QueueSettings::default().max_waiting(jobs)
}

fn far() -> NewJob {
    NewJob { due: Due::After(Span(86_400_000)), ..job() }
}

fn from_push(origin: &str) -> NewJob {
    NewJob { origin: Some(origin.into()), ..job() }
}

fn keyed(on_conflict: OnConflict) -> NewJob {
    NewJob { key: Some("k".into()), on_conflict, ..job() }
}

impl Bench {
    async fn with_limit(settings: QueueSettings) -> Self {
        let bench = Self::new().await;
        bench.engine.configure("default", settings).await.unwrap();
        bench
    }

    /// The outcomes of a batch.
    async fn outcomes(&self, jobs: Vec<NewJob>) -> Vec<Result<PushOutcome, &'static str>> {
        let answers = self.engine.push(jobs).await.unwrap().into_iter();
        answers.map(|answer| answer.map(|pushed| pushed.outcome).map_err(|error| error.code())).collect()
    }

    fn rows(&self) -> usize {
        self.ledger.jobs().len()
    }

    async fn has_attention(&self) -> Vec<String> {
        let items = self.engine.attention(|_| true).await.items.into_iter();
        items.filter(|item| item.kind == AttentionKind::Full).map(|item| item.detail).collect()
    }
}

const CREATED: Result<PushOutcome, &str> = Ok(PushOutcome::Created);
const FULL: Result<PushOutcome, &str> = Err("queue_full");

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_each_job_beyond_its_limit_until_some_have_run() {
    let bench = Bench::with_limit(limit(3)).await;
    let elsewhere = NewJob { queue: "other".into(), ..job() };
    let batch = vec![far(), job(), job(), job(), elsewhere, job()];
    assert_eq!(bench.outcomes(batch).await, [CREATED, CREATED, CREATED, FULL, CREATED, FULL]);
    let error = bench.try_push(job()).await.unwrap_err();
    assert_eq!(error, Error::QueueFull { queue: "default".into(), max_waiting: 3 });
    assert!(error.is_retryable());
    pass(SOON).await;
    assert_eq!((bench.outcomes(vec![far()]).await, bench.rows()), (vec![FULL], 4));
    // A job that runs does not wait.
    let lease = bench.lease_first().await;
    pass(SOON).await;
    assert_eq!(bench.outcomes(vec![job(), job()]).await, [CREATED, FULL]);
    bench.complete(&lease).await.unwrap();
    let text = bench.engine.exposition().await.finish();
    assert!(text.contains("duetime_queue_full_total{queue=\"default\"} 5\n"), "{text}");
    pass(Duration::from_secs(60)).await;
    let shown = bench.has_attention().await;
    assert_eq!(shown, ["default: its `max_waiting` of 3 was reached; 5 new jobs have found no place in 1m"]);
    pass(Duration::from_secs(62)).await;
    assert_eq!(bench.has_attention().await, [""; 0]);
    bench.engine.configure("default", QueueSettings::default()).await.unwrap();
    assert_eq!(bench.outcomes(vec![job(); 5]).await, [CREATED; 5]);
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_drops_says_so_and_stores_nothing() {
    let bench = Bench::with_limit(limit(1).when_full(WhenFull::Drop)).await;
    assert_eq!(bench.outcomes(vec![job(), job()]).await, [CREATED, Ok(PushOutcome::Dropped)]);
    let dropped = bench.try_push(from_push("o")).await.unwrap();
    assert_eq!(dropped.outcome, PushOutcome::Dropped);
    assert_eq!(bench.engine.job(dropped.job.id).await.unwrap_err().code(), "not_found");
    bench.lease().await;
    pass(SOON).await;
    assert_eq!(bench.outcomes(vec![from_push("o")]).await, [CREATED], "a dropped push leaves no origin");
    assert_eq!(bench.rows(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_repeat_is_known_while_its_queue_is_full() {
    for then in [WhenFull::Refuse, WhenFull::Drop] {
        let bench = Bench::with_limit(limit(2).when_full(then)).await;
        let first = bench.push(from_push("o")).await.id;
        let lease = bench.lease().await;
        bench.complete(&lease).await.unwrap();
        pass(SOON).await;
        bench.push(from_push("p")).await;
        bench.push(job()).await;
        for origin in ["o", "p"] {
            let repeat = bench.try_push(from_push(origin)).await.unwrap();
            assert_eq!((repeat.outcome, repeat.job.id == first), (PushOutcome::Repeated, origin == "o"));
        }
        let other = NewJob { kind: "other".into(), ..from_push("p") };
        assert_eq!(bench.outcomes(vec![other]).await, [Err("origin_reused")]);
        // Of one batch, the second is a repeat of the first, which got the last place.
        bench.lease_first().await;
        pass(SOON).await;
        let twice = bench.outcomes(vec![from_push("q"), from_push("q")]).await;
        assert_eq!(twice, [CREATED, Ok(PushOutcome::Repeated)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_conflict_needs_no_place() {
    let bench = Bench::with_limit(limit(1)).await;
    let holder = bench.push(keyed(OnConflict::Keep)).await.id;
    let replacing = NewJob { priority: 7, ..keyed(OnConflict::Replace) };
    let all = vec![keyed(OnConflict::Keep), keyed(OnConflict::Reject), replacing];
    let expected = [Ok(PushOutcome::Kept), Err("key_conflict"), Ok(PushOutcome::Replaced)];
    assert_eq!(bench.outcomes(all).await, expected);
    assert_eq!((bench.engine.job(holder).await.unwrap().priority, bench.rows()), (7, 1));
    // It runs, so there is a place; once that is taken, its key is free and there is none.
    let lease = bench.lease().await;
    pass(SOON).await;
    bench.push(job()).await;
    assert_eq!(bench.outcomes(vec![keyed(OnConflict::Replace)]).await, [Err("key_conflict")]);
    bench.complete(&lease).await.unwrap();
    assert_eq!(bench.outcomes(vec![keyed(OnConflict::Replace)]).await, [FULL]);
}

/// Refused pushes and repeats take no places.
#[tokio::test(start_paused = true)]
async fn what_makes_no_job_takes_no_place() {
    let bench = Bench::with_limit(limit(3)).await;
    bench.push(NewJob { origin: Some("o".into()), ..keyed(OnConflict::Keep) }).await;
    for _ in 0..5 {
        let all = vec![from_push("o"), keyed(OnConflict::Keep), keyed(OnConflict::Reject)];
        assert_eq!(bench.outcomes(all).await.len(), 3);
    }
    assert_eq!(bench.outcomes(vec![job(), job(), job()]).await, [CREATED, CREATED, FULL]);
}

#[tokio::test(start_paused = true)]
async fn what_waits_again_or_comes_from_elsewhere_needs_no_place() {
    let bench = Bench::with_limit(limit(1)).await;
    bench.push(job()).await;
    let (failed, mut released) = (bench.lease().await, None);
    pass(SOON).await;
    bench.push(job()).await;
    bench.settle(&failed, Outcome::Fail(Failure::default())).await.unwrap();
    for _ in 0..2 {
        released = Some(bench.lease_first().await);
        bench.settle(released.as_ref().unwrap(), Outcome::release(Duration::ZERO)).await.unwrap();
    }
    let released = released.unwrap();
    let imported = Job { id: JobId::from_sequence(7), ..released.job.clone() };
    assert!(bench.engine.import(vec![imported]).await.unwrap().remove(0).unwrap().is_new);
    let source = NewJob { queue: "source".into(), ..job() };
    let source = bench.push(source).await;
    assert_eq!(bench.engine.hand_on(&source, &"default".into()).await.unwrap().outcome, PushOutcome::Created);
    pass(SOON).await;
    assert_eq!((bench.queue("default").await.tally.pending, bench.outcomes(vec![job()]).await), (4, vec![FULL]));
}

#[tokio::test(start_paused = true)]
async fn a_schedule_records_a_run_that_found_no_place() {
    for then in [WhenFull::Refuse, WhenFull::Drop] {
        let bench = Bench::with_limit(limit(1).when_full(then)).await;
        bench.engine.set_schedule("s", Schedule::new(Timing::Every(Span(10_000)), job())).await.unwrap();
        seconds(21).await;
        let last = bench.engine.schedule("s").await.unwrap().last.unwrap();
        assert_eq!((last.outcome, last.job, bench.rows()), (TickOutcome::Full, None, 1));
        assert!(bench.has_attention().await[0].contains("1 new job has found no place"));
        let by_hand = bench.engine.run_schedule("s", None, Precondition::Anything).await;
        let refused = by_hand.map(|pushed| pushed.outcome).map_err(|error| error.code());
        assert_eq!(refused, if then == WhenFull::Drop { Ok(PushOutcome::Dropped) } else { FULL });
        let lease = bench.lease().await;
        bench.complete(&lease).await.unwrap();
        seconds(10).await;
        let last = bench.engine.schedule("s").await.unwrap().last.unwrap();
        assert_eq!((last.outcome, bench.rows()), (TickOutcome::Pushed, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn rows_of_the_inbox_wait_and_delay_no_others() {
    let world = World::new();
    let node = world.node(Life::plain()).await;
    node.engine.configure("default", limit(2)).await.unwrap();
    let insert = |queue: &str| {
        let row = InboxRow { queue: queue.into(), kind: "k".into(), payload: (*b"1").into(), ..InboxRow::default() };
        world.ledger.insert(row);
    };
    // More than a page.
    (0..1_500).for_each(|_| insert("default"));
    insert("other");
    seconds(5).await;
    let jobs = |queue: &str| world.ledger.jobs().into_iter().filter(|job| &*job.queue == queue).count();
    assert_eq!((jobs("default"), jobs("other"), world.ledger.inbox_rows().len()), (2, 1, 1_498));
    insert("other");
    seconds(1).await;
    assert_eq!(jobs("other"), 2);
    node.engine.configure("default", QueueSettings::default()).await.unwrap();
    seconds(2).await;
    assert_eq!((jobs("default"), world.ledger.inbox_rows().len()), (1_500, 0));
}

#[tokio::test(start_paused = true)]
async fn settings_have_limits() {
    let bench = Bench::new().await;
    for (wrong, named) in [
        (limit(0), "`max_waiting` must be 1 or more, got 0"),
        (
            QueueSettings::default().when_full(WhenFull::Drop),
            "`when_full` must be left out, or null, without `max_waiting`",
        ),
    ] {
        let refused = bench.engine.configure("default", wrong).await.unwrap_err();
        assert!(refused.to_string().contains(named), "{refused}");
    }
}

/// However many push at the same time.
#[tokio::test(start_paused = true)]
async fn one_process_gives_no_place_too_many() {
    let bench = Bench::with_limit(limit(50)).await;
    let mut accepted = 0;
    for _ in 0..10 {
        let pushes = [job(), far(), job(), far()].map(|new| {
            let engine = bench.engine.clone();
            tokio::spawn(
                async move { engine.push(vec![new; 5]).await.unwrap().into_iter().filter(Result::is_ok).count() },
            )
        });
        // They are counted while others are recorded.
        pass(Duration::from_millis(40)).await;
        for push in pushes {
            accepted += push.await.unwrap();
        }
    }
    assert_eq!((accepted, bench.rows()), (50, 50));
}
