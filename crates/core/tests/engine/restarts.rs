//! The state that a new process restores.

use super::fixture::{Bench, job, pass};
use duetime_core::api::Span;
use duetime_core::engine::Pause;
use duetime_core::{Due, Error, NewJob, State};
use std::time::Duration;

/// The process dies, and another begins over the same ledger.
async fn restart(bench: Bench) -> Bench {
    let Bench { ledger, clock, .. } = bench;
    Bench::over(ledger, clock).await
}

#[tokio::test(start_paused = true)]
async fn waiting_jobs_are_loaded_again() {
    let bench = Bench::new().await;
    let dues = [0, 5_000, 60_000, 10 * 3_600_000].map(|ms| Due::After(Span(ms)));
    bench.engine.push(dues.map(|due| NewJob { due, ..job() }).to_vec()).await.unwrap();
    let bench = restart(bench).await;
    pass(Duration::from_secs(61)).await;
    assert_eq!(bench.reserve(10, Duration::ZERO).await.len(), 3);
    assert!(bench.engine.health().is_loaded);
}

#[tokio::test(start_paused = true)]
async fn a_lease_outlives_the_process_and_a_stale_receipt_does_not_come_back() {
    let bench = Bench::new().await;
    bench.push(NewJob { lease: Some(Span(1_000)), ..job() }).await;
    let stale = bench.lease().await;
    pass(Duration::from_millis(1_600)).await;
    let live = bench.lease().await;
    let bench = restart(bench).await;
    assert!(bench.reserve(1, Duration::ZERO).await.is_empty(), "its worker is alive");
    assert_eq!(bench.complete(&stale).await.unwrap_err(), Error::LeaseLost(stale.job.receipt()));
    assert_eq!(bench.complete(&live).await.unwrap(), State::Succeeded);
    assert_eq!(bench.state(live.job.id).await, State::Succeeded);
}

/// In memory or not; given back, the job is due.
#[tokio::test(start_paused = true)]
async fn a_lease_that_began_early_outlives_the_process() {
    for delay_ms in [60_000, 10 * 3_600_000] {
        let bench = Bench::new().await;
        let id = bench.push(NewJob { due: Due::After(Span(delay_ms)), lease: Some(Span(5_000)), ..job() }).await.id;
        assert_eq!(bench.engine.reserve_early(id).await.unwrap().job.id, id);
        assert_eq!(bench.engine.reserve_early(id).await.unwrap_err(), Error::Running(id));
        pass(Duration::from_secs(1)).await;
        let bench = restart(bench).await;
        assert_eq!(bench.state(id).await, State::Running);
        pass(Duration::from_secs(5)).await;
        assert_eq!(bench.lease().await.job.id, id);
    }
}

/// If its queue is paused or limited, it waits as before.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_not_reserved_early_stays_scheduled() {
    for delay_ms in [60_000, 10 * 3_600_000] {
        let bench = Bench::new().await;
        let id = bench.push(NewJob { due: Due::After(Span(delay_ms)), ..job() }).await.id;
        bench.engine.pause("default", Pause::UntilResumed).await.unwrap();
        assert_eq!(bench.engine.reserve_early(id).await.unwrap_err(), Error::NotDue(id));
        bench.engine.resume("default").await.unwrap();
        assert_eq!((bench.state(id).await, bench.reserve(1, Duration::ZERO).await.len()), (State::Scheduled, 0));
        let bench = restart(bench).await;
        pass(Duration::from_millis(delay_ms + 1_000)).await;
        assert_eq!(bench.lease().await.job.id, id);
    }
}

#[tokio::test(start_paused = true)]
async fn a_restored_lease_ends() {
    let bench = Bench::new().await;
    bench.push(NewJob { lease: Some(Span(10_000)), ..job() }).await;
    let lease = bench.lease().await;
    pass(Duration::from_secs(4)).await;
    let bench = restart(bench).await;
    pass(Duration::from_secs(5)).await;
    assert!(bench.reserve(1, Duration::ZERO).await.is_empty());
    pass(Duration::from_secs(2)).await;
    let again = bench.lease().await;
    assert_eq!((again.job.attempt, again.job.crashes), (2, 1));
    assert!(again.job.epoch > lease.job.epoch);
}

/// However far the clock was set back before; and extensions count, so it is not shorter either.
#[tokio::test(start_paused = true)]
async fn a_restored_lease_is_no_longer_than_it_was() {
    for extended_ms in [None, Some(10_000)] {
        let bench = Bench::new().await;
        bench.push(NewJob { lease: Some(Span(2_000)), ..job() }).await;
        let lease = bench.lease().await;
        pass(Duration::from_millis(500)).await;
        if extended_ms.is_some() {
            bench.engine.extend(vec![(lease.job.receipt(), extended_ms)]).await.remove(0).unwrap();
        }
        bench.clock.step_wall(-30 * 60_000);
        let bench = restart(bench).await;
        pass(Duration::from_millis(extended_ms.unwrap_or(2_000) - 1)).await;
        assert!(bench.reserve(1, Duration::ZERO).await.is_empty());
        bench.clock.step_wall(30 * 60_000);
        pass(Duration::from_millis(501)).await;
        assert_eq!(bench.lease().await.job.crashes, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_paused_queue_stays_paused() {
    let bench = Bench::new().await;
    bench.engine.pause("default", Pause::UntilResumed).await.unwrap();
    bench.push(job()).await;
    let bench = restart(bench).await;
    pass(Duration::from_secs(1)).await;
    assert!(bench.reserve(1, Duration::ZERO).await.is_empty());
    assert!(bench.queue("default").await.settings.paused);
}

#[tokio::test(start_paused = true)]
async fn a_clock_set_back_before_a_restart_strands_nothing() {
    let bench = Bench::new().await;
    bench.push(NewJob { due: Due::After(Span(3_000_000)), ..job() }).await;
    bench.clock.step_wall(-3_600_000);
    let bench = restart(bench).await;
    pass(Duration::from_secs(6_600)).await;
    assert_eq!(bench.reserve(1, Duration::ZERO).await.len(), 1);
}
