//! The settings of a queue. The engine stores and applies them.

use crate::invalid::Invalid;
use crate::json::{Span, Timestamp};
use crate::limits::DELAY_MS_MAX;
use crate::model::job::check_lease;
use crate::model::retry::with_rule;
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

    /// Whether every part keeps its limits, as the settings of this queue.
    ///
    /// # Errors
    /// [`Invalid`], naming the part.
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
        self.retention.check()?;
        self.target.as_ref().map_or(Ok(()), Target::check)
    }

    /// The part of the settings that the broker enforces.
    pub fn limits(&self) -> Limits {
        Limits { paused: self.paused, max_running: self.max_running, rate: self.rate }
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
pub struct QueueRetention {
    /// Succeeded and cancelled ones, up to 10 years; by default 24 h.
    pub succeeded: Option<Span>,
    /// Failed ones, up to 10 years; by default 30 d.
    pub failed: Option<Span>,
}

impl QueueRetention {
    /// Whether nothing is set.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// Fills in the defaults of unset settings.
    pub(crate) fn or(self, usual: Retention) -> Retention {
        Retention {
            succeeded_ms: self.succeeded.map_or(usual.succeeded_ms, |span| span.0),
            failed_ms: self.failed.map_or(usual.failed_ms, |span| span.0),
        }
    }

    fn check(self) -> Result<(), Invalid> {
        let mut kept = self.succeeded.into_iter().chain(self.failed);
        kept.try_for_each(|ms| ms.check("retention", 0, DELAY_MS_MAX))
    }
}
