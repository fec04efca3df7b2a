//! Maps by job id.
//!
//! Sharded, since a table that doubles moves all its entries at once: with ten million of them in one table, that would
//! block everybody for some tenths of a second. A shard that has become empty frees its memory.

use crate::model::id::JobId;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

const SHARD_BITS: u32 = 8;
/// An empty shard keeps room for this many entries.
const KEPT_MAX: usize = 32;

/// Mixes one integer. Ids are allotted here and not chosen by others, so nobody can make them collide.
#[derive(Debug, Default)]
pub(super) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("an id is one integer");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(number);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Fibonacci hashing, with the high half folded into the low one: an id's low bits are all zero.
fn mix(number: u64) -> u64 {
    let product = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ (product >> 32)
}

type Shard<T> = HashMap<JobId, T, BuildHasherDefault<IdHasher>>;

#[derive(Clone, Debug)]
pub(super) struct ById<T> {
    shards: Box<[Shard<T>]>,
    len: usize,
}

impl<T> ById<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, id: JobId) -> Option<&T> {
        self.shards[shard(id)].get(&id)
    }

    pub(super) fn get_mut(&mut self, id: JobId) -> Option<&mut T> {
        self.shards[shard(id)].get_mut(&id)
    }

    pub(super) fn insert(&mut self, id: JobId, value: T) -> Option<T> {
        let old = self.shards[shard(id)].insert(id, value);
        self.len += usize::from(old.is_none());
        old
    }

    pub(super) fn remove(&mut self, id: JobId) -> Option<T> {
        let shard = &mut self.shards[shard(id)];
        let old = shard.remove(&id)?;
        self.len -= 1;
        if shard.is_empty() && shard.capacity() > KEPT_MAX {
            *shard = Shard::default();
        }
        Some(old)
    }
}

impl<T> Default for ById<T> {
    fn default() -> Self {
        Self { shards: (0..1 << SHARD_BITS).map(|_| Shard::default()).collect(), len: 0 }
    }
}

fn shard(id: JobId) -> usize {
    (mix(id.get()) >> (64 - SHARD_BITS - 7)) as usize % (1 << SHARD_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_spread_over_the_shards() {
        let mut map = ById::default();
        let count = 1 << 18;
        for n in 1..=count {
            map.insert(JobId::from_sequence((1 << 40) + n), n);
        }
        assert_eq!(map.len() as u64, count);
        let mean = count as usize >> SHARD_BITS;
        let most = map.shards.iter().map(HashMap::len).max().unwrap();
        assert!(most < 2 * mean, "{most} of {mean}");
        for n in 1..=count {
            assert_eq!(map.remove(JobId::from_sequence((1 << 40) + n)), Some(n));
        }
        assert!(map.shards.iter().all(|shard| shard.capacity() <= 2 * KEPT_MAX));
    }
}
