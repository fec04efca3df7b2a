//! Plain sorted sets.

use super::redis_source::{Adopt, OldSet, QUEUE, jobs_made, made, now_ms, report};
use crate::cli::server::Server;
use crate::cli::support::{Place, until};
use crate::common::Random;
use duetime_store::testing::RedisServer;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const KEY: &str = "delayed";
const HOUR_MS: u64 = 3_600_000;

fn adopt<'a>(server: &'a Server, redis: &RedisServer) -> Adopt<'a> {
    Adopt::new(server, "zset", &redis.url(), KEY)
}

#[test]
fn a_look_changes_nothing_and_says_what_it_recognised() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut old = OldSet::open(&redis.url(), KEY);
    let now_s = now_ms() / 1_000;
    for n in 0..5 {
        old.add(format!("order-{n}").as_bytes(), now_s - 60);
    }
    for n in 5..12 {
        old.add(format!("order-{n}").as_bytes(), (now_s + 3_600) as f64 + 0.25);
    }
    let before = old.members();
    let look = adopt(&server, &redis).look();
    assert_eq!(look["layout"], "zset");
    assert_eq!(look["why"], "a sorted set of 12 members whose scores are seconds since 1970");
    assert_eq!(look["parts"], json!([{"name": KEY, "due": 5, "later": 7, "left": 0, "unchecked": 0}]));
    assert_eq!((look["samples"].as_array().unwrap().len(), &look["unread"]), (10, &0.into()));
    assert_eq!(look["samples"][0]["due_at_ms"], (now_s - 60) * 1_000);
    assert_eq!(look["samples"][9]["due_at_ms"], (now_s + 3_600) * 1_000 + 250);
    let shown = adopt(&server, &redis).run(&[]);
    for text in ["recognised: zset", "order-0", ".25 seconds", "in 60 min", "--drain --yes zset", "ZREM"] {
        assert!(shown.out.contains(text), "{text}: {}", shown.out);
    }
    assert_eq!((old.members(), &*redis.command(&["DBSIZE"])), (before, "1"));
    assert_eq!(jobs_made(&server), 0);
}

/// A follower uses the clock of Redis, and a drained job is due by Duetime's.
#[test]
fn a_look_tells_of_another_clock() {
    let (server, redis) = (Server::start(), RedisServer::with_clock_at(-3_600_000, &[]));
    let looked = adopt(&server, &redis).run(&[]);
    assert!(looked.out.contains("The clock of Redis is 3600 s behind that of this machine"), "{looked:?}");
}

#[test]
fn what_cannot_be_right_is_refused() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let url = redis.url();
    redis.command(&["RPUSH", "list", "a"]);
    redis.command(&["SET", "text", "a"]);
    redis.command(&["ZADD", KEY, "1790000000", "a"]);
    let refusals: [(&str, &str, &[&str], i32, &str); 8] = [
        (&url, "list", &[], 1, "the Redis key \"list\" must be a sorted set; it is a list"),
        (&url, "text", &["--drain", "--yes", "zset"], 1, "it is a string"),
        (&url, KEY, &["--drain", "--yes", "laravel"], 2, "the layout that was recognised is zset"),
        (&url, KEY, &["--drain"], 2, "--yes"),
        (&url, KEY, &["--score", "minutes"], 2, "possible values: seconds, milliseconds, microseconds"),
        ("http://127.0.0.1", KEY, &[], 2, "`from` must be a URL: redis://"),
        ("redis://127.0.0.1:1", KEY, &[], 75, "127.0.0.1:1"),
        (&url, &"k".repeat(300), &[], 2, "the key must have at most 247 bytes"),
    ];
    for (from, key, options, code, expected) in refusals {
        let ran = Adopt::new(&server, "zset", from, key).run(options);
        assert!(ran.code == code && ran.err.contains(expected), "{from} {key} {options:?}: {ran:?}");
    }
    let ran = adopt(&server, &redis).run(&["--kind", ""]);
    assert!(ran.code == 2 && ran.err.contains("kind"), "{ran:?}");
    assert_eq!(redis.command(&["ZCARD", KEY]), "1");

    // No key is an empty set.
    let none = Adopt::new(&server, "zset", &url, "none");
    let look = none.look_with(1);
    assert!(look["why"].as_str().unwrap().starts_with("an empty sorted set: redis://"), "{look}");
    assert!(look["notes"].to_string().contains("Check the name"), "{look}");
    assert_eq!(none.drain()["claimed"], 0);
}

