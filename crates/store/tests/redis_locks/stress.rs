//! Many contenders on several nodes, by the real clock.

use super::nodes::engine;
use super::{TTL_MS, connect, place};
use duetime_core::engine::{Engine, LockRequest};
use duetime_core::testing::Random;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

const NODES: usize = 4;
const CONTENDERS: usize = 16;
const LOCKS: [&str; 3] = ["hot", "warm", "cold"];
const LENGTH: Duration = Duration::from_secs(3);
/// Longest hold, in questions to the server.
const HOLD_MAX: u64 = 8;

pub(crate) fn request(name: &str, owner: Arc<str>, ttl_ms: u64) -> LockRequest {
    LockRequest { name: name.into(), owner, ttl_ms, wait_ms: 60_000, keep_place: false }
}

/// A time for which somebody held a lock: no longer than it knew, and when it had begun to ask.
struct Held {
    fence: u64,
    asked: Instant,
    from: Instant,
    to: Instant,
}

async fn contend(engine: Engine, owner: Arc<str>, seed: u64, end: Instant) -> Vec<(&'static str, Held)> {
    let mut random = Random::new(seed);
    let mut history = Vec::new();
    while Instant::now() < end {
        let name = if random.percent(70) { LOCKS[0] } else { *random.of(&LOCKS) };
        let asked = Instant::now();
        let fence = engine.acquire(request(name, owner.clone(), TTL_MS)).await.expect("acquired").fence;
        let from = Instant::now();
        for _ in 0..random.within(0..HOLD_MAX) {
            let holding = engine.inspect(name).await.expect("inspected").expect("it is held");
            assert_eq!((&holding.owner, holding.grant.fence), (&owner, fence));
        }
        let to = Instant::now();
        engine.release_lock(name, &owner, fence).await.expect("released");
        history.push((name, Held { fence, asked, from, to }));
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
    let end = Instant::now() + LENGTH;
    let contenders: Vec<_> = (0..CONTENDERS)
        .map(|n| {
            let owner: Arc<str> = format!("owner-{n}").into();
            tokio::spawn(contend(engines[n % NODES].clone(), owner, seed.wrapping_add(n as u64), end))
        })
        .collect();
    let mut histories: BTreeMap<&str, Vec<Held>> = BTreeMap::new();
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
            assert!(pair[0].to <= pair[1].from, "{name} had two holders: {} and {}", pair[0].fence, pair[1].fence);
        }
        let waits = history.iter().map(|held| held.from - held.asked);
        // From a release to the next grant, where somebody had been waiting for it.
        let gaps = history.windows(2).filter(|pair| pair[1].asked < pair[0].to).map(|pair| pair[1].from - pair[0].to);
        println!(
            "{name}: {} grants; longest wait {:?}; longest from a release to the next grant {:?}",
            history.len(),
            waits.max().unwrap_or_default(),
            gaps.max().unwrap_or_default()
        );
    }
    for engine in engines {
        engine.stop().await.unwrap();
    }
}
