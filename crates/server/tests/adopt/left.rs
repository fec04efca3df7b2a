//! Claims of an earlier run, and requests without an answer.

use super::framework::{LARAVEL, LARAVEL_CLAIMS, LIST, adopt as run, laravel, number, step};
use super::redis_source::{Adopt, OldSet, QUEUE, jobs_made, made, now_ms, report};
use crate::cli::server::Server;
use crate::cli::support::{pid, until};
use duetime_store::testing::RedisServer;
use nix::sys::signal::{Signal, kill};
use std::time::{Duration, Instant};

const KEY: &str = "delayed";

/// Writes a claim as a run does that is killed before it removes it.
fn claim(redis: &RedisServer, log: &str, texts: &[&str]) {
    let packed: String = texts.iter().map(|text| format!("{}:{text}", text.len())).collect();
    redis.command(&["HSET", log, "adopt-0000-1", &packed]);
}

fn claim_of_set(redis: &RedisServer, member: &str, score: u64) {
    claim(redis, "duetime:adopt:{delayed}:delayed:claims", &[member, &score.to_string(), "milliseconds"]);
}

/// The key is of another type since, or all that is left there cannot be read.
#[test]
fn claims_are_finished_although_the_source_is_not_recognised_any_more() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut old = OldSet::open(&redis.url(), KEY);
    redis.command(&["HSET", KEY, "a", "b"]);
    let adopt = Adopt::new(&server, "zset", &redis.url(), KEY);
    let ran = adopt.run(&adopt.step("--drain"));
    assert!(ran.code == 1 && ran.out.is_empty() && ran.err.contains("it is a hash"), "nothing is left: {ran:?}");
    claim_of_set(&redis, "left", now_ms());
    let ran = adopt.run(&adopt.step("--drain"));
    assert!(ran.code == 1 && ran.err.contains("must be a sorted set; it is a hash"), "{ran:?}");
    assert_eq!((&report(&ran.out)["adopted"], old.claims(), jobs_made(&server)), (&1.into(), 0, 1), "{ran:?}");

    redis.command(&["RPUSH", LIST, "no job"]);
    claim(&redis, LARAVEL_CLAIMS, &[LIST, &laravel(7, ""), "1700000000"]);
    let ran = run(&server, &redis, &step(&LARAVEL, "--follow"));
    assert!(ran.code == 2 && ran.err.contains("these are not jobs of laravel"), "{ran:?}");
    assert_eq!((number(&redis, &["HLEN", LARAVEL_CLAIMS]), number(&redis, &["LLEN", LIST])), (0, 1));
    assert_eq!(made(&server).iter().filter(|made| made.member == laravel(7, "").as_bytes()).count(), 1);
}

/// The answer to the push of a repeat is lost, and the job has run before the push is repeated.
#[test]
fn a_repeat_whose_answer_is_lost_changes_the_job_once() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut old = OldSet::open(&redis.url(), KEY);
    let adopt = Adopt::new(&server, "zset", &redis.url(), KEY);
    old.add(b"order", now_ms() + 3_600_000);
    adopt.drain();
    let now = now_ms();
    for (has_run, repeated) in [(false, 0), (true, 1)] {
        claim_of_set(&redis, "order", now);
        assert_eq!(adopt.drain()["repeated"], repeated);
        let jobs = made(&server);
        assert_eq!((jobs.len(), jobs[0].due_at, old.claims()), (1, now, 0), "{jobs:?}");
        assert_eq!(jobs[0].job["tags"], serde_json::json!(["adopted:delayed", "claim:adopt-0000-1"]));
        if !has_run {
            assert_eq!(server.run(&["take", QUEUE]).code, 0);
        }
    }
    // Another repeat is another job, once that one has started.
    old.add(b"order", now);
    adopt.drain();
    assert_eq!(jobs_made(&server), 2);
}

#[test]
fn a_command_ends_soon_after_its_signal_though_the_server_never_answers() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut old = OldSet::open(&redis.url(), KEY);
    let adopt = Adopt::new(&server, "zset", &redis.url(), KEY);
    let follower = adopt.follow();
    old.add(b"first", now_ms());
    until("it has begun", || (jobs_made(&server) == 1 && old.claims() == 0).then_some(()));
    let process = pid(server.child.as_ref().unwrap());
    kill(process, Signal::SIGSTOP).unwrap();
    old.add(b"second", now_ms());
    until("it is claimed", || (old.claims() == 1).then_some(()));
    let begin = Instant::now();
    kill(pid(follower.0.as_ref().unwrap()), Signal::SIGTERM).unwrap();
    let ran = follower.wait();
    let took = begin.elapsed();
    kill(process, Signal::SIGCONT).unwrap();
    assert!(ran.code == 75 && ran.err.contains("1 jobs stay claimed"), "{ran:?}");
    assert!(took < Duration::from_secs(20), "a call has 30 s: {took:?}");
    assert_eq!(old.claims(), 1);
    adopt.drain();
    assert_eq!((old.claims(), jobs_made(&server)), (0, 2));
}
