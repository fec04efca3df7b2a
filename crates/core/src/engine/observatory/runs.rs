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
use crate::model::job::Stage;
use crate::ports::{Broker, Ledger, Registry};
use crate::schedule::{ScheduleStatus, TickOutcome};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The least time between two readings.
const AGAIN_MS_MIN: u64 = 10 * SECOND_MS;
/// The time between two readings, as a multiple of how long the last one took.
const AGAIN_FACTOR: u64 = 20;
/// Jobs that are read at a time.
const JOBS_AT_ONCE: usize = 100;

#[derive(Default)]
struct Cache {
    again_at: Millis,
    as_of: Millis,
    failed: Vec<AttentionItem>,
    /// The last jobs of schedules that have succeeded: they are not read again.
    succeeded: HashMap<Arc<str>, JobId>,
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

    /// The schedules whose last run failed: its job has, or it could not be pushed. One caller reads at a time.
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
        let mut succeeded = std::mem::take(&mut known().succeeded);
        let is_new = |status: &&ScheduleStatus| {
            let job = status.last.and_then(|last| last.job);
            job.is_some() && job != succeeded.get(&status.name).copied()
        };
        let to_read: Vec<&ScheduleStatus> = all.iter().filter(is_new).collect();
        let mut failed: Vec<AttentionItem> = all.iter().filter_map(refused).collect();
        let mut ended = Vec::new();
        for some in to_read.chunks(JOBS_AT_ONCE) {
            let ids: Vec<JobId> = some.iter().filter_map(|status| status.last?.job).collect();
            let jobs = self.ledger.get(&ids).await?;
            for (status, job) in some.iter().zip(jobs) {
                match job {
                    Some(job) if job.stage == Stage::Failed => failed.push(AttentionItem {
                        job: Some(job.id),
                        since: job.finished_at.or(Some(job.updated_at)),
                        message: job.message.as_deref().map(str::to_owned),
                        ..of(status)
                    }),
                    Some(job) if job.stage == Stage::Succeeded => ended.push((status.name.clone(), job.id)),
                    _ => {}
                }
            }
        }
        succeeded.extend(ended);
        succeeded.retain(|name, _| all.binary_search_by(|status| status.name.cmp(name)).is_ok());
        let took_ms = self.broker.now().saturating_sub(now);
        let again_at = now + AGAIN_MS_MIN.max(took_ms.saturating_mul(AGAIN_FACTOR));
        *known() = Cache { again_at, as_of: now, failed: failed.clone(), succeeded };
        Ok(failed)
    }
}

fn of(status: &ScheduleStatus) -> AttentionItem {
    AttentionItem {
        queue: Some(status.schedule.job.queue.clone()),
        schedule: Some(status.name.clone()),
        ..AttentionItem::new(AttentionKind::ScheduleFailed)
    }
}

/// A run whose job broke a limit.
fn refused(status: &ScheduleStatus) -> Option<AttentionItem> {
    let last = status.last.filter(|last| last.outcome == TickOutcome::Refused)?;
    let message = Some("its job breaks a limit: set the schedule again to see which".to_owned());
    Some(AttentionItem { since: Some(Timestamp(last.at.0)), message, ..of(status) })
}
