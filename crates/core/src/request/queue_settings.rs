//! The settings of a queue. The engine stores and applies them.

use crate::clock::Millis;
use crate::invalid::Invalid;
use crate::json::{Span, Timestamp};
use crate::limits::DELAY_MS_MAX;
use crate::model::job::check_lease;
use crate::model::retry::{Backoff, WhenExhausted, with_rule};
use crate::model::target::Target;
use crate::ports::{Limits, Rate, Retention};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

with_rule! {
    /// The settings of a queue. JSON omits defaults, and whether the queue is paused.
    #[serde_with::skip_serializing_none]
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
    #[serde(default)]
    #[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
    pub struct QueueSettings {
        /// Whether nothing is handed out.
        #[serde(skip)]
        pub paused: bool,
        /// The end of the pause, if it has one.
        #[serde(skip)]
        pub paused_until: Option<Timestamp>,
        /// When the queue was paused.
        #[serde(skip)]
        pub paused_at: Option<Timestamp>,
        /// The name of the token with which the queue was paused, if one was asked for.
        #[serde(skip)]
        pub paused_by: Option<Arc<str>>,
    } {
        /// The lease of jobs without one: 1 s to 12 h; by default 60 s.
        pub lease: Option<Span>,
        /// The maximum number of its jobs that run at once, over all workers; by default no limit.
        #[cfg_attr(feature = "openapi", schema(minimum = 1))]
        pub max_running: Option<u32>,
        /// The maximum rate at which its jobs are handed out, over all workers; by default no limit.
        pub rate: Option<Rate>,
        /// The maximum number of its jobs that wait, for their time or for a worker; by default no limit. It holds for what callers
        /// and schedules push: jobs that wait again or come from elsewhere always have room.
        #[cfg_attr(feature = "openapi", schema(minimum = 1))]
        pub max_waiting: Option<u32>,
        /// What becomes of a push while `max_waiting` jobs wait; by default it is refused.
        pub when_full: Option<WhenFull>,
        /// How long finished jobs are kept.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<QueueRetention>))]
        #[serde(skip_serializing_if = "QueueRetention::is_usual")]
        pub retention: QueueRetention,
        /// The target of its jobs. They are delivered there. A worker that asks for jobs of the queue takes some instead.
        pub target: Option<Target>,
    }
}

impl QueueSettings {
    /// The same without a pause.
    #[must_use]
    pub(crate) fn resumed(self) -> Self {
        Self { paused: false, paused_until: None, paused_at: None, paused_by: None, ..self }
    }

    /// Whether it is paused, but no longer than until now.
    pub(crate) fn is_pause_over(&self, now: Millis) -> bool {
        self.paused_until.is_some_and(|until| until <= Timestamp(now))
    }

    /// Sets the waits between attempts.
    #[must_use]
    pub fn retry(self, backoff: Backoff) -> Self {
        Self { retry: Some(backoff), ..self }
    }

    /// Sets the maximum number of attempts; 0 for no limit.
    #[must_use]
    pub fn max_attempts(self, attempts: u32) -> Self {
        Self { max_attempts: Some(attempts), ..self }
    }

    /// Sets how long after its first due time an attempt of a job may begin.
    #[must_use]
    pub fn max_age(self, age: impl Into<Span>) -> Self {
        Self { max_age: Some(age.into()), ..self }
    }

    /// Sets how many leases of a job may expire; by default 5.
    #[must_use]
    pub fn max_crashes(self, crashes: u32) -> Self {
        Self { max_crashes: Some(crashes), ..self }
    }

    /// Sets what becomes of a job after its last attempt; by default it is kept, failed.
    #[must_use]
    pub fn when_exhausted(self, end: WhenExhausted) -> Self {
        Self { when_exhausted: Some(end), ..self }
    }

    /// Sets the lease of jobs without one: 1 s to 12 h; by default 60 s.
    #[must_use]
    pub fn lease(self, lease: impl Into<Span>) -> Self {
        Self { lease: Some(lease.into()), ..self }
    }

    /// Sets how many of its jobs may run at once, over all workers: 1 or more; by default no limit.
    #[must_use]
    pub fn max_running(self, jobs: u32) -> Self {
        Self { max_running: Some(jobs), ..self }
    }

    /// Sets the maximum rate at which its jobs are handed out, over all workers; by default no limit.
    #[must_use]
    pub fn rate(self, rate: Rate) -> Self {
        Self { rate: Some(rate), ..self }
    }

    /// Sets how many of its jobs may wait, for their time or for a worker: 1 or more; by default no limit. Several servers may exceed
    /// it by what each pushes within 100 ms.
    #[must_use]
    pub fn max_waiting(self, jobs: u32) -> Self {
        Self { max_waiting: Some(jobs), ..self }
    }

