//! The bucket of pending rows: loaded, which is in the broker; by when they are due, to be loaded; or in the
//! overflow of their queue, to be loaded when there is room.

use super::call::Verb;
use super::fault::Fault;
use super::session::Session;
use async_trait::async_trait;
use duetime_core::ports::{ADOPTED, BROKER, OVERFLOW};
use duetime_core::{JobId, Millis};

/// Rows that one statement marks.
const CHUNK: usize = 1_000;

/// The broker of this incarnation holds these jobs in these versions.
pub(super) struct Loaded {
    pub(super) jobs: Vec<(JobId, u64)>,
    pub(super) incarnation: String,
}

#[async_trait]
impl Verb for Loaded {
    type Answer = ();
    const WRITES: bool = true;

    async fn run(&mut self, session: &mut Session, _: bool) -> Result<(), Fault> {
        if !self.incarnation.is_empty() {
            // Locked, so that nothing is marked any more once another incarnation has been adopted.
            let adopted = session.document(BROKER, ADOPTED, true).await?;
            if adopted.is_none_or(|document| document.body != self.incarnation) {
                return Ok(());
            }
        }
        // Rows of different transactions are locked in one order.
        self.jobs.sort_unstable();
        for jobs in self.jobs.chunks(CHUNK) {
            session.mark_loaded(jobs).await?;
        }
        Ok(())
    }
}

/// The broker does not hold these jobs: by when they are due where the watermark is 0, else in the overflow.
pub(super) struct NotLoaded {
    pub(super) ids: Vec<JobId>,
    pub(super) watermark: Millis,
}

#[async_trait]
impl Verb for NotLoaded {
    type Answer = ();
    const WRITES: bool = true;

    async fn run(&mut self, session: &mut Session, _: bool) -> Result<(), Fault> {
        self.ids.sort_unstable();
        for ids in self.ids.chunks(CHUNK) {
            match self.watermark {
                OVERFLOW => session.mark_overflow(ids).await?,
                _ => session.mark_not_loaded(ids).await?,
            }
        }
        Ok(())
    }
}
