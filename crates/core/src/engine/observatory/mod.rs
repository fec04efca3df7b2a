//! What people want to know about the engine and its jobs.

mod attention;
mod census;
mod ends;
mod history;
mod reports;
mod runs;
mod steps;
mod why;

use super::base::Base;
use super::consumers::Consumers;
use super::events::Publisher;
use super::overflow::Overflow;
use super::queues::{Gate, QueueCounter, Settings};
use super::recorder::Recorder;
use super::search::Search;
pub use attention::TargetDown;
pub use census::Sum;
pub use reports::READING_WAIT;
use std::sync::Arc;
pub(super) use steps::Starts;

/// The services that only read.
pub(super) struct Observatory {
    pub(super) publisher: Arc<Publisher>,
    pub(super) consumers: Arc<Consumers>,
    pub(super) history: Arc<history::History>,
    pub(super) reports: Arc<reports::Reports>,
    pub(super) census: Arc<census::Census>,
    pub(super) watch: attention::Watch,
    pub(super) explainer: why::Explainer,
    pub(super) ends: ends::Ends,
}

impl Observatory {
    pub(super) fn new(
        base: &Base,
        queues: &Arc<QueueCounter>,
        (settings, gate): (&Arc<Settings>, &Arc<Gate>),
        recorder: &Arc<Recorder>,
        overflow: &Arc<Overflow>,
        consumers: &Arc<Consumers>,
        search: &Arc<Search>,
    ) -> Self {
        let (recorder, overflow) = (recorder.clone(), overflow.clone());
        let history = Arc::new(history::History::new(base));
        let reports = Arc::new(reports::Reports::new(base));
        let census = Arc::new(census::Census::new(base, queues.clone(), settings.clone()));
        let parts = (census.clone(), history.clone(), reports.clone());
        Self {
            publisher: base.publisher.clone(),
            consumers: consumers.clone(),
            watch: attention::Watch::new(base, (settings.clone(), gate.clone()), consumers.clone(), parts),
            history,
            reports,
            census,
            explainer: why::Explainer::new(base, recorder, overflow, settings.clone(), consumers.clone()),
            ends: ends::Ends::new(base, search.clone()),
        }
    }
}
