//! The orders of a shop: pushed with due times over a minute, a third of them cancelled by tag before they are due, the
//! others worked off by two `duetime work` processes and a worker in Rust, all over HTTP, while the server is killed
//! with SIGKILL and started again.
//!
//! `DUETIME_ORDERS` says how many (3,000 if it is not set: over 6 s, with 2 kills; 100,000 are 60 s and 5 kills).

mod runs;
mod shop;
mod verdict;
mod workers;

use crate::common::Site;
use futures_util::future::{join, join_all};
use runs::Runs;
use shop::{COUNTERS, Shop};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;
use verdict::Verdict;
use workers::{CommandWorker, RustWorker};

const ORDERS_DEFAULT: u64 = 3_000;
/// Orders due in a second.
const ORDERS_PER_SECOND: u64 = 1_666;
const SPAN_SECONDS_MIN: u64 = 6;
/// From this many orders on, the server is killed as often as in the full scenario.
const MANY: u64 = 50_000;
const KILLS_OF_MANY: u64 = 5;
const KILLS_OF_FEW: u64 = 2;
/// Nothing here takes this much longer than the time over which orders are due.
const TIME_LIMIT: Duration = Duration::from_secs(240);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_are_worked_off_through_kills() {
    let orders = std::env::var("DUETIME_ORDERS").map_or(ORDERS_DEFAULT, |text| text.parse().expect("a number"));
    let span = Duration::from_secs((orders / ORDERS_PER_SECOND).max(SPAN_SECONDS_MIN));
    let kills = if orders >= MANY { KILLS_OF_MANY } else { KILLS_OF_FEW };
    let folder = tempfile::tempdir().unwrap();
    let site = Arc::new(Site::start_on_a_fixed_port(&folder.path().join("duetime.db")));
    let shop = Shop::new(site.clone(), orders, span);
    let runs = Runs::default();
    let commands = [1, 2].map(|n| CommandWorker::start(&site, folder.path(), n));
    let rust = RustWorker::start(&site, &runs);

    let is_over = Cell::new(false);
    let scenario = async {
        // The first kill comes while orders are pushed and cancelled, the others while they are worked off.
        let opening = join_all((0..COUNTERS).map(|counter| shop.push_and_cancel(counter)));
        join(opening, kill_while(&site, &shop, kills)).await;
        shop.wait_until_worked_off().await;
        is_over.set(true);
    };
    let all = join(scenario, shop.keep_writing(&is_over));
    tokio::time::timeout(span + TIME_LIMIT, all).await.expect("the orders are worked off in time");

    let summary = rust.stop().await;
    let mut all_runs = runs.take();
    for command in commands {
        all_runs.extend(command.stop());
    }
    let records = shop.records().await;
    let verdict = Verdict::of(&shop, all_runs, &records, &site.kills());
    println!("{orders} orders over {span:?}, {} kills; the Rust worker: {summary:?}\n{verdict}", site.kills().len());
    if !verdict.wrong.is_empty() {
        println!("the store and all logs are kept in {:?}", folder.keep());
    }
    assert!(verdict.wrong.is_empty(), "{} things are wrong:\n{}", verdict.wrong.len(), verdict.wrong.join("\n"));
    assert_eq!(site.kills().len() as u64, kills);
}

/// Kills the server at this many points of the run, and starts it again.
async fn kill_while(site: &Arc<Site>, shop: &Shop, kills: u64) {
    for n in 0..kills {
        if n == 0 {
            shop.until_half_is_cancelled().await;
        } else {
            shop.until_due(n * 100 / kills).await;
        }
        let site = site.clone();
        let again = move || {
            site.kill();
            site.start_again();
        };
        spawn_blocking(again).await.unwrap();
    }
}
