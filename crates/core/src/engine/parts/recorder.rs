//! Entries that are recorded soon.

use crate::ports::OutboxEntry;
use tokio::sync::{Mutex, mpsc};

/// Entries that wait to be recorded soon, at most.
const SOON_MAX: usize = 50_000;

/// Entries that are recorded soon.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) entries: mpsc::Sender<OutboxEntry>,
    pub(crate) waiting: Mutex<mpsc::Receiver<OutboxEntry>>,
}

impl Default for Recorder {
    fn default() -> Self {
        let (entries, waiting) = mpsc::channel(SOON_MAX);
        Self { entries, waiting: waiting.into() }
    }
}
