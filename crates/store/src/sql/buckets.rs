//! The bucket of pending rows. A row is either loaded into the broker, filed by due time to be loaded later, or in the
//! overflow of its queue, to be loaded when there is room.

use super::fault::Fault;
use super::session::Session;
use duetime_core::ports::{ADOPTED, BROKER, OVERFLOW};
use duetime_core::{JobId, Millis};

/// Maximum number of rows that one statement marks.
const CHUNK: usize = 1_000;

/// Marks jobs in these versions as held by the broker of this incarnation.
pub(super) async fn loaded(session: &mut Session, &(jobs, incarnation): &(&[(JobId, u64)], &str)) -> Result<(), Fault> {
    if !incarnation.is_empty() {
        // Locked, so that nothing is marked once another incarnation has been adopted.
        let adopted = session.document(BROKER, ADOPTED, true).await?;
        if adopted.is_none_or(|document| document.body != incarnation) {
            return Ok(());
        }
    }
    // All transactions lock rows in the same order.
    let mut jobs = jobs.to_vec();
    jobs.sort_unstable();
    for jobs in jobs.chunks(CHUNK) {
        session.mark_loaded(jobs).await?;
    }
    Ok(())
}

/// Marks jobs as not held by the broker: by due time if the watermark is 0, otherwise in the overflow.
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
