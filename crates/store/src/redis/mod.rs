//! Live jobs in Redis or Valkey, for any number of processes.
//!
//! Each transition of a batch of jobs is one script, so it is atomic. Each script can be repeated after a lost reply.
//! Decisions are made elsewhere: scripts apply them if the version or epoch is still the one that was read.
//!
//! Without a ledger, Redis is its own ledger: finished jobs are kept within limits of age and number, and jobs can only be
//! found by indexed fields.

mod broker;
mod bytes;
mod call;
mod change;
mod checks;
mod clock;
mod codec;
mod edit;
mod events;
mod fault;
mod find;
mod foreign;
mod jobs;
mod keep;
mod keys;
mod ledger;
mod link;
mod locks;
mod memory;
mod outbox;
mod probe;
mod put;
mod registry;
mod reply;
mod reports;
mod requests;
mod reserve;
mod scripts;
mod settle;
mod url;
mod usage;
mod wake;

pub use foreign::Foreign;
pub use probe::{ProbeReport, probe};
#[cfg(feature = "testing")]
pub use scripts::all as all_scripts;

use crate::keep::keep;
use call::{Call, Text};
use clock::RedisClock;
use duetime_core::engine::{Stores, Topology};
use duetime_core::{Clock, Error};
use events::Bus;
use keys::Keys;
use link::Link;
use memory::Memories;
use reply::Reply;
use requests::Requests;
use scripts::Script;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use usage::Usage;
use wake::{Channels, Waker};

/// The storage format; another one is refused.
const FORMAT: u64 = 1;

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
    fn is_ledger(&self) -> bool {
        self.beside.is_none()
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { beside: None, memory_max: None, ended_max: 100_000, dead_max: 100_000, clock: None }
    }
}

type Watermarks = BTreeMap<u16, (Arc<[u8]>, duetime_core::Millis)>;

/// A broker, a registry and locks in Redis, and optionally a ledger: a cheap handle, to be cloned.
#[derive(Clone)]
pub struct Redis {
    parts: Arc<Parts>,
}

impl Deref for Redis {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.parts
    }
}

/// Public only so that the handle can lend its parts to its own modules.
pub struct Parts {
    link: Arc<Link>,
    keys: Keys,
    clock: RedisClock,
    options: Options,
    memories: Memories,
    /// Partitions that this process has used.
    used: Mutex<BTreeSet<u16>>,
    /// How often expired jobs and leases were looked for.
    looks: AtomicU64,
    /// The watermark that each partition was given, and in which memory.
    watermarks: Mutex<Watermarks>,
    /// The number of outbox entries by partition, as last seen.
    backlog: Mutex<BTreeMap<u16, u64>>,
    requests: Requests,
    /// The largest fence that was given to this process.
    last_fence: AtomicU64,
    waker: Arc<Waker>,
    /// Events exchanged between processes.
    bus: Arc<Bus>,
    usage: Arc<Usage>,
    tasks: [JoinHandle<()>; 4],
    fitness: checks::Fitness,
    /// The address, without user and password.
    place: String,
}

impl Redis {
    /// Connects, checks that the server is suitable, and subscribes.
    ///
    /// The URL is `redis://[user:password@]host[:port][/db][?namespace=name]`, `rediss://` for TLS,
    /// `redis+sentinel://host:port,…/master[/db]` or `redis+cluster://host:port,…`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a malformed URL; [`Error::Unavailable`] if Redis does not answer; [`Error::Unusable`] if it is
    /// too old, refuses the password, or has data in another format.
    pub async fn connect(url: &str, options: Options) -> Result<Self, Error> {
        // If another provider was installed before, that one is fine, too.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let address = url::Address::parse(url)?;
        let link = Arc::new(Link::new(&address)?);
        let fitness = checks::check(&link).await.map_err(fault::at_start)?;
        let partitions = checks::partitions(&link, &address).await?;
        let keys = Keys::new(&address.namespace, partitions);
        checks::keep_side(&link, &keys, options.beside.as_deref()).await?;
        let waker = Arc::new(Waker::default());
        let (begun, has_begun) = oneshot::channel();
        let channels = Channels { queues: keys.channel(), locks: keys.lock_channel() };
        let requests = Requests::new();
        let bus = Arc::new(Bus::new(keys.events_channel(), requests.unique()));
        let mut begun = Some(begun);
        let usage = Arc::new(Usage::default());
        usage.ask(&link).await?;
        let tasks = [
            keep("usage", {
                let (link, usage) = (link.clone(), usage.clone());
                move || usage::watch(link.clone(), usage.clone())
            }),
            keep("listen", {
                let (link, waker) = (link.clone(), waker.clone());
                move || wake::listen(link.clone(), channels.clone(), waker.clone(), begun.take())
            }),
            keep("receive", {
                let (link, bus) = (link.clone(), bus.clone());
                move || events::receive(link.clone(), bus.clone())
            }),
            keep("publish", {
                let (link, bus) = (link.clone(), bus.clone());
                move || events::publish(link.clone(), bus.clone())
            }),
        ];
        let parts = Parts {
            place: link.place.clone(),
            link,
            keys,
            clock: RedisClock::new(options.clock.clone()),
            options,
            memories: Memories::default(),
            used: Mutex::default(),
            looks: AtomicU64::new(0),
            watermarks: Mutex::default(),
            backlog: Mutex::default(),
            requests,
            last_fence: AtomicU64::new(0),
            waker,
            bus,
            usage,
            tasks,
            fitness,
        };
        let redis = Self { parts: Arc::new(parts) };
        redis.read_clock().await?;
        // It keeps trying in the background after this wait.
        let _ = tokio::time::timeout(std::time::Duration::from_secs(5), has_begun).await;
        Ok(redis)
    }
}

impl Redis {
    /// Everything that an engine needs, if Redis is its own ledger.
    pub fn stores(self) -> Stores {
        let redis = Arc::new(self);
        Stores {
            topology: Topology::RedisAlone,
            broker: redis.clone(),
            ledger: redis.clone(),
            reports: redis.clone(),
            leases: None,
            inbox: None,
            registry: redis.clone(),
            locks: redis.clone(),
            events: Some(redis),
        }
    }
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

    async fn read_clock(&self) -> Result<(), Error> {
        let sent = self.clock.mark();
        let mut reply = Reply::new(self.link.query(&redis::cmd("TIME")).await?)?;
        let micros = reply.number()? * 1_000_000 + reply.number()?;
        self.clock.read(self.keys.elsewhere(), micros, sent, self.clock.mark());
        Ok(())
    }

    fn watermarks(&self) -> std::sync::MutexGuard<'_, Watermarks> {
        self.watermarks.lock().expect("no panic under this lock")
    }

    /// Marks the partition as used by this process, which then looks there for expired jobs and leases.
    fn uses(&self, partition: u16) {
        self.used.lock().expect("no panic under this lock").insert(partition);
    }

    fn used(&self) -> Vec<u16> {
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

/// Checks the form of a Redis URL, without connecting.
///
/// # Errors
/// [`Error::Invalid`], without the password.
pub fn check_url(text: &str) -> Result<(), Error> {
    url::Address::parse(text).map(drop)
}
