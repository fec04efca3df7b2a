//! Live jobs in Redis or Valkey, for any number of processes.
//!
//! Each transition of a batch of jobs is one script, so it happens whole or not at all; each can be sent again after a
//! lost reply. Decisions are made elsewhere: the scripts carry them out under the version or the epoch that was read.
//!
//! Without a ledger beside it, Redis is its own: what has ended is kept within bounds of age and number, and jobs are
//! found by what is indexed.

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

/// The format of what is kept; another one is refused.
const FORMAT: u64 = 1;

/// How Redis is used.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the ledger that stands beside it; `None` where it is its own: keeps what has ended, judges keys, allots
    /// ids. One set of jobs stays with what it began with.
    pub beside: Option<String>,
    /// Where it is its own ledger, new jobs are refused once Redis uses so many bytes; by default nine tenths of its
    /// `maxmemory`, and never where it has none.
    pub memory_max: Option<u64>,
    /// How many jobs that succeeded or were cancelled are kept, of each partition; by default 100,000.
    pub ended_max: usize,
    /// How many that failed; by default 100,000.
    pub dead_max: usize,
    /// A clock in place of that of Redis, for tests.
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

/// A broker, a registry and locks in Redis, and where that is wanted a ledger: a cheap handle, to be cloned.
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
    /// Partitions that this process has had to do with.
    used: Mutex<BTreeSet<u16>>,
    /// How often it was looked for what has run out.
    looks: AtomicU64,
    /// The watermark that each partition was told, and which memory of it.
    watermarks: Mutex<Watermarks>,
    /// Entries that were not forgotten, by partition, as last seen.
    backlog: Mutex<BTreeMap<u16, u64>>,
    requests: Requests,
    /// The greatest fence that was given to this process.
    last_fence: AtomicU64,
    waker: Arc<Waker>,
    /// Events on their way between processes.
    bus: Arc<Bus>,
    usage: Arc<Usage>,
    tasks: [JoinHandle<()>; 4],
    fitness: checks::Fitness,
    /// The address, without user and password.
    place: String,
}

impl Redis {
    /// Connects, looks whether the server is fit, and listens.
    ///
    /// The URL is `redis://[user:password@]host[:port][/db][?namespace=name]`, `rediss://` for TLS,
    /// `redis+sentinel://host:port,…/master[/db]` or `redis+cluster://host:port,…`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a URL that cannot be right; [`Error::Unavailable`] where Redis does not answer;
    /// [`Error::Unusable`] where it is too old, refuses the password, or holds another format.
    pub async fn connect(url: &str, options: Options) -> Result<Self, Error> {
        // Where another provider was installed before, that one serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let address = url::Address::parse(url)?;
        let link = Arc::new(Link::new(&address)?);
        let fitness = checks::check(&link).await?;
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
        // It goes on trying where this is over first.
        let _ = tokio::time::timeout(std::time::Duration::from_secs(5), has_begun).await;
        Ok(redis)
    }
}

impl Redis {
    /// All that an engine needs, where Redis is its own ledger.
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
    /// What should be set otherwise.
    pub fn warnings(&self) -> &[String] {
        &self.fitness.warnings
    }

    /// What this set-up can lose, and when.
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

    /// This process has to do with the partition: it looks there for what has run out.
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

/// What it is and where, without user and password.
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

/// Checks that this can be the URL of a Redis. It is not connected to.
///
/// # Errors
/// [`Error::Invalid`], without the password.
pub fn check_url(text: &str) -> Result<(), Error> {
    url::Address::parse(text).map(drop)
}
