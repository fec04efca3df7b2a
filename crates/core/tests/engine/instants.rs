//! One name of a schedule and one instant have one job, whoever edits the schedule, and however the clock is set.

use super::fixture::{Bench, job};
use super::schedules::{every, seconds, ticks};
use duetime_core::api::Span;
use duetime_core::engine::{Outcome, Pause, Precondition};
use duetime_core::json::Timestamp;
use duetime_core::limits::MINUTE_MS;
use duetime_core::{Clock, Engine, Millis, NewJob, Schedule};
use std::time::Duration;

const EVERY_MS: u64 = 10_000;

async fn set(engine: &Engine, schedule: Schedule) {
    engine.set_schedule("s", schedule).await.unwrap();
}

/// Runs are pushed 2 s ahead; in that time the schedule is edited.
#[tokio::test(start_paused = true)]
async fn an_edit_before_an_instant_pushes_it_once() {
    for edit in ["pause", "job", "queue", "timing", "delete", "delete and queue", "twice"] {
        let bench = Bench::new().await;
        let (engine, t0) = (&bench.engine, bench.clock.wall());
        let schedule = Schedule { start: Some(Timestamp(t0 + EVERY_MS)), ..every(EVERY_MS) };
        let elsewhere = Schedule { job: NewJob { queue: "elsewhere".into(), ..job() }, ..schedule.clone() };
        set(engine, schedule.clone()).await;
        seconds(9).await;
        assert_eq!(ticks(&bench.ledger, "s"), [t0 + EVERY_MS], "{edit}");
        match edit {
            "pause" => {
                engine.pause_schedule("s", Pause::UntilResumed, Precondition::Anything).await.unwrap();
                engine.resume_schedule("s", Precondition::Anything).await.unwrap();
            }
            "job" => set(engine, Schedule { job: NewJob::new(*b"other"), ..schedule }).await,
            "queue" => set(engine, elsewhere).await,
            // The same instants, and others between them.
            "timing" => set(engine, Schedule { start: schedule.start, ..every(EVERY_MS / 2) }).await,
            "delete" => {
                engine.delete_schedule("s").await.unwrap();
                set(engine, schedule).await;
            }
            "delete and queue" => {
                engine.delete_schedule("s").await.unwrap();
                set(engine, elsewhere).await;
            }
            _ => {
                for timing in [EVERY_MS / 2, EVERY_MS] {
                    engine.delete_schedule("s").await.unwrap();
                    set(engine, Schedule { start: schedule.start, ..every(timing) }).await;
                }
            }
        }
        seconds(25).await;
        let ticks = ticks(&bench.ledger, "s");
        let expected: Vec<Millis> = (1..=3).map(|n| t0 + n * EVERY_MS).collect();
        assert!(expected.iter().all(|at| ticks.contains(at)), "{edit}: {ticks:?}");
    }
}

/// The clock goes ten minutes ahead and back: what it passed over then is pushed all the same.
#[tokio::test(start_paused = true)]
async fn a_clock_that_was_ahead_for_a_moment_stops_no_schedule() {
    const AHEAD_MS: u64 = 10 * MINUTE_MS;
    for restarts in [false, true] {
        let mut bench = Bench::new().await;
        let t0 = bench.clock.wall();
        set(&bench.engine, Schedule { start: Some(Timestamp(t0 + MINUTE_MS)), ..every(MINUTE_MS) }).await;
        seconds(61).await;
        bench.clock.step_wall(AHEAD_MS.cast_signed());
        seconds(5).await;
        let ahead = ticks(&bench.ledger, "s");
        assert_eq!(ahead, [t0 + MINUTE_MS, t0 + MINUTE_MS + AHEAD_MS], "one for all that were missed");
        bench.clock.step_wall(-AHEAD_MS.cast_signed());
        if restarts {
            let Bench { ledger, clock, life, .. } = bench;
            life.die();
            bench = Bench::over(ledger, clock).await;
        }
        seconds(180).await;
        let pushed = ticks(&bench.ledger, "s");
        assert_eq!(pushed[..4], [1, 2, 3, 4].map(|n| t0 + n * MINUTE_MS), "{restarts}");
        // The instant that was pushed then is not pushed once more.
        seconds(10 * 60).await;
        let instants: Vec<Millis> = (1..=14).map(|n| t0 + n * MINUTE_MS).collect();
        assert_eq!(ticks(&bench.ledger, "s"), instants, "{restarts}");
        assert!(!bench.reserve(1, Duration::ZERO).await.is_empty());
    }
}

/// The job of an instant ran and waits for its retry when the clock is set back. Then the schedule names another queue.
#[tokio::test(start_paused = true)]
async fn a_retried_job_has_its_instant_after_the_clock_was_set_back() {
    const AHEAD_MS: u64 = 2 * MINUTE_MS;
    for fails_ahead in [true, false] {
        let bench = Bench::new().await;
        let t0 = bench.clock.wall();
        let schedule = Schedule { start: Some(Timestamp(t0 + MINUTE_MS)), ..every(MINUTE_MS) };
        set(&bench.engine, schedule.clone()).await;
        bench.clock.step_wall(AHEAD_MS.cast_signed());
        seconds(61).await;
        let lease = bench.lease_first().await;
        let at = lease.job.due_at;
        assert!(at >= Timestamp(t0 + 2 * MINUTE_MS), "by the clock that is ahead");
        let fails = || bench.settle(&lease, Outcome::release(Span(1_000)));
        if fails_ahead {
            fails().await.unwrap();
        }
        bench.clock.step_wall(-AHEAD_MS.cast_signed());
        if !fails_ahead {
            fails().await.unwrap();
        }
        set(&bench.engine, Schedule { job: NewJob { queue: "elsewhere".into(), ..job() }, ..schedule }).await;
        seconds(5 * 60).await;
        let jobs = bench.ledger.jobs();
        let of_instant = jobs.iter().filter(|job| job.first_due_at == at).count();
        assert_eq!(of_instant, 1, "{fails_ahead}: {jobs:?}");
        assert!(jobs.iter().any(|job| &*job.queue == "elsewhere"), "others are pushed there");
    }
}