    /// Sets what becomes of a push while [`max_waiting`](Self::max_waiting) jobs wait; by default it is refused.
    #[must_use]
    pub fn when_full(self, then: WhenFull) -> Self {
        Self { when_full: Some(then), ..self }
    }

    /// Sets how long its finished jobs are kept.
    #[must_use]
    pub fn retention(self, retention: QueueRetention) -> Self {
        Self { retention, ..self }
    }

    /// Sets the target to which its jobs are delivered; by default workers ask for them.
    #[must_use]
    pub fn target(self, target: Target) -> Self {
        Self { target: Some(target), ..self }
    }

    /// Whether every part keeps its limits, as the settings of this queue.
    ///
    /// # Errors
    /// [`Invalid`], naming the part.
    #[doc(hidden)]
    pub fn check(&self, queue: &str) -> Result<(), Invalid> {
        if self.paused_until.is_some() && !self.paused {
            return Err(Invalid::new("paused_until", "left out unless `paused` is true", "one"));
        }
        self.rule().check(queue)?;
        self.lease.map_or(Ok(()), check_lease)?;
        if self.max_running == Some(0) {
            return Err(Invalid::new("max_running", "1 or more (to hand out nothing, pause the queue)", 0));
        }
        self.rate.as_ref().map_or(Ok(()), Rate::check)?;
        if self.max_waiting == Some(0) {
            return Err(Invalid::new("max_waiting", "1 or more", 0));
        }
        if let (None, Some(then)) = (self.max_waiting, self.when_full) {
            return Err(Invalid::new(
                "when_full",
                "left out, or null, without `max_waiting`",
                format!("{:?}", then.word()),
            ));
        }
        self.retention.check()?;
        self.target.as_ref().map_or(Ok(()), Target::check)
    }

    /// The part of the settings that the broker enforces.
    #[doc(hidden)]
    pub fn limits(&self) -> Limits {
        Limits { paused: self.paused, max_running: self.max_running, rate: self.rate }
    }
}

/// What becomes of a push into a full queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum WhenFull {
    /// It fails with [`QueueFull`](crate::Error::QueueFull). The caller may repeat it later.
    #[default]
    Refuse,
    /// It succeeds, and the job is not stored: the outcome is [`Dropped`](super::PushOutcome::Dropped).
    Drop,
}

impl WhenFull {
    /// The word for it, as in JSON.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// A queue's settings as they are now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Configured {
    /// The queue.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::json::schema::QueueName))]
    pub queue: Arc<str>,
    /// Whether nothing is handed out.
    pub paused: bool,
    /// The end of the pause, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<Timestamp>,
    /// When it was paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_at: Option<Timestamp>,
    /// The name of the token with which it was paused, if one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub paused_by: Option<Arc<str>>,
    /// The settings.
    pub settings: QueueSettings,
}

impl Configured {
    /// The settings of this queue.
    pub fn new(queue: Arc<str>, settings: QueueSettings) -> Self {
        let QueueSettings { paused, paused_until, paused_at, .. } = settings;
        Self { queue, paused, paused_until, paused_at, paused_by: settings.paused_by.clone(), settings }
    }

    /// The settings.
    pub fn into_settings(self) -> QueueSettings {
        let Self { queue: _, paused, paused_until, paused_at, paused_by, settings } = self;
        QueueSettings { paused, paused_until, paused_at, paused_by, ..settings }
    }
}

/// How long finished jobs of a queue are kept; `None` for the default.
#[serde_with::skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Retention))]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct QueueRetention {
    /// Succeeded and cancelled ones, up to 10 years; by default 24 h.
    pub succeeded: Option<Span>,
    /// Failed ones, up to 10 years; by default 30 d.
    pub failed: Option<Span>,
}

impl QueueRetention {
    /// Sets how long succeeded and cancelled jobs are kept: up to 10 years; by default 24 h.
    #[must_use]
    pub fn succeeded(self, time: impl Into<Span>) -> Self {
        Self { succeeded: Some(time.into()), ..self }
    }

    /// Sets how long failed jobs are kept: up to 10 years; by default 30 d.
    #[must_use]
    pub fn failed(self, time: impl Into<Span>) -> Self {
        Self { failed: Some(time.into()), ..self }
    }

    /// Whether nothing is set.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// Fills in the defaults of unset settings.
    pub(crate) fn or(self, usual: Retention) -> Retention {
        Retention { succeeded: self.succeeded.unwrap_or(usual.succeeded), failed: self.failed.unwrap_or(usual.failed) }
    }

    fn check(self) -> Result<(), Invalid> {
        let mut kept = self.succeeded.into_iter().chain(self.failed);
        kept.try_for_each(|ms| ms.check("retention", 0, DELAY_MS_MAX))
    }
}
