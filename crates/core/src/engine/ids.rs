//! Ids for new jobs, from blocks that the ledger allots.

use crate::clock::Millis;
use crate::error::Error;
use crate::id::JobId;
use crate::ports::Ledger;
use std::ops::Range;
use tokio::sync::Mutex;

/// Sequences in a block: few enough that a restart wastes little, many enough that a push seldom waits for one.
const BLOCK: u64 = 65_536;

#[derive(Debug, Default)]
pub(super) struct Ids {
    block: Mutex<Range<u64>>,
}

impl Ids {
    /// Gives up the rest of the block: ids of it are taken.
    pub(super) async fn skip(&self) {
        *self.block.lock().await = 0..0;
    }

    /// An id in each of these partitions, rising.
    pub(super) async fn next(&self, partitions: &[u16], ledger: &dyn Ledger, now: Millis) -> Result<Vec<JobId>, Error> {
        let mut block = self.block.lock().await;
        let mut ids = Vec::with_capacity(partitions.len());
        while let Some(&partition) = partitions.get(ids.len()) {
            match block.next() {
                Some(sequence) => ids.push(JobId::in_partition(sequence, partition)),
                None => *block = ledger.allot(BLOCK, now).await?,
            }
        }
        Ok(ids)
    }
}
