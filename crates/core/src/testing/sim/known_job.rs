//! The history of one job.

use super::moment::Span;
use crate::model::job::{Job, Stage};
use crate::testing::edits::Edits;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The history of a job whose push was answered.
#[derive(Debug)]
pub(super) struct KnownJob {
    pub(super) pushed: Job,
    /// Its fields may differ from the pushed ones: a change was requested, or a push may replace it by its key.
    pub(super) is_touched: bool,
    pub(super) may_be_gone: bool,
    pub(super) ended: Option<LeaseEnd>,
    /// The request that took it, if it has an id.
    pub(super) taken_by: Option<Arc<str>>,
    /// The number of requests to revive it.
    pub(super) revivals: u64,
    /// The number of these requests without an answer: they may be carried out at any time.
    pub(super) unanswered: u64,
    pub(super) span: Option<Span>,
    pub(super) version: u64,
    pub(super) epoch: u64,
    /// The life in which each of its leases began.
    pub(super) leases: BTreeMap<u64, u64>,
    /// Its worker was asked to stop: it does not run again.
    pub(super) is_stopped: bool,
    /// `None` if other requests may change the same fields, or if a broker that fell back may have undone edits.
    pub(super) edits: Option<Edits>,
}

/// An end that was answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeaseEnd {
    pub(super) stage: Stage,
    /// Whether it was answered as recorded.
    pub(super) is_recorded: bool,
}

impl KnownJob {
    /// Keeps an end only if it is in the ledger.
    pub(super) fn keep_recorded_end(&mut self, row: Option<&Job>) {
        let is_there = |end: &mut LeaseEnd| end.is_recorded || row.is_some_and(|row| row.stage == end.stage);
        if self.ended.as_mut().is_some_and(|end| !is_there(end)) {
            self.ended = None;
        } else if let Some(end) = &mut self.ended {
            end.is_recorded = true;
        }
    }
}
