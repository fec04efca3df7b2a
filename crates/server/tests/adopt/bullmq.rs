//! From BullMQ and Bull, imitated.

use super::old_bullmq::{OldQueue, TIMESTAMP};
use super::redis_source::{Adopt, Made, OldSet, QUEUE, made, now_ms, report};
use crate::cli::server::Server;
use crate::cli::support::Place;
use crate::common::Random;
use duetime_store::testing::RedisServer;
use serde_json::Value;
use std::collections::BTreeMap;

const HOUR_MS: u64 = 3_600_000;

fn part<'a>(report: &'a Value, list: &str, name: &str) -> &'a Value {
    let parts = report[list].as_array().unwrap();
    parts.iter().find(|part| part["name"] == name).unwrap_or_else(|| panic!("no {name} in {report}"))
}

/// Jobs that depend on others, or others on them: they stay.
fn add_those_that_stay(queue: &mut OldQueue) {
    let hash = |queue: &mut OldQueue, id: &str, more: &[(&str, &str)]| queue.hash(id, b"{}", more);
    hash(queue, "child", &[("parentKey", "bull:mail:parent"), ("parent", "{\"id\":\"parent\"}")]);
    queue.wait("child");
    for (id, of_children) in [("p1", "dependencies"), ("p2", "processed"), ("p3", "failed"), ("p4", "unsuccessful")] {
        hash(queue, id, &[]);
        let key = format!("{id}:{of_children}");
        let command = match of_children {
            "dependencies" => queue.of("SADD", &key).arg("bull:other:1").to_owned(),
            "unsuccessful" => queue.of("ZADD", &key).arg(1).arg("bull:other:1").to_owned(),
            _ => queue.of("HSET", &key).arg("bull:other:1").arg("1").to_owned(),
        };
        queue.ask::<u64>(&command);
        queue.wait(id);
    }
    hash(queue, "7", &[("rjk", "tick")]);
    queue.delayed("7", now_ms() + HOUR_MS);
    hash(queue, "repeat:tick:1", &[]);
    queue.delayed("repeat:tick:1", now_ms() - HOUR_MS);
    hash(queue, "8", &[("deid", "once")]);
    queue.prioritized("8", 3, 1);
    hash(queue, "9", &[]);
    queue.wait("9");
    let mut lock = queue.of("SET", "9:lock");
    queue.ask::<String>(lock.arg("token"));
    // No job at all.
    queue.wait("gone");
    let mut stray = queue.of("HSET", "stray");
    queue.ask::<u64>(stray.arg("delay").arg(0));
    queue.delayed("stray", now_ms() + 2 * HOUR_MS);
}

/// Jobs that no one takes.
fn add_those_that_are_not_waiting(queue: &mut OldQueue) {
    for (id, place) in [("a1", "active"), ("f1", "failed"), ("c1", "completed"), ("w1", "waiting-children")] {
        queue.hash(id, b"{}", &[]);
        let command = match place {
            "active" => queue.of("LPUSH", place).arg(id).to_owned(),
            _ => queue.of("ZADD", place).arg(1).arg(id).to_owned(),
        };
        queue.ask::<u64>(&command);
    }
}

