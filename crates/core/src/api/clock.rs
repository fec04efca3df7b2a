//! The clock of a server for tests.

use super::{Span, Timestamp};
use serde::{Deserialize, Serialize};

/// Moves the clock forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Advance {
    /// By so much.
    pub by: Span,
}

/// What the clock reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Now {
    /// The instant.
    pub now: Timestamp,
}
