//! Changes of jobs by an engine that dies on the way.

use super::super::fixture::{job, request};
use super::{World, far, seconds};
use duetime_core::api::{Span, Timestamp};
use duetime_core::engine::{BulkAction, Patch, Query};
use duetime_core::ports::{Ledger, OutboxEntry};
use duetime_core::rules::{self, Decision, Finish};
use duetime_core::testing::mortal::When;
use duetime_core::{Clock, Due, Engine, Error, JobId, NewJob, Numbers, Stage};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_far_job_that_is_made_near_runs_however_its_maker_dies() {
    for dies_at in [None, Some(("edit_ledger", When::After)), Some(("put", When::Before)), Some(("put", When::After))] {
        let (world, leader, other) = World::with_two().await;
        let pushed = other.push(far()).await;
        let engine = other.engine.clone();
        if let Some((verb, when)) = dies_at {
            other.life.die_at(verb, when);
        }
        let patch = Patch { due: Some(Due::After(Span(1_000))), ..Patch::default() };
        tokio::spawn(async move { engine.update(pushed.id.into(), patch).await });
        // The leader does not wait for an edit whose engine has died.
        seconds(4).await;
        assert_eq!(other.life.is_over(), dies_at.is_some());
        assert_eq!(leader.lease().await.id, pushed.id, "{dies_at:?}");
        assert_eq!(world.broker.new_puts(), 1);
    }
}

/// Neither by the death of its engine nor by a database that refuses the edit, or does not answer.
#[tokio::test(start_paused = true)]
async fn a_job_whose_edit_does_not_end_is_not_kept_back() {
    let steps = [("bar", When::After), ("edit_ledger", When::Before), ("edit_ledger", When::After)];
    for (verb, when) in steps {
        let (world, leader, other) = World::with_two().await;
        let pushed = leader.push(job()).await;
        other.life.die_at(verb, when);
        // The broker does not know the job until it is loaded again.
        world.broker.flush();
        let (engine, patch) = (other.engine.clone(), Patch { priority: Some(7), ..Patch::default() });
        tokio::spawn(async move { engine.update(pushed.id.into(), patch).await });
        seconds(3).await;
        assert!(other.life.is_over(), "{verb}");
        assert_eq!(leader.lease().await.id, pushed.id, "{verb} {when:?}");
    }
    let (world, leader, other) = World::with_two().await;
    let pushed = leader.push(job()).await;
    other.life.mute(Some("edit_ledger"));
    world.broker.flush();
    let patch = Patch { priority: Some(7), ..Patch::default() };
    other.engine.update(pushed.id.into(), patch).await.unwrap_err();
    seconds(3).await;
    assert_eq!(leader.lease().await.id, pushed.id);
}

/// A repeat of the call finishes it.
#[tokio::test(start_paused = true)]
async fn a_reschedule_of_found_jobs_is_repeated_wherever_its_maker_dies() {
    let steps = ["edit", "apply", "edit_ledger"];
    for (verb, when) in steps.into_iter().zip([When::After, When::Before, When::After]) {
        let (_world, leader, other) = World::with_two().await;
        let jobs = [other.push(NewJob { due: Due::After(Span(30_000)), ..job() }).await, other.push(far()).await];
        let at = leader.engine.now() + 80_000;
        let bulk = |engine: &Engine| {
            let query = Query { queue: Some("default".into()), ..Query::default() };
            let engine = engine.clone();
            tokio::spawn(async move { engine.bulk(&query, BulkAction::Reschedule(Due::At(Timestamp(at)))).await })
        };
        other.life.die_at(verb, when);
        bulk(&other.engine);
        seconds(1).await;
        assert!(other.life.is_over(), "{verb}");
        let counts = bulk(&leader.engine).await.unwrap().unwrap();
        assert!(counts.iter().all(|(word, _)| word == "rescheduled"), "{verb} {when:?}: {counts:?}");
        for pushed in &jobs {
            assert_eq!(leader.engine.job(pushed.id).await.unwrap().due_at, Timestamp(at), "{verb} {when:?}");
        }
        seconds(78).await;
        assert!(leader.leases().await.is_empty(), "{verb} {when:?}: early");
        seconds(10).await;
        let mut ran: Vec<JobId> = leader.leases().await.iter().map(|job| job.id).collect();
        ran.sort_unstable();
        assert_eq!(ran, jobs.map(|pushed| pushed.id), "{verb} {when:?}");
    }
}

/// The end was made in a memory that the broker has lost since, and is recorded only now, while the job waits again.
#[tokio::test(start_paused = true)]
async fn an_edit_of_a_job_that_has_ended_in_the_ledger_is_refused() {
    let (world, leader, other) = World::with_two().await;
    let pushed = leader.push(job()).await;
    let mut ended = other.lease().await;
    rules::apply(
        &mut ended,
        Decision::Finish(Finish::new(Stage::Succeeded)),
        world.clock.wall(),
        Numbers::Generation(1),
    );
    world.broker.flush();
    seconds(5).await;
    world.ledger.apply(vec![OutboxEntry::Changed(ended)], 0).await.unwrap();
    let patch = Patch { payload: Some(b"new"[..].into()), ..Patch::default() };
    let refused = other.engine.update(pushed.id.into(), patch).await;
    assert!(matches!(refused, Err(Error::Finished { .. })), "{refused:?}");
    assert!(leader.engine.reserve(request(1, Duration::ZERO)).await.unwrap().leases.is_empty());
}
