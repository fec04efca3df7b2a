//! Leases that outlive the process: those of a broker in memory are noted beside it.

use crate::clock::Millis;
use crate::error::Error;
use crate::model::id::JobId;
use crate::model::job::Job;
use async_trait::async_trait;

/// Running jobs and their leases, noted in a ledger beside a broker in the memory of one process, for a restart.
#[async_trait]
pub trait Leases: Send + Sync {
    /// Notes leases, which a process that starts later finds in [`leased`](Self::leased), even if this one is killed at once. A
    /// power failure may forget them. They may be written into the rows of their jobs later, or not at all if the jobs end
    /// before. A lease below the stored version of its job changes nothing.
    async fn lease(&self, leases: Vec<LeaseRecord>) -> Result<(), Error>;

    /// All jobs whose rows have a lease.
    async fn leased(&self) -> Result<Vec<Job>, Error>;
}

/// The record of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// The job.
    pub id: JobId,
    /// Its version.
    pub version: u64,
    /// Its epoch.
    pub epoch: u64,
    /// Its attempt.
    pub attempt: u32,
    /// When the lease ends, by the wall clock.
    pub lease_until: Millis,
    /// When it began.
    pub started_at: Millis,
    /// When it was given its end: it began or was extended.
    pub updated_at: Millis,
    /// Whether the start frees the job's key.
    pub frees_key: bool,
}

impl LeaseRecord {
    /// The record of this running job's lease.
    pub fn of(job: &Job) -> Self {
        Self {
            id: job.id,
            version: job.version,
            epoch: job.epoch,
            attempt: job.attempt,
            lease_until: job.lease_until.map_or(0, |at| at.0),
            started_at: job.started_at.map_or(0, |at| at.0),
            updated_at: job.updated_at.0,
            frees_key: job.key.is_some() && job.live_key().is_none(),
        }
    }
}