#[test]
fn units_are_told_by_their_size() {
    let server = Server::start();
    let now = now_ms();
    let [seconds, ms, micros] = [now / 1_000, now, now * 1_000].map(|score| score.to_string());
    let far = (now + 11 * 365 * 24 * HOUR_MS).to_string();
    let packed = (now * 4_096).to_string();
    let cases: [(&[&str], &str, [u64; 3]); 9] = [
        (&[&seconds], "1 members whose scores are seconds", [1, 0, 0]),
        (&[&ms, "0"], "2 members whose scores are milliseconds", [2, 0, 0]),
        (&[&micros, &micros], "2 members whose scores are microseconds", [2, 0, 0]),
        (&["0", "1", "-7", "-inf", "3600"], "5 members whose scores are not times", [5, 0, 0]),
        (&[&ms, &far, "+inf"], "3 members whose scores are milliseconds", [1, 0, 2]),
        (&[&seconds, &ms, "5"], "3 members whose unit is unclear", [1, 0, 2]),
        (&[&packed], "1 members whose unit is unclear", [0, 0, 1]),
        (&["9999999999"], "1 members whose unit is unclear", [0, 0, 1]),
        // A date.
        (&["202611241030"], "1 members whose unit is unclear", [0, 0, 1]),
    ];
    for (scores, why, [due, later, left]) in cases {
        let redis = RedisServer::start();
        let mut old = OldSet::open(&redis.url(), KEY);
        scores.iter().enumerate().for_each(|(n, score)| _ = old.add(&[n as u8], *score));
        let look = adopt(&server, &redis).look();
        assert!(look["why"].as_str().unwrap().contains(why), "{scores:?}: {look}");
        let part = &look["parts"][0];
        assert_eq!(
            [&part["due"], &part["later"], &part["left"]],
            [due, later, left].map(|n| json!(n)).each_ref(),
            "{look}"
        );
        assert_eq!(look["samples"].as_array().unwrap().len(), scores.len());
        let is_unclear = why.contains("unclear") || why.contains("not times");
        assert_eq!(look["first"].to_string().contains("--score"), is_unclear, "{look}");
        for step in ["--follow", "--drain"] {
            if is_unclear {
                let ran = adopt(&server, &redis).run(&[step, "--yes", "zset"]);
                let is_said =
                    ["the scores are in different units", "no score is a time"].map(|why| ran.err.contains(why));
                assert!(ran.code == 2 && is_said.contains(&true), "{ran:?}");
                assert!(ran.err.contains("--score seconds, milliseconds or microseconds"), "{ran:?}");
                assert_eq!(old.count(), scores.len());
            }
        }
    }
}

#[test]
fn a_mixed_set_is_taken_unit_by_unit() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut old = OldSet::open(&redis.url(), KEY);
    let later = now_ms() / 1_000 * 1_000 + HOUR_MS;
    old.add(b"seconds", later / 1_000);
    old.add(b"milliseconds", later + 1);
    old.add(b"microseconds", (later + 2) * 1_000);
    old.add(b"far", "+inf");
    for (unit, left) in [("milliseconds", 3), ("seconds", 2), ("microseconds", 1)] {
        let adopt = adopt(&server, &redis).with(&["--score", unit]);
        let look = adopt.look();
        assert_eq!(look["why"], format!("a sorted set of {} members, as --score {unit}", left + 1));
        let report = adopt.drain();
        assert_eq!((&report["adopted"], &report["there"][0]["left"]), (&1.into(), &left.into()), "{report}");
    }
    assert_eq!(old.members().len(), 1);
    let mut found: Vec<_> = made(&server).into_iter().map(|job| (job.due_at, job.key.unwrap())).collect();
    found.sort();
    let expected = [(later, "seconds"), (later + 1, "milliseconds"), (later + 2, "microseconds")];
    assert_eq!(found, expected.map(|(at, key)| (at, key.to_owned())));
}

