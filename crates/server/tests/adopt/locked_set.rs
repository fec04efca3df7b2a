//! Sorted sets that are used under a lock.

use super::redis_source::{Adopt, Ends, OldSet, made, now_ms, report};
use crate::cli::server::Server;
use crate::cli::support::until;
use crate::common::Random;
use duetime_store::testing::RedisServer;
use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::sync::atomic::{AtomicBool, Ordering};

const KEY: &str = "Queue:mail";
const LOCK: &str = "Lock:Queue:mail";

fn adopt<'a>(server: &'a Server, redis: &RedisServer) -> Adopt<'a> {
    Adopt::new(server, "locked-set", &redis.url(), KEY)
}

#[test]
fn nothing_is_taken_while_the_lock_exists() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut old = OldSet::open(&redis.url(), KEY);
    let now = now_ms() as f64 / 1e3;
    old.add_all(&[(b"due".to_vec(), now - 5.0), (b"later".to_vec(), now + 3_600.5)]);
    let look = adopt(&server, &redis).look();
    assert!(look["why"].as_str().unwrap().contains("2 members whose scores are seconds"), "{look}");
    assert!(!look["notes"].to_string().contains("exists now"), "{look}");
    redis.command(&["SET", LOCK, "1"]);
    let look = adopt(&server, &redis).look();
    assert!(look["notes"].to_string().contains("It exists now."), "{look}");

    // A drain says why it does not go on.
    let mut drain = adopt(&server, &redis).spawn("--drain");
    let mut err = BufReader::new(drain.0.as_mut().unwrap().stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = err.find(|line| line.contains("trying again")).unwrap();
    assert!(line.contains("the lock \"Lock:Queue:mail\" exists"), "{line}");
    // A follower asks again.
    let follower = adopt(&server, &redis).follow();
    let before = old.calls("eval");
    until("it is asked often", || (old.calls("eval") > before + 20).then_some(()));
    assert_eq!((old.count(), made(&server).len()), (2, 0));
    redis.command(&["DEL", LOCK]);
    let ran = drain.wait();
    assert_eq!(ran.code, 0, "{ran:?}");
    follower.stop();
    assert_eq!((old.count(), old.claims()), (0, 0));
    let jobs = made(&server);
    let later = jobs.iter().find(|job| job.key.as_deref() == Some("later")).unwrap();
    let exact = (now + 3_600.5) * 1e3;
    assert!(later.due_at as f64 >= exact && (later.due_at as f64) < exact + 1.1, "{exact}: {later:?}");
    assert_eq!(jobs.len(), 2);
}

#[test]
fn a_repeat_of_a_job_that_waits_keeps_the_first() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut old = OldSet::open(&redis.url(), KEY);
    let now = now_ms() / 1_000;
    for score in [now + 1_000, now + 2_000] {
        old.add(b"again", score);
        assert_eq!(adopt(&server, &redis).drain()["adopted"], 1);
    }
    let jobs = made(&server);
    assert_eq!((jobs.len(), jobs[0].due_at), (1, (now + 1_000) * 1_000));
}

#[test]
fn what_is_refused_goes_back_only_while_nobody_has_the_lock() {
    let redis = RedisServer::start();
    let server = Server::start_in(crate::cli::support::Place::new(), &["--payload-max", "10KiB"]);
    let mut old = OldSet::open(&redis.url(), KEY);
    let large = vec![b'x'; 20_000];
    old.add(&large, 1_700_000_000);
    let follower = adopt(&server, &redis).follow();
    until("it is claimed", || (old.claims() == 1).then_some(()));
    redis.command(&["SET", LOCK, "1"]);
    nix::sys::signal::kill(crate::cli::support::pid(follower.0.as_ref().unwrap()), nix::sys::signal::Signal::SIGTERM)
        .unwrap();
    let ran = follower.wait();
    assert_eq!(ran.code, 75, "{ran:?}");
    assert_eq!((old.count(), old.claims()), (0, 1));
    redis.command(&["DEL", LOCK]);
    let ran = adopt(&server, &redis).run(&["--drain", "--yes", "locked-set", "--json"]);
    assert_eq!((ran.code, &report(&ran.out)["refused"]), (1, &1.into()), "{ran:?}");
    assert_eq!((old.score(&large), old.claims()), (Some(1_700_000_000.0), 0));
}

