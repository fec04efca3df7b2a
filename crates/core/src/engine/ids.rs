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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ModelLedger;

    const NOW: Millis = 1_800_000_000_000;

    async fn sequences(ids: &Ids, count: usize) -> Vec<u64> {
        let ids = ids.next(&vec![7; count], NOW).await.unwrap();
        assert!(ids.iter().all(|id| id.partition() == 7));
        ids.iter().map(|id| id.sequence()).collect()
    }

    /// A block serves many calls; what is left of it is given up if ids of it are taken.
    #[tokio::test]
    async fn ids_rise_and_a_block_is_skipped_whole() {
        let ids = Ids::new(Arc::new(ModelLedger::default()));
        let first = sequences(&ids, 2).await;
        assert_eq!(sequences(&ids, 1).await, [first[0] + 2]);
        ids.skip().await;
        assert_eq!(sequences(&ids, 1).await, [first[0] + BLOCK_MIN]);
    }

    /// A process that pushes much asks the ledger seldom, and one that pushes little wastes little.
    #[tokio::test]
    async fn each_block_is_twice_as_long_up_to_a_bound() {
        let ids = Ids::new(Arc::new(ModelLedger::default()));
        let (mut last, mut length) = (sequences(&ids, 1).await[0], BLOCK_MIN);
        for _ in 0..12 {
            ids.skip().await;
            let next = sequences(&ids, 1).await[0];
            assert_eq!(next - last, length);
            (last, length) = (next, (2 * length).min(BLOCK_MAX));
        }
    }
}