#[test]
fn a_look_changes_nothing_and_says_what_stays() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut queue = OldQueue::bullmq(&redis.url(), "mail");
    add_those_that_stay(&mut queue);
    add_those_that_are_not_waiting(&mut queue);
    for (n, due_at) in [now_ms() - 5_000, now_ms() + HOUR_MS].into_iter().enumerate() {
        queue.hash(&format!("10{n}"), b"{\"to\":\"anna\"}", &[]);
        queue.delayed(&format!("10{n}"), due_at);
    }
    queue.hash("102", b"\xff\x00", &[("name", "odd")]);
    queue.wait("102");
    let before = queue.snapshot();

    let adopt = Adopt::new(&server, "bullmq", &redis.url(), "mail");
    let look = adopt.look();
    assert_eq!(look["layout"], "bullmq");
    assert!(look["why"].as_str().unwrap().contains("bullmq:6.7.0"), "{look}");
    let counts = |name: &str| {
        let part = part(&look, "parts", &format!("bull:mail:{name}"));
        ["due", "later", "left"].map(|field| part[field].as_u64().unwrap())
    };
    assert_eq!(counts("wait"), [1, 0, 7], "{look}");
    assert_eq!(counts("delayed"), [1, 1, 3], "{look}");
    assert_eq!((counts("prioritized"), counts("active")), ([0, 0, 1], [0, 0, 1]));
    assert_eq!((counts("failed"), counts("waiting-children")), ([0, 0, 1], [0, 0, 1]));
    let why = part(&look, "parts", "bull:mail:wait")["why_left"].as_str().unwrap();
    assert_eq!(why, "1 locked by a worker, 5 with a parent or children, 1 without data");
    assert_eq!(look["unread"], 2);
    let samples = look["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 3);
    assert!(samples[0]["payload"].as_str().unwrap().starts_with("odd: "), "{look}");
    assert!(samples[1]["due_as"].as_str().unwrap().ends_with(" / 4096"), "{look}");
    assert!(samples[2]["due_at_ms"].as_u64().unwrap() > now_ms(), "{look}");
    let said = adopt.run(&[]);
    for text in ["recognised: bullmq", "2 of a scheduler", "no longer", "--drain --yes bullmq"] {
        assert!(said.out.contains(text), "{text}: {}", said.out);
    }

    for (options, expected) in [
        (&["--follow", "--yes", "bullmq"][..], "expected --drain, got --follow"),
        (&["--drain", "--hand-back", "--yes", "bullmq"], "has no target at redis://"),
        (&["--drain", "--yes", "bull"], "the layout that was recognised is bullmq"),
        (&["--prefix", "other"], "neither other:mail:meta nor other:mail:id"),
    ] {
        let ran = adopt.run(options);
        assert!(ran.code > 0 && ran.err.contains(expected), "{options:?}: {ran:?}");
    }
    assert_eq!(queue.snapshot(), before);
    assert_eq!(made(&server).len(), 0);
}

/// A job that was added.
struct Added {
    id: String,
    place: &'static str,
    due_at: u64,
    priority: u64,
    attempts: u64,
}

fn add(queue: &mut OldQueue, random: &mut Random, n: u64) -> (Vec<u8>, Added) {
    let place = ["wait", "paused", "prioritized", "delayed"][random.within(0..4) as usize];
    let id = if random.percent(70) { n.to_string() } else { format!("order:{n} ä") };
    let mut data = format!("{n}:").into_bytes();
    data.extend((0..random.within(0..200)).map(|_| random.any() as u8));
    let (attempts, made) = (random.within(0..9), random.within(0..4));
    let priority = if place == "prioritized" { random.within(1..2_097_153) } else { 0 };
    let timestamp = TIMESTAMP + n;
    let opts = format!("{{\"attempts\":{attempts},\"backoff\":{{\"type\":\"exponential\",\"delay\":100}}}}");
    let (priority_text, made_text) = (priority.to_string(), made.to_string());
    let timestamp_text = timestamp.to_string();
    let more = [("opts", &*opts), ("priority", &priority_text), ("timestamp", &timestamp_text), ("atm", &made_text)];
    queue.hash(&id, &data, &more);
    let mut due_at = timestamp;
    match place {
        "prioritized" => queue.prioritized(&id, priority, n),
        "delayed" => {
            due_at = now_ms() + random.within(0..100) * HOUR_MS;
            queue.delayed(&id, due_at);
        }
        list => {
            let mut command = queue.of("LPUSH", list);
            queue.ask::<u64>(command.arg(&id));
        }
    }
    if random.percent(20) {
        let mut logs = queue.of("RPUSH", &format!("{id}:logs"));
        queue.ask::<u64>(logs.arg("a line").arg(&b"\xfe"[..]));
    }
    (data, Added { id, place, due_at, priority, attempts: attempts.saturating_sub(made).max(1) })
}

