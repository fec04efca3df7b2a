//! Every script in a Redis that has reached its `maxmemory`: what frees room runs, what needs room is refused.

use crate::redis_faults::memory::{fill, make_room};
use duetime_core::json::{Span, Timestamp};
use duetime_core::model::name::OF_ENGINE;
use duetime_core::ports::{
    Acquire, Acquired, Beginning, Broker, BrokerClock, Change, Detail, DueTally, Edited, Extend, Extended, Grant,
    Ledger, Limits, Listing, Locks, Outbox, Outcomes, PutIf, Queues, Recorded, Registry, Reports, Retention, Room,
    Settle, Update,
};
use duetime_core::testing::ManualClock;
use duetime_core::testing::fixtures::{FixedHost, QUEUE, T0, again, due, edit, finish, id, listing, reserve, success};
use duetime_core::{Error, Job, JobId, Stage, State};
use duetime_store::redis::{Options, Redis, all_scripts};
use duetime_store::testing::RedisServer;
use std::sync::Arc;

/// The behaviour of a script when memory is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Full {
    Runs,
    Refused,
}

/// All scripts.
const SCRIPTS: [(&str, Full); 34] = [
    ("allot", Full::Refused),
    ("begin", Full::Runs),
    ("change", Full::Runs),
    ("counts", Full::Runs),
    ("document", Full::Runs),
    ("due", Full::Runs),
    ("expired", Full::Runs),
    ("extend", Full::Runs),
    ("forget", Full::Runs),
    ("get", Full::Runs),
    ("incarnation", Full::Runs),
    ("keep", Full::Refused),
    ("known", Full::Runs),
    ("limit", Full::Runs),
    ("list", Full::Runs),
    ("lock_abandon", Full::Runs),
    ("lock_acquire", Full::Runs),
    ("lock_begin", Full::Runs),
    ("lock_list", Full::Runs),
    ("lock_release", Full::Runs),
    ("lock_release_all", Full::Runs),
    ("lock_renew", Full::Runs),
    ("lock_set_back", Full::Runs),
    ("lock_sweep", Full::Runs),
    ("outcomes", Full::Runs),
    ("prune", Full::Runs),
    ("put", Full::Refused),
    ("queues", Full::Runs),
    ("remove_queue", Full::Runs),
    ("reserve", Full::Runs),
    ("set_back", Full::Runs),
    ("settle", Full::Runs),
    ("tombstone", Full::Runs),
    ("watermark", Full::Runs),
];
/// Scripts that only serve beside a ledger.
const BESIDE_ONLY: [&str; 2] = ["tombstone", "watermark"];

const LEASE_MS: u64 = 60_000;
/// How long finished jobs are spared.
const SPARED_MS: u64 = 20_000;
const TTL_MS: u64 = 600_000;
const FAR: u64 = T0 + 3_600_000;

/// Jobs 1 to 4 are leased, 5 to 8 are due, 9 to 12 are not; `a` holds a lock for which `b` waits.
struct World {
    url: String,
    options: Options,
    redis: Redis,
    clock: Arc<ManualClock>,
    leased: Vec<Job>,
    grant: Grant,
}

impl World {
    async fn prepare(server: &RedisServer, script: &str, beside: bool) -> Self {
        let clock = Arc::new(ManualClock::new());
        let beside = beside.then(|| "test".to_owned());
        let url = format!("{}?namespace={script}", server.url());
        let options = Options { clock: Some(clock.clone()), beside, ..Options::default() };
        let redis = Redis::connect(&url, options.clone()).await.unwrap();
        let limits = vec![(QUEUE.into(), Limits { max_running: Some(100), ..Limits::default() }, 1)];
        redis.begin(Arc::new(FixedHost(Beginning { generation: 1, limits }))).await.unwrap();
        let jobs = (1..=12).map(|n| if n > 8 { due(n, FAR) } else { due(n, T0) });
        redis.record(jobs.collect(), u64::MAX).await.unwrap();
        let leases = redis.reserve(reserve(QUEUE, 4)).await.unwrap().leases;
        let leased: Vec<Job> = leases.into_iter().map(|lease| lease.job).collect();
        assert_eq!(leased.len(), 4);
        let Acquired::Granted { grant, .. } = acquire(&redis, "lock", "a").await.unwrap() else { panic!("granted") };
        assert!(matches!(acquire(&redis, "lock", "b").await.unwrap(), Acquired::Held { .. }));
        Self { url, options, redis, clock, leased, grant }
    }