/// Bytes of all kinds: binary, texts, JSON, and the empty one.
fn member(random: &mut Random, n: u64) -> Vec<u8> {
    match random.within(0..5) {
        0 => {
            [&[0xff][..], &n.to_be_bytes(), &(0..random.within(0..300)).map(|_| random.any() as u8).collect::<Vec<_>>()]
                .concat()
        }
        1 => format!("order:{n}").into_bytes(),
        2 => format!("{{\"b\": {n}, \"a\":1.0, \"Größe\":[1e3 ,null]}}").into_bytes(),
        3 => format!("{n}\0\r\n:{}", "x".repeat(random.within(0..400) as usize)).into_bytes(),
        _ => format!("duetime:{n}").into_bytes(),
    }
}

#[test]
fn a_drain_keeps_members_byte_for_byte_and_their_due_times() {
    let seed = now_ms();
    println!("seed {seed}");
    let mut random = Random::new(seed);
    for (unit_us, digits) in [(1e6, 6), (1e3, 3), (1.0, 0)] {
        let (server, redis) = (Server::start(), RedisServer::start());
        let mut old = OldSet::open(&redis.url(), KEY);
        let mut members = BTreeMap::from([(Vec::new(), 0.0), (b"one".to_vec(), 1.0)]);
        for n in 0..1_500 {
            let at_us = (now_ms() - HOUR_MS) * 1_000 + random.within(0..300 * 24 * HOUR_MS * 1_000);
            let score: f64 = format!("{:.digits$}", at_us as f64 / unit_us).parse().unwrap();
            members.insert(member(&mut random, n), if random.percent(50) { score } else { score.trunc() });
        }
        old.add_all(&members.clone().into_iter().collect::<Vec<_>>());
        let adopt = adopt(&server, &redis).with(&["--kind", "order.cancel"]);
        let report = adopt.drain();
        assert_eq!((&report["adopted"], &report["has_ended"]), (&members.len().into(), &true.into()), "{report}");
        assert_eq!((report["there"].as_array().unwrap().len(), old.count(), old.claims()), (0, 0, 0));
        let drained = now_ms();
        for job in made(&server) {
            let score = members.remove(&job.member).expect("a member, once");
            let exact = score * unit_us / 1e3;
            match score {
                0.0 | 1.0 => assert!(job.due_at <= drained, "due at once: {}", job.job),
                _ => assert!(job.due_at as f64 >= exact && (job.due_at as f64) < exact + 1.001, "{exact}: {}", job.job),
            }
            let text = std::str::from_utf8(&job.member).ok();
            let key = text.filter(|text| (1..=255).contains(&text.len()) && !text.starts_with("duetime:"));
            assert_eq!(job.key.as_deref(), key);
            assert_eq!((&job.job["queue"], &job.job["kind"]), (&QUEUE.into(), &"order.cancel".into()));
            assert_eq!(job.job["tags"], json!(["adopted:delayed"]));
        }
        assert_eq!(members.len(), 0);
        assert_eq!(adopt.drain()["claimed"], 0);
    }
}

