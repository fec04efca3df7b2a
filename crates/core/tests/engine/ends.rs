//! Waits for the end of a job.

use super::fixture::{Bench, job, pass};
use duetime_core::api::Span;
use duetime_core::engine::Outcome;
use duetime_core::rules::Failure;
use duetime_core::{Due, Error, Job, JobId, NewJob, State};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

const MINUTE: Span = Span(60_000);

/// A wait in its own task, which has begun when this ends.
async fn waits(bench: &Bench, id: JobId, wait: Span) -> JoinHandle<Result<Job, Error>> {
    let engine = bench.engine.clone();
    let waits = tokio::spawn(async move { engine.ended(id, wait).await });
    pass(Duration::ZERO).await;
    assert!(!waits.is_finished(), "nothing has ended yet");
    waits
}

fn fail(is_final: bool) -> Outcome {
    Outcome::Fail(Failure { message: "no".into(), is_final, retry_after: None })
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_its_job_and_with_no_other() {
    let bench = Bench::new().await;
    let begin = Instant::now();
    for end in ["completed", "failed", "cancelled", "expired"] {
        let expires = (end == "expired").then_some(Span(1_000));
        let id = bench.push(NewJob { expires, ..job() }).await.id;
        let other = bench.push(NewJob { due: Due::After(MINUTE), ..job() }).await.id;
        // Several may wait for one job.
        let all = [waits(&bench, id, MINUTE).await, waits(&bench, id, MINUTE).await];
        bench.engine.cancel(vec![other.into()]).await.remove(0).unwrap();
        pass(Duration::ZERO).await;
        assert!(all.iter().all(|one| !one.is_finished()), "{end}: another job has ended");
        let state = match end {
            "completed" => bench.complete(&bench.lease().await).await.unwrap(),
            "failed" => bench.settle(&bench.lease().await, fail(true)).await.unwrap(),
            "cancelled" => {
                bench.engine.cancel(vec![id.into()]).await.remove(0).unwrap();
                State::Cancelled
            }
            _ => {
                pass(Duration::from_secs(2)).await;
                State::Failed
            }
        };
        for one in all {
            let job = one.await.unwrap().unwrap();
            assert_eq!((job.id, job.state(bench.engine.now())), (id, state), "{end}");
        }
    }
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}: they were told, and not looked at", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_fails_is_no_end() {
    let bench = Bench::new().await;
    let id = bench.push(job()).await.id;
    let wait = waits(&bench, id, MINUTE).await;
    assert_eq!(bench.settle(&bench.lease().await, fail(false)).await.unwrap(), State::Scheduled);
    pass(Duration::from_secs(17)).await;
    assert!(!wait.is_finished());
    bench.complete(&bench.lease().await).await.unwrap();
    assert_eq!(wait.await.unwrap().unwrap().attempt, 2);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_has_ended_is_not_waited_for_and_one_that_goes_on_is_returned_after_the_wait() {
    let bench = Bench::new().await;
    let id = bench.push(job()).await.id;
    bench.complete(&bench.lease().await).await.unwrap();
    let begin = Instant::now();
    assert_eq!(bench.engine.ended(id, MINUTE).await.unwrap().id, id);
    assert!(begin.elapsed() < Duration::from_millis(10), "{:?}", begin.elapsed());
    let id = bench.push(job()).await.id;
    for (wait, passed) in [(Span(0), 0), (Span(7_000), 7)] {
        let begin = Instant::now();
        assert!(bench.engine.ended(id, wait).await.unwrap().is_pending());
        assert_eq!(begin.elapsed().as_secs(), passed);
    }
    let too_long = bench.engine.ended(id, Span(60_001)).await.unwrap_err();
    assert_eq!(too_long.to_string(), "`wait` must be at most 1m, got 1m1ms");
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_job_that_is_deleted_or_an_engine_that_stops_is_told() {
    let bench = Bench::new().await;
    let unknown = JobId::from_sequence(1 << 40);
    assert_eq!(bench.engine.ended(unknown, MINUTE).await.unwrap_err(), Error::NotFound(unknown));
    let id = bench.push(job()).await.id;
    let wait = waits(&bench, id, MINUTE).await;
    bench.engine.delete(vec![id.into()]).await.remove(0).unwrap();
    assert_eq!(wait.await.unwrap().unwrap_err(), Error::NotFound(id));
    let id = bench.push(job()).await.id;
    let wait = waits(&bench, id, MINUTE).await;
    bench.engine.stop().await.unwrap();
    assert_eq!(wait.await.unwrap().unwrap_err(), Error::Stopping);
}
