//! From message_queue, whose listener loses jobs if another program removes what it has read.

use super::old_listener::{OldListener, member, now_s};
use super::redis_source::{Adopt, OldSet, made, now_ms, report};
use crate::cli::server::Server;
use crate::cli::support::{Place, until};
use crate::common::Random;
use duetime_store::testing::RedisServer;
use serde_json::Value;
use std::collections::HashMap;

const HOUR_S: i64 = 3_600;

/// Members of jobs that were made, sorted.
fn taken(server: &Server) -> Vec<Vec<u8>> {
    let mut members: Vec<Vec<u8>> = made(server).into_iter().map(|made| made.member).collect();
    members.sort_unstable();
    members
}

fn members(ids: &[&str]) -> Vec<Vec<u8>> {
    ids.iter().map(|id| member(id)).collect()
}

/// So it is unsafe to take due members, as from any other sorted set.
#[test]
fn the_listener_loses_a_job_where_a_due_one_is_removed_between_its_commands() {
    let redis = RedisServer::start();
    let mut old = OldListener::open(&redis.url(), "mail");
    [("a", -2), ("b", -1), ("c", HOUR_S)].into_iter().for_each(|(id, delay_s)| old.push(id, delay_s));
    assert_eq!(old.read(), 2);
    assert!(old.delayed.remove(&member("a")));
    old.remove();
    assert_eq!((old.listed(), old.left()), (members(&["a", "b"]), Vec::new()), "nobody has c, and a is there twice");
}

#[test]
fn what_is_taken_between_its_commands_is_beyond_what_it_has_read() {
    for ahead_s in [-50, 0, 50] {
        let (server, redis) = (Server::start(), RedisServer::start());
        let mut old = OldListener::open(&redis.url(), "mail");
        for (id, delay_s) in [("a", -100), ("b", -70), ("c", 40), ("d", 55), ("e", 90), ("f", HOUR_S)] {
            old.push(id, delay_s);
        }
        old.ahead_s = ahead_s;
        let count = old.read();
        let adopt = Adopt::new(&server, "message-queue", &redis.url(), "mail");
        assert_eq!(adopt.drain()["adopted"], 2);
        old.remove();
        assert_eq!(taken(&server), members(&["e", "f"]));
        let all = members(&["a", "b", "c", "d"]);
        let (moved, left) = all.split_at(count);
        assert_eq!((old.listed(), old.left()), (moved.to_vec(), left.to_vec()), "{ahead_s}");
        // The rest, once it is stopped.
        let ran = adopt.run(&["--drain", "--listener-stopped", "--yes", "message-queue", "--json"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.err.contains("loses jobs"), "{}", ran.err);
        assert_eq!(taken(&server), members(&["a", "b", "c", "d", "e", "f"]));
        assert_eq!((old.left().len(), old.listed().len()), (0, 0));
    }
}

/// So the distance must be longer than that.
#[test]
fn a_clock_that_is_further_ahead_than_the_safety_distance_doubles_a_job() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut old = OldListener::open(&redis.url(), "mail");
    old.push("a", 40);
    old.ahead_s = 50;
    assert_eq!(old.read(), 1);
    let adopt = Adopt::new(&server, "message-queue", &redis.url(), "mail").with(&["--safety", "10s"]);
    assert_eq!(adopt.drain()["adopted"], 1);
    old.remove();
    assert_eq!((old.listed(), taken(&server)), (members(&["a"]), members(&["a"])));
}

