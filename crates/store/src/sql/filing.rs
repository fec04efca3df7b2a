//! Where pending rows are filed: as near, which is in the broker, or by when they are due, to be loaded.

use super::call::Verb;
use super::fault::Fault;
use super::session::Session;
use async_trait::async_trait;
use duetime_core::JobId;
use duetime_core::ports::{ADOPTED, BROKER};

/// Rows that one statement files.
const CHUNK: usize = 1_000;

/// The broker of this stamp holds these jobs in these versions.
pub(super) struct Loaded {
    pub(super) jobs: Vec<(JobId, u64)>,
    pub(super) stamp: String,
}

#[async_trait]
impl<S: Session> Verb<S> for Loaded {
    type Answer = ();
    const WRITES: bool = true;

    async fn run(&mut self, session: &mut S, _: bool) -> Result<(), Fault> {
        // Locked, so that nothing is filed any more once another stamp has been adopted.
        let adopted = session.document(BROKER, ADOPTED, true).await?;
        if adopted.is_none_or(|document| document.body != self.stamp) {
            return Ok(());
        }
        // Rows of different transactions are locked in one order.
        self.jobs.sort_unstable();
        for jobs in self.jobs.chunks(CHUNK) {
            session.file_near(jobs).await?;
        }
        Ok(())
    }
}

/// The broker may not hold these jobs.
pub(super) struct Unloaded(pub(super) Vec<JobId>);

#[async_trait]
impl<S: Session> Verb<S> for Unloaded {
    type Answer = ();
    const WRITES: bool = true;

    async fn run(&mut self, session: &mut S, _: bool) -> Result<(), Fault> {
        self.0.sort_unstable();
        for ids in self.0.chunks(CHUNK) {
            session.file_by_due(ids).await?;
        }
        Ok(())
    }
}
