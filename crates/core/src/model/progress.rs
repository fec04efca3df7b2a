//! The progress of a running job, as its handler reports it.

use crate::invalid::Invalid;
use crate::json::Timestamp;
use crate::limits::NOTE_BYTES_MAX;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// All of it.
pub const PERCENT_MAX: u8 = 100;

/// The progress of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = JobProgress))]
pub struct Progress {
    /// The progress in percent: 0 to 100.
    #[cfg_attr(feature = "openapi", schema(maximum = 100))]
    pub percent: u8,
    /// A note about the current step.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::json::schema::Note>))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<Arc<str>>,
    /// When that was said.
    pub at: Timestamp,
}

impl Progress {
    /// Whether it keeps its limits.
    ///
    /// # Errors
    /// [`Invalid`].
    #[doc(hidden)]
    pub fn check(&self) -> Result<(), Invalid> {
        if self.percent > PERCENT_MAX {
            return Err(Invalid::new("percent", format!("between 0 and {PERCENT_MAX}"), self.percent));
        }
        match &self.note {
            Some(note) if note.len() > NOTE_BYTES_MAX => {
                Err(Invalid::new("note", format!("at most {NOTE_BYTES_MAX} bytes"), note.len()))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_kept() {
        let progress = |percent, note: &str| Progress { percent, note: Some(note.into()), at: Timestamp(1) };
        progress(100, &"n".repeat(1_024)).check().unwrap();
        for beyond in [progress(101, ""), progress(0, &"n".repeat(1_025))] {
            assert!(beyond.check().is_err(), "{beyond:?}");
        }
    }
}
