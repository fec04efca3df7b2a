//! The last runs of schedules, for [`attention`](super::attention). They are read at most every ten seconds, and seldom if that takes
//! long.

use crate::api::{AttentionItem, AttentionKind};
use crate::clock::Millis;
use crate::engine::base::Base;
use crate::engine::schedules::read_schedules;
use crate::error::Error;
use crate::json::Timestamp;
use crate::limits::SECOND_MS;
use crate::model::id::JobId;
use crate::model::job::{Job, Stage};
use crate::ports::{Broker, Ledger, Registry};
use crate::schedule::{ScheduleStatus, TickOutcome};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The least time between two readings.
const AGAIN_MS_MIN: u64 = 10 * SECOND_MS;
/// The time between two readings, as a multiple of how long the last one took.
const AGAIN_FACTOR: u64 = 20;
/// A run that is retried has failed after this many attempts.
const FAILED_ATTEMPTS: usize = 3;
/// Jobs that are read at a time.
const JOBS_AT_ONCE: usize = 100;

#[derive(Default)]
struct Cache {
    again_at: Millis,
    as_of: Millis,
    failed: Vec<AttentionItem>,
    schedules: HashMap<Arc<str>, Known>,
}

/// What is known of the runs of a schedule.
#[derive(Clone, Default)]
struct Known {
    /// The run that ended last, if it failed.
    failed: Option<AttentionItem>,
    /// The oldest run that is not over.
    pending: Option<JobId>,
    /// A run that ended and did not fail: it is not read again.
    over: Option<JobId>,
}

impl Known {
    /// The jobs to read, the older ones first. A schedule may push a run before the last one is over, or ahead of its time.
    fn unread(&self, last: Option<JobId>) -> impl Iterator<Item = JobId> {
        let failed = self.failed.as_ref().and_then(|failed| failed.job);
        let pending = self.pending.filter(|&id| Some(id) != failed);
        let last = last.filter(|&id| ![failed, pending, self.over].contains(&Some(id)));
        failed.into_iter().chain(pending).chain(last)
    }

    /// Takes in what became of a run.
    fn learn(&mut self, id: JobId, job: Option<&Job>, status: &ScheduleStatus) {
        let is_pending = job.is_some_and(|job| job.stage == Stage::Pending);
        self.pending.take_if(|pending| *pending == id && !is_pending);
        match job.filter(|job| has_failed(job)) {
            Some(job) => self.failed = Some(of_job(status, job)),
            None if is_pending => {
                // It may have been retried.
                self.failed.take_if(|failed| failed.job == Some(id));
                self.pending.get_or_insert(id);
            }
            None => (self.failed, self.over) = (None, Some(id)),
        }
    }
}

/// Reads the last runs.
pub(super) struct Runs {
    broker: Arc<dyn Broker>,
    ledger: Arc<dyn Ledger>,
    registry: Arc<dyn Registry>,
    known: Mutex<Cache>,
}

impl Runs {
    pub(super) fn new(base: &Base) -> Self {
        let Base { stores, .. } = base;
        let (broker, ledger, registry) = (stores.broker.clone(), stores.ledger.clone(), stores.registry.clone());
        Self { broker, ledger, registry, known: Mutex::default() }
    }

    /// The schedules whose last run failed: its job or three of its attempts have, or it could not be pushed. While a run is not
    /// over, the one before it counts. One caller reads at a time.
    pub(super) async fn failed(&self) -> Result<Vec<AttentionItem>, Error> {
        let now = self.broker.now();
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let known = known();
            if now >= known.as_of && now < known.again_at {
                return Ok(known.failed.clone());
            }
        }
        let all = read_schedules(self.registry.as_ref(), now).await?;
        let mut schedules = known().schedules.clone();
        schedules.retain(|name, _| {
            all.binary_search_by(|status| status.name.cmp(name)).is_ok_and(|at| all[at].last.is_some())
        });
        let mut to_read: Vec<(&ScheduleStatus, JobId)> = Vec::new();
        for status in &all {
            let last = status.last.and_then(|last| last.job);
            let known = schedules.entry(status.name.clone()).or_default();
            to_read.extend(known.unread(last).map(|id| (status, id)));
        }
        for some in to_read.chunks(JOBS_AT_ONCE) {
            let ids: Vec<JobId> = some.iter().map(|&(_, id)| id).collect();
            let jobs = self.ledger.get(&ids).await?;
            for (&(status, id), job) in some.iter().zip(jobs) {
                schedules.entry(status.name.clone()).or_default().learn(id, job.as_ref(), status);
            }
        }
        let failed: Vec<_> = all
            .iter()
            .filter_map(|status| refused(status).or_else(|| schedules.get(&status.name)?.failed.clone()))
            .collect();
        let took_ms = self.broker.now().saturating_sub(now);
        let again_at = now + AGAIN_MS_MIN.max(took_ms.saturating_mul(AGAIN_FACTOR));
        *known() = Cache { again_at, as_of: now, failed: failed.clone(), schedules };
        Ok(failed)
    }
}

fn has_failed(job: &Job) -> bool {
    let is_retried = job.stage == Stage::Pending && job.attempt as usize >= FAILED_ATTEMPTS;
    job.stage == Stage::Failed || is_retried && job.errors.len() >= FAILED_ATTEMPTS
}

fn of(status: &ScheduleStatus) -> AttentionItem {
    AttentionItem {
        queue: Some(status.schedule.job.queue.clone()),
        schedule: Some(status.name.clone()),
        ..AttentionItem::new(AttentionKind::ScheduleFailed)
    }
}

fn of_job(status: &ScheduleStatus, job: &Job) -> AttentionItem {
    AttentionItem {
        job: Some(job.id),
        since: job.finished_at.or(job.errors.last().map(|error| error.at)).or(Some(job.updated_at)),
        message: job.message.as_deref().map(str::to_owned),
        ..of(status)
    }
}

/// A run whose job broke a limit.
fn refused(status: &ScheduleStatus) -> Option<AttentionItem> {
    let last = status.last.filter(|last| last.outcome == TickOutcome::Refused)?;
    let message = Some("its job breaks a limit: set the schedule again to see which".to_owned());
    Some(AttentionItem { since: Some(Timestamp(last.at.0)), message, ..of(status) })
}
