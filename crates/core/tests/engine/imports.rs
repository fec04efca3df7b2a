//! Whole jobs of another store.

use super::fixture::{Bench, job, pass};
use duetime_core::api::Span;
use duetime_core::engine::{Answers, Imported};
use duetime_core::json::Timestamp;
use duetime_core::limits::DAY_MS;
use duetime_core::model::id::sequence_at;
use duetime_core::{Due, Error, Job, JobId, JobOptions, NewJob, Stage, State};
use std::time::Duration;

impl Bench {
    async fn import(&self, jobs: &[Job]) -> Answers<Imported> {
        self.engine.import(jobs.to_vec()).await.unwrap()
    }

    async fn import_one(&self, job: &Job) -> Result<bool, Error> {
        self.import(std::slice::from_ref(job)).await.pop().unwrap().map(|imported| imported.is_new)
    }
}

/// A job that another store has.
async fn elsewhere(new: NewJob) -> Job {
    Bench::new().await.push(new).await
}

#[tokio::test(start_paused = true)]
async fn what_waits_becomes_due_as_it_was_to() {
    let bench = Bench::new().await;
    let jobs = [elsewhere(job()).await, elsewhere(NewJob { due: Due::After(Span(5_000)), ..job() }).await];
    let far = elsewhere(NewJob { due: Due::After(Span(3 * DAY_MS)), ..job() }).await;
    for (n, one) in (1..).zip([&jobs[0], &jobs[1], &far]) {
        // Stores that began at the same time give the same ids.
        let id = JobId::new(one.id.get() + n * 1_024).unwrap();
        assert_eq!(bench.import_one(&Job { id, ..one.clone() }).await, Ok(true));
    }
    assert_eq!(bench.reserve(9, Duration::ZERO).await.len(), 1);
    pass(Duration::from_secs(5)).await;
    assert_eq!(bench.reserve(9, Duration::ZERO).await.len(), 1);
    assert_eq!(bench.queue("default").await.counts.scheduled, 1);
}

