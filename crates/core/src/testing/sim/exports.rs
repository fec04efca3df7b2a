//! Exports of a store whose processes die: an export has each job once, as the outbox and the ledger together have it.

use crate::engine::{Export, Stores};
use crate::error::Error;
use crate::model::id::JobId;
use crate::model::job::Job;
use crate::ports::{Ledger, Outbox, Outcomes, Recorded};
use crate::testing::{ModelLedger, Shared};
use std::collections::{BTreeMap, BTreeSet};

/// All jobs as they are once the outbox is recorded.
async fn expected(broker: &Shared, ledger: &ModelLedger) -> BTreeMap<JobId, Job> {
    let recorded = ledger.copied();
    let memory = broker.memory();
    let all = Outcomes::Oldest { limit: usize::MAX, age_ms: 0 };
    let entries = memory.outcomes(all).await.expect("a memory is always there");
    recorded.apply(entries, 0).await.expect("a model is always there");
    recorded.jobs().into_iter().map(|job| (job.id, job)).collect()
}

/// Exports everything and imports it into an empty ledger; returns what is wrong. Nothing if the stores were unavailable, or
/// were changed meanwhile.
pub(super) async fn check(stores: Stores, broker: &Shared, ledger: &ModelLedger) -> Vec<String> {
    let before = expected(broker, ledger).await;
    let Ok(jobs) = export(stores).await else { return Vec::new() };
    if expected(broker, ledger).await != before {
        return Vec::new();
    }
    let imported = ModelLedger::default();
    let recorded = imported.record(jobs.clone(), 0).await.expect("a model is always there");
    let twice = jobs.iter().zip(recorded).filter(|(_, recorded)| *recorded == Recorded::Repeat);
    let mut wrong: Vec<String> = twice.map(|(job, _)| format!("the export has the job {} twice", job.id)).collect();
    let known: BTreeSet<JobId> = ledger.jobs().into_iter().map(|job| job.id).collect();
    let exported: BTreeMap<JobId, Job> = jobs.into_iter().map(|job| (job.id, job)).collect();
    for (id, job) in &before {
        // A job whose worker is asked to stop is exported as cancelled. A broker that fell back may have an older payload.
        let is_as = |other: &Job| {
            (job.cancel_asked || other.cancel_asked || other.stage == job.stage)
                && (known.contains(id) || other.payload == job.payload)
        };
        match exported.get(id) {
            Some(other) if is_as(other) => {}
            other => wrong.push(format!("the export has {other:?} instead of {job:?}")),
        }
    }
    let more = exported.keys().filter(|id| !before.contains_key(id));
    wrong.extend(more.map(|id| format!("the export has a job that there is not: {id}")));
    wrong
}

async fn export(stores: Stores) -> Result<Vec<Job>, Error> {
    let (mut export, mut jobs) = (Export::begin(stores).await?, Vec::new());
    while let Some(page) = export.page().await? {
        jobs.extend(page);
    }
    Ok(jobs)
}
