//! That a process answers. How its engine is, [`engine::Health`](crate::engine::Health) tells.

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