#[tokio::test(start_paused = true)]
async fn every_state_stays_and_a_repeat_doubles_nothing() {
    let (from, to) = (Bench::new().await, Bench::new().await);
    for _ in 0..4 {
        from.push(NewJob { tags: vec!["t".into()], ..job() }).await;
    }
    from.complete(&from.lease_first().await).await.unwrap();
    let running = from.lease_first().await.job;
    let waiting = from.ledger.jobs().into_iter().rfind(|job| job.epoch == 0).unwrap();
    from.engine.cancel(vec![waiting.id.into()]).await.remove(0).unwrap();
    pass(Duration::from_secs(1)).await;
    let jobs = from.ledger.jobs();
    assert!(to.import(&jobs).await.into_iter().all(|answer| answer.unwrap().is_new));
    assert!(to.import(&jobs).await.into_iter().all(|answer| !answer.unwrap().is_new));
    let imported = JobOptions { imported: true, ..JobOptions::default() }.shared();
    let as_imported = |job: &Job| Job { lease_until: None, options: imported.clone(), ..job.clone() };
    let expected: Vec<Job> = jobs.iter().map(as_imported).collect();
    assert_eq!(to.ledger.jobs(), expected);
    let tally = to.queue("default").await.tally;
    assert_eq!((tally.pending, tally.succeeded, tally.cancelled), (2, 1, 1));
    let leases = to.reserve(9, Duration::ZERO).await;
    assert_eq!(leases.len(), 2);
    let again = leases.iter().find(|lease| lease.job.id == running.id).unwrap();
    assert!(again.job.epoch > running.epoch && again.job.version > running.version && again.job.attempt == 2);
    // A repeated import does not undo later progress.
    assert!(to.import(&jobs).await.into_iter().all(|answer| !answer.unwrap().is_new));
    assert_eq!(to.state(running.id).await, State::Running);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_held_is_refused_and_one_of_the_past_is_not() {
    let bench = Bench::new().await;
    let held = bench.push(NewJob { key: Some("k".into()), ..job() }).await;
    let id = JobId::new(held.id.get() - 1_024 * 100).unwrap();
    let error = bench.import_one(&Job { id, ..held.clone() }).await.unwrap_err();
    assert_eq!(error, Error::KeyConflict { queue: "default".into(), key: "k".into(), holder: held.id });
    let over = Job { id, stage: Stage::Succeeded, finished_at: Some(held.created_at), ..held };
    assert_eq!(bench.import_one(&over).await, Ok(true));
}

#[tokio::test(start_paused = true)]
async fn an_id_that_names_another_partition_becomes_the_same_one_each_time() {
    let bench = Bench::new().await;
    let one = elsewhere(job()).await;
    let named = Job { id: JobId::in_partition(one.id.sequence(), 77), ..one.clone() };
    for is_new in [true, false] {
        assert_eq!(bench.import(std::slice::from_ref(&named)).await, [Ok(Imported { id: one.id, is_new })]);
    }
}

/// Once ids are imported, a push may not take one of them for its own: it would be lost.
#[tokio::test(start_paused = true)]
async fn a_push_gets_no_id_of_an_imported_job() {
    let bench = Bench::new().await;
    let first = bench.push(job()).await;
    let id = |n: u64| JobId::new(first.id.get() + n * 1_024).unwrap();
    let other = |n: u64| Job { id: id(n), queue: "other".into(), ..first.clone() };
    let answers = bench.import(&[other(1), other(2), other(70_000), other(10_000_000)]).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    for _ in 0..5 {
        bench.push(job()).await;
    }
    assert_eq!(bench.ledger.jobs().len(), 10);
    assert_eq!(bench.queue("default").await.tally.pending, 6);
    // Beyond the last of them.
    assert!(bench.push(job()).await.id > id(10_000_000));
}

#[tokio::test(start_paused = true)]
async fn what_makes_no_sense_is_refused_alone() {
    let bench = Bench::new().await;
    let good = elsewhere(job()).await;
    let bad = [
        Job { queue: "or ders".into(), ..good.clone() },
        Job { finished_at: Some(good.created_at), ..good.clone() },
        Job { stage: Stage::Failed, ..good.clone() },
        Job { result: Some((*b"1").into()), ..good.clone() },
        Job { cancel_asked: true, ..good.clone() },
        Job { version: 1 << 48, ..good.clone() },
        Job { epoch: 1 << 48, ..good.clone() },
        Job { due_at: Timestamp(good.created_at.0 + 4_000 * DAY_MS), ..good.clone() },
        Job { lease: Some(Span(1)), ..good.clone() },
        Job { id: JobId::from_sequence(sequence_at(good.created_at.0 + 2 * DAY_MS)), ..good.clone() },
        Job { id: JobId::MIN, ..good.clone() },
        Job { created_at: Timestamp(0), ..good.clone() },
    ];
    let answers = bench.import(&[&bad[..], std::slice::from_ref(&good)].concat()).await;
    let (refused, taken) = answers.split_at(bad.len());
    assert!(refused.iter().all(|answer| matches!(answer, Err(Error::Invalid { .. }))), "{refused:?}");
    assert_eq!(taken, [Ok(Imported { id: good.id, is_new: true })]);
    let parked = Job { stage: Stage::Failed, message: Some("no stamps".into()), ..elsewhere(job()).await };
    assert!(bench.import(std::slice::from_ref(&parked)).await[0].is_ok(), "its end has no time");
}

/// The broker keeps the versions of deleted jobs for a while, so that no old reading of them is put.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_deleted_and_imported_again_runs() {
    let bench = Bench::new().await;
    for ends in [false, true] {
        let pushed = bench.push(job()).await;
        if ends {
            bench.complete(&bench.lease_first().await).await.unwrap();
            pass(Duration::from_secs(1)).await;
        }
        bench.engine.delete(vec![pushed.id.into()]).await.remove(0).unwrap();
        assert_eq!(bench.import_one(&pushed).await, Ok(true));
        let mut again = Vec::new();
        for _ in 0..3 {
            if again.is_empty() {
                again = bench.reserve(1, Duration::from_secs(60)).await;
            }
        }
        assert_eq!(again.iter().map(|lease| lease.job.id).collect::<Vec<_>>(), [pushed.id]);
        bench.complete(&again[0]).await.unwrap();
    }
}
