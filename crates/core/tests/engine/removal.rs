//! Queues are deleted: all of them goes, nothing that was accepted is lost, and they do not come back.

use super::fixture::{Bench, job, moves_to, pass};
use duetime_core::api::{DeletedQueue, Span};
use duetime_core::engine::{Outcome, Pause, Precondition, QueueSettings};
use duetime_core::rules::Failure;
use duetime_core::{Due, Error, NewJob, Schedule, State, Timing};
use std::time::Duration;

/// What a deletion answers.
fn deleted(existed: bool, cancelled: u64, deleted: u64) -> DeletedQueue {
    let mut answer = DeletedQueue::default();
    (answer.existed, answer.cancelled, answer.deleted) = (existed, cancelled, deleted);
    answer
}

fn in_use(waiting: u64, running: u64, schedules: &[&str]) -> Error {
    let schedules = schedules.iter().map(|name| (*name).into()).collect();
    Error::QueueInUse { queue: "default".into(), waiting, running, schedules }
}

impl Bench {
    async fn delete_queue(&self, force: bool) -> Result<DeletedQueue, Error> {
        self.engine.delete_queue("default", force).await
    }

    /// The names of queues, as lists and metrics show them.
    async fn names(&self) -> (Vec<String>, bool) {
        let all = self.engine.queues().await.unwrap().into_iter().map(|status| status.queue.to_string()).collect();
        (all, self.engine.exposition().await.finish().contains("queue=\"default\""))
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_from_a_typing_error_disappears() {
    let bench = Bench::new().await;
    bench.push(job()).await;
    let lease = bench.lease().await;
    bench.complete(&lease).await.unwrap();
    bench.push(NewJob { options: moves_to("x").options, ..job() }).await;
    let failed = bench.lease().await;
    bench.settle(&failed, Outcome::Fail(Failure { is_final: true, ..Failure::default() })).await.unwrap();
    bench.engine.configure("default", QueueSettings::default().max_running(1)).await.unwrap();
    assert!(bench.names().await.1);
    assert_eq!(bench.delete_queue(false).await, Ok(deleted(true, 0, 2)));
    assert_eq!(bench.names().await, (vec!["x".to_owned()], false), "the moved job stays");
    assert_eq!(bench.engine.job(lease.job.id).await.unwrap_err().code(), "not_found");
    assert_eq!(bench.engine.queue_versioned("default").await.unwrap().1, 0);
    assert_eq!(bench.delete_queue(false).await, Ok(deleted(false, 0, 0)), "a repeat");
    assert_eq!(bench.engine.delete_queue("a b", false).await.unwrap_err().code(), "invalid");
    // Used again, it is a new queue.
    bench.push(job()).await;
    assert_eq!(bench.queue("default").await.tally.totals.pushed, 1);
    let again = QueueSettings::default().max_running(2);
    bench.engine.reconfigure_if("default", Precondition::Nothing, move |_| again.clone()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_only_has_settings_is_deleted_and_its_pause_does_not_bring_it_back() {
    let bench = Bench::new().await;
    bench.engine.pause("default", Pause::For(Span(5_000))).await.unwrap();
    assert_eq!(bench.delete_queue(false).await, Ok(deleted(true, 0, 0)));
    pass(Duration::from_secs(6)).await;
    assert_eq!(bench.names().await, (vec![], false));
    bench.push(job()).await;
    bench.lease().await;
}

#[tokio::test(start_paused = true)]
async fn a_queue_in_use_is_refused_and_stays_as_it_is() {
    let bench = Bench::new().await;
    bench.engine.configure("default", QueueSettings::default().max_running(1)).await.unwrap();
    bench.push(job()).await;
    bench.lease().await;
    let far = bench.push(NewJob { due: Due::After(Span(86_400_000)), ..job() }).await;
    let every = Schedule::new(Timing::Every(Span(3_600_000)), job());
    bench.engine.set_schedule("hourly", every).await.unwrap();
    let refused = bench.delete_queue(false).await.unwrap_err();
    assert_eq!(refused, in_use(1, 1, &["hourly"]));
    let words = "the queue \"default\" is in use: 1 job waits, 1 job runs, the schedule hourly pushes to it; ";
    assert!(refused.to_string().starts_with(words), "{refused}");
    assert_eq!(bench.queue("default").await.settings.max_running, Some(1));
    assert_eq!(bench.state(far.id).await, State::Scheduled);
}

/// A running job is asked to stop. The queue is deleted once the job has ended.
#[tokio::test(start_paused = true)]
async fn by_force_waiting_jobs_are_cancelled_and_running_ones_end_first() {
    let bench = Bench::new().await;
    bench.push(job()).await;
    let running = bench.lease().await;
    bench.push(job()).await;
    let every = Schedule::new(Timing::Every(Span(3_600_000)), job());
    bench.engine.set_schedule("hourly", every).await.unwrap();
    assert_eq!(bench.delete_queue(true).await, Err(in_use(0, 1, &[])));
    assert!(bench.engine.job(running.job.id).await.unwrap().cancel_asked);
    assert_eq!(bench.complete(&running).await, Ok(State::Succeeded));
    assert_eq!(bench.delete_queue(true).await, Ok(deleted(true, 0, 2)));
    assert_eq!(bench.names().await, (vec![], false));
    // Only the next run of the schedule makes it anew.
    pass(Duration::from_secs(3_601)).await;
    assert_eq!(bench.names().await.0, ["default"]);
    assert_eq!(bench.delete_queue(true).await, Ok(deleted(true, 1, 1)));
}
