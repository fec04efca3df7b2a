//! One run: a Redis, two engines, their users, and the errors found in the end.

use crate::harm;
use duetime_core::clock::SystemClock;
use duetime_core::engine::{Engine, Options as EngineOptions, Query};
use duetime_core::model::job::Job;
use duetime_core::testing::account::{Account, At, Field, QUEUES, System};
use duetime_core::testing::{ModelLedger, Random};
use duetime_core::{Clock as _, Error, JobId};
use duetime_store::redis::{Options, Redis};
use duetime_store::testing::{Fates, Proxy, RedisServer};
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// How long faults are injected, in milliseconds, before [`pile_up`](harm::pile_up).
const TROUBLE: std::ops::Range<u64> = 2_000..6_000;
/// Everything ends within this time from the end of the faults, also on a busy machine: leases, retries, and calls that are
/// tried again.
const END_WITHIN: Duration = Duration::from_secs(100);
const LOOK_EVERY: Duration = Duration::from_millis(50);
const READ_AT_ONCE: usize = 50;
const ENGINES: u64 = 2;
/// Replies that get through: with any single job and the jobs that its end begins, each of which has its result, but not with
/// several large ones.
const REPLY_BYTES_MAX: usize = 112 << 10;
/// How many of a hundred jobs are large.
const LARGE_PERCENT: u64 = 40;

/// The word for replies that did not get through.
pub(crate) const TOO_LONG: &str = "long replies lost";

/// The clock of Redis, to the extent that a test knows it.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    system: SystemClock,
    off_ms: AtomicI64,
}

impl Clock {
    pub(crate) fn at(&self) -> At {
        let off_ms = self.off_ms.load(Ordering::SeqCst);
        At { wall: self.system.wall().saturating_add_signed(off_ms), mono: self.system.mono() }
    }

    pub(crate) fn set(&self, off_ms: i64) {
        self.off_ms.store(off_ms, Ordering::SeqCst);
    }
}

/// State that all tasks of a run share.
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) clock: Arc<Clock>,
    pub(crate) redis: Arc<Mutex<RedisServer>>,
    pub(crate) ledger: Option<ModelLedger>,
    pub(crate) field: Arc<Field>,
    /// One for the link of each engine.
    pub(crate) fates: Vec<Arc<Fates>>,
    log: Mutex<Vec<String>>,
}

/// The result of one or more runs.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) wrong: Vec<String>,
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

impl Report {
    pub(crate) fn add(&mut self, other: Self) {
        self.wrong.extend(other.wrong);
        for (what, count) in other.counts {
            *self.counts.entry(what).or_default() += count;
        }
    }

    /// The first of these that was not counted.
    pub(crate) fn lacks<'a>(&self, of: &[&'a str]) -> Option<&'a str> {
        of.iter().copied().find(|what| !self.counts.contains_key(what))
    }

    pub(crate) fn counted(&self) -> String {
        let words: Vec<String> = self.counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
        words.join(", ")
    }
}

impl World {
    /// Worlds with an even seed have a ledger beside Redis.
    pub(crate) async fn run(seed: u64) -> Report {
        let mut random = Random::new(seed);
        let ledger = seed.is_multiple_of(2).then(ModelLedger::default);
        let redis = tokio::task::spawn_blocking(|| RedisServer::with_clock(&[])).await.expect("a server");
        let clock: Arc<Clock> = Arc::default();
        let read = clock.clone();
        let world = Self {
            seed,
            clock,
            redis: Arc::new(Mutex::new(redis)),
            field: Field::with_large_jobs(Account::new(ledger.is_some()), LARGE_PERCENT, move || read.at()),
            ledger,
            fates: (0..ENGINES)
                .map(|_| Arc::new(Fates::new(random.any()).losing_replies_over(REPLY_BYTES_MAX)))
                .collect(),
            log: Mutex::default(),
        };
        let port = world.redis().port();
        let (mut proxies, mut engines, mut brokers) = (Vec::new(), Vec::new(), Vec::new());
        for fates in &world.fates {
            let (judge, clock) = (fates.clone(), world.clock.clone());
            let proxy = Proxy::to(port, move |command| judge.judge(command, clock.at().mono));
            let (engine, broker) = world.engine(&proxy).await;
            proxies.push(proxy);
            engines.push(engine);
            brokers.push(broker);
        }
        world.set_calm(false);
        let systems = engines.iter().map(|engine| Arc::new(engine.clone()) as Arc<dyn System>);
        let mut actors = world.field.begin(&systems.collect::<Vec<_>>(), &mut random);
        let time = Duration::from_millis(random.within(TROUBLE));
        let readers: Vec<_> =
            engines.iter().map(|engine| tokio::spawn(read_pages(engine.clone(), world.field.clone()))).collect();
        harm::harm(&world, &brokers[0], time, Random::new(random.any())).await;
        harm::pile_up(&world).await;
        world.set_calm(true);
        world.field.be_calm();
        world.log("nothing goes wrong any more");
        let is_done = tokio::time::timeout(END_WITHIN, world.worked_off(&engines)).await.is_ok();
        world.field.end();
        readers.iter().for_each(tokio::task::JoinHandle::abort);
        while let Some(ended) = actors.join_next().await {
            ended.expect("no actor panics");
        }
        let records = world.records(&engines[0]).await;
        for engine in &engines {
            engine.stop().await.expect("stopped");
        }
        for line in proxies.iter().flat_map(Proxy::too_long) {
            world.account().count(TOO_LONG);
            world.log(&line);
        }
        world.report(&records, is_done)
    }

