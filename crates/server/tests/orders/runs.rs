//! The runs that handlers and commands themselves wrote down.

use duetime_core::{Millis, Receipt};
use std::fmt;
use std::sync::{Arc, Mutex};

/// A handler or command that was started.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) receipt: Receipt,
    /// When the worker had it, if that is known: the epoch says when it was handed out.
    pub(crate) seen_at: Option<Millis>,
    /// When the lease ended at the earliest.
    pub(crate) until: Millis,
    pub(crate) by: &'static str,
}

impl Run {
    /// When it was handed out. An epoch is the instant of its lease, unless the job had another in that millisecond.
    pub(crate) fn started_at(&self) -> Millis {
        self.receipt.epoch
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.receipt, self.by)
    }
}

/// Shared by handlers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs(Arc<Mutex<Vec<Run>>>);

impl Runs {
    pub(crate) fn add(&self, run: Run) {
        self.0.lock().unwrap().push(run);
    }

    pub(crate) fn take(&self) -> Vec<Run> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}
