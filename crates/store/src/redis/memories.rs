//! The memories that a process knows: see [`memory`](super::memory).

use duetime_core::Error;
use duetime_core::ports::Host;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};
use tokio::time::Instant;

/// All known memories.
#[derive(Default)]
pub(super) struct Memories {
    pub(super) incarnations: Mutex<BTreeMap<u16, KnownMemory>>,
    /// The number of new memories found.
    pub(super) found: AtomicU64,
    pub(super) host: OnceLock<Arc<dyn Host>>,
    /// Locked by the task that begins memories; contains the time and error of the host's last failure.
    pub(super) beginning: tokio::sync::Mutex<Option<(Instant, Error)>>,
}

/// The incarnation of a partition.
#[derive(Clone)]
pub(super) struct KnownMemory {
    pub(super) incarnation: Arc<[u8]>,
    /// Its number among the memories that were found.
    pub(super) number: u64,
    /// A script reported another incarnation.
    pub(super) is_outdated: bool,
}

impl KnownMemory {
    pub(super) fn has_begun(&self) -> bool {
        generation(&self.incarnation) > 0
    }
}

/// The part of an incarnation that stays the same when the memory begins.
pub(super) fn identity(incarnation: &[u8]) -> &[u8] {
    incarnation.rsplitn(2, |&byte| byte == b' ').last().unwrap_or_default()
}

/// The generation; 0 if the memory has not begun.
pub(super) fn generation(incarnation: &[u8]) -> u64 {
    let last = incarnation.rsplit(|&byte| byte == b' ').next().and_then(|last| std::str::from_utf8(last).ok());
    last.and_then(|last| last.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_is_the_same_before_and_after_it_has_begun() {
        assert_eq!(identity(b"1 4 none a.1 5f 0"), b"1 4 none a.1 5f");
        assert_eq!(identity(b"1 4 none a.1 5f 0"), identity(b"1 4 none a.1 5f 12"));
        assert_ne!(identity(b"1 4 none a.1 5f 0"), identity(b"1 4 none a.2 5f 0"));
        assert_eq!((generation(b"1 4 none a.1 5f 0"), generation(b"1 4 none a.1 5f 12")), (0, 12));
    }
}
