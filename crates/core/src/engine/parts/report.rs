//! Reports: the last reading of each.

use crate::api::FailureGroup;
use crate::clock::Millis;
use crate::error::Error;
use crate::ports::DueTally;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The last reading of a report.
pub(crate) struct Report<T> {
    pub(crate) state: Mutex<State<T>>,
    pub(crate) done: Notify,
}

pub(crate) struct State<T> {
    pub(crate) last: Option<Result<Arc<T>, Error>>,
    /// The instant from which a new reading is due.
    pub(crate) again_at: Option<Instant>,
    pub(crate) running_since: Option<Instant>,
    /// How long the last one took.
    pub(crate) took: Duration,
}

impl<T> Default for Report<T> {
    fn default() -> Self {
        let state = Mutex::new(State { last: None, again_at: None, running_since: None, took: Duration::ZERO });
        Self { state, done: Notify::new() }
    }
}

/// Jobs by due time.
pub(crate) struct Due {
    pub(crate) as_of: Millis,
    pub(crate) tally: DueTally,
    /// Whether each queue that has jobs is counted separately.
    pub(crate) has_all_queues: bool,
}

/// Failed jobs.
pub(crate) struct Failed {
    pub(crate) as_of: Millis,
    pub(crate) looked_at: u64,
    pub(crate) groups: Vec<FailureGroup>,
}