    /// Makes this script do its work.
    async fn call(&self, server: &RedisServer, script: &str) -> Result<(), Error> {
        let redis = &self.redis;
        let (lock, a, b): (Arc<str>, Arc<str>, Arc<str>) = ("lock".into(), "a".into(), "b".into());
        match script {
            "allot" => assert_eq!(redis.allot(1, T0).await?.count(), 1),
            "begin" => {
                server.command(&["DEL", "{duetime:begin:0}:incarnation"]);
                assert_eq!(redis.reserve(reserve(QUEUE, 1)).await?.leases.len(), 1);
            }
            "lock_begin" => {
                server.command(&["DEL", "{duetime:lock_begin}:lock:fence"]);
                let name = format!("{OF_ENGINE}test");
                assert!(matches!(acquire(redis, &name, "a").await?, Acquired::Granted { .. }));
            }
            "tombstone" => assert_eq!(redis.bar(&[(id(99), 1)]).await?, []),
            "change" => {
                let late = again(&self.leased[0], FAR);
                assert_eq!(
                    redis.settle(vec![Settle::new(self.leased[0].receipt(), late)]).await?.states,
                    [Some(State::Scheduled)]
                );
                let failed = Settle::new(self.leased[1].receipt(), finish(Stage::Failed));
                assert_eq!(redis.settle(vec![failed]).await?.states, [Some(State::Failed)]);
                assert!(matches!(self.edit(id(9), cancel()).await?, Edited::Changed(_)));
                assert!(matches!(self.edit(id(10), Change::Delete).await?, Edited::Changed(_)));
                let sooner = Update { due_at: Some(T0), ..Update::default() };
                assert!(matches!(self.edit(id(11), Change::Update(sooner)).await?, Edited::Changed(_)));
                let rewritten = Update { payload: Some(Arc::from(*b"something longer")), ..Update::default() };
                let error = self.edit(id(12), Change::Update(rewritten)).await.unwrap_err();
                assert_eq!(error.code(), "store_full", "what a job holds may grow");
            }
            "due" => {
                let (tally, _) = redis.due(DueTally::new(vec![T0], []), None).await?;
                assert_eq!(tally.of(None), Some(&[8, 4][..]));
            }
            "counts" => assert_eq!(redis.counts(Queues::Named(vec![QUEUE.into()])).await?[0].1.running, 4),
            "document" => {
                assert_eq!(redis.put_if("queue", QUEUE, "{}", 0).await?, PutIf::Stored(1));
                assert_eq!(redis.put_if("queue", QUEUE, "{ }", 1).await?, PutIf::Stored(2));
            }
            "expired" => {
                self.clock.advance(LEASE_MS);
                let expired = redis.expired(100).await?;
                assert_eq!((expired.crashed.len(), expired.is_full), (4, true));
            }
            "extend" => {
                let extended = redis.extend(vec![Extend::new(self.leased[0].receipt(), None)]).await?;
                assert!(matches!(extended[0], Extended::Until { .. }));
            }
            "forget" => drop(redis.forget(&[(id(99), 1), (id(1), self.leased[0].version)], u64::MAX).await?),
            "watermark" => redis.set_watermark(FAR).await?,
            "get" => assert!(Broker::get(redis, &[id(1)], Detail::Whole).await?[0].is_some()),
            "keep" => {
                let ended = Job { stage: Stage::Succeeded, finished_at: Some(Timestamp(T0)), ..due(50, T0) };
                assert_eq!(redis.record(vec![ended], u64::MAX).await?, [Recorded::Created]);
            }
            "known" => {
                let again = Job { origin: Some("none".into()), ..due(50, T0) };
                assert_eq!(redis.known(&[again]).await?, [None]);
            }
            "limit" => {
                let limits = Limits { max_running: Some(3), paused: true, ..Limits::default() };
                redis.limit(&QUEUE.into(), limits, 1).await?;
            }
            "list" => {
                let after = Some((T0, id(6)));
                let listed = Broker::list(redis, Listing { after, ..listing(QUEUE) }).await?;
                assert_eq!(listed.len(), 6);
            }
            "lock_abandon" => redis.abandon(&lock, &b).await?,
            "lock_acquire" => {
                assert!(matches!(acquire(redis, "lock", "a").await?, Acquired::Granted { is_new: false, .. }));
                assert!(matches!(acquire(redis, "duetime:leader", "c").await?, Acquired::Granted { .. }));
                assert_eq!(acquire(redis, "other", "a").await.unwrap_err().code(), "store_full");
                assert_eq!(acquire(redis, "lock", "c").await.unwrap_err().code(), "store_full");
            }
            "lock_list" => assert_eq!(Locks::list(redis, None, 10).await?.locks.len(), 1),
            "lock_release" => assert!(redis.release(&lock, &a, self.grant.fence).await?),
            "lock_release_all" => assert_eq!(redis.release_all(&a).await?.released, 1),
            "lock_renew" => assert!(redis.renew(&lock, &a, self.grant.fence, TTL_MS).await?.is_some()),
            "lock_set_back" => {
                self.clock.step(-600_000);
                redis.sweep().await?;
                self.clock.advance(TTL_MS);
                assert_eq!(redis.inspect(&lock).await?, None);
            }
            "lock_sweep" => redis.sweep().await?,
            "outcomes" => drop(redis.outcomes(Outcomes::Of(id(1))).await?),
            "prune" => {
                redis.settle(vec![Settle::new(self.leased[0].receipt(), success())]).await?;
                // Until then a repeat may ask for it.
                self.clock.advance(SPARED_MS + 1);
                let retention = Retention { succeeded: Span(0), failed: Span(0) };
                let pruned = redis.prune(retention, T0 + SPARED_MS + 1, 100).await?;
                assert_eq!(pruned, usize::from(self.options.beside.is_none()));
            }
            "put" => drop(redis.put(vec![due(51, T0)], redis.reading(), Room::Any).await?),
            "queues" => assert_eq!(redis.counts(Queues::first()).await?.len(), 1),
            "remove_queue" => assert!(!Broker::remove_queue(redis, &QUEUE.into(), 1).await?, "it has jobs"),
            "reserve" => assert_eq!(redis.reserve(reserve(QUEUE, 10)).await?.leases.len(), 4),
            "set_back" => {
                self.clock.step(-600_000);
                redis.expired(100).await?;
                let job = Broker::get(redis, &[id(1)], Detail::Head).await?.remove(0).expect("it is there");
                assert_eq!(job.lease_until, Some(Timestamp(T0 - 600_000 + LEASE_MS)));
            }
            "settle" => {
                let done = Settle::new(self.leased[0].receipt(), success());
                assert_eq!(redis.settle(vec![done]).await?.states, [Some(State::Succeeded)]);
            }
            "incarnation" => drop(Redis::connect(&self.url, self.options.clone()).await?.incarnation().await?),
            other => panic!("say what {other}.lua does in a Redis that is full"),
        }
        Ok(())
    }

