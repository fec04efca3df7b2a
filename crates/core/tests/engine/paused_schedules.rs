//! Paused schedules, and manual runs.

use super::fixture::{Bench, job};
use super::schedules::{World, every, pushed, seconds, ticks};
use duetime_core::api::Timestamp;
use duetime_core::engine::Pause;
use duetime_core::engine::{Precondition, PushOutcome};
use duetime_core::testing::mortal::{Life, When};
use duetime_core::{Clock, Error, Millis, NewJob, OnConflict, Overlap, Schedule};

#[tokio::test(start_paused = true)]
async fn a_paused_schedule_pushes_nothing_and_makes_nothing_up() {
    let bench = Bench::new().await;
    let (engine, t0) = (&bench.engine, bench.clock.wall());
    let set = engine.set_schedule("s", every(10_000)).await.unwrap();
    assert_eq!(set.schedule.paused, Some(false));
    let paused = engine.pause_schedule("s", Pause::UntilResumed, Precondition::Version(set.version)).await.unwrap();
    assert_eq!((paused.schedule.paused, paused.schedule.paused_until), (Some(true), None));
    assert!(paused.version > set.version && paused.next.is_empty());
    assert!(paused.runs(5).unwrap().is_empty());
    assert_eq!(engine.pause_schedule("s", Pause::UntilResumed, Precondition::Anything).await.unwrap(), paused);
    let stale = engine.resume_schedule("s", Precondition::Version(set.version)).await.unwrap_err();
    assert!(matches!(stale, Error::Changed { current, .. } if current == paused.version), "{stale}");
    seconds(35).await;
    // Set again, it stays paused, also with other times.
    let other = engine.set_schedule("s", every(20_000)).await.unwrap();
    assert_eq!((other.schedule.paused, other.next.len()), (Some(true), 0));
    let same = engine.set_schedule("s", every(10_000)).await.unwrap();
    assert_eq!((same.schedule.paused, same.next.len()), (Some(true), 0));
    seconds(1).await;
    assert!(ticks(&bench.ledger, "s").is_empty());
    let resumed = engine.resume_schedule("s", Precondition::Anything).await.unwrap();
    assert_eq!((resumed.schedule.paused, resumed.next[0]), (Some(false), Timestamp(t0 + 45_000)));
    seconds(10).await;
    assert_eq!(ticks(&bench.ledger, "s"), [t0 + 45_000]);
    let off = Schedule { paused: Some(true), ..every(10_000) };
    assert!(engine.set_schedule("s", off).await.unwrap().next.is_empty());
    let on = Schedule { paused: Some(false), ..every(10_000) };
    assert_eq!(engine.set_schedule("s", on).await.unwrap().next[0], Timestamp(t0 + 55_000));
    for gone in [
        engine.pause_schedule("none", Pause::UntilResumed, Precondition::Anything).await.map(drop),
        engine.resume_schedule("none", Precondition::Anything).await.map(drop),
        engine.run_schedule("none", None, Precondition::Anything).await.map(drop),
    ] {
        assert_eq!(gone.unwrap_err().code(), "schedule_not_found");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_may_end() {
    let bench = Bench::new().await;
    let (engine, t0) = (&bench.engine, bench.clock.wall());
    engine.set_schedule("s", every(10_000)).await.unwrap();
    let paused =
        engine.pause_schedule("s", Pause::Until(Timestamp(t0 + 30_000)), Precondition::Anything).await.unwrap();
    assert_eq!((paused.schedule.paused, paused.schedule.paused_until), (Some(true), Some(Timestamp(t0 + 30_000))));
    assert_eq!(paused.next[0], Timestamp(t0 + 30_000), "a tick at the end of the pause");
    seconds(25).await;
    assert!(ticks(&bench.ledger, "s").is_empty());
    seconds(6).await;
    assert_eq!(ticks(&bench.ledger, "s"), [t0 + 30_000]);
    let over = engine.schedule("s").await.unwrap();
    assert_eq!((over.schedule.paused, over.schedule.paused_until), (Some(false), None));
    assert_eq!(over.next[0], Timestamp(t0 + 40_000));
    // A schedule that was read during the pause can be set again after its end.
    assert_eq!(engine.set_schedule("s", paused.schedule).await.unwrap().next[0], Timestamp(t0 + 40_000));
    // A pause may be cut short.
    let now = bench.clock.wall();
    engine.pause_schedule("s", Pause::Until(Timestamp(now + 60_000)), Precondition::Anything).await.unwrap();
    assert_eq!(engine.resume_schedule("s", Precondition::Anything).await.unwrap().next[0], Timestamp(t0 + 40_000));
    for until in [0, now, Millis::MAX] {
        let refused =
            engine.pause_schedule("s", Pause::Until(Timestamp(until)), Precondition::Anything).await.unwrap_err();
        assert!(matches!(&refused, Error::Invalid(invalid) if invalid.what == "until"), "{refused}");
    }
    let refused =
        engine.set_schedule("s", Schedule { paused_until: Some(Timestamp(now + 60_000)), ..every(10_000) }).await;
    assert!(matches!(&refused, Err(Error::Invalid(invalid)) if invalid.what == "paused_until"));
}

/// At each step of a tick that another process makes: its one job may still be pushed, and no other.
#[tokio::test(start_paused = true)]
async fn a_pause_holds_against_a_tick_elsewhere() {
    for verb in ["document", "put_if", "record", "put"] {
        for when in [When::Before, When::After] {
            let world = World::new();
            let (first, second) = (world.node(Life::plain()).await, world.node(Life::plain()).await);
            first.engine.set_schedule("s", every(10_000)).await.unwrap();
            let at = world.clock.wall() + 10_000;
            seconds(7).await;
            first.life.die_at(verb, when);
            while !first.life.is_over() {
                seconds(1).await;
            }
            second.engine.pause_schedule("s", Pause::UntilResumed, Precondition::Anything).await.unwrap();
            let begun = ticks(&world.ledger, "s");
            assert!(begun.iter().all(|tick| *tick == at), "{verb} {when:?}: {begun:?}");
            seconds(40).await;
            assert_eq!(ticks(&world.ledger, "s"), begun, "{verb} {when:?}");
            assert!(second.engine.schedule("s").await.unwrap().next.is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_by_hand_pushes_one_job() {
    let bench = Bench::new().await;
    let (engine, t0) = (&bench.engine, bench.clock.wall());
    let set = engine.set_schedule("s", every(10_000)).await.unwrap();
    let paused = engine.pause_schedule("s", Pause::UntilResumed, Precondition::Anything).await.unwrap();
    let stale = engine.run_schedule("s", None, Precondition::Version(set.version)).await.unwrap_err();
    assert!(matches!(stale, Error::Changed { .. }), "{stale}");
    let run = |origin: &str| engine.run_schedule("s", Some(origin.into()), Precondition::Version(paused.version));
    let first = run("a").await.unwrap();
    assert_eq!((first.outcome, first.job.due_at), (PushOutcome::Created, Timestamp(t0)));
    let repeated = run("a").await.unwrap();
    assert_eq!((repeated.outcome, repeated.job.id), (PushOutcome::Repeated, first.job.id));
    assert_ne!(run("b").await.unwrap().job.id, first.job.id);
    assert_eq!(pushed(&bench.ledger, "s")[&t0].len(), 2);
    assert_eq!(engine.schedule("s").await.unwrap(), paused);
    let keyed = NewJob { key: Some("k".into()), on_conflict: OnConflict::Reject, ..job() };
    engine.set_schedule("keyed", Schedule { job: keyed, ..every(10_000) }).await.unwrap();
    let holder = engine.run_schedule("keyed", None, Precondition::Anything).await.unwrap().job.id;
    let conflict = engine.run_schedule("keyed", None, Precondition::Anything).await.unwrap_err();
    assert!(matches!(conflict, Error::KeyConflict { holder: known, .. } if known == holder), "{conflict}");
}

/// A tick that must not overlap checks for jobs of manual runs, and of earlier ticks.
#[tokio::test(start_paused = true)]
async fn a_run_by_hand_overlaps_the_next_tick() {
    let bench = Bench::new().await;
    let t0 = bench.clock.wall();
    bench.engine.set_schedule("s", Schedule { overlap: Overlap::Skip, ..every(10_000) }).await.unwrap();
    seconds(11).await;
    let by_tick = bench.lease().await;
    bench.engine.run_schedule("s", None, Precondition::Anything).await.unwrap();
    let by_hand = bench.lease().await;
    seconds(10).await;
    bench.complete(&by_tick).await.unwrap();
    seconds(10).await;
    let by_ticks = |bench: &Bench| {
        let pushed = pushed(&bench.ledger, "s");
        pushed.into_keys().filter(|at| (at - t0).is_multiple_of(10_000)).collect::<Vec<_>>()
    };
    assert_eq!(by_ticks(&bench), [t0 + 10_000]);
    bench.complete(&by_hand).await.unwrap();
    seconds(10).await;
    assert_eq!(by_ticks(&bench), [t0 + 10_000, t0 + 40_000]);
}
