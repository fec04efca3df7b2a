//! The totals of queues, as plainly as possible.

use crate::model::job::{Job, Stage};
use crate::ports::{Tally, Totals};
use std::collections::BTreeMap;
use std::sync::Arc;

/// By queue. Nothing is forgotten by itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelTotals(BTreeMap<Arc<str>, Totals>);

impl ModelTotals {
    /// A job is new, in whatever stage.
    pub(crate) fn count_new(&mut self, job: &Job) {
        self.0.entry(job.queue.clone()).or_default().pushed += 1;
        self.count_end(job, Stage::Pending);
    }

    /// A queue is removed.
    pub(crate) fn forget(&mut self, queue: &Arc<str>) {
        self.0.remove(queue);
    }

    /// A job has moved from this stage to its present one.
    pub(crate) fn count_end(&mut self, job: &Job, from: Stage) {
        let totals = self.0.entry(job.queue.clone()).or_default();
        match job.stage {
            stage if stage == from => {}
            Stage::Pending => {}
            Stage::Succeeded => totals.succeeded += 1,
            Stage::Failed => totals.failed += 1,
            Stage::Cancelled => totals.cancelled += 1,
        }
    }

    /// The tallies of these jobs, which are all that there are.
    pub(crate) fn tallies<'a>(&self, jobs: impl Iterator<Item = &'a Job>) -> Vec<(Arc<str>, Tally)> {
        let mut tallies: BTreeMap<Arc<str>, Tally> = BTreeMap::new();
        for job in jobs {
            let tally = tallies.entry(job.queue.clone()).or_default();
            match job.stage {
                Stage::Pending => tally.pending += 1,
                Stage::Succeeded => tally.succeeded += 1,
                Stage::Failed => tally.failed += 1,
                Stage::Cancelled => tally.cancelled += 1,
            }
        }
        for (queue, tally) in &mut tallies {
            tally.totals = self.0.get(queue).copied().unwrap_or_default();
        }
        tallies.into_iter().collect()
    }
}
