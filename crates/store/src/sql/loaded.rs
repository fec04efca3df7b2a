//! The bucket of pending rows: loaded, which is in the broker; by when they are due, to be loaded; or in the
//! overflow of their queue, to be loaded when there is room.

use super::fault::Fault;
use super::session::Session;
use duetime_core::ports::{ADOPTED, BROKER, OVERFLOW};
use duetime_core::{JobId, Millis};

/// Rows that one statement marks.
const CHUNK: usize = 1_000;

/// The broker of this incarnation holds these jobs in these versions.
pub(super) async fn loaded(session: &mut Session, &(jobs, incarnation): &(&[(JobId, u64)], &str)) -> Result<(), Fault> {
    if !incarnation.is_empty() {
        // Locked, so that nothing is marked any more once another incarnation has been adopted.
        let adopted = session.document(BROKER, ADOPTED, true).await?;
        if adopted.is_none_or(|document| document.body != incarnation) {
            return Ok(());
        }
    }
    // Rows of different transactions are locked in one order.
    let mut jobs = jobs.to_vec();
    jobs.sort_unstable();
    for jobs in jobs.chunks(CHUNK) {
        session.mark_loaded(jobs).await?;
    }
    Ok(())
}

/// The broker does not hold these jobs: by when they are due where the watermark is 0, else in the overflow.
pub(super) async fn not_loaded(session: &mut Session, &(ids, watermark): &(&[JobId], Millis)) -> Result<(), Fault> {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    for ids in ids.chunks(CHUNK) {
        match watermark {
            OVERFLOW => session.mark_overflow(ids).await?,
            _ => session.mark_not_loaded(ids).await?,
        }
    }
    Ok(())
}