/// The lock of the old code, by who holds it.
struct Held<'a> {
    old: &'a mut OldSet,
    owner: String,
}

impl<'a> Held<'a> {
    fn acquire(old: &'a mut OldSet, owner: &str) -> Self {
        while !old.ask::<bool>(redis::cmd("SETNX").arg(LOCK).arg(owner)) {
            std::thread::yield_now();
        }
        Self { old, owner: owner.to_owned() }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let holder: String = self.old.ask(redis::cmd("GET").arg(LOCK));
        assert_eq!(holder, self.owner, "nobody else touches the lock");
        self.old.ask::<u64>(redis::cmd("DEL").arg(LOCK));
    }
}

/// Adds members that are not there, under the lock. Answers how often each was added.
fn produce(url: &str, seed: u64) -> HashMap<Vec<u8>, usize> {
    let (mut old, mut random) = (OldSet::open(url, KEY), Random::new(seed));
    let mut added = HashMap::new();
    for _ in 0..400 {
        let held = Held::acquire(&mut old, &format!("producer {seed}"));
        let member = [&[0xff][..], format!("{}", random.within(0..100)).as_bytes()].concat();
        // A repeat keeps the first.
        if held.old.score(&member).is_none() {
            let is_new = held.old.add(&member, (now_ms() + random.within(0..50)) as f64 / 1e3);
            assert!(is_new, "nobody adds without the lock");
            *added.entry(member).or_default() += 1;
        }
    }
    added
}

/// Reads what is due and then removes it, under the lock, with nothing in between.
fn consume(url: &str, is_over: &AtomicBool) -> HashMap<Vec<u8>, usize> {
    let mut old = OldSet::open(url, KEY);
    let mut ran = HashMap::new();
    while !is_over.load(Ordering::Relaxed) {
        let held = Held::acquire(&mut old, "consumer");
        let mut due = redis::cmd("ZRANGEBYSCORE");
        due.arg(KEY).arg("-inf").arg(now_ms() as f64 / 1e3).arg("LIMIT").arg(0).arg(3);
        let members: Vec<Vec<u8>> = held.old.ask(&due);
        for member in members {
            assert!(held.old.remove(&member), "what is read under the lock is there until it is removed");
            *ran.entry(member).or_default() += 1;
        }
    }
    ran
}

#[test]
fn producers_and_consumers_under_the_lock_lose_and_double_nothing() {
    let seed = now_ms();
    println!("seed {seed}");
    let (server, redis) = (Server::start(), RedisServer::start());
    let url = redis.url();
    let follower = adopt(&server, &redis).with(&["--score", "seconds"]).follow();
    let is_over = AtomicBool::new(false);
    let (added, ran) = std::thread::scope(|scope| {
        let consumer = scope.spawn(|| consume(&url, &is_over));
        let ends = Ends(&is_over);
        let producers = [seed, seed + 1].map(|seed| {
            scope.spawn({
                let url = &url;
                move || produce(url, seed)
            })
        });
        let mut added: HashMap<Vec<u8>, usize> = HashMap::new();
        for producer in producers {
            producer.join().unwrap().into_iter().for_each(|(member, count)| *added.entry(member).or_default() += count);
        }
        drop(ends);
        (added, consumer.join().unwrap())
    });
    let mut old = OldSet::open(&url, KEY);
    until("all is taken", || (old.count() + old.claims() == 0).then_some(()));
    follower.stop();
    let mut came_to = ran.clone();
    made(&server).into_iter().for_each(|job| *came_to.entry(job.member).or_default() += 1);
    println!("{} added, {} run by the consumer", added.values().sum::<usize>(), ran.values().sum::<usize>());
    // These members are no keys: each claim is a job.
    assert_eq!(came_to, added);
}
