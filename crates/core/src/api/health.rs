//! The health of a process and of its engine.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The health of the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Health {
    /// Whether jobs are handed out, and new ones are taken as far as this process knows.
    pub ready: bool,
    /// Degraded parts.
    pub degraded: Vec<Degraded>,
    /// Jobs loaded since the start.
    pub loaded: u64,
    /// Whether all jobs due within the horizon are loaded.
    pub is_loaded: bool,
    /// Outcomes that wait to be recorded.
    pub backlog: usize,
}

/// The answer of a process that is alive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Alive {
    /// `ok`.
    pub status: String,
    /// The version, if the server reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// A degraded part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Degraded {
    /// The part that is degraded.
    pub code: DegradedCode,
    /// The same in English.
    pub detail: String,
    /// The last error, unless it is hidden from unauthenticated callers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl fmt::Display for Degraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)?;
        self.error.iter().try_for_each(|error| write!(f, ": {error}"))
    }
}

/// A degraded part of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum DegradedCode {
    /// A background task ended unexpectedly; the process must be restarted.
    TaskEnded,
    /// The broker does not answer, so no jobs are handed out.
    BrokerUnavailable,
    /// The broker has no room.
    BrokerFull,
    /// Expired leases are not ended.
    CrashedJobs,
    /// Outcomes cannot be recorded.
    Recording,
    /// The ledger cannot be read.
    Loading,
    /// The shared broker takes no jobs.
    Holding,
    /// Overflows cannot be read.
    Overflow,
    /// The broker and the ledger cannot be compared.
    Comparing,
    /// The inbox cannot be read or emptied.
    Inbox,
    /// Finished jobs cannot be removed.
    Pruning,
    /// Jobs of schedules cannot be pushed.
    ScheduleRuns,
    /// Schedules cannot be read.
    Schedules,
    /// Queue settings cannot be read.
    QueueSettings,
    /// Jobs of a queue with a target are not delivered by this server: its options do not allow the target.
    Deliveries,
    /// The file of tokens has changed and cannot be read: the tokens of before stay valid.
    Tokens,
    /// The certificate or its key has changed, and cannot be read: that of before stays in use.
    Certificate,
    /// The file of webhook keys has changed and cannot be read: the keys of before stay in use.
    WebhookKeys,
    /// The store has refused changes for lack of room.
    StoreFull,
    /// The files of the store are no longer where they were opened, so changes are refused.
    StoreMoved,
    /// The store refuses changes for another reason.
    StoreUnwritable,
    /// Some content of the store cannot be read, or is missing.
    StoreDamaged,
    /// Records of finished jobs are removed before their time, to make room for jobs.
    RecordsDroppedEarly,
    /// Redis is its own ledger, and evicts jobs when its memory runs short.
    StoreEvicts,
    /// The clocks of Redis and of this machine differ by more than 5 s.
    Clock,
    /// A part of a newer server, which this version does not know: see the detail.
    #[serde(other)]
    Unknown,
}

impl DegradedCode {
    /// The same in English.
    pub fn detail(self) -> &'static str {
        match self {
            Self::TaskEnded => "a background task ended",
            Self::BrokerUnavailable => "no jobs are handed out",
            Self::BrokerFull => "the broker has no room for new jobs",
            Self::CrashedJobs => "jobs of crashed workers are not handed out again",
            Self::Recording => "outcomes are not recorded",
            Self::Loading => "jobs are not loaded",
            Self::Holding => "jobs that are due soon wait in the ledger, because the broker takes none",
            Self::Overflow => "jobs in the overflow are not loaded",
            Self::Comparing => "cannot check whether the broker still has all its jobs",
            Self::Inbox => "rows of the inbox do not become jobs",
            Self::Pruning => "finished jobs past their retention are not removed",
            Self::ScheduleRuns => "a schedule pushes no jobs",
            Self::Schedules => "schedules cannot be read",
            Self::QueueSettings => "settings that other servers changed cannot be read",
            Self::Deliveries => "this server does not deliver the jobs of a queue with a target",
            Self::Tokens => {
                "the file of tokens has changed and cannot be read, so the tokens of before stay valid: correct it"
            }
            Self::Certificate => {
                "the certificate or its key has changed and cannot be read, so that of before stays in use"
            }
            Self::WebhookKeys => {
                "the file of webhook keys has changed and cannot be read, so the keys of before stay in use"
            }
            Self::StoreFull => "the store is full, so changes are refused: make room",
            Self::StoreMoved => {
                "the files of the store were moved, removed or replaced, so changes are refused: put them back, or stop the \
                 server and restore them"
            }
            Self::StoreUnwritable => "the store cannot be written, so changes are refused: see the server's log",
            Self::StoreDamaged => {
                "the store is damaged and jobs may be missing: stop the server, then restore a backup or salvage the store"
            }
            Self::RecordsDroppedEarly => {
                "records of finished jobs are dropped early, because the store is nearly full: make room, or keep them for less \
                 time"
            }
            Self::StoreEvicts => {
                "Redis may evict jobs when its memory runs short: set its maxmemory-policy to noeviction"
            }
            Self::Clock => {
                "the clocks of Redis and of this machine differ; due times use the clock of Redis: synchronize both with NTP"
            }
            Self::Unknown => "something else is degraded; see the server's log",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_server_may_name_other_parts() {
        let told: Degraded = serde_json::from_str(r#"{"code": "moon_phase", "detail": "the moon is full"}"#).unwrap();
        assert_eq!((told.code, told.to_string().as_str()), (DegradedCode::Unknown, "the moon is full"));
    }
}