    async fn edit(&self, id: JobId, change: Change) -> Result<Edited, Error> {
        Ok(Broker::edit(&self.redis, vec![edit(id, change)]).await?.0.remove(0))
    }
}

fn cancel() -> Change {
    Change::cancel(Some("not needed".into()))
}

async fn acquire(redis: &Redis, name: &str, owner: &str) -> Result<Acquired, Error> {
    redis.acquire(Acquire { name: name.into(), owner: owner.into(), ttl_ms: TTL_MS, waiting: true }).await
}

async fn walk(beside: bool) {
    let known: Vec<&str> = all_scripts().into_iter().map(|(name, _)| name).collect();
    let missing: Vec<&&str> = known.iter().filter(|name| SCRIPTS.iter().all(|(known, _)| known != *name)).collect();
    assert!(missing.is_empty() && known.len() == SCRIPTS.len(), "say of {missing:?} what they do when Redis is full");
    let server = RedisServer::start();
    for (script, hash) in all_scripts() {
        let (_, full) = SCRIPTS.into_iter().find(|(name, _)| *name == script).expect("it was found above");
        if BESIDE_ONLY.contains(&script) && !beside {
            continue;
        }
        let world = World::prepare(&server, script, beside).await;
        server.command(&["SCRIPT", "FLUSH"]);
        fill(&server);
        let called = world.call(&server, script).await;
        assert_eq!(server.command(&["SCRIPT", "EXISTS", hash]), "1", "{script} was called");
        match full {
            Full::Runs => called.unwrap_or_else(|error| panic!("{script}: {error}")),
            Full::Refused => assert_eq!(called.expect_err(script).code(), "store_full", "{script}"),
        }
        make_room(&server);
        if full == Full::Refused {
            world.call(&server, script).await.unwrap_or_else(|error| panic!("{script} with room: {error}"));
        }
    }
}

#[tokio::test]
async fn every_script_runs_or_is_refused_when_redis_is_full() {
    walk(false).await;
}

#[tokio::test]
async fn every_script_runs_or_is_refused_when_redis_is_full_beside_a_ledger() {
    walk(true).await;
}
