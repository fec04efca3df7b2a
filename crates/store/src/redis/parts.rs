//! What a process keeps about a Redis, and the handle to it.

use super::bus::Bus;
use super::checks::Fitness;
use super::clock::RedisClock;
use super::keys::Keys;
use super::link::Link;
use super::memories::Memories;
use super::reply::Reply;
use super::requests::Requests;
use super::usage::Usage;
use super::wake::Waker;
use duetime_core::{Clock, Error};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use tokio::task::JoinHandle;

/// The storage format; another one is refused.
pub(super) const FORMAT: u64 = 1;

/// The use of Redis.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the ledger beside it. `None` if Redis is its own ledger: it keeps finished jobs, checks keys and allots
    /// ids. This cannot change for an existing set of jobs.
    pub beside: Option<String>,
    /// If Redis is its own ledger, new jobs are refused once it uses this many bytes. The default is nine tenths of its
    /// `maxmemory`, or no limit if it has none.
    pub memory_max: Option<u64>,
    /// The number of succeeded or cancelled jobs that each partition keeps; 100,000 by default.
    pub ended_max: usize,
    /// The number of failed jobs that each partition keeps; 100,000 by default.
    pub dead_max: usize,
    /// Replaces the clock of Redis in tests.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Options {
    pub(super) fn is_ledger(&self) -> bool {
        self.beside.is_none()
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { beside: None, memory_max: None, ended_max: 100_000, dead_max: 100_000, clock: None }
    }
}

pub(super) type Watermarks = BTreeMap<u16, (Arc<[u8]>, duetime_core::Millis)>;

/// A broker, a registry and locks in Redis, and optionally a ledger: a cheap handle, to be cloned.
#[derive(Clone)]
pub struct Redis {
    parts: Arc<Parts>,
}

impl Redis {
    /// A handle to these parts.
    pub(super) fn of(parts: Parts) -> Self {
        Self { parts: Arc::new(parts) }
    }
}

impl Deref for Redis {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.parts
    }
}

/// Public only so that the handle can lend its parts to its own modules.
pub struct Parts {
    pub(super) link: Arc<Link>,
    pub(super) keys: Keys,
    pub(super) clock: RedisClock,
    pub(super) options: Options,
    pub(super) memories: Memories,
    /// Partitions that this process has used.
    pub(super) used: Mutex<BTreeSet<u16>>,
    /// How often expired jobs and leases were looked for.
    pub(super) looks: AtomicU64,
    /// The watermark that each partition was given, and in which memory.
    pub(super) watermarks: Mutex<Watermarks>,
    /// The number of outbox entries by partition, as last seen.
    pub(super) backlog: Mutex<BTreeMap<u16, u64>>,
    pub(super) requests: Requests,
    /// The largest fence that was given to this process.
    pub(super) last_fence: AtomicU64,
    pub(super) waker: Arc<Waker>,
    /// Events exchanged between processes.
    pub(super) bus: Arc<Bus>,
    pub(super) usage: Arc<Usage>,
    pub(super) tasks: [JoinHandle<()>; 4],
    pub(super) fitness: Fitness,
    /// The address, without user and password.
    pub(super) place: String,
}

impl Parts {
    /// Settings that should be changed.
    pub fn warnings(&self) -> &[String] {
        &self.fitness.warnings
    }

    /// The jobs that this setup can lose, and when.
    pub fn loss(&self) -> &str {
        &self.fitness.loss
    }

    pub(super) async fn read_clock(&self) -> Result<(), Error> {
        let sent = self.clock.mark();
        let mut reply = Reply::new(self.link.query(&redis::cmd("TIME")).await?)?;
        let micros = reply.number()? * 1_000_000 + reply.number()?;
        self.clock.read(self.keys.elsewhere(), micros, sent, self.clock.mark());
        Ok(())
    }

    pub(super) fn watermarks(&self) -> std::sync::MutexGuard<'_, Watermarks> {
        self.watermarks.lock().expect("no panic under this lock")
    }

    /// Marks the partition as used by this process, which then looks there for expired jobs and leases.
    pub(super) fn uses(&self, partition: u16) {
        self.used.lock().expect("no panic under this lock").insert(partition);
    }

    pub(super) fn used(&self) -> Vec<u16> {
        self.used.lock().expect("no panic under this lock").iter().copied().collect()
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// A description with its location, without user and password.
impl std::fmt::Display for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let partitions = self.keys.partitions();
        let plural = if partitions == 1 { "" } else { "s" };
        write!(f, "{} (Redis {}, {partitions} partition{plural})", self.place, self.fitness.version)
    }
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redis").field("keys", &self.keys.own("")).finish_non_exhaustive()
    }
}