/// A producer and a listener, whose steps are interleaved with those of a follower in any order.
#[test]
fn a_follower_beside_the_listener_loses_and_doubles_nothing() {
    let seed = now_ms();
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut old = OldListener::open(&redis.url(), "mail");
    let adopt = Adopt::new(&server, "message-queue", &redis.url(), "mail");
    let mut follower = adopt.follow();
    let (mut total, mut ran) = (0_u64, Vec::new());
    for _ in 0..30_000 {
        match random.within(0..10) {
            0..4 => {
                let delay_s = random.within(0..160) as i64 - 5;
                old.push(&total.to_string(), delay_s.max(old.delay_min()));
                total += 1;
            }
            4 => old.ahead_s = random.within(0..105) as i64 - 50,
            5 | 6 => _ = old.read(),
            7 | 8 => old.remove(),
            _ => {
                if let Some(job) = old.pop() {
                    old.end(&job);
                    ran.push(job);
                }
            }
        }
        if random.within(0..3_000) == 0 {
            follower.kill();
            follower = adopt.follow();
        }
    }
    old.remove();
    follower.kill();
    let beside = made(&server).len();
    let ran_all = adopt.run(&["--drain", "--listener-stopped", "--yes", "message-queue"]);
    assert_eq!(ran_all.code, 0, "{ran_all:?}");
    let jobs = taken(&server);
    println!("{total} jobs, {} run by the listener, {beside} taken beside it", ran.len());
    assert!(beside > 0 && !ran.is_empty());
    assert_eq!((jobs.len() + ran.len()) as u64, total);
    let mut seen: HashMap<Vec<u8>, u64> = HashMap::new();
    jobs.into_iter().chain(ran).for_each(|job| *seen.entry(job).or_default() += 1);
    assert!(seen.len() as u64 == total && seen.values().all(|count| *count == 1), "each of them, once");
    assert_eq!(OldSet::open(&redis.url(), "queue:mail").claims(), 0);
}

#[test]
fn a_look_counts_what_is_left_to_the_listener() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut old = OldListener::open(&redis.url(), "mail");
    for (id, delay_s) in [("a", -100), ("b", 30), ("c", HOUR_S), ("d", 2 * HOUR_S)] {
        old.push(id, delay_s);
    }
    redis.command(&["RPUSH", "queue:mail:job", std::str::from_utf8(&member("e")).unwrap(), "no JSON"]);
    let (over, running) = ((now_s() - 5).to_string(), (now_s() + 500).to_string());
    redis.command(&["ZADD", "queue:mail:reserved", &over, "over", &running, "running"]);
    let counts = |look: &Value| -> Vec<[u64; 3]> {
        let parts = look["parts"].as_array().unwrap();
        parts.iter().map(|part| ["due", "later", "left"].map(|field| part[field].as_u64().unwrap())).collect()
    };
    let adopt = Adopt::new(&server, "message-queue", &redis.url(), "mail");
    let look = adopt.look();
    assert_eq!(counts(&look), [[0, 2, 2], [2, 0, 0], [0, 0, 2]], "{look}");
    assert_eq!((&look["unread"], look["samples"].as_array().unwrap().len()), (&1.into(), 6), "{look}");
    let notes = look["notes"].to_string();
    assert!(notes.contains("1 jobs are overdue by more than 1m") && notes.contains("within 1m"), "{notes}");
    let stopped = Adopt::new(&server, "message-queue", &redis.url(), "mail").with(&["--listener-stopped"]).look();
    assert_eq!(counts(&stopped), [[1, 3, 0], [2, 0, 0], [1, 0, 1]], "{stopped}");
    for (options, expected) in [
        (&["--listener-stopped", "--safety", "5s"][..], "cannot be used with"),
        (&["--drain", "--yes", "laravel"], "the layout that was recognised is message-queue"),
        (&["--safety", "soon"], "--safety"),
    ] {
        let ran = adopt.run(options);
        assert!(ran.code == 2 && ran.err.contains(expected), "{options:?}: {ran:?}");
    }
    assert_eq!(made(&server).len(), 0);
}

#[test]
fn a_drain_of_a_stopped_queue_keeps_members_times_and_order() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut old = OldListener::open(&redis.url(), "mail");
    let delays: Vec<i64> = (0..1_200).map(|n| n * 7 - 700).collect();
    let mut due: HashMap<Vec<u8>, u64> = HashMap::new();
    for (n, delay_s) in delays.iter().enumerate() {
        let at = now_s() + delay_s;
        old.delayed.add(&member(&n.to_string()), at);
        due.insert(member(&n.to_string()), at as u64 * 1_000);
    }
    let lost = member("lost");
    redis.command(&["ZADD", "queue:mail:reserved", &(now_s() - 5).to_string(), std::str::from_utf8(&lost).unwrap()]);
    redis.command(&["ZADD", "queue:mail:reserved", &(now_s() + 500).to_string(), "running"]);
    let adopt = Adopt::new(&server, "message-queue", &redis.url(), "mail").with(&["--listener-stopped"]);
    let report = adopt.drain();
    assert_eq!((&report["adopted"], &report["there"][0]["left"]), (&1_201.into(), &1.into()), "{report}");
    for made in made(&server) {
        let tags = made.job["tags"].to_string();
        assert!(tags.contains("adopted:mail") && tags.contains("id:"), "{tags}");
        if made.member != lost {
            assert_eq!(due.remove(&made.member), Some(made.due_at));
        }
    }
    assert_eq!((due.len(), &*redis.command(&["KEYS", "queue:*"])), (0, "queue:mail:reserved"));
}

