//! Where pending rows are filed: as near, which is in the broker; by when they are due, to be loaded; or in the overflow of
//! their queue, to be loaded when there is room.

use super::call::Verb;
use super::fault::Fault;
use super::session::Session;
use async_trait::async_trait;
use duetime_core::ports::{ADOPTED, BROKER, OVERFLOW};
use duetime_core::{JobId, Millis};

/// Rows that one statement files.
const CHUNK: usize = 1_000;

/// The broker of this stamp holds these jobs in these versions.
pub(super) struct Loaded {
    pub(super) jobs: Vec<(JobId, u64)>,
    pub(super) stamp: String,
}

#[async_trait]
impl Verb for Loaded {
    type Answer = ();
    const WRITES: bool = true;

    async fn run(&mut self, session: &mut Session, _: bool) -> Result<(), Fault> {
        if !self.stamp.is_empty() {
            // Locked, so that nothing is filed any more once another stamp has been adopted.
            let adopted = session.document(BROKER, ADOPTED, true).await?;
            if adopted.is_none_or(|document| document.body != self.stamp) {
                return Ok(());
            }
        }
        // Rows of different transactions are locked in one order.
        self.jobs.sort_unstable();
        for jobs in self.jobs.chunks(CHUNK) {
            session.file_near(jobs).await?;
        }
        Ok(())
    }
}

/// The broker does not hold these jobs: by when they are due where the frontier is 0, else in the overflow.
pub(super) struct Unloaded {
    pub(super) ids: Vec<JobId>,
    pub(super) frontier: Millis,
}

#[async_trait]
impl Verb for Unloaded {
    type Answer = ();
    const WRITES: bool = true;

    async fn run(&mut self, session: &mut Session, _: bool) -> Result<(), Fault> {
        self.ids.sort_unstable();
        for ids in self.ids.chunks(CHUNK) {
            match self.frontier {
                OVERFLOW => session.file_over(ids).await?,
                _ => session.file_by_due(ids).await?,
            }
        }
        Ok(())
    }
}
