//! The command and Redis are killed, and each member is one job or one run of an old consumer.

use super::redis_source::{Adopt, Ends, Made, OldSet, Running, made, now_ms};
use crate::cli::server::Server;
use crate::cli::support::until;
use crate::common::Random;
use duetime_store::testing::RedisServer;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

const KEY: &str = "delayed";
/// Commands of Redis that it calls while it works. A follower with nothing to do calls only the first.
const CALLS: [&str; 4] = ["eval", "hdel", "hscan", "hset"];
/// Rounds of the usual tests.
const KILLS: u64 = 24;
const REDIS_KILLS: u64 = 8;

/// Waits until it has called something so many times more, or has ended.
fn wait_for_progress(old: &mut OldSet, running: &mut Running, step: &str, random: &mut Random) {
    let place = if step == "--drain" { random.within(0..CALLS.len() as u64) } else { 0 };
    let name = CALLS[place as usize];
    let by = if name == "hset" { random.within(0..1_500) } else { random.within(0..4) };
    let before = old.calls(name);
    until("progress, or the end", || (old.calls(name) >= before + by || running.has_ended()).then_some(()));
}

/// Adds members that nobody added before: half of them due, and half of them later.
fn add(old: &mut OldSet, random: &mut Random, total: &mut u64) {
    let now = now_ms();
    let count = random.within(200..900);
    let member = |n: u64| {
        let score = if n.is_multiple_of(2) { now - 1 - n % 1_000 } else { now + 3_600_000 + n };
        (format!("member-{n}").into_bytes(), score as f64)
    };
    old.add_all(&(*total..*total + count).map(member).collect::<Vec<_>>());
    *total += count;
}

/// Each is there once, with its due time.
fn check(jobs: Vec<Made>, ran: Vec<Vec<u8>>, total: u64) {
    println!("{total} members, {} run by the consumer", ran.len());
    assert_eq!((jobs.len() + ran.len()) as u64, total);
    let mut seen: HashMap<Vec<u8>, u64> = HashMap::new();
    for job in &jobs {
        let number: u64 = job.key.as_ref().unwrap().trim_start_matches("member-").parse().unwrap();
        assert_eq!(job.job["state"], if number.is_multiple_of(2) { "ready" } else { "scheduled" }, "{}", job.job);
    }
    jobs.into_iter().map(|job| job.member).chain(ran).for_each(|member| *seen.entry(member).or_default() += 1);
    assert!(seen.len() as u64 == total && seen.values().all(|count| *count == 1), "each of them, once");
}

/// An old consumer, which runs what its own ZREM has removed.
fn consume(url: &str, is_over: &AtomicBool, ran: &Mutex<Vec<Vec<u8>>>) {
    let mut old = OldSet::open(url, KEY);
    while !is_over.load(Ordering::Relaxed) {
        let removed: Vec<_> = old.due(5).into_iter().filter(|member| old.remove(member)).collect();
        ran.lock().unwrap().extend(removed);
    }
}

pub(super) fn kill_the_command(kills: u64) {
    let seed = now_ms();
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let (server, redis) = (Server::start(), RedisServer::start());
    let url = redis.url();
    let adopt = Adopt::new(&server, "zset", &url, KEY).with(&["--score", "milliseconds"]);
    let mut old = OldSet::open(&url, KEY);
    let (mut total, ran, is_over) = (0, Mutex::new(Vec::new()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| consume(&url, &is_over, &ran));
        let _ends = Ends(&is_over);
        for _ in 0..kills {
            add(&mut old, &mut random, &mut total);
            let step = if random.percent(70) { "--drain" } else { "--follow" };
            let mut running = adopt.spawn(step);
            wait_for_progress(&mut old, &mut running, step, &mut random);
            // Now and then two at once.
            let other = random.percent(25).then(|| adopt.spawn("--drain"));
            running.kill();
            if let Some(mut other) = other {
                wait_for_progress(&mut old, &mut other, "--drain", &mut random);
                other.kill();
            }
        }
        adopt.drain();
    });
    assert_eq!((old.count(), old.claims()), (0, 0));
    check(made(&server), ran.into_inner().unwrap(), total);
}

#[test]
fn kill_of_the_command_beside_a_consumer_loses_and_doubles_nothing() {
    kill_the_command(KILLS);
}

pub(super) fn kill_redis(kills: u64) {
    let seed = now_ms();
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let server = Server::start();
    let mut redis = RedisServer::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let url = redis.url();
    let adopt = Adopt::new(&server, "zset", &url, KEY).with(&["--score", "milliseconds"]);
    let mut total = 0;
    for round in 0..kills {
        let mut old = OldSet::open(&url, KEY);
        add(&mut old, &mut random, &mut total);
        let mut running = adopt.spawn("--drain");
        wait_for_progress(&mut old, &mut running, "--drain", &mut random);
        // Either both die, or the command finds it again.
        let both = round % 2 == 0;
        redis.kill();
        if both {
            running.kill();
            redis.start_again();
        } else {
            redis.start_again();
            let ran = running.wait();
            // Before it has begun it does not wait.
            let has_looked = !ran.out.is_empty();
            assert_eq!(ran.code, if has_looked { 0 } else { 75 }, "{ran:?}");
        }
    }
    adopt.drain();
    let mut old = OldSet::open(&url, KEY);
    assert_eq!((old.count(), old.claims()), (0, 0));
    check(made(&server), Vec::new(), total);
}

/// An answer of Redis means that its disk has it.
#[test]
fn kill_of_redis_with_its_log_loses_and_doubles_nothing() {
    kill_redis(REDIS_KILLS);
}

#[test]
fn claims_wait_while_there_is_no_server() {
    let mut server = Server::start();
    let redis = RedisServer::start();
    let mut old = OldSet::open(&redis.url(), KEY);
    let mut total = 0;
    add(&mut old, &mut Random::new(1), &mut total);
    let adopt = Adopt::new(&server, "zset", &redis.url(), KEY);
    let mut running = adopt.spawn("--drain");
    until("some are claimed", || (old.calls("hset") > 0 || running.has_ended()).then_some(()));
    running.kill();
    let mut process = server.child.take().unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    let adopt = Adopt::new(&server, "zset", &redis.url(), KEY);
    let ran = adopt.run(&["--drain", "--yes", "zset"]);
    assert_eq!(ran.code, 75, "nobody to push to: {ran:?}");
    let server = Server::start_in(std::mem::replace(&mut server.place, crate::cli::support::Place::new()), &[]);
    Adopt::new(&server, "zset", &redis.url(), KEY).drain();
    assert_eq!((old.count(), old.claims()), (0, 0));
    check(made(&server), Vec::new(), total);
}
