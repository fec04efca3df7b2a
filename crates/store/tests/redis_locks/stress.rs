//! Many contenders on several nodes, by the real clock.

use super::nodes::engine;
use super::{TTL_MS, connect, place};
use duetime_core::api::Span;
use duetime_core::clock::SystemClock;
use duetime_core::engine::{Engine, LockRequest};
use duetime_core::testing::Random;
use duetime_core::{Clock, Millis};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const NODES: usize = 4;
const CONTENDERS: usize = 16;
const LOCKS: [&str; 3] = ["hot", "warm", "cold"];
const LENGTH_MS: Millis = 3_000;
/// Longest hold, in questions to the server.
const HOLD_MAX: u64 = 8;

pub(crate) fn request(name: &str, owner: Arc<str>, ttl_ms: u64) -> LockRequest {
    LockRequest { name: name.into(), owner, ttl: Span(ttl_ms), wait: Span(60_000), keep_place: false }
}

/// When something happened: in which order, and by the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Moment(u64, Millis);

impl Moment {
    fn now(clock: &SystemClock) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::SeqCst), clock.mono())
    }
}

/// A time for which somebody held a lock: no longer than it knew, and when it had begun to ask.
struct HeldLock {
    fence: u64,
    asked: Moment,
    from: Moment,
    to: Moment,
}

async fn contend(engine: Engine, owner: Arc<str>, seed: u64, clock: Arc<SystemClock>) -> Vec<(&'static str, HeldLock)> {
    let mut random = Random::new(seed);
    let mut history = Vec::new();
    let end = clock.mono() + LENGTH_MS;
    while clock.mono() < end {
        let name = if random.percent(70) { LOCKS[0] } else { *random.of(&LOCKS) };
        let asked = Moment::now(&clock);
        let fence = engine.acquire(request(name, owner.clone(), TTL_MS)).await.expect("acquired").fence;
        let from = Moment::now(&clock);
        for _ in 0..random.within(0..HOLD_MAX) {
            let holding = engine.inspect(name).await.expect("inspected").expect("it is held");
            assert_eq!((&holding.owner, holding.grant.fence), (&owner, fence));
        }
        let to = Moment::now(&clock);
        engine.release_lock(name, &owner, fence).await.expect("released");
        history.push((name, HeldLock { fence, asked, from, to }));
    }
    history
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_has_one_holder_at_a_time() {
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let url = place();
    let mut engines = Vec::new();
    for _ in 0..NODES {
        engines.push(engine(connect(&url, None).await).await);
    }
    let clock = Arc::new(SystemClock::new());
    let contenders: Vec<_> = (0..CONTENDERS)
        .map(|n| {
            let owner: Arc<str> = format!("owner-{n}").into();
            tokio::spawn(contend(engines[n % NODES].clone(), owner, seed.wrapping_add(n as u64), clock.clone()))
        })
        .collect();
    let mut histories: BTreeMap<&str, Vec<HeldLock>> = BTreeMap::new();
    let mut fences = Vec::new();
    for contender in contenders {
        for (name, held) in contender.await.expect("no contender panics") {
            fences.push(held.fence);
            histories.entry(name).or_default().push(held);
        }
    }
    fences.sort_unstable();
    assert!(fences.windows(2).all(|pair| pair[0] < pair[1]), "a fence is given once");
    for (name, mut history) in histories {
        history.sort_by_key(|held| held.fence);
        for pair in history.windows(2) {
            assert!(pair[0].to < pair[1].from, "{name} had two holders: {} and {}", pair[0].fence, pair[1].fence);
        }
        let waits = history.iter().map(|held| held.from.1 - held.asked.1);
        // From a release to the next grant, if somebody had been waiting for it.
        let gaps =
            history.windows(2).filter(|pair| pair[1].asked < pair[0].to).map(|pair| pair[1].from.1 - pair[0].to.1);
        println!(
            "{name}: {} grants; longest wait {} ms; longest from a release to the next grant {} ms",
            history.len(),
            waits.max().unwrap_or_default(),
            gaps.max().unwrap_or_default()
        );
    }
    for engine in engines {
        engine.stop().await.unwrap();
    }
}