#[test]
fn a_follower_of_a_stopped_queue_leaves_jobs_until_they_are_due() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut old = OldListener::open(&redis.url(), "mail");
    let follower = Adopt::new(&server, "message-queue", &redis.url(), "mail").with(&["--listener-stopped"]).follow();
    [("a", 0), ("b", HOUR_S), ("c", 1)].into_iter().for_each(|(id, delay_s)| old.push(id, delay_s));
    until("what is due is taken", || (taken(&server) == members(&["a", "c"])).then_some(()));
    for made in made(&server) {
        assert!(made.created_at >= made.due_at, "taken early: {}", made.job);
    }
    assert_eq!(follower.stop()["there"][0]["later"], 1);
}

#[test]
fn what_is_refused_goes_back_to_where_it_was() {
    let server = Server::start_in(Place::new(), &["--payload-max", "100KiB"]);
    let redis = RedisServer::start();
    let mut old = OldListener::open(&redis.url(), "mail");
    let large = |id: &str| member(&format!("{id}{}", "x".repeat(150_000)));
    for (n, id) in ["1", "2", "3"].into_iter().enumerate() {
        old.delayed.add(&large(id), now_s() + HOUR_S + n as i64);
        let mut push = redis::cmd("RPUSH");
        old.delayed.ask::<u64>(push.arg("queue:mail:job").arg(large(&format!("listed-{id}"))));
        old.push(&format!("small-{id}"), 2 * HOUR_S);
    }
    let mut push = redis::cmd("RPUSH");
    old.delayed.ask::<u64>(push.arg("queue:mail:job").arg(&b"\xff no JSON"[..]));
    let (delayed, listed) = (old.delayed.members(), old.listed());
    let adopt = Adopt::new(&server, "message-queue", &redis.url(), "mail");
    let ran = adopt.run(&["--drain", "--yes", "message-queue", "--json"]);
    assert_eq!(ran.code, 65, "{ran:?}");
    let report = report(&ran.out);
    assert_eq!((&report["adopted"], &report["refused"]), (&3.into(), &7.into()), "{report}");
    assert!(ran.err.contains("not a job of message_queue"), "{}", ran.err);
    assert_eq!((old.delayed.members(), old.listed()), (delayed[..3].to_vec(), listed));
}

#[test]
fn the_names_of_the_article_are_found_and_those_of_laravel_are_not_taken_for_them() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let at = (now_s() + HOUR_S).to_string();
    let job = member("1");
    let adopt = Adopt::new(&server, "message-queue", &redis.url(), "mail");
    assert!(adopt.look()["why"].as_str().unwrap().starts_with("there are no jobs in"));
    let laravel = r#"{"uuid":"1","displayName":"App\\Jobs\\Mail","job":"Illuminate\\Queue\\CallQueuedHandler@call"}"#;
    redis.command(&["ZADD", "queues:mail:delayed", &at, laravel]);
    let ran = adopt.run(&["--drain", "--yes", "message-queue"]);
    assert!(ran.code == 2 && ran.err.contains("not jobs of message-queue") && ran.err.contains("Laravel"), "{ran:?}");
    redis.command(&["ZADD", "queues:mail:delayed", &at, std::str::from_utf8(&job).unwrap()]);
    redis.command(&["ZREM", "queues:mail:delayed", laravel]);
    assert_eq!(adopt.look()["parts"][0]["name"], "queues:mail:delayed");
    redis.command(&["RPUSH", "queue:mail:job", std::str::from_utf8(&member("2")).unwrap()]);
    let ran = adopt.run(&[]);
    assert!(ran.code == 2 && ran.err.contains("--naming code or --naming article"), "{ran:?}");
    let adopt = adopt.with(&["--naming", "article"]);
    assert_eq!(adopt.drain()["adopted"], 1);
    assert_eq!((taken(&server), &*redis.command(&["KEYS", "queue*"])), (vec![job], "queue:mail:job"));
}