#[test]
fn a_follower_takes_what_is_due_and_the_old_code_changes_the_rest() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut old = OldSet::open(&redis.url(), KEY);
    // It begins with an empty set, and judges by the first member.
    let follower = adopt(&server, &redis).follow();
    old.add(b"cancelled", now_ms() + HOUR_MS);
    old.add(b"sooner", now_ms() + HOUR_MS);
    old.add(b"later", now_ms() + 20_000);
    assert!(old.remove(b"cancelled"));
    assert!(!old.add(b"later", now_ms() + HOUR_MS));
    let at = now_ms() + 300;
    assert!(!old.add(b"sooner", at));
    until("what is due is taken", || (jobs_made(&server) == 1).then_some(()));
    let job = made(&server).remove(0);
    assert_eq!((job.key.as_deref(), job.due_at), (Some("sooner"), at));
    assert!(job.created_at >= at, "it was taken when it was due: {}", job.job);
    assert_eq!(old.members().len(), 1);

    // A repeat while it waits replaces the job; once that has started, it is another one.
    let states = || {
        let mut jobs = made(&server);
        jobs.sort_by_key(|made| made.created_at);
        jobs.iter().map(|made| made.job["state"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    old.add(b"sooner", at + 1);
    until("it is replaced", || (states() == ["cancelled", "ready"]).then_some(()));
    assert!(made(&server).iter().any(|made| made.due_at == at + 1 && made.job["state"] == "ready"));
    assert_eq!(server.run(&["reserve", QUEUE]).code, 0);
    old.add(b"sooner", 0);
    until("it is another job", || (states() == ["cancelled", "running", "ready"]).then_some(()));
    let report = follower.stop();
    assert_eq!((&report["claimed"], &report["there"][0]["later"]), (&3.into(), &1.into()), "{report}");
    assert_eq!(report["refused"], 0);
}

/// Within a second of what is fed far enough ahead, and for an idle set one call a second.
#[test]
fn an_idle_follower_asks_once_a_second() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut old = OldSet::open(&redis.url(), KEY);
    old.add(b"later", now_ms() + HOUR_MS);
    let follower = adopt(&server, &redis).follow();
    let mut wait_for = |calls: u64| until("calls", || (old.calls("eval") >= calls).then_some(()));
    // A look, and the first claim.
    wait_for(2);
    let begin = Instant::now();
    wait_for(6);
    assert!(begin.elapsed() > Duration::from_secs(3), "four calls in {:?}", begin.elapsed());
    follower.stop();
}

#[test]
fn what_is_refused_goes_back_unless_the_old_code_has_put_it_there_again() {
    let redis = RedisServer::start();
    let server = Server::start_in(Place::new(), &["--payload-max", "100KiB"]);
    let mut old = OldSet::open(&redis.url(), KEY);
    let [large, other] = [b'x', b'y'].map(|letter| vec![letter; 200_000]);
    let score = 1_700_000_000.000_123;
    for member in [&large, &other] {
        old.add(member, score);
    }
    old.add(b"small", score);
    let follower = adopt(&server, &redis).follow();
    until("all are claimed", || (old.count() == 0).then_some(()));
    let newer = now_ms() as f64 / 1e3 + 3_600.0;
    assert!(old.add(&other, newer), "it is claimed");
    until("one is a job", || (jobs_made(&server) == 1).then_some(()));
    let child = follower.0.as_ref().unwrap();
    nix::sys::signal::kill(crate::cli::support::pid(child), nix::sys::signal::Signal::SIGTERM).unwrap();
    let ran = follower.wait();
    assert_eq!(ran.code, 65, "{ran:?}");
    assert_eq!((&report(&ran.out)["refused"], &report(&ran.out)["adopted"]), (&2.into(), &1.into()), "{ran:?}");
    assert_eq!((old.score(&large), old.score(&other)), (Some(score), Some(newer)));
    assert_eq!(old.claims(), 0);
}

/// Such a set may be something else, a ranking say.
#[test]
fn scores_that_are_no_times_need_a_named_unit() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut old = OldSet::open(&redis.url(), KEY);
    old.add(b"player", 990);
    let ran = adopt(&server, &redis).run(&["--drain", "--yes", "zset"]);
    assert!(ran.code == 2 && ran.err.contains("no score is a time") && ran.err.contains("--score"), "{ran:?}");
    assert_eq!((old.count(), jobs_made(&server)), (1, 0));
    adopt(&server, &redis).with(&["--score", "seconds"]).drain();
    assert_eq!((old.count(), jobs_made(&server)), (0, 1));
}

#[test]
fn a_follower_of_an_empty_set_asks_once_a_second() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut old = OldSet::open(&redis.url(), KEY);
    let follower = adopt(&server, &redis).follow();
    let mut wait_for = |calls: u64| until("calls", || (old.calls("eval") >= calls).then_some(()));
    // A look, and the first claim.
    wait_for(2);
    let begin = Instant::now();
    wait_for(6);
    assert!(begin.elapsed() > Duration::from_secs(3), "four calls in {:?}", begin.elapsed());
    old.add(b"0", 0);
    until("it is taken", || (jobs_made(&server) == 1).then_some(()));
    follower.stop();
}
