//! Queues: statistics and settings.

#[cfg(feature = "openapi")]
use super::schema::{Cursor, QueueName};
use super::{Backoff, Instant, Span};
use crate::engine::{Keep, QueueSettings, QueueStatus};
use crate::ports::{Counts, Rate, Tally, Totals};
use crate::{Error, Millis, Retry, Target, WhenExhausted};
use serde::{Deserialize, Deserializer, Serialize};
use std::sync::Arc;

/// How long jobs that have ended are kept; what is left out goes by what is usual.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// Succeeded and cancelled ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<Span>,
    /// Failed ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<Span>,
}

impl From<Retention> for Keep {
    fn from(retention: Retention) -> Self {
        let ms = |span: Option<Span>| span.map(|Span(ms)| ms);
        Self { succeeded_ms: ms(retention.succeeded), failed_ms: ms(retention.failed) }
    }
}

/// What is set of a queue's settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = QueueSettings))]
#[serde(default)]
pub struct Settings {
    /// The backoff of jobs without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Backoff>,
    /// Attempts in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// No attempt begins later than this after the first `due_at`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age: Option<Span>,
    /// Crashes that fail a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_crashes: Option<u32>,
    /// What becomes of jobs in the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when_exhausted: Option<WhenExhausted>,
    /// The lease of jobs without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<Span>,
    /// How many run at once at most, over all workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_running: Option<u32>,
    /// How often one is handed out at most, over all workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How long jobs that have ended are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,
    /// Where jobs are delivered, in place of waiting for workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
}

impl From<&QueueSettings> for Settings {
    fn from(settings: &QueueSettings) -> Self {
        let Retry { backoff: retry, max_attempts, max_age, max_crashes, when_exhausted } = settings.retry.clone();
        let QueueSettings { lease_ms, max_running, rate, retention, target, .. } = settings.clone();
        let Keep { succeeded_ms, failed_ms } = retention;
        let kept = Retention { succeeded: succeeded_ms.map(Span), failed: failed_ms.map(Span) };
        let retention = (!retention.is_usual()).then_some(kept);
        let lease = lease_ms.map(Span);
        Self { retry, max_attempts, max_age, max_crashes, when_exhausted, lease, max_running, rate, retention, target }
    }
}

impl Settings {
    fn into_core(self, paused: bool, paused_until: Option<Instant>) -> QueueSettings {
        let Self {
            retry,
            max_attempts,
            max_age,
            max_crashes,
            when_exhausted,
            lease,
            max_running,
            rate,
            retention,
            target,
        } = self;
        QueueSettings {
            paused,
            paused_until: paused_until.map(|instant| instant.0),
            retry: Retry { backoff: retry, max_attempts, max_age, max_crashes, when_exhausted },
            lease_ms: lease.map(|span| span.0),
            max_running,
            rate,
            retention: retention.map(Keep::from).unwrap_or_default(),
            target,
        }
    }
}

/// New settings: what is left out keeps its value, and `null` goes back to the default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = QueueChanges))]
#[serde(default, deny_unknown_fields)]
pub struct SettingsBody {
    /// The backoff of jobs without one.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Backoff>))]
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub retry: Option<Option<Backoff>>,
    /// Attempts in all; 0 for no limit.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u32>))]
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<Option<u32>>,
    /// No attempt begins later than this after the first `due_at`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Span>))]
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub max_age: Option<Option<Span>>,
    /// Crashes that fail a job; by default 5.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u32>, minimum = 1))]
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub max_crashes: Option<Option<u32>>,
    /// What becomes of jobs in the end.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<WhenExhausted>))]
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub when_exhausted: Option<Option<WhenExhausted>>,
    /// The lease of jobs without one: 1 s to 12 h; by default 60 s.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Span>))]
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub lease: Option<Option<Span>>,
    /// How many run at once at most, over all workers.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u32>, minimum = 1))]
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub max_running: Option<Option<u32>>,
    /// How often one is handed out at most, over all workers.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Rate>))]
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub rate: Option<Option<Rate>>,
    /// How long jobs that have ended are kept.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Retention>))]
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub retention: Option<Option<Retention>>,
    /// Where jobs are delivered, in place of waiting for workers.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Target>))]
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub target: Option<Option<Target>>,
}

/// Tells `null` from a field that is missing.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl SettingsBody {
    /// The settings with these changes.
    pub fn apply(self, settings: &QueueSettings) -> QueueSettings {
        let old = Settings::from(settings);
        let new = Settings {
            retry: self.retry.unwrap_or(old.retry),
            max_attempts: self.max_attempts.unwrap_or(old.max_attempts),
            max_age: self.max_age.unwrap_or(old.max_age),
            max_crashes: self.max_crashes.unwrap_or(old.max_crashes),
            when_exhausted: self.when_exhausted.unwrap_or(old.when_exhausted),
            lease: self.lease.unwrap_or(old.lease),
            max_running: self.max_running.unwrap_or(old.max_running),
            rate: self.rate.unwrap_or(old.rate),
            retention: self.retention.unwrap_or(old.retention),
            target: self.target.unwrap_or(old.target),
        };
        new.into_core(settings.paused, settings.paused_until.map(Instant))
    }
}

