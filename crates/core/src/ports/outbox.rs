//! The outbox of a broker: changes of jobs until the ledger has them.

use super::ledger::OutboxEntry;
use crate::clock::Millis;
use crate::error::Error;
use crate::model::id::JobId;
use async_trait::async_trait;

/// Entries about jobs, only the latest of each, until they are forgotten.
#[async_trait]
pub trait Outbox: Send + Sync {
    /// Entries that have not been forgotten. Of large ones it returns few at a time, but at least one.
    async fn outcomes(&self, which: Outcomes) -> Result<Vec<OutboxEntry>, Error>;

    /// The ledger has these jobs in these versions: drops their entries up to there, and the jobs themselves if they wait
    /// for an instant from `watermark` on (or from the broker's own watermark, if that is later). For a job that is not
    /// known here no lower version is put.
    ///
    /// A broker that lost some of its memory may hold jobs in lower versions. It drops them, with their leases, and returns
    /// them, so that they are read from the ledger again.
    async fn forget(&self, noted: &[(JobId, u64)], watermark: Millis) -> Result<Vec<JobId>, Error>;

    /// The number of entries that have not been forgotten, as of the last call that read or wrote entries.
    fn backlog(&self) -> usize;

    /// The bytes of these entries in the memory of this process: payloads, results and messages. 0 if it keeps them
    /// elsewhere.
    fn backlog_bytes(&self) -> u64 {
        0
    }
}

/// The entries to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcomes {
    /// The oldest ones.
    Oldest {
        /// The maximum number of entries.
        limit: usize,
        /// The minimum age of entries in milliseconds.
        age_ms: u64,
    },
    /// The entry of one job.
    Of(JobId),
    /// The entries of one [partition](super::Broker::partition), oldest first.
    In {
        /// The partition.
        partition: u16,
        /// Leaves out this many of the oldest ones. If some are forgotten between two pages, the second page lacks as many.
        skip: usize,
        /// The maximum number of entries.
        limit: usize,
    },
}
