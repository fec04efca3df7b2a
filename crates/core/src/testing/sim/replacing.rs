//! Pushes that give the holder of a key everything that was sent, and what they make uncertain.

use crate::error::Error;
use crate::model::id::JobId;
use crate::model::job::{Job, NewJob, OnConflict};
use crate::model::retry::WhenExhausted;
use crate::request::{PushOutcome, Pushed};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A queue and a key in it.
type Key = (Arc<str>, Arc<str>);

/// Pushes that may replace jobs, and jobs that were replaced.
#[derive(Debug, Default)]
pub(super) struct Replacing {
    /// Pushes without an answer: how many, and how many of them drop an exhausted job. Such a push may be made at any time.
    unanswered: BTreeMap<Key, (u64, u64)>,
    /// Jobs that were replaced, and whether they are dropped when they are exhausted.
    replaced: BTreeMap<JobId, bool>,
}

impl Replacing {
    /// These jobs are about to be pushed.
    pub(super) fn begin(&mut self, jobs: &[NewJob]) {
        for (key, drops) in jobs.iter().filter_map(replacement) {
            let (count, dropping) = self.unanswered.entry(key).or_default();
            *count += 1;
            *dropping += u64::from(drops);
        }
    }

    /// A job that was about to be pushed was answered.
    pub(super) fn answered(&mut self, new: &NewJob, answer: &Result<Pushed, Error>) {
        let (Some((key, drops)), Ok(pushed)) = (replacement(new), answer) else { return };
        let (count, dropping) = self.unanswered.entry(key).or_default();
        *count -= 1;
        *dropping -= u64::from(drops);
        if pushed.outcome == PushOutcome::Replaced {
            *self.replaced.entry(pushed.job.id).or_default() |= drops;
        }
    }

    /// Whether a job may have other options than it was pushed with.
    pub(super) fn may_differ(&self, job: &Job) -> bool {
        self.replaced.contains_key(&job.id) || self.unanswered_of(job).is_some_and(|(count, _)| count > 0)
    }

    /// Whether a job may be dropped since it was replaced.
    pub(super) fn may_drop(&self, job: &Job) -> bool {
        self.replaced.get(&job.id) == Some(&true) || self.unanswered_of(job).is_some_and(|(_, drops)| drops > 0)
    }

    fn unanswered_of(&self, job: &Job) -> Option<(u64, u64)> {
        self.unanswered.get(&(job.queue.clone(), job.key.clone()?)).copied()
    }
}

/// The key whose holder a push may replace, and whether the job is then dropped when it is exhausted.
fn replacement(new: &NewJob) -> Option<(Key, bool)> {
    let key = new.key.clone().filter(|_| matches!(new.on_conflict, OnConflict::Replace | OnConflict::Debounce(_)))?;
    let drops = new.options.retry.when_exhausted == Some(WhenExhausted::Drop);
    Some(((new.queue.clone(), key), drops))
}
