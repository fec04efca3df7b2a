//! The outbox of a broker: changes of jobs until the ledger has them.

use super::ledger::OutboxEntry;
use crate::clock::Millis;
use crate::error::Error;
use crate::model::id::JobId;
use async_trait::async_trait;

/// Entries about jobs, of each only the latest, until they are forgotten.
#[async_trait]
pub trait Outbox: Send + Sync {
    /// Entries that have not been forgotten.
    async fn outcomes(&self, which: Outcomes) -> Result<Vec<OutboxEntry>, Error>;

    /// The ledger has these jobs in these versions: drops their entries up to there, and with them those of the jobs that
    /// wait for an instant from `watermark` on (or from its own, where that is later). The tombstone of an edit that did
    /// not know the job lets versions from this one on pass; where there were several such edits, once each has been
    /// answered. Version 0 answers an edit that changed nothing. Of a job that is not known here no lower version is put.
    ///
    /// A broker that lost some of its memory may hold jobs in lower versions, as they were before: they are let go of, with
    /// their leases, and answered, to be read from the ledger anew.
    async fn forget(&self, noted: &[(JobId, u64)], watermark: Millis) -> Result<Vec<JobId>, Error>;

    /// How many entries have not been forgotten.
    fn backlog(&self) -> usize;
}

/// Which entries to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcomes {
    /// The oldest ones.
    Oldest {
        /// At most so many.
        limit: usize,
        /// Written at least so long ago, in milliseconds.
        age_ms: u64,
    },
    /// That of one job.
    Of(JobId),
}
