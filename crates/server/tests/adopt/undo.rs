//! The way back of sorted sets.

use super::redis_source::{Adopt, OldSet, made, now_ms, report};
use crate::cli::server::Server;
use crate::cli::support::until;
use crate::common::Random;
use duetime_store::testing::RedisServer;
use serde_json::json;
use std::collections::BTreeMap;

const KEY: &str = "delayed";
const HOUR_MS: u64 = 3_600_000;

fn adopt<'a>(server: &'a Server, redis: &RedisServer) -> Adopt<'a> {
    Adopt::new(server, "zset", &redis.url(), KEY).with(&["--score", "seconds"])
}

/// The jobs that wait, by payload.
fn waiting(server: &Server) -> Vec<Vec<u8>> {
    let waits = |state: &serde_json::Value| state == "scheduled" || state == "ready";
    made(server).into_iter().filter(|job| waits(&job.job["state"])).map(|job| job.member).collect()
}

/// Members of all kinds, with whole seconds and fractions of them.
fn members(random: &mut Random, count: u64) -> BTreeMap<Vec<u8>, f64> {
    let member = |random: &mut Random, n: u64| match random.within(0..3) {
        0 => [&[0xff][..], &n.to_be_bytes()].concat(),
        1 => format!("order:{n}").into_bytes(),
        _ => format!(r#"{{"id":9007199254740993,"n":{n},"url":"https:\/\/a","sum":10.0,"{}":1}}"#, "x".repeat(300))
            .into(),
    };
    let score = |random: &mut Random| {
        let at_ms = now_ms() - HOUR_MS + random.within(0..300 * 24 * HOUR_MS);
        if random.percent(50) { (at_ms / 1_000) as f64 } else { format!("{:.3}", at_ms as f64 / 1e3).parse().unwrap() }
    };
    (0..count).map(|n| (member(random, n), score(random))).collect()
}

fn assert_same(old: &mut OldSet, members: &BTreeMap<Vec<u8>, f64>) {
    let found: BTreeMap<Vec<u8>, f64> = old.members().into_iter().collect();
    assert_eq!(found.len(), members.len());
    for (member, score) in members {
        // An instant is rounded up.
        let more = found[member] - score;
        assert!((0.0..0.0011).contains(&more) && (score.fract() > 0.0 || more == 0.0), "{score}: {more}");
    }
}

#[test]
fn what_a_drain_took_goes_back_byte_for_byte() {
    let seed = now_ms();
    println!("seed {seed}");
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut old = OldSet::open(&redis.url(), KEY);
    let members = members(&mut Random::new(seed), 1_200);
    old.add_all(&members.clone().into_iter().collect::<Vec<_>>());
    let adopt = adopt(&server, &redis);
    adopt.drain();
    assert_eq!((old.count(), waiting(&server).len()), (0, members.len()));
    let ran = adopt.run(&adopt.step("--undo"));
    assert_eq!((ran.code, report(&ran.out)), (0, json!({"returned": members.len(), "left": 0, "running": 0})));
    assert_same(&mut old, &members);
    assert!(waiting(&server).is_empty());
    let ran = adopt.run(&["--undo", "--yes", "zset"]);
    assert_eq!((ran.code, &*ran.out), (0, "0 jobs returned, 0 left, 0 running\n"));
}

/// Killed at any point, and run again.
#[test]
fn an_undo_that_is_killed_loses_and_doubles_nothing() {
    let seed = now_ms();
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut old = OldSet::open(&redis.url(), KEY);
    let members = members(&mut random, 3_000);
    old.add_all(&members.clone().into_iter().collect::<Vec<_>>());
    let adopt = adopt(&server, &redis);
    adopt.drain();
    let mut kills = 0;
    loop {
        let more = old.count() + random.within(0..400) as usize;
        let mut running = adopt.spawn("--undo");
        until("progress, or the end", || (old.count() > more || running.has_ended()).then_some(()));
        if running.has_ended() {
            let ran = running.wait();
            assert_eq!(ran.code, 0, "{ran:?}");
            break;
        }
        running.kill();
        kills += 1;
    }
    assert!(kills > 3, "{kills}");
    assert_same(&mut old, &members);
    assert!(waiting(&server).is_empty());
}

/// A set has a member once.
#[test]
fn a_job_whose_payload_is_a_member_with_another_score_stays() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut old = OldSet::open(&redis.url(), KEY);
    let later_s = now_ms() / 1_000 + 3_600;
    old.add(b"a", later_s);
    old.add(b"b", later_s);
    let adopt = adopt(&server, &redis);
    adopt.drain();
    old.add(b"a", later_s + 1);
    // As a run that was killed leaves it.
    old.add(b"b", later_s);
    let ran = adopt.run(&adopt.step("--undo"));
    assert_eq!((ran.code, report(&ran.out)), (65, json!({"returned": 1, "left": 1, "running": 0})));
    assert!(ran.err.contains("stays: its payload is a member already, with another score"), "{ran:?}");
    assert_eq!(old.members(), [(b"b".to_vec(), later_s as f64), (b"a".to_vec(), (later_s + 1) as f64)]);
    assert_eq!(waiting(&server), [b"a"]);
}

#[test]
fn an_undo_that_cannot_be_right_changes_nothing() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut old = OldSet::open(&redis.url(), "Queue:mail");
    old.add(b"a", now_ms() / 1_000 + 3_600);
    let adopt = Adopt::new(&server, "locked-set", &redis.url(), "Queue:mail");
    adopt.drain();
    for (options, code, expected) in [
        (&["--undo"][..], 2, "--yes"),
        (&["--undo", "--yes", "zset"], 2, "expected --yes locked-set, got --yes zset"),
        (&["--undo", "--drain", "--yes", "locked-set"], 2, "cannot be used with"),
        (&["--undo", "--yes", "locked-set"], 2, "--score seconds"),
    ] {
        let ran = adopt.run(options);
        assert!(ran.code == code && ran.err.contains(expected), "{options:?}: {ran:?}");
    }
    let undo = ["--undo", "--yes", "locked-set", "--score", "seconds"];
    redis.command(&["SET", "Lock:Queue:mail", "1"]);
    let ran = adopt.run(&undo);
    assert!(ran.code == 75 && ran.err.contains("while the lock \"Lock:Queue:mail\" exists"), "{ran:?}");
    redis.command(&["DEL", "Lock:Queue:mail"]);
    let log = "duetime:adopt:{Queue:mail}:Queue:mail:claims";
    redis.command(&["HSET", log, "adopt-1", "x"]);
    let ran = adopt.run(&undo);
    assert!(ran.code == 2 && ran.err.contains("with --drain --yes locked-set first"), "{ran:?}");
    redis.command(&["DEL", log]);
    assert_eq!((old.count(), waiting(&server).len()), (0, 1));
    let ran = adopt.run(&undo);
    assert_eq!((ran.code, old.count(), waiting(&server).len()), (0, 1, 0), "{ran:?}");
}