fn check(made: Made, added: &Added) {
    let Made { key, due_at, job, .. } = made;
    assert_eq!(due_at, added.due_at, "{} {job}", added.place);
    assert_eq!((&job["queue"], &job["kind"]), (&QUEUE.into(), &"welcome".into()));
    assert_eq!((&job["priority"], &job["max_attempts"]), (&added.priority.into(), &added.attempts.into()), "{job}");
    assert_eq!(key.as_deref(), added.id.starts_with("order").then_some(&*added.id));
    let tags: Vec<&str> = job["tags"].as_array().unwrap().iter().map(|tag| tag.as_str().unwrap()).collect();
    assert!(tags.contains(&"adopted:mail") && tags.contains(&&*format!("id:{}", added.id)), "{job}");
}

#[test]
fn a_drain_keeps_bytes_names_times_priorities_and_attempts() {
    let seed = now_ms();
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut queue = OldQueue::bullmq(&redis.url(), "mail");
    let empty = queue.snapshot();
    let mut added: BTreeMap<Vec<u8>, Added> = (1..=3_000).map(|n| add(&mut queue, &mut random, n)).collect();
    let adopt = Adopt::new(&server, "bullmq", &redis.url(), "mail");
    let report = adopt.drain();
    assert_eq!((&report["adopted"], &report["there"]), (&3_000.into(), &Value::Array(Vec::new())), "{report}");
    for made in made(&server) {
        let added = added.remove(&made.member).expect("it was added, and is there once");
        check(made, &added);
    }
    assert_eq!(added.len(), 0);
    assert_eq!(queue.snapshot(), empty, "nothing is left of them");
    assert_eq!(OldSet::open(&redis.url(), "bull:mail").claims(), 0);
    assert_eq!(adopt.drain()["claimed"], 0);
}

#[test]
fn what_depends_on_other_jobs_stays() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut queue = OldQueue::bullmq(&redis.url(), "mail");
    add_those_that_stay(&mut queue);
    add_those_that_are_not_waiting(&mut queue);
    let before = queue.snapshot();
    // More of them than one page, before and after those that are taken.
    for n in 0..1_200_u64 {
        let id = (1_000 + n).to_string();
        queue.hash(&id, n.to_string().as_bytes(), if n % 3 == 0 { &[("deid", "x")] } else { &[] });
        if n % 2 == 0 { queue.wait(&id) } else { queue.delayed(&id, now_ms() + n) }
    }
    let report = Adopt::new(&server, "bullmq", &redis.url(), "mail").drain();
    assert_eq!((&report["adopted"], &report["refused"]), (&800.into(), &0.into()), "{report}");
    let left = part(&report, "there", "bull:mail:wait")["why_left"].as_str().unwrap();
    assert!(left.contains("200 with a de-duplication id"), "{report}");
    assert_eq!(part(&report, "there", "bull:mail:delayed")["left"], 203, "{report}");
    let mut payloads: Vec<u64> = made(&server).iter().map(|made| made.job["payload"].as_u64().unwrap()).collect();
    payloads.sort_unstable();
    assert_eq!(payloads, (0..1_200).filter(|n| n % 3 > 0).collect::<Vec<_>>());
    for n in (0..1_200).step_by(3) {
        let place = if n % 2 == 0 { "wait" } else { "delayed" };
        let id = (1_000 + n).to_string();
        let mut remove = queue.of(if n % 2 == 0 { "LREM" } else { "ZREM" }, place);
        if n % 2 == 0 {
            remove.arg(1);
        }
        assert_eq!(queue.ask::<u64>(remove.arg(&id)), 1, "{id} stays in {place}");
        assert_eq!(queue.ask::<u64>(&queue.of("DEL", &id)), 1, "{id} has its hash");
    }
    assert_eq!(queue.snapshot(), before);
}

