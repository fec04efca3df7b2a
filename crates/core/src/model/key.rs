//! Keys, which make a job unique in its queue.

use serde::{Deserialize, Serialize};

/// What a push does if its key is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum OnConflict {
    /// Keeps the holder, and returns it.
    #[default]
    Keep,
    /// Gives the holder everything that was sent, and starts it anew: its attempts, crashes, errors, message and progress are
    /// gone. It keeps its id, its origin and its time of creation. A holder that is running is a conflict.
    Replace,
    /// Answers [`Error::KeyConflict`](crate::Error::KeyConflict).
    Reject,
}

/// How long a key is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::FromRepr)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum KeyUntil {
    /// Until the job is in a final state.
    #[default]
    Finished = 0,
    /// Until the job is first handed out, so that an event during its run queues one more.
    Started = 1,
}
