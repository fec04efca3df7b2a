//! The memory of each partition, and how a memory begins.
//!
//! A partition's incarnation names its memory. It is gone if Redis is emptied, and is invalid on any other server than the
//! one on which the memory began: a promoted replica may lack its master's last writes. Scripts compare it, so a process
//! that still uses an earlier incarnation notices the new one with its next call.
//!
//! A new memory has not *begun*: it accepts jobs, but hands none out. A process that requires it to have begun reads the
//! incarnation, has the host compare what the memory holds with the ledger, then asks it for a generation. It writes the
//! generation and all limits in one step, if the incarnation is still the same. So each memory has a higher generation than all
//! memories before it, and holds nothing outdated when it begins. The incarnation names the server, too: the data of another
//! one, to which Redis has fallen back meanwhile, does not begin by this, even if it has the same incarnation.
//!
//! The incarnation also names the ledger of the partition. Processes with another ledger refuse it.

use super::call::{Call, Text};
use super::checks::FORMAT;
use super::clock::RedisClock;
use super::keys::Keys;
use super::link::Link;
use super::options::Options;
use super::reply::Reply;
use super::requests::Requests;
use super::scripts::{self, Script};
use super::wake::Waker;
use super::{checks, fault};
use duetime_core::hash::stable;
use duetime_core::limits::STEP_QUEUES_MAX;
use duetime_core::ports::{Beginning, Host, Limits, Reading};
use duetime_core::{Error, JobId, Numbers};
use redis::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;
use tokio::time::Instant;

/// How long the host is not asked again after a failure.
pub(super) const HOST_REST: Duration = Duration::from_millis(500);
/// How long to wait for other partitions to begin.
const OTHERS_WITHIN: Duration = Duration::from_secs(1);

/// The way to repeat a call.
enum Again {
    InNewIncarnation,
    OnceItHasBegun,
}

/// All known memories.
#[derive(Default)]
struct Memories {
    incarnations: Mutex<BTreeMap<u16, KnownMemory>>,
    /// The number of new memories found.
    found: AtomicU64,
    host: OnceLock<Arc<dyn Host>>,
    /// Locked by the task that begins memories; contains the time and error of the host's last failure.
    beginning: tokio::sync::Mutex<Option<(Instant, Error)>>,
}

/// The incarnation of a partition.
#[derive(Clone)]
struct KnownMemory {
    incarnation: Arc<[u8]>,
    /// Its number among the memories that were found.
    number: u64,
    /// A script reported another incarnation.
    is_outdated: bool,
}

impl KnownMemory {
    fn has_begun(&self) -> bool {
        generation(&self.incarnation) > 0
    }
}

/// The part of an incarnation that stays the same when the memory begins.
fn identity(incarnation: &[u8]) -> &[u8] {
    incarnation.rsplitn(2, |&byte| byte == b' ').last().unwrap_or_default()
}

/// The generation; 0 if the memory has not begun.
fn generation(incarnation: &[u8]) -> u64 {
    let last = incarnation.rsplit(|&byte| byte == b' ').next().and_then(|last| std::str::from_utf8(last).ok());
    last.and_then(|last| last.parse().ok()).unwrap_or(0)
}

/// Runs scripts in the memory of a partition.
pub(super) struct Partitions {
    pub(super) link: Arc<Link>,
    pub(super) keys: Keys,
    pub(super) clock: RedisClock,
    pub(super) options: Options,
    pub(super) requests: Requests,
    pub(super) waker: Arc<Waker>,
    memories: Memories,
}

impl Partitions {
    pub(super) fn new(link: Arc<Link>, keys: Keys, options: Options, requests: Requests, waker: Arc<Waker>) -> Self {
        let clock = RedisClock::new(options.clock.clone());
        Self { link, keys, clock, options, requests, waker, memories: Memories::default() }
    }

    /// Reads the clock of Redis.
    pub(super) async fn read_clock(&self) -> Result<(), Error> {
        let sent = self.clock.mark();
        let mut reply = Reply::new(self.link.query(&redis::cmd("TIME")).await?)?;
        let micros = reply.number()? * 1_000_000 + reply.number()?;
        self.clock.read(self.keys.elsewhere(), micros, sent, self.clock.mark());
        Ok(())
    }

    /// Whether Redis is its own ledger.
    pub(super) fn is_ledger(&self) -> bool {
        self.options.beside.is_none()
    }

    /// The partition of a job.
    pub(super) fn of(&self, id: JobId) -> u16 {
        id.partition() % self.keys.partitions()
    }

