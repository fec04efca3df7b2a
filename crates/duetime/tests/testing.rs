//! The kit for tests of programs.

use duetime::job::{Query, State as JobState};
use duetime::lease::{ReserveRequest, Source};
use duetime::prelude::*;
use duetime::queue::Pause;
use duetime::{assert_pushed, testing};

const HOUR: Duration = Duration::from_secs(3_600);
const MONTH: Duration = Duration::from_secs(30 * 24 * 3_600);

#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "count", queue = "numbers")]
struct Count(u64);

#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "tick")]
struct Tick;

#[test]
fn the_guide_shows_the_tests_that_run() {
    let page = include_str!("../../../docs/guides/testing.md");
    assert!(page.contains(&format!("```rust\n{}```\n", include_str!("guide.rs"))));
}

/// What the assertion says if it fails.
async fn refusal(assertion: impl Future<Output = ()> + Send + 'static) -> String {
    let panic = tokio::spawn(assertion).await.unwrap_err().into_panic();
    *panic.downcast::<String>().unwrap()
}

#[tokio::test]
async fn a_failed_assertion_shows_what_was_pushed() {
    let (client, _clock) = testing::client().await;
    let asked = client.clone();
    let none = refusal(async move { drop(assert_pushed!(asked, Tick)) }).await;
    assert_eq!(none, "expected a push of `Tick`; nothing was pushed");

    client.push(Count(8)).after(Duration::from_secs(300)).await.unwrap();
    client.push_raw("bytes", *b"x").queue("other").await.unwrap();
    let asked = client.clone();
    let other = refusal(async move { drop(assert_pushed!(asked, Count(7 | 9), after = 5m)) }).await;
    let pushed = "this was pushed:\n  count 8 to numbers, after 5m\n  bytes x to other, after 0s";
    assert_eq!(other, format!("expected a push of `Count(7 | 9)`, after 5m; {pushed}"));
    let asked = client.clone();
    let early = refusal(async move { drop(assert_pushed!(asked, Count(_), after = 6m)) }).await;
    assert!(early.starts_with("expected a push of `Count(_)`, after 6m; this"), "{early}");

    let five_minutes = Duration::from_secs(300);
    assert_eq!(assert_pushed!(client, Count(8), after = five_minutes).payload_as::<u64>().unwrap(), 8);
    client.push(Tick).await.unwrap();
    for count in 10..40 {
        client.push(Count(count)).await.unwrap();
    }
    let many = refusal(async move { drop(assert_pushed!(client, Count(7))) }).await;
    assert!(many.ends_with("\n  and more") && many.lines().count() == 22, "{many}");
}

#[tokio::test]
async fn time_stands_still_until_it_is_moved() {
    let (client, clock) = testing::client().await;
    let begin = clock.now();
    let id = client.push(Count(1)).after(MONTH).await.unwrap().id;
    assert_eq!(clock.now(), begin);
    clock.advance(MONTH).await;
    assert_eq!(clock.now().duration_since(begin).unwrap(), MONTH);
    let handler = async |count: Count| Ok::<_, JobError>(count.0);
    assert_eq!(Worker::new(&client).handle(handler).drain().await.unwrap().succeeded, 1);
    assert_eq!(client.jobs().get(id).await.unwrap().result_as::<u64>().unwrap(), 1);
}

/// A second attempt repeats the pushes of the first one.
#[tokio::test]
async fn a_handler_that_runs_again_pushes_no_second_job() {
    let (client, _clock) = testing::client().await;
    client.push(Tick).await.unwrap();
    let tick = async |_: Tick, Attempt(attempt): Attempt, context: Context| {
        for count in [1, 2] {
            // The same origin, whatever is pushed.
            context.push(Count(count)).priority(attempt).await?;
        }
        context.client().push(Count(3)).origin("mine").await?;
        if attempt == 1 { Err(JobError::retry_after(Duration::ZERO, "once more")) } else { Ok(()) }
    };
    let ran = Worker::new(&client).handle(tick).drain().await.unwrap();
    assert_eq!((ran.failed, ran.succeeded), (1, 1));
    let counted = Arc::new(std::sync::Mutex::new(Vec::new()));
    let count = async |Count(count): Count, State(counted): State<Arc<std::sync::Mutex<Vec<u64>>>>| {
        counted.lock().unwrap().push(count);
        Ok::<_, JobError>(())
    };
    Worker::new(&client).state(counted.clone()).handle(count).drain().await.unwrap();
    assert_eq!(*counted.lock().unwrap(), [1, 2, 3]);
}