    async fn engine(&self, proxy: &Proxy) -> (Engine, Redis) {
        let beside = self.ledger.as_ref().map(|_| "model".to_owned());
        let redis = Redis::connect(&proxy.url(), Options { beside, ..Options::default() }).await.expect("connected");
        let mut stores = redis.clone().stores();
        if let Some(ledger) = &self.ledger {
            let ledger = Arc::new(ledger.clone());
            stores = stores.beside(ledger);
        }
        (Engine::start(stores, EngineOptions::default()).await.expect("started"), redis)
    }

    pub(crate) fn account(&self) -> MutexGuard<'_, Account> {
        self.field.account()
    }

    pub(crate) fn redis(&self) -> MutexGuard<'_, RedisServer> {
        self.redis.lock().expect("no panic under this lock")
    }

    /// Enables or disables the faults of all links.
    pub(crate) fn set_calm(&self, is_calm: bool) {
        self.fates.iter().for_each(|fates| fates.set_calm(is_calm));
    }

    /// Something was done to all.
    pub(crate) fn log(&self, what: &str) {
        let line = format!("{:>8} ms: {what}", self.clock.at().mono);
        self.log.lock().expect("no panic under this lock").push(line);
    }

    async fn worked_off(&self, engines: &[Engine]) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let is_made = self.field.makes_jobs();
            let Ok(queues) = engines[0].queues().await else { continue };
            let counts = || queues.iter().map(|queue| queue.counts);
            let left: u64 = match &self.ledger {
                Some(ledger) => {
                    let pending = ledger.jobs().iter().filter(|job| job.is_pending()).count();
                    let backlog: usize = engines.iter().map(|engine| engine.health().backlog).sum();
                    // A job that the ledger has recorded as taken may still be leased in Redis, if an answer was lost.
                    let running: u64 = counts().map(|counts| counts.running).sum();
                    (pending + backlog) as u64 + running
                }
                None => counts().map(|counts| counts.scheduled + counts.ready + counts.running).sum(),
            };
            if left == 0 && !is_made {
                return;
            }
        }
    }

    async fn records(&self, engine: &Engine) -> BTreeMap<JobId, Job> {
        let ids = self.account().ids();
        let mut records = BTreeMap::new();
        for ids in ids.chunks(READ_AT_ONCE) {
            for (id, found) in ids.iter().zip(join_all(ids.iter().map(|&id| engine.job(id))).await) {
                match found {
                    Ok(job) => drop(records.insert(*id, job)),
                    Err(Error::NotFound(_)) => {}
                    Err(error) => self.account().blame(format!("the job {id} cannot be read: {error}")),
                }
            }
        }
        records
    }

    fn report(&self, records: &BTreeMap<JobId, Job>, is_done: bool) -> Report {
        let account = self.account();
        let mut wrong = account.judge(records);
        if !is_done {
            let pending: Vec<&Job> = records.values().filter(|job| job.is_pending()).take(3).collect();
            wrong.push(format!("some jobs do not end, such as {pending:?}"));
        }
        let seed = self.seed;
        let wrong = if wrong.is_empty() {
            wrong
        } else {
            vec![format!("seed {seed}, log in {}:", self.keep_log().display()), wrong.join("\n")]
        };
        let counts = account.counts().clone();
        println!(
            "seed {seed}, {} ms: {}",
            self.clock.at().mono,
            Report { wrong: Vec::new(), counts: counts.clone() }.counted()
        );
        Report { wrong, counts }
    }

    /// Writes down all decisions.
    fn keep_log(&self) -> PathBuf {
        let path = std::env::temp_dir().join(format!("duetime-interleave-{}.log", self.seed));
        let mut log = self.log.lock().expect("no panic under this lock").clone();
        log.extend(self.fates.iter().flat_map(|fates| fates.log()));
        // By when: they begin with it, to the same width.
        log.sort_unstable();
        std::fs::write(&path, log.join("\n")).expect("a file");
        path
    }
}

/// Reads pages of whole jobs until it is aborted.
async fn read_pages(engine: Engine, field: Arc<Field>) {
    let query = Query { queue: Some(QUEUES[0].into()), ..Query::default() };
    loop {
        match engine.find(&query, None, READ_AT_ONCE).await {
            Ok(_) => field.account().count("pages read"),
            Err(error) if error.is_retryable() => {}
            Err(error) => field.account().blame(format!("a page was answered {error}")),
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