#[test]
fn what_is_refused_goes_back_exactly() {
    let server = Server::start_in(Place::new(), &["--payload-max", "100KiB"]);
    let redis = RedisServer::start();
    let mut queue = OldQueue::bullmq(&redis.url(), "mail");
    let large = [b'x'; 150_000];
    let add = |queue: &mut OldQueue, n: u64, data: &[u8]| {
        let id = n.to_string();
        let more = if n == 5 { [("opts", "no JSON"), ("odd", "\u{1}")] } else { [("opts", "{}"), ("odd", "\u{2}")] };
        queue.hash(&id, data, &more);
        match n % 3 {
            0 => queue.wait(&id),
            1 => queue.delayed(&id, now_ms() + n * HOUR_MS),
            _ => queue.prioritized(&id, n % 7, n),
        }
        let mut logs = queue.of("RPUSH", &format!("{id}:logs"));
        queue.ask::<u64>(logs.arg("first").arg(&b"\xff\0"[..]));
    };
    // One refused job beside two that are taken, over several batches.
    (0..60).filter(|n| n % 5 == 0).for_each(|n| add(&mut queue, n, &large));
    queue.hash("too-late", b"{}", &[]);
    queue.delayed("too-late", now_ms() + 100_000 * HOUR_MS);
    let before = queue.snapshot();
    let stays: BTreeMap<&str, Vec<String>> =
        ["wait", "delayed", "prioritized"].into_iter().map(|name| (name, queue.members(name))).collect();
    (1_000..1_900).for_each(|n| add(&mut queue, n, b"{}"));
    let adopt = Adopt::new(&server, "bullmq", &redis.url(), "mail");
    let ran = adopt.run(&["--drain", "--yes", "bullmq", "--json"]);
    assert_eq!(ran.code, 65, "{ran:?}");
    let report = report(&ran.out);
    assert_eq!((&report["adopted"], &report["refused"]), (&900.into(), &13.into()), "{report}");
    assert!(ran.err.contains("its `opts` are not valid JSON"), "{}", ran.err);
    for (name, members) in stays {
        assert_eq!(queue.members(name), members, "{name}");
    }
    assert_eq!(queue.snapshot(), before);
    assert_eq!(OldSet::open(&redis.url(), "bull:mail").claims(), 0);
}

#[test]
fn bull_is_taken_as_well() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut queue = OldQueue::open(&redis.url(), "mail");
    let id = queue.of("INCR", "id");
    queue.ask::<u64>(&id);
    let empty = queue.snapshot();
    for (id, priority) in [("1", "0"), ("2", "3")] {
        queue.hash(id, format!("{{\"n\":{id}}}").as_bytes(), &[("priority", priority)]);
        queue.wait(id);
    }
    let mut priority = queue.of("ZADD", "priority");
    queue.ask::<u64>(priority.arg(3).arg("2"));
    let due_at = now_ms() + HOUR_MS;
    queue.hash("3", b"{\"n\":3}", &[("attemptsMade", "2"), ("opts", "{\"attempts\":5,\"backoff\":1000}")]);
    queue.delayed("3", due_at);
    // The limiter has put it off.
    let mut index = queue.of("HSET", "limiter:index");
    queue.ask::<u64>(index.arg("3").arg("bull:mail:limiter:limited"));
    let mut limited = queue.of("SADD", "limiter:limited");
    queue.ask::<u64>(limited.arg("3"));
    let adopt = Adopt::new(&server, "bullmq", &redis.url(), "mail");
    assert_eq!(adopt.look()["layout"], "bull");
    let ran = adopt.run(&["--drain", "--yes", "bull", "--json"]);
    assert_eq!((ran.code, &report(&ran.out)["adopted"]), (0, &3.into()), "{ran:?}");
    let mut jobs = made(&server);
    jobs.sort_by_key(|made| made.job["payload"]["n"].as_u64());
    let priorities: Vec<_> = jobs.iter().map(|made| made.job["priority"].as_u64().unwrap()).collect();
    assert_eq!(priorities, [1_024, 3, 1_024]);
    assert_eq!((jobs[2].due_at, &jobs[2].job["max_attempts"]), (due_at, &3.into()));
    assert_eq!(queue.snapshot(), empty);
}

