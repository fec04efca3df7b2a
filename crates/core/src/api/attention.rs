//! The problems that an operator should look at.

use super::{DegradedCode, Span, Timestamp};
#[cfg(feature = "openapi")]
use crate::json::schema::{QueueName, ScheduleName};
use crate::model::id::JobId;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The problems that an operator should look at, as this server sees them. It names only queues that the caller may read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Attention {
    /// When the list was made: at most about a second ago.
    pub as_of: Timestamp,
    /// How long the ready job has waited that waits longest, without those of paused queues.
    pub longest_wait: Span,
    /// The list, the most urgent first; empty if all is well.
    #[cfg_attr(feature = "openapi", schema(max_items = 200))]
    pub items: Vec<AttentionItem>,
    /// The number of items that are left out, since at most 20 of a kind are listed.
    pub omitted: u64,
}

/// One thing that needs attention.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct AttentionItem {
    /// A word for it.
    pub kind: AttentionKind,
    /// The same as an English sentence, with numbers.
    pub detail: String,
    /// The queue that it is about.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<QueueName>))]
    pub queue: Option<Arc<str>>,
    /// The kind of the jobs (`dead_letters`).
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::json::schema::Kind>))]
    pub job_kind: Option<Arc<str>>,
    /// The schedule whose last run failed (`schedule_failed`).
    #[cfg_attr(feature = "openapi", schema(value_type = Option<ScheduleName>))]
    pub schedule: Option<Arc<str>>,
    /// A job to look at: the one that failed last, or the last run.
    pub job: Option<JobId>,
    /// How many jobs wait, failed within the last hour (`dead_letters`), or found no place in their queue (`full`).
    pub jobs: Option<u64>,
    /// Since when: the oldest job is ready, the target takes no jobs, the queue is full or paused, or the job failed.
    pub since: Option<Timestamp>,
    /// How late jobs start (`late`).
    pub lateness: Option<Span>,
    /// The end of the pause, if it has one (`paused`).
    pub until: Option<Timestamp>,
    /// The name of the token with which the queue was paused (`paused`).
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub by: Option<Arc<str>>,
    /// The `max_running` of the queue, if that is reached (`late`), or its `max_waiting` (`full`).
    pub limit: Option<u32>,
    /// The target of the queue, without secrets (`target_down`, `late`).
    pub target: Option<String>,
    /// The message of the failed jobs, of the target or of the store.
    pub message: Option<String>,
    /// The degraded part (`degraded`, `clock`).
    pub code: Option<DegradedCode>,
}

impl AttentionItem {
    /// One of this kind, with nothing else said.
    pub(crate) fn new(kind: AttentionKind) -> Self {
        Self {
            kind,
            detail: String::new(),
            queue: None,
            job_kind: None,
            schedule: None,
            job: None,
            jobs: None,
            since: None,
            lateness: None,
            until: None,
            by: None,
            limit: None,
            target: None,
            message: None,
            code: None,
        }
    }
}

/// A word for what needs attention, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum AttentionKind {
    /// The server hands out no jobs, and knows no other reason.
    NotReady,
    /// A part of the server or of its store does not work.
    Degraded,
    /// The clocks of this machine and of the broker differ.
    Clock,
    /// The target of a queue takes no jobs: it does not answer, or refuses all.
    TargetDown,
    /// Jobs wait, and no worker asks this server for them.
    NoWorker,
    /// Jobs start late, or wait for long.
    Late,
    /// A queue was full within the last two minutes: new jobs were refused or dropped, or a schedule pushed none.
    Full,
    /// Jobs failed for good within the last hour.
    DeadLetters,
    /// The last run of a schedule failed.
    ScheduleFailed,
    /// A queue is paused: without an end, or while jobs wait.
    Paused,
    /// Something of a newer server, which this version does not know: see the detail.
    #[serde(other)]
    Unknown,
}

impl AttentionKind {
    /// All that this version knows.
    pub const ALL: [Self; 10] = [
        Self::NotReady,
        Self::Degraded,
        Self::Clock,
        Self::TargetDown,
        Self::NoWorker,
        Self::Late,
        Self::Full,
        Self::DeadLetters,
        Self::ScheduleFailed,
        Self::Paused,
    ];

    /// The word for it, as in JSON.
    pub fn word(self) -> &'static str {
        self.into()
    }
}