/// Sets everything (but whether the queue is paused, which has requests of its own).
impl From<&QueueSettings> for SettingsBody {
    fn from(settings: &QueueSettings) -> Self {
        let settings = Settings::from(settings);
        Self {
            retry: Some(settings.retry),
            max_attempts: Some(settings.max_attempts),
            max_age: Some(settings.max_age),
            max_crashes: Some(settings.max_crashes),
            when_exhausted: Some(settings.when_exhausted),
            lease: Some(settings.lease),
            max_running: Some(settings.max_running),
            rate: Some(settings.rate),
            retention: Some(settings.retention),
            target: Some(settings.target),
        }
    }
}

/// For how long a queue is paused; by default until it is resumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Pause))]
#[serde(default, deny_unknown_fields)]
pub struct PauseBody {
    /// Until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Instant>,
    /// For so long, in place of `until`.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub span: Option<Span>,
}

impl PauseBody {
    /// The instant it means, where it means one.
    ///
    /// # Errors
    /// [`Error::Invalid`] where both are given.
    pub fn until(self, now: Millis) -> Result<Option<Millis>, Error> {
        match (self.until, self.span) {
            (Some(_), Some(_)) => Err(Error::invalid("pause", "either `until` or `for`", "both")),
            (until, span) => Ok(until.map(|at| at.0).or(span.map(|Span(ms)| now.saturating_add(ms)))),
        }
    }
}

/// A queue's settings as they are now: the answer to a change of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Configured {
    /// The queue.
    #[cfg_attr(feature = "openapi", schema(value_type = QueueName))]
    pub queue: Arc<str>,
    /// Whether nothing is handed out.
    pub paused: bool,
    /// Until when, where it is paused for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<Instant>,
    /// What is set.
    pub settings: Settings,
}

impl Configured {
    /// What is shown of settings.
    pub fn new(queue: Arc<str>, settings: &QueueSettings) -> Self {
        let paused_until = settings.paused_until.map(Instant);
        Self { queue: queue, paused: settings.paused, paused_until, settings: settings.into() }
    }
}

impl From<Configured> for QueueSettings {
    fn from(configured: Configured) -> Self {
        configured.settings.into_core(configured.paused, configured.paused_until)
    }
}

/// A queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Queue {
    /// Its name.
    #[cfg_attr(feature = "openapi", schema(value_type = QueueName))]
    pub queue: Arc<str>,
    /// Whether nothing is handed out.
    pub paused: bool,
    /// Until when, where it is paused for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<Instant>,
    /// Jobs due in the future.
    pub scheduled: u64,
    /// Jobs due now.
    pub ready: u64,
    /// Leased jobs.
    pub running: u64,
    /// Records of jobs that have not ended.
    pub pending: u64,
    /// Records of completed jobs.
    pub succeeded: u64,
    /// Dead letters.
    pub failed: u64,
    /// Records of cancelled jobs.
    pub cancelled: u64,
    /// How many there ever were.
    #[serde(default)]
    pub totals: Totals,
    /// Since when the oldest ready job has been due; `null` where none is.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub oldest_due_at: Option<Instant>,
    /// What is set.
    pub settings: Settings,
}

impl From<&QueueStatus> for Queue {
    fn from(status: &QueueStatus) -> Self {
        let QueueStatus { queue, counts, tally, settings } = status;
        Self {
            queue: queue.clone(),
            paused: settings.paused,
            paused_until: settings.paused_until.map(Instant),
            scheduled: counts.scheduled,
            ready: counts.ready,
            running: counts.running,
            pending: tally.pending,
            succeeded: tally.succeeded,
            failed: tally.failed,
            cancelled: tally.cancelled,
            totals: tally.totals,
            oldest_due_at: counts.oldest_due.map(Instant),
            settings: settings.into(),
        }
    }
}

impl From<Queue> for QueueStatus {
    fn from(queue: Queue) -> Self {
        let Queue {
            scheduled,
            ready,
            running,
            pending,
            succeeded,
            failed,
            cancelled,
            totals,
            paused,
            paused_until,
            ..
        } = queue;
        let oldest_due = queue.oldest_due_at.map(|instant| instant.0);
        Self {
            queue: queue.queue,
            counts: Counts { scheduled, ready, running, oldest_due, paused },
            tally: Tally { pending, succeeded, failed, cancelled, totals },
            settings: queue.settings.into_core(paused, paused_until),
        }
    }
}

/// A page of queues, by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = QueuePage))]
pub struct Queues {
    /// The queues.
    pub queues: Vec<Queue>,
    /// Where the next page begins; `null` at the end.
    #[cfg_attr(feature = "openapi", schema(required, value_type = Option<Cursor>))]
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// How many jobs a purge cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Purged {
    /// That many.
    pub purged: u64,
}
