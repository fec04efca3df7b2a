//! The command is killed beside workers of BullMQ, and each job is adopted or run by them, exactly once.

use super::old_bullmq::OldQueue;
use super::redis_source::{Adopt, Ends, OldSet, Running, made, now_ms};
use crate::cli::server::Server;
use crate::cli::support::until;
use crate::common::Random;
use duetime_store::testing::RedisServer;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the command calls while it works, and nobody else here.
const CALLS: [&str; 5] = ["hgetall", "lrange", "hdel", "hscan", "hlen"];
const KILLS: u64 = 36;

fn wait_for_progress(log: &mut OldSet, running: &mut Running, random: &mut Random) {
    let name = CALLS[random.within(0..CALLS.len() as u64) as usize];
    let by = if name == "hgetall" { random.within(0..900) } else { random.within(0..6) };
    let before = log.calls(name);
    until("progress, or the end", || (log.calls(name) >= before + by || running.has_ended()).then_some(()));
}

/// Adds jobs that nobody added before, whose data is their number and bytes of any kind.
fn add(queue: &mut OldQueue, random: &mut Random, total: &mut u64) {
    for _ in 0..random.within(200..700) {
        let id = if random.percent(80) { total.to_string() } else { format!("custom-{total}") };
        let data = [total.to_string().as_bytes(), b"\0\xff"].concat();
        queue.hash(&id, &data, &[]);
        match random.within(0..4) {
            0 => queue.wait(&id),
            1 => queue.prioritized(&id, random.within(1..9), *total),
            2 => queue.delayed(&id, now_ms() + random.within(0..3_000)),
            _ => queue.delayed(&id, now_ms() + 3_600_000),
        }
        *total += 1;
    }
}

fn work(url: &str, is_over: &AtomicBool, ran: &Mutex<Vec<Vec<u8>>>) {
    let mut queue = OldQueue::open(url, "mail");
    while !is_over.load(Ordering::Relaxed) {
        let data = queue.run_next();
        ran.lock().unwrap().extend(data);
    }
}

#[test]
fn kill_of_the_command_beside_workers_of_bullmq_loses_and_doubles_nothing() {
    let seed = now_ms();
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let (server, redis) = (Server::start(), RedisServer::start());
    let url = redis.url();
    let adopt = Adopt::new(&server, "bullmq", &url, "mail");
    let (mut queue, mut log) = (OldQueue::bullmq(&url, "mail"), OldSet::open(&url, "bull:mail"));
    let empty = queue.snapshot();
    let (mut total, ran, is_over) = (0, Mutex::new(Vec::new()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| work(&url, &is_over, &ran));
        let _ends = Ends(&is_over);
        for _ in 0..KILLS {
            add(&mut queue, &mut random, &mut total);
            let mut running = adopt.spawn("--drain");
            wait_for_progress(&mut log, &mut running, &mut random);
            // Now and then two at once.
            let other = random.percent(30).then(|| adopt.spawn("--drain"));
            running.kill();
            if let Some(mut other) = other {
                wait_for_progress(&mut log, &mut other, &mut random);
                other.kill();
            }
        }
        adopt.drain();
    });
    let (jobs, ran) = (made(&server), ran.into_inner().unwrap());
    println!("{total} jobs, {} run by the worker", ran.len());
    assert_eq!((jobs.len() + ran.len()) as u64, total);
    let mut seen: HashMap<Vec<u8>, u64> = HashMap::new();
    jobs.into_iter().map(|made| made.member).chain(ran).for_each(|data| *seen.entry(data).or_default() += 1);
    assert!(seen.len() as u64 == total && seen.values().all(|count| *count == 1), "each of them, once");
    assert_eq!((queue.snapshot(), log.claims()), (empty, 0));
}

/// One takes what the other leaves, and none takes what the other has.
#[test]
fn two_commands_at_once_take_each_job_once() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let url = redis.url();
    let mut queue = OldQueue::bullmq(&url, "mail");
    let (mut random, mut total) = (Random::new(7), 0);
    (0..12).for_each(|_| add(&mut queue, &mut random, &mut total));
    let adopt = Adopt::new(&server, "bullmq", &url, "mail");
    let both = [adopt.spawn("--drain"), adopt.spawn("--drain")];
    for running in both {
        let ran = running.wait();
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    adopt.drain();
    let jobs = made(&server);
    let mut numbers: Vec<Vec<u8>> = jobs.into_iter().map(|made| made.member).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!((numbers.len() as u64, made(&server).len() as u64), (total, total));
    assert_eq!(OldSet::open(&url, "bull:mail").claims(), 0);
}