    /// Runs a script in a partition, and returns its answer after the clock.
    pub(super) async fn run(
        &self,
        partition: u16,
        script: &'static Script,
        queues: &[&str],
        arguments: impl Fn(&mut Text) + Send + Sync,
    ) -> Result<Reply, Error> {
        self.run_request(partition, script, "", queues, arguments).await
    }

    /// The same, for a request that is remembered.
    pub(super) async fn run_request(
        &self,
        partition: u16,
        script: &'static Script,
        request: &str,
        queues: &[&str],
        arguments: impl Fn(&mut Text) + Send + Sync,
    ) -> Result<Reply, Error> {
        loop {
            let incarnation = self.incarnation(partition).await?;
            match self.run_in(partition, &incarnation, script, request, queues, &arguments).await? {
                Ok(reply) => return Ok(reply),
                Err(Again::InNewIncarnation) => self.forget_incarnation(partition, &incarnation),
                Err(Again::OnceItHasBegun) => self.begin_memory(partition).await?,
            }
        }
    }

    async fn run_in(
        &self,
        partition: u16,
        incarnation: &[u8],
        script: &'static Script,
        request: &str,
        queues: &[&str],
        arguments: &(impl Fn(&mut Text) + Send + Sync),
    ) -> Result<Result<Reply, Again>, Error> {
        let mut call = Call { script, keys: self.keys.script(partition, request, queues), arguments: Text::default() };
        call.arguments.push(incarnation);
        match self.clock.given() {
            Some(now) => call.arguments.number(now),
            None => call.arguments.push(b""),
        }
        call.arguments.flag(self.is_ledger());
        call.arguments.push(self.keys.channel().as_bytes());
        arguments(&mut call.arguments);
        let sent = self.clock.mark();
        match self.link.call(&call).await {
            Ok(value) => {
                let mut reply = Reply::new(value)?;
                self.clock.read(partition, reply.number()?, sent, self.clock.mark());
                Ok(Ok(reply))
            }
            Err(error) if fault::is_incarnation(&error) => Ok(Err(Again::InNewIncarnation)),
            Err(error) if fault::is_unbegun(&error) => Ok(Err(Again::OnceItHasBegun)),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn incarnation(&self, partition: u16) -> Result<Arc<[u8]>, Error> {
        let known = self
            .incarnations()
            .get(&partition)
            .filter(|known| !known.is_outdated)
            .map(|known| known.incarnation.clone());
        match known {
            Some(incarnation) => Ok(incarnation),
            None => Ok(self.fetch_incarnation(partition).await?.incarnation),
        }
    }

    /// Reads the incarnation, and creates one if there is none.
    async fn fetch_incarnation(&self, partition: u16) -> Result<KnownMemory, Error> {
        let incarnation = match self.ask_for_incarnation(partition, "").await? {
            Some(incarnation) => incarnation,
            None => {
                // In an emptied Redis this is missing, too. The number of partitions must stay the same, and the first
                // process to use Redis says which ledger it belongs to.
                checks::keep_partitions(&self.link, &self.keys).await?;
                checks::keep_side(&self.link, &self.keys, self.options.beside.as_deref()).await?;
                let new = format!("{} {}", self.kind(), self.requests.unique());
                self.ask_for_incarnation(partition, &new).await?.ok_or_else(|| no_incarnation("none"))?
            }
        };
        self.check_kind(&incarnation)?;
        Ok(self.learn(partition, incarnation))
    }

    async fn ask_for_incarnation(&self, partition: u16, new: &str) -> Result<Option<Arc<[u8]>>, Error> {
        let mut call = Call { script: &scripts::INCARNATION, keys: Text::default(), arguments: Text::default() };
        call.keys.push(self.keys.of(partition, "incarnation").as_bytes());
        call.arguments.push(new.as_bytes());
        match self.link.call(&call).await? {
            Value::BulkString(incarnation) => Ok(Some(incarnation.into())),
            Value::Nil => Ok(None),
            other => Err(no_incarnation(&format!("{other:?}"))),
        }
    }

    /// The common beginning of all incarnations of this process.
    fn kind(&self) -> String {
        format!("{FORMAT} {} {}", self.keys.partitions(), self.side())
    }

    /// The ledger with which this process uses Redis.
    pub(super) fn side(&self) -> String {
        let name = self.options.beside.as_deref();
        name.map_or_else(|| checks::ALONE.into(), |name| format!("{:016x}", stable(name.as_bytes())))
    }

    fn check_kind(&self, incarnation: &[u8]) -> Result<(), Error> {
        let text = String::from_utf8_lossy(incarnation);
        checks::check_format(&text)?;
        let mut words = text.split(' ').skip(1);
        let (partitions, side) = (words.next().unwrap_or("?"), words.next().unwrap_or("?"));
        if partitions != self.keys.partitions().to_string() {
            return Err(Error::Unusable(format!(
                "this Redis namespace was emptied and is now used with {partitions} partitions instead of {}: stop the \
                 processes that do so and empty it again, or use another namespace (?namespace=…)",
                self.keys.partitions()
            )));
        }
        checks::check_side(side, &self.side())
    }

    fn learn(&self, partition: u16, incarnation: Arc<[u8]>) -> KnownMemory {
        let mut incarnations = self.incarnations();
        let before = incarnations.get(&partition);
        let is_known = before.is_some_and(|before| identity(&before.incarnation) == identity(&incarnation));
        let number = match before {
            Some(before) if is_known => before.number,
            // All are fetched at the beginning.
            None => 0,
            Some(_) => self.memories.found.fetch_add(1, Ordering::SeqCst) + 1,
        };
        let known = KnownMemory { incarnation, number, is_outdated: false };
        if incarnations.insert(partition, known.clone()).is_some() && !is_known {
            tracing::warn!(partition, "Redis was emptied, restarted or replaced; its jobs may be lost");
        }
        known
    }

    /// Marks it as outdated: it is read before it is used again. The known value stays, to be compared.
    fn forget_incarnation(&self, partition: u16, incarnation: &[u8]) {
        if let Some(known) = self.incarnations().get_mut(&partition).filter(|known| *known.incarnation == *incarnation)
        {
            known.is_outdated = true;
        }
    }

    /// The names of the memories of all partitions.
    pub(super) async fn whole_incarnation(&self) -> Result<String, Error> {
        let incarnations = self.fetch_all().await?;
        let names: Vec<_> =
            incarnations.iter().map(|known| String::from_utf8_lossy(identity(&known.incarnation))).collect();
        Ok(format!("{:016x}", stable(names.join("\n").as_bytes())))
    }

    async fn fetch_all(&self) -> Result<Vec<KnownMemory>, Error> {
        let fetched = (0..self.keys.partitions()).map(|partition| self.fetch_incarnation(partition));
        futures_util::future::join_all(fetched).await.into_iter().collect()
    }

    /// Whether the current memory of the partition was already known when this reading began.
    pub(super) fn was_known(&self, partition: u16, reading: Reading) -> bool {
        self.incarnations().get(&partition).is_some_and(|known| known.number <= reading.memory)
    }

    /// The number of memories found so far.
    pub(super) fn memories_found(&self) -> u64 {
        self.memories.found.load(Ordering::SeqCst)
    }

    /// The numbering of the next version of a job, as known here; a script with newer knowledge refuses it.
    pub(super) fn numbers(&self, id: JobId) -> Numbers {
        if self.is_ledger() {
            return Numbers::Clock(self.clock.now());
        }
        Numbers::Generation(self.incarnations().get(&self.of(id)).map_or(0, |known| generation(&known.incarnation)))
    }

    pub(super) async fn begin_with(&self, host: Arc<dyn Host>) -> Result<(), Error> {
        self.waker.watch(host.clone());
        assert!(self.memories.host.set(host).is_ok(), "a broker is begun by one engine");
        // Calls that failed because there was no host are retried.
        *self.memories.beginning.lock().await = None;
        let incarnations = self.fetch_all().await?;
        if let Some(partition) = incarnations.iter().position(|known| !known.has_begun()) {
            match self.begin_memory(partition as u16).await {
                Err(error) if fault::is_not_compared(&error) => tracing::info!(%error, "it begins later"),
                begun => begun?,
            }
        }
        // Jobs put before were announced while nobody here listened.
        self.waker.wake(None);
        Ok(())
    }

    /// Begins the memory of this partition, unless another process did so meanwhile. It also begins others known not to have
    /// begun, if that takes no extra time.
    async fn begin_memory(&self, partition: u16) -> Result<(), Error> {
        let known = self.fetch_incarnation(partition).await?;
        if known.has_begun() {
            return Ok(());
        }
        // Not under the lock: others need a generation.
        self.compare(partition, &known).await?;
        let mut failed = self.memories.beginning.lock().await;
        let present = self.fetch_incarnation(partition).await?;
        if present.incarnation != known.incarnation {
            return Ok(());
        }
        let mut others: Vec<(u16, KnownMemory)> =
            self.incarnations().iter().map(|(&other, known)| (other, known.clone())).collect();
        others.retain(|(other, known)| *other != partition && !known.has_begun());
        let beginning = self.ask_host(&mut failed).await?;
        self.begin_one(partition, &known, &beginning).await?;
        let others = others.iter().map(|(other, known)| self.begin_other(*other, known, &beginning));
        drop(tokio::time::timeout(OTHERS_WITHIN, futures_util::future::join_all(others)).await);
        Ok(())
    }

    async fn begin_other(&self, other: u16, known: &KnownMemory, beginning: &Beginning) -> Result<(), Error> {
        self.compare(other, known).await?;
        self.begin_one(other, known, beginning).await
    }

    /// Has the host compare what this memory holds with the ledger.
    async fn compare(&self, partition: u16, known: &KnownMemory) -> Result<(), Error> {
        let Some(host) = self.memories.host.get() else { return Ok(()) };
        let memory = String::from_utf8_lossy(identity(&known.incarnation));
        host.compare(partition, &memory).await.map_err(|error| fault::not_compared(&error))
    }

    async fn begin_one(&self, partition: u16, known: &KnownMemory, beginning: &Beginning) -> Result<(), Error> {
        let generation = beginning.generation.max(1).to_string();
        let begun = [identity(&known.incarnation), b" ", generation.as_bytes()].concat();
        let limits = beginning.limits.iter().filter(|(queue, ..)| self.keys.partition_of(queue) == partition);
        let limits: Vec<_> = limits.collect();
        let groups: Vec<_> = if limits.is_empty() { vec![&[][..]] } else { limits.chunks(STEP_QUEUES_MAX).collect() };
        let by = if groups.len() > 1 { self.requests.unique() } else { String::new() };
        for (before, group) in groups.iter().enumerate() {
            let arguments = |text: &mut Text| {
                text.push(if before + 1 == groups.len() { &begun } else { b"" });
                text.push(by.as_bytes());
                text.number(before as u64);
                for (queue, limits, version) in *group {
                    text.push(queue.as_bytes());
                    push_limits(text, limits, *version);
                }
            };
            let (incarnation, script) = (&known.incarnation, &scripts::BEGIN);
            // If the incarnation changed or another process began it, the next read shows that.
            let Ok(mut reply) = self.run_in(partition, incarnation, script, "begin", &[], &arguments).await? else {
                break;
            };
            if reply.number()? == 0 {
                // Another process is about to begin it.
                tokio::time::sleep(HOST_REST).await;
                break;
            }
        }
        self.fetch_incarnation(partition).await.map(drop)
    }

    /// A generation that no memory has had.
    pub(super) async fn new_generation(&self) -> Result<u64, Error> {
        let mut failed = self.memories.beginning.lock().await;
        Ok(self.ask_host(&mut failed).await?.generation)
    }

    /// Gets a generation and the limits from the host. After a failure the host is not asked again for a while.
    async fn ask_host(&self, failed: &mut Option<(Instant, Error)>) -> Result<Beginning, Error> {
        if let Some((_, error)) = failed.as_ref().filter(|(at, _)| at.elapsed() < HOST_REST) {
            return Err(error.clone());
        }
        let asked = match self.memories.host.get() {
            Some(host) => host.beginning().await,
            None => Err(Error::Unavailable("no engine was started".into())),
        };
        asked.map_err(|error| {
            let error = fault::not_begun(&error);
            tracing::warn!(%error, "no jobs are handed out");
            *failed = Some((Instant::now(), error.clone()));
            error
        })
    }

    fn incarnations(&self) -> MutexGuard<'_, BTreeMap<u16, KnownMemory>> {
        self.memories.incarnations.lock().expect("no panic under this lock")
    }
}

/// The limits of a queue, as scripts expect them.
pub(super) fn push_limits(text: &mut Text, limits: &Limits, version: u64) {
    let Limits { paused, max_running, rate } = limits;
    text.flag(*paused);
    text.number(max_running.unwrap_or(0).into());
    // Lua parses numbers as Rust writes them, to the last digit.
    text.push(rate.map_or_else(String::new, |rate| rate.period().to_string()).as_bytes());
    text.number(rate.map_or(0, |rate| rate.burst()).into());
    text.number(version);
}

fn no_incarnation(found: &str) -> Error {
    Error::Damaged(format!("a partition's incarnation is {found}"))
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
