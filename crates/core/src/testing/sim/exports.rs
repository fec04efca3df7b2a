//! Exports of a store whose processes die: an export has each job once, as the outbox and the ledger together have it.

use crate::engine::{Engine, Export, Options, Stores};
use crate::error::Error;
use crate::limits::BATCH_JOBS_MAX;
use crate::model::id::JobId;
use crate::model::job::{Job, Stage};
use crate::ports::{Ledger, Outbox, Outcomes};
use crate::request::Imported;
use crate::testing::{ModelLedger, Shared, TokioClock};
use std::collections::BTreeMap;
use std::sync::Arc;

/// All jobs as they are once the outbox is recorded.
async fn expected(broker: &Shared, ledger: &ModelLedger) -> BTreeMap<JobId, Job> {
    let recorded = ledger.copied();
    let memory = broker.memory();
    let all = Outcomes::Oldest { limit: usize::MAX, age_ms: 0 };
    let entries = memory.outcomes(all).await.expect("a memory is always there");
    recorded.apply(entries, 0).await.expect("a model is always there");
    recorded.jobs().into_iter().map(|job| (job.id, job)).collect()
}

/// Exports everything and imports it into an empty store; returns what is wrong. Nothing if the stores were unavailable, or
/// were changed meanwhile.
pub(super) async fn check(
    stores: Stores,
    broker: &Shared,
    ledger: &ModelLedger,
    clock: Arc<TokioClock>,
) -> Vec<String> {
    let before = expected(broker, ledger).await;
    let Ok(jobs) = export(stores).await else { return Vec::new() };
    if expected(broker, ledger).await != before {
        return Vec::new();
    }
    let mut wrong = import(&jobs, clock).await;
    let exported: BTreeMap<JobId, Job> = jobs.into_iter().map(|job| (job.id, job)).collect();
    for (id, job) in &before {
        match exported.get(id) {
            Some(other) if is_as(other, job) => {}
            other => wrong.push(format!("the export has {other:?} instead of {job:?}")),
        }
    }
    let more = exported.keys().filter(|id| !before.contains_key(id));
    wrong.extend(more.map(|id| format!("the export has a job that there is not: {id}")));
    wrong
}

/// Whether a job was exported as it is recorded, but for what a lease changes that the ledger does not know.
fn is_as(exported: &Job, recorded: &Job) -> bool {
    let mut expected = Job { lease_until: None, ..recorded.clone() };
    if exported.version > recorded.version {
        let Job { version, epoch, attempt, updated_at, started_at, ref progress, .. } = *exported;
        expected = Job { version, epoch, attempt, updated_at, started_at, progress: progress.clone(), ..expected };
    }
    // A job whose worker is asked to stop is exported as cancelled.
    if exported.cancel_asked || recorded.cancel_asked {
        let Job { stage, cancel_asked, finished_at, version, updated_at, .. } = *exported;
        expected = Job { stage, cancel_asked, finished_at, version, updated_at, ..expected };
    }
    *exported == expected
}

/// Imports jobs into an empty store; returns what is not there as it was exported.
async fn import(jobs: &[Job], clock: Arc<TokioClock>) -> Vec<String> {
    let (ledger, mut wrong) = (ModelLedger::default(), Vec::new());
    let stores = Stores::one_process(clock, Arc::new(ledger.clone()));
    let engine = Engine::start(stores, Options::default()).await.expect("nothing is away");
    for batch in jobs.chunks(BATCH_JOBS_MAX) {
        let answers = engine.import(batch.to_vec()).await.expect("nothing is away");
        let refused =
            batch.iter().zip(answers).filter(|(job, answer)| *answer != Ok(Imported { id: job.id, is_new: true }));
        wrong.extend(refused.map(|(job, answer)| format!("the import of {job:?} is answered with {answer:?}")));
    }
    engine.stop().await.expect("nothing is away");
    let rows: BTreeMap<JobId, Job> = ledger.jobs().into_iter().map(|job| (job.id, job)).collect();
    for job in jobs {
        let mut expected = job.clone();
        expected.set_imported(true);
        match rows.get(&job.id) {
            Some(row) if *row == expected => {}
            // It was not started in time.
            Some(row) if job.is_pending() && job.expires.is_some() && row.stage == Stage::Failed => {}
            row => wrong.push(format!("the import of {job:?} has made {row:?}")),
        }
    }
    wrong
}

async fn export(stores: Stores) -> Result<Vec<Job>, Error> {
    let (mut export, mut jobs) = (Export::begin(stores).await?, Vec::new());
    while let Some(page) = export.page().await? {
        jobs.extend(page);
    }
    Ok(jobs)
}