/// An id is unique in its queue of BullMQ, and a key in its queue of ours: two queues of BullMQ may have jobs with one id.
#[test]
fn a_job_whose_id_another_one_holds_as_its_key_goes_back() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let [mut mail, mut sms] = ["mail", "sms"].map(|name| OldQueue::bullmq(&redis.url(), name));
    mail.hash("order-7", b"\"mail\"", &[]);
    mail.delayed("order-7", now_ms() + HOUR_MS);
    for id in ["order-7", "order-8"] {
        sms.hash(id, b"\"sms\"", &[]);
        sms.wait(id);
    }
    Adopt::new(&server, "bullmq", &redis.url(), "mail").drain();
    let before = sms.snapshot().remove("bull:sms:order-7");
    let adopt = Adopt::new(&server, "bullmq", &redis.url(), "sms");
    let ran = adopt.run(&["--drain", "--yes", "bullmq", "--json"]);
    let report = report(&ran.out);
    assert_eq!((ran.code, &report["adopted"], &report["refused"]), (65, &1.into(), &1.into()), "{ran:?}");
    assert!(ran.err.contains("name another queue with --to"), "{}", ran.err);
    assert_eq!((sms.members("wait"), before), (vec!["order-7".to_owned()], sms.snapshot().remove("bull:sms:order-7")));
    assert_eq!(server.json(&["cancel", "--tag", "id:order-7"])["cancelled"], 1);
    // Nobody holds the key now.
    assert_eq!(adopt.drain()["adopted"], 1);
}

/// A look examines some of many. A drain has gone through all of them, so it can tell what stays.
#[test]
fn counts_are_of_jobs_that_were_examined() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut queue = OldQueue::bullmq(&redis.url(), "mail");
    let script = "for n = 1, 10500 do
        redis.call('HSET', ARGV[1] .. n, 'name', 'n', 'data', '{}', 'parentKey', 'bull:other:1')
        redis.call('LPUSH', ARGV[1] .. 'wait', n)
        redis.call('ZADD', ARGV[1] .. 'delayed', n, n)
    end";
    queue.ask::<()>(redis::cmd("EVAL").arg(script).arg(0).arg(&queue.base));
    queue.hash("10501", b"{}", &[]);
    queue.wait("10501");
    let adopt = Adopt::new(&server, "bullmq", &redis.url(), "mail");
    let counts = |report: &Value, list: &str| {
        ["wait", "delayed"].map(|name| {
            let part = part(report, list, &format!("bull:mail:{name}"));
            ["due", "later", "left", "unchecked"].map(|field| part[field].as_u64().unwrap())
        })
    };
    assert_eq!(counts(&adopt.look(), "parts"), [[0, 0, 10_000, 501], [0, 0, 10_000, 500]]);
    let ran = adopt.run(&[]);
    assert!(ran.out.contains("NOT CHECKED") && ran.out.contains("Only the first 10000 of 10501 jobs"), "{}", ran.out);
    let report = adopt.drain();
    assert_eq!((&report["adopted"], counts(&report, "there")), (&1.into(), [[0, 0, 10_500, 0]; 2]));
}

#[test]
fn a_prefix_and_a_hash_tag_are_kept() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut queue = OldQueue::bullmq(&redis.url(), "mail");
    queue.base = "{shop}:mail:".to_owned();
    queue.hash("1", b"{}", &[]);
    queue.wait("1");
    let id = queue.of("INCR", "id");
    queue.ask::<u64>(&id);
    let adopt = Adopt::new(&server, "bullmq", &redis.url(), "mail").with(&["--prefix", "{shop}"]);
    let ran = adopt.run(&["--drain", "--yes", "bull", "--json"]);
    assert_eq!((ran.code, made(&server).len()), (0, 1), "{ran:?}");
}
