//! The real server, killed with SIGKILL under load and started again on the same file, over and over: every job that
//! was acknowledged is accounted for.
//!
//! `DUETIME_KILL_ROUNDS` says how often (24 if it is not set), `DUETIME_KILL_SEED` repeats the choices of a run; when
//! which request is answered is up to the machine.

mod account;
mod actors;
#[path = "../common/mod.rs"]
mod common;
mod lease;
mod verdict;

use actors::{Field, QUEUE};
use common::{Random, Site};
use duetime::Client;
use duetime_core::engine::Query;
use duetime_core::{Job, JobId};
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::task::spawn_blocking;
use verdict::Verdict;

const ROUNDS_DEFAULT: u64 = 24;
/// Answers between a start and the next kill.
const ANSWERS: std::ops::Range<u64> = 10..1_200;
/// The percentage of kills after which a server is also killed while it starts.
const STUMBLES_PERCENT: u64 = 12;
const PUSHERS: u64 = 3;
const WORKERS: u64 = 4;
const CANCELLERS: u64 = 2;
const PAGE_JOBS: usize = 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acknowledged_job_is_accounted_for_after_kills() {
    let rounds = of_environment("DUETIME_KILL_ROUNDS").unwrap_or(ROUNDS_DEFAULT);
    let seed = of_environment("DUETIME_KILL_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("{rounds} rounds with DUETIME_KILL_SEED={seed}");
    let mut random = Random::new(seed);
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().canonicalize().unwrap().join("duetime.db");
    let site = Arc::new(Site::start(&store));
    let field = Field::new(site.clone());

    let mut all: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = Vec::new();
    let mut own = || Random::new(random.any());
    all.extend((0..PUSHERS).map(|_| Box::pin(field.push(own())) as _));
    all.extend((0..WORKERS).map(|_| Box::pin(field.work(own())) as _));
    all.extend((0..CANCELLERS).map(|_| Box::pin(field.cancel(own())) as _));
    let kills = own();
    all.push(Box::pin(async {
        kill_rounds(&site, rounds, kills).await;
        field.is_closing.set(true);
    }));
    join_all(all).await;

    let before = records(&site).await;
    kill_and_start(&site, false).await;
    let records = records(&site).await;
    let verdict = Verdict::of(&field.account.borrow(), &records);
    println!("{verdict}");
    let is_kept = before == records;
    if !verdict.wrong.is_empty() || !is_kept {
        for (id, epoch, because) in &verdict.repeated {
            println!("{id}.{epoch}: {because:?}");
        }
        println!("kills: {:?}", site.kills());
        println!("the store and its log are kept in {:?}", folder.keep());
    }
    assert!(verdict.wrong.is_empty(), "{} things are wrong:\n{}", verdict.wrong.len(), verdict.wrong.join("\n"));
    assert!(is_kept, "the last kill changed a record");
    for what in ["succeeded", "failed", "cancelled", "pushes that found their key held", "ends refused"] {
        assert!(verdict.counted(what) > 0 || rounds < ROUNDS_DEFAULT, "nothing was tried: {what}");
    }
    let after_a_restart = verdict.counted("ends acknowledged after a restart");
    assert!(after_a_restart > 0 || rounds < ROUNDS_DEFAULT, "no lease outlived a kill");
}

async fn kill_rounds(site: &Arc<Site>, rounds: u64, mut random: Random) {
    for _ in 0..rounds {
        site.answered(site.answered_so_far() + random.within(ANSWERS)).await;
        kill_and_start(site, random.percent(STUMBLES_PERCENT)).await;
    }
}

async fn kill_and_start(site: &Arc<Site>, stumbles: bool) {
    let site = site.clone();
    let again = move || {
        site.kill();
        if stumbles {
            site.stumble();
        }
        site.start_again();
    };
    spawn_blocking(again).await.unwrap();
}

/// All jobs there are.
async fn records(site: &Site) -> BTreeMap<JobId, Job> {
    let query = Query { queue: Some(Arc::from(QUEUE)), ..Query::default() };
    let mut records = BTreeMap::new();
    let mut cursor: Option<String> = None;
    loop {
        let request = async |client: Client| client.jobs().page(&query, cursor.as_deref(), PAGE_JOBS).await;
        let (_, page) = site.call(|_| false, request).await.answer.expect("nobody kills it now");
        let page = page.unwrap();
        records.extend(page.jobs.into_iter().map(|job| (job.id, job)));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return records;
        }
    }
}

fn of_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}
