//! How the engine is.

use crate::engine;
use serde::{Deserialize, Serialize};

/// That a process answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Alive {
    /// `ok`.
    pub status: String,
    /// Its version, where it tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// How the engine is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Health {
    /// Whether jobs are handed out.
    pub ready: bool,
    /// What does not work as it should, in words.
    pub degraded: Vec<String>,
    /// Jobs loaded since the start.
    pub loaded: u64,
    /// Whether loading what is due within the horizon is done.
    pub is_loaded: bool,
    /// Outcomes that wait to be recorded.
    pub backlog: usize,
}

impl From<engine::Health> for Health {
    fn from(health: engine::Health) -> Self {
        let engine::Health { ready, degraded, loaded, is_loaded, backlog } = health;
        Self { ready, degraded, loaded, is_loaded, backlog }
    }
}

impl From<Health> for engine::Health {
    fn from(health: Health) -> Self {
        let Health { ready, degraded, loaded, is_loaded, backlog } = health;
        Self { ready, degraded, loaded, is_loaded, backlog }
    }
}
