//! Why a job does not run.

use super::Timestamp;
use crate::clock::Millis;
#[cfg(feature = "openapi")]
use crate::json::schema::QueueName;
use crate::model::id::JobId;
use crate::model::job::State;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Why a job does not run, as a server sees it now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Why {
    /// The job.
    pub id: JobId,
    /// Its queue.
    #[cfg_attr(feature = "openapi", schema(value_type = QueueName))]
    pub queue: Arc<str>,
    /// Its state.
    pub state: State,
    /// Its version.
    pub version: u64,
    /// All known reasons; none for a ready job that a worker may get at any moment.
    pub reasons: Vec<Reason>,
}

/// A reason why a job does not run.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Reason {
    /// The reason.
    pub code: ReasonCode,
    /// The same as an English sentence, with numbers.
    pub detail: String,
    /// When the reason ends, if that is known; else `null`.
    #[cfg_attr(feature = "openapi", schema(required))]
    #[serde(default)]
    #[serialize_always]
    pub until: Option<Timestamp>,
    /// The number in it: failed attempts (`not_due`), running jobs (`max_running`), or unrecorded outcomes (`backlog`).
    pub count: Option<u64>,
    /// The limit that is reached (`max_running`).
    pub limit: Option<u64>,
    /// No worker has asked this server since this instant (`no_worker`).
    pub since: Option<Timestamp>,
    /// The worker that runs it, if it asked this server under a name (`running`).
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub worker: Option<Arc<str>>,
}

impl Reason {
    /// A reason without numbers.
    #[doc(hidden)]
    pub fn new(code: ReasonCode, detail: impl Into<String>, until: Option<Millis>) -> Self {
        Self {
            code,
            detail: detail.into(),
            until: until.map(Timestamp),
            count: None,
            limit: None,
            since: None,
            worker: None,
        }
    }
}

/// A word for the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum ReasonCode {
    /// Its due time has not come.
    NotDue,
    /// Its queue is paused.
    Paused,
    /// The queue has reached `max_running`.
    MaxRunning,
    /// The `rate` of its queue is used up.
    Rate,
    /// The target of its queue is overloaded or unavailable.
    TargetBackingOff,
    /// No worker has asked this server for jobs of its queue.
    NoWorker,
    /// The broker has no room, so the job waits in the ledger.
    Overflow,
    /// It is being loaded from the ledger.
    NotLoaded,
    /// Too many outcomes are not recorded, so this server hands out no job.
    Backlog,
    /// It runs.
    Running,
    /// It has ended.
    Finished,
    /// A reason of a newer server, which this version does not know: see the detail.
    #[serde(other)]
    Unknown,
}

impl ReasonCode {
    /// The word for it, as in JSON.
    pub fn word(self) -> &'static str {
        self.into()
    }
}
