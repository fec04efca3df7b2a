//! The handle to Redis.

use super::bus::Bus;
use super::checks::Fitness;
use super::jobs::Jobs;
use super::partitions::Partitions;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokio::task::JoinHandle;

/// A broker, a registry and locks in Redis, and optionally a ledger: a cheap handle, to be cloned.
#[derive(Clone)]
pub struct Redis {
    pub(super) partitions: Arc<Partitions>,
    pub(super) jobs: Arc<Jobs>,
    /// The largest fence that was given to this process.
    pub(super) last_fence: Arc<AtomicU64>,
    /// Events exchanged between processes.
    pub(super) bus: Arc<Bus>,
    pub(super) fitness: Arc<Fitness>,
    pub(super) _tasks: Arc<Tasks>,
}

impl Redis {
    /// Settings that should be changed.
    pub fn warnings(&self) -> &[String] {
        &self.fitness.warnings
    }

    /// The jobs that this setup can lose, and when.
    pub fn loss(&self) -> &str {
        &self.fitness.loss
    }
}

/// What runs in the background until the last handle is dropped.
pub(super) struct Tasks(pub(super) [JoinHandle<()>; 4]);

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// A description with its location, without user and password.
impl std::fmt::Display for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let partitions = self.partitions.keys.partitions();
        let plural = if partitions == 1 { "" } else { "s" };
        write!(f, "{} (Redis {}, {partitions} partition{plural})", self.partitions.link.place, self.fitness.version)
    }
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redis").field("keys", &self.partitions.keys.own("")).finish_non_exhaustive()
    }
}