/// Schedules push at their times, and a lease that nobody extends ends.
#[tokio::test]
async fn what_is_to_happen_meanwhile_happens_at_its_time() {
    let (client, clock) = testing::client().await;
    let next = client.schedules().set("hourly", Cron::new("0 * * * *").job(Tick)).await.unwrap().next;
    let from = Source::Queues(vec!["leased".into()]);
    client.push_raw("k", *b"1").queue("leased").await.unwrap();
    let request = ReserveRequest::new(from).limit(1);
    let leased = client.leases().reserve(request).await.unwrap().leases.remove(0).job;

    clock.advance(3 * HOUR).await;
    let ticks = client.jobs().find(Query::default().kind("tick")).take(10).await.unwrap();
    let due: Vec<_> = ticks.iter().map(|job| job.due_at).collect();
    assert_eq!(due, next[..3]);
    let crashed = client.jobs().get(leased.id).await.unwrap();
    assert_eq!((crashed.crashes, crashed.state(crashed.updated_at.0 + 60_000)), (1, JobState::Ready));
}

/// The clock does not overtake a change that was made just before.
#[tokio::test]
async fn what_was_changed_just_before_happens_at_its_time() {
    for round in 0..20 {
        let (client, clock) = testing::client().await;
        client.schedules().set("daily", Cron::new("0 7 * * *").job(Tick)).await.unwrap();
        clock.advance(24 * HOUR).await;
        let ticked = client.jobs().find(Query::default().kind("tick")).take(10).await.unwrap();
        assert!(!ticked.is_empty(), "round {round}");

        client.queues().pause("numbers", Pause::lasting(HOUR)).await.unwrap();
        clock.advance(HOUR).await;
        assert!(!client.queues().get("numbers").await.unwrap().settings.paused, "round {round}");

        client.push(Count(1)).await.unwrap();
        let request = ReserveRequest::new(Source::Queues(vec!["numbers".into()])).limit(1);
        let leased = client.leases().reserve(request).await.unwrap().leases.remove(0).job;
        clock.advance(HOUR).await;
        assert_eq!(client.jobs().get(leased.id).await.unwrap().crashes, 1, "round {round}");
        client.close().await.unwrap();
    }
}

/// A handler pushes a job, which is run too, as one that is retried at once.
#[tokio::test]
async fn a_drain_follows_what_it_causes() {
    let (client, _clock) = testing::client().await;
    client.push(Count(3)).await.unwrap();
    let pushing = client.clone();
    let count_down = move |Count(left): Count, Attempt(attempt): Attempt| {
        let client = pushing.clone();
        async move {
            if left == 2 && attempt == 1 {
                return Err(JobError::retry_after(Duration::ZERO, "once more"));
            }
            if left > 0 {
                client.push(Count(left - 1)).await?;
            }
            Ok(())
        }
    };
    let summary = Worker::new(&client).handle(count_down).drain().await.unwrap();
    assert_eq!((summary.succeeded, summary.failed), (4, 1));
    assert_pushed!(client, Count(0));
}

/// A worker that waits in the background gets what becomes due.
#[tokio::test]
async fn a_worker_in_the_background_follows_the_clock() {
    let (client, clock) = testing::client().await;
    let worker = Worker::new(&client).handle(async |count: Count| Ok::<_, JobError>(count.0 + 1));
    let working = tokio::spawn(worker.run());
    let id = client.push(Count(1)).after(HOUR).await.unwrap().id;
    clock.advance(HOUR).await;
    let job = client.jobs().wait(id, Duration::from_secs(25)).await.unwrap();
    assert_eq!(job.result_as::<u64>().unwrap(), 2);
    working.abort();
}

#[tokio::test]
async fn a_handler_is_called_with_a_made_up_attempt() {
    async fn handle(Count(count): Count, State(more): State<u64>, context: Context) -> Result<u64, JobError> {
        context.progress(50, None).await?;
        context.follow_with(Count(count))?;
        if context.attempt() > 2 { Err(JobError::fatal("enough")) } else { Ok(count + more) }
    }
    let (client, clock) = testing::client().await;
    clock.advance(HOUR).await;
    let done = testing::attempt(&client, Count(1)).number(2).state(5).run(handle).await.unwrap();
    assert_eq!((done.attempt, done.result_as::<u64>().unwrap()), (2, 6));
    assert_eq!(done.options().then.as_ref().map(|added| added.len()), Some(1));
    let failed = testing::attempt(&client, Count(1)).number(3).state(5).run(handle).await.unwrap_err();
    assert!(failed.is_final() && failed.message() == "enough");
    assert_eq!(client.jobs().find(Query::default()).take(1).await.unwrap(), []);
    // Nothing that holds up the jobs of its queue.
    client.queues().pause(Count::QUEUE, Pause::UntilResumed).await.unwrap();
    let done = testing::attempt(&client, Count(1)).state(5).run(handle).await.unwrap();
    assert_eq!(&*done.queue, Count::QUEUE);
}
