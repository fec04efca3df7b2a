//! Ids for new jobs, from blocks that the ledger allots.

use crate::clock::Millis;
use crate::error::Error;
use crate::model::id::JobId;
use crate::ports::Ledger;
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::Mutex;

/// Sequences in the first block of a process: a short-lived one wastes few.
const BLOCK_MIN: u64 = 64;
/// Sequences in a later block, each twice as large as the one before it: a busy process seldom waits for one.
const BLOCK_MAX: u64 = 65_536;

/// The ids that are left of a block.
pub(super) struct Ids {
    ledger: Arc<dyn Ledger>,
    blocks: Mutex<Blocks>,
}

#[derive(Debug, Default)]
struct Blocks {
    left: Range<u64>,
    /// The number of sequences in the last block.
    size: u64,
}

impl Ids {
    pub(super) fn new(ledger: Arc<dyn Ledger>) -> Self {
        Self { ledger, blocks: Mutex::default() }
    }

    /// Gives up the rest of the block: ids of it are taken.
    pub(super) async fn skip(&self) {
        self.blocks.lock().await.left = 0..0;
    }

    /// An id in each of these partitions, rising.
    pub(super) async fn next(&self, partitions: &[u16], now: Millis) -> Result<Vec<JobId>, Error> {
        let mut blocks = self.blocks.lock().await;
        let mut ids = Vec::with_capacity(partitions.len());
        while let Some(&partition) = partitions.get(ids.len()) {
            match blocks.left.next() {
                Some(sequence) => ids.push(JobId::in_partition(sequence, partition)),
                None => {
                    blocks.size =
                        (2 * blocks.size).clamp(BLOCK_MIN.max((partitions.len() - ids.len()) as u64), BLOCK_MAX);
                    blocks.left = self.ledger.allot(blocks.size, now).await?;
                }
            }
        }
        Ok(ids)
    }
}
