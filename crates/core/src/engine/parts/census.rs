//! Job counts across many queues.

use crate::ports::{Counts, Tally, Totals};
use crate::request::QueueStatus;
use std::sync::Mutex;
use tokio::sync::Notify;

/// The jobs of one queue, or the sum over several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Live jobs; `paused` is not said.
    pub counts: Counts,
    /// Jobs by stored state.
    pub tally: Tally,
    /// The number of paused queues.
    pub paused: u64,
}

impl Sum {
    pub(crate) fn add(&mut self, status: &QueueStatus) {
        let Counts { scheduled, ready, running, oldest_due, paused: _ } = status.counts;
        self.counts.scheduled += scheduled;
        self.counts.ready += ready;
        self.counts.running += running;
        self.counts.oldest_due = [self.counts.oldest_due, oldest_due].into_iter().flatten().min();
        let Tally { pending, succeeded, failed, cancelled, totals } = status.tally;
        self.tally.pending += pending;
        self.tally.succeeded += succeeded;
        self.tally.failed += failed;
        self.tally.cancelled += cancelled;
        let Totals { pushed, succeeded, failed, cancelled } = totals;
        self.tally.totals.pushed += pushed;
        self.tally.totals.succeeded += succeeded;
        self.tally.totals.failed += failed;
        self.tally.totals.cancelled += cancelled;
        self.paused += u64::from(status.settings.paused);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Census {
    pub(crate) asked: Notify,
    pub(crate) others: Mutex<Option<Sum>>,
}
