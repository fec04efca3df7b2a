//! Two engines on a real Redis, through a proxy that holds back, reorders, repeats and cuts calls by a seed, and always loses
//! replies that are too long for several large jobs, while Redis is emptied, falls back, is frozen and has its clock set. The
//! answers to clients are checked against the promises.
//!
//! `DUETIME_INTERLEAVE_SECONDS` sets the duration (10 by default), `DUETIME_INTERLEAVE_SEED` the first world. A world's seed
//! repeats the decisions; the timing of calls depends on the machine.

mod harm;
mod world;

use std::time::Duration;
use tokio::time::Instant;
use world::{Report, TOO_LONG, World};

const SECONDS_DEFAULT: u64 = 10;
/// After as many worlds each of [`TRIED`] has been tried, however busy the machine is.
const WORLDS_MAX: u64 = 20;
const TRIED: [&str; 7] =
    ["leases extended", "ends refused", "jobs taken", "jobs cancelled", "jobs edited", "locks acquired", TOO_LONG];
const SEED_DEFAULT: u64 = 0;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_promise_holds_in_every_order() {
    let length = Duration::from_secs(of_environment("DUETIME_INTERLEAVE_SECONDS").unwrap_or(SECONDS_DEFAULT));
    let first = of_environment("DUETIME_INTERLEAVE_SEED").unwrap_or(SEED_DEFAULT);
    let end = Instant::now() + length;
    let mut seed = first;
    let mut all = Report::default();
    // At least one of each kind.
    while seed < first + 2 || Instant::now() < end || all.lacks(&TRIED).is_some() && seed < first + WORLDS_MAX {
        let (one, other) = (tokio::spawn(World::run(seed)), tokio::spawn(World::run(seed + 1)));
        for report in [one.await.unwrap(), other.await.unwrap()] {
            all.add(report);
        }
        seed += 2;
    }
    println!("{} worlds from the seed {first}: {}", seed - first, all.counted());
    assert!(all.wrong.is_empty(), "{} things are wrong:\n{}", all.wrong.len(), all.wrong.join("\n"));
    assert_eq!(all.lacks(&TRIED), None, "was not tried");
}

fn of_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}
