//! From keys in Laravel's format.

use super::framework::{
    DELAYED, LARAVEL, LARAVEL_CLAIMS, LIST, NOTIFY, RESERVED, Running, add, adopt, command, digest, drain, due_ms,
    jobs, laravel, lines, now_ms, number, push_ready, seeded, step,
};
use crate::cli::server::Server;
use crate::cli::support::{Place, finish, until};
use duetime_store::testing::{RedisCluster, RedisServer};
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[test]
fn a_look_changes_nothing_and_says_how_to_go_on() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let now = now_ms() / 1_000;
    push_ready(&redis, &[laravel(1, ""), laravel(2, "")]);
    add(&redis, DELAYED, now - 5, &laravel(3, ""));
    add(&redis, DELAYED, now + 3_000, &laravel(4, ""));
    add(&redis, RESERVED, now - 5, &laravel(5, ""));
    add(&redis, RESERVED, now + 60, &laravel(6, ""));
    let before = digest(&redis);
    let looked = adopt(&server, &redis, &LARAVEL);
    assert_eq!((looked.code, &*looked.err), (0, ""), "{looked:?}");
    for text in
        ["recognised: laravel", "1 (reserved by", "{\"uuid\":", "in 50 min", "--drain --yes laravel", "retry_after"]
    {
        assert!(looked.out.contains(text), "{text}: {}", looked.out);
    }
    let look: Value = serde_json::from_str(&adopt(&server, &redis, &[&LARAVEL[..], &["--json"]].concat()).out).unwrap();
    let part = |key: &str| look["parts"].as_array().unwrap().iter().find(|part| part["name"] == key).unwrap();
    let counts = |key: &str| ["due", "later", "left"].map(|count| part(key)[count].as_u64().unwrap());
    assert_eq!([LIST, DELAYED, RESERVED].map(counts), [[2, 0, 0], [1, 1, 0], [1, 0, 1]]);
    assert_eq!(look["samples"].as_array().unwrap().len(), 4);
    let ran = adopt(&server, &redis, &[&LARAVEL[..], &["--drain", "--yes", "sidekiq"]].concat());
    assert!(ran.code == 2 && ran.err.contains("the layout that was recognised is laravel"), "{ran:?}");
    assert_eq!(digest(&redis), before);
    assert_eq!(jobs(&server).len(), 0);
}

#[test]
fn a_wrong_guess_is_refused() {
    let (server, redis) = (Server::start(), RedisServer::start());
    redis.command(&["HSET", LIST, "a", "b"]);
    let refused = |expected: &str| {
        for arguments in [LARAVEL.to_vec(), step(&LARAVEL, "--drain"), step(&LARAVEL, "--follow")] {
            let ran = adopt(&server, &redis, &arguments);
            assert!(ran.code == 2 && ran.err.contains(expected), "{arguments:?}: {ran:?}");
        }
    };
    refused("the Redis key shop_queues:default must be a list; it is a hash");
    redis.command(&["DEL", LIST]);
    redis.command(&["SADD", DELAYED, "a"]);
    refused("delayed must be a sorted set; it is a set");
    redis.command(&["DEL", DELAYED]);
    add(&redis, DELAYED, 5, r#"{"class":"Ship","args":[],"jid":"x"}"#);
    refused("these are not jobs of laravel");
    redis.command(&["DEL", DELAYED]);
    let ran = adopt(&server, &redis, &LARAVEL);
    assert!(ran.code == 0 && ran.out.contains("Nothing was found. Check the names"), "{ran:?}");
    assert_eq!(drain(&server, &redis, &LARAVEL, 0)["claimed"], 0);
    let ran = adopt(&server, &redis, &["laravel", "--key", "default", "--to", "no queue"]);
    assert!(ran.code == 2 && ran.err.contains("queue"), "{ran:?}");
    // Escape sequences that would clear the terminal are not printed.
    redis.command(&["SET", "queues:\x1b[2J", "text"]);
    let ran = adopt(&server, &redis, &["laravel", "--key", "\x1b[2J", "--to", "mail"]);
    assert!(ran.code == 2 && ran.err.contains("key queues:\\u{1b}[2J must be a list"), "{ran:?}");
}

/// Its entries only wake workers.
#[test]
fn a_notify_list_that_cannot_be_changed_does_not_matter() {
    let (server, redis) = (Server::start_in(Place::new(), &["--payload-max", "10KiB"]), RedisServer::start());
    push_ready(&redis, &[laravel(1, ""), laravel(2, &format!("\"own\":\"{}\",", "x".repeat(20_000)))]);
    add(&redis, DELAYED, now_ms() / 1_000 + 3_000, &laravel(3, ""));
    redis.command(&["SET", NOTIFY, "text"]);
    let report = drain(&server, &redis, &LARAVEL, 65);
    assert_eq!((&report["adopted"], &report["refused"]), (&2.into(), &1.into()), "{report}");
    assert_eq!((number(&redis, &["LLEN", LIST]), number(&redis, &["EXISTS", LARAVEL_CLAIMS])), (1, 0));
}

struct Put {
    key: &'static str,
    /// 0 for one that is ready.
    score: u64,
    own: Value,
}

#[test]
fn a_drain_keeps_bytes_and_rules_and_leaves_what_workers_hold() {
    let mut random = seeded();
    let (server, redis) = (Server::start(), RedisServer::start());
    let now = now_ms() / 1_000;
    let mut puts: BTreeMap<String, Put> = BTreeMap::new();
    let mut held = Vec::new();
    for n in 0..1_200 {
        let own = match random.within(0..4) {
            0 => json!({}),
            1 => json!({"maxTries": random.within(1..9), "timeout": random.within(1..3_000), "attempts": 0}),
            2 => json!({"maxTries": 5, "attempts": random.within(0..7), "backoff": "10,60"}),
            _ => json!({"maxTries": 0, "retryUntil": now + 100_000}),
        };
        let text = own.to_string();
        let text = text[1..text.len() - 1].to_owned() + if own == json!({}) { "" } else { "," };
        let job = laravel(n, &text);
        let (key, score) = match random.within(0..5) {
            0 | 1 => (LIST, 0),
            2 => (DELAYED, now - random.within(0..100)),
            3 => (DELAYED, now + random.within(100..100_000_000)),
            _ => (RESERVED, now - random.within(1..100)),
        };
        if key == LIST {
            push_ready(&redis, std::slice::from_ref(&job));
        } else {
            add(&redis, key, score, &job);
        }
        puts.insert(job, Put { key, score, own });
    }
    for n in 2_000..2_010 {
        held.push(laravel(n, ""));
        add(&redis, RESERVED, now + 1_000, &laravel(n, ""));
    }
    let report = drain(&server, &redis, &LARAVEL, 0);
    assert_eq!((&report["adopted"], &report["refused"]), (&puts.len().into(), &0.into()), "{report}");
    assert_eq!((&report["there"][0]["name"], &report["there"][0]["left"]), (&RESERVED.into(), &10.into()), "{report}");
    let mut left = lines(&redis, &["ZRANGE", RESERVED, "0", "-1"]);
    left.sort();
    assert_eq!(left, held);
    assert_eq!(lines(&redis, &["KEYS", "*"]), [RESERVED], "no claim and no notification is left");
    for (payload, job) in jobs(&server) {
        let Put { key, score, own } = puts.remove(&payload).expect("it was put, byte for byte, and is there once");
        assert_eq!((&job["queue"], &job["kind"]), (&"mail".into(), &"App\\Jobs\\Ship".into()));
        assert_eq!(job["tags"][0], "adopted:default");
        assert!(job["tags"][1].as_str().unwrap().starts_with("uuid:"), "{job}");
        assert!(key == LIST || due_ms(&job) == score * 1_000, "{score}: {job}");
        let made = own["attempts"].as_u64().unwrap_or(0);
        let expected =
            own["maxTries"].as_u64().map(|tries| if tries == 0 { 0 } else { tries.saturating_sub(made).max(1) });
        assert_eq!(job["max_attempts"].as_u64(), expected, "{own}: {job}");
        assert_eq!(job["lease"].is_string(), own["timeout"].is_u64(), "{own}: {job}");
        assert_eq!(job["retry"]["steps"].is_array(), own["backoff"].is_string(), "{own}: {job}");
        assert_eq!(job["max_age"].is_string(), own["retryUntil"].is_u64(), "{own}: {job}");
    }
    assert_eq!(puts.len(), 0);
    assert_eq!(drain(&server, &redis, &LARAVEL, 0)["claimed"], 0);
}

#[test]
fn a_follower_takes_what_is_due_and_leaves_the_rest_to_the_old_code() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let now = now_ms() / 1_000;
    push_ready(&redis, &[laravel(1, "")]);
    add(&redis, DELAYED, now - 5, &laravel(2, ""));
    add(&redis, DELAYED, now + 1_000, &laravel(3, ""));
    add(&redis, DELAYED, now + 2, &laravel(4, ""));
    add(&redis, RESERVED, now - 5, &laravel(5, ""));
    let follower = Running::start(command(&server, &redis, &step(&LARAVEL, "--follow")));
    until("ready and due jobs are taken", || (jobs(&server).len() >= 2).then_some(()));
    // The old code reschedules, cancels and pushes.
    add(&redis, DELAYED, now + 2_000, &laravel(3, ""));
    add(&redis, DELAYED, now + 3_000, &laravel(6, ""));
    assert_eq!(redis.command(&["ZREM", DELAYED, &laravel(6, "")]), "1");
    push_ready(&redis, &[laravel(7, "")]);
    let all = until("each is taken once it is due", || Some(jobs(&server)).filter(|jobs| jobs.len() == 4));
    for n in [1, 2, 4, 7] {
        let (_, job) = all.iter().find(|(payload, _)| *payload == laravel(n, "")).unwrap();
        let created: jiff::Timestamp = job["created_at"].as_str().unwrap().parse().unwrap();
        let created = u64::try_from(created.as_millisecond()).unwrap();
        assert!(n != 4 || created >= (now + 2) * 1_000, "it stayed until it was due: {job}");
    }
    let report = follower.stop(0);
    assert_eq!((&report["adopted"], &report["refused"]), (&4.into(), &0.into()), "{report}");
    assert_eq!(lines(&redis, &["ZRANGE", DELAYED, "0", "-1"]), [laravel(3, "")]);
    assert_eq!(lines(&redis, &["ZRANGE", RESERVED, "0", "-1"]), [laravel(5, "")], "for Laravel's workers");
    assert_eq!(number(&redis, &["EXISTS", LIST, NOTIFY, LARAVEL_CLAIMS]), 0);
}

#[test]
fn what_cannot_be_read_goes_back_and_blocks_nothing() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let now = now_ms() / 1_000;
    let odd = ["no JSON", r#"["x", 1]"#, r#"{"job":"x"}"#, r#"{"data":1,"job":null}"#].map(str::to_owned);
    push_ready(&redis, &odd);
    push_ready(&redis, &[laravel(1, ""), laravel(2, r#""timeout":50000,"#)]);
    odd.iter().for_each(|member| add(&redis, DELAYED, now - 9, member));
    add(&redis, DELAYED, "1e18", &laravel(3, ""));
    add(&redis, DELAYED, now + 50, &laravel(4, ""));
    add(&redis, RESERVED, now - 9, "expired");
    let report = drain(&server, &redis, &LARAVEL, 65);
    assert_eq!((&report["adopted"], &report["refused"], &report["left_claimed"]), (&2.into(), &11.into(), &0.into()));
    let mut list = lines(&redis, &["LRANGE", LIST, "0", "-1"]);
    let mut expected = [&odd[..], &[laravel(2, r#""timeout":50000,"#)]].concat();
    list.sort();
    expected.sort();
    assert_eq!(list, expected);
    assert_eq!(number(&redis, &["LLEN", NOTIFY]), 5, "a notification for each");
    assert_eq!(number(&redis, &["ZCARD", DELAYED]), 5);
    assert_eq!(redis.command(&["ZSCORE", DELAYED, "no JSON"]), (now - 9).to_string());
    assert_eq!(redis.command(&["ZSCORE", RESERVED, "expired"]), (now - 9).to_string());
    // A follower holds them until it ends; members that the old code adds again meanwhile are newer.
    push_ready(&redis, &[laravel(5, "")]);
    let follower = Running::start(command(&server, &redis, &step(&LARAVEL, "--follow")));
    until("all are claimed, and the job is there", || {
        (jobs(&server).len() == 3 && number(&redis, &["ZCARD", DELAYED]) == 1).then_some(())
    });
    add(&redis, DELAYED, now + 500, "no JSON");
    push_ready(&redis, &[laravel(6, "")]);
    until("others go on", || (jobs(&server).len() == 4).then_some(()));
    let report = follower.stop(65);
    assert_eq!((&report["adopted"], &report["refused"]), (&2.into(), &9.into()), "{report}");
    assert_eq!(redis.command(&["ZSCORE", DELAYED, "no JSON"]), (now + 500).to_string());
    assert_eq!([number(&redis, &["LLEN", LIST]), number(&redis, &["ZCARD", DELAYED])], [5, 5]);
    assert_eq!(number(&redis, &["EXISTS", LARAVEL_CLAIMS]), 0);
}

#[test]
fn a_cluster_needs_braces_as_laravel_does() {
    let (server, cluster) = (Server::start(), RedisCluster::masters_only());
    let now = now_ms() / 1_000;
    let adopt = |arguments: &[&str]| {
        let mut command = server.place.bare(&[&["adopt", "laravel", "--from", &cluster.url()], arguments].concat());
        command.env("DUETIME_SERVER", &server.url);
        finish(command, b"")
    };
    // Each key is on one of the nodes.
    let anywhere = |words: &[&str]| {
        cluster.nodes().iter().find_map(|node| node.try_command(words).ok()).expect("a node that has this slot")
    };
    anywhere(&["RPUSH", "queues:{default}", &laravel(1, "")]);
    anywhere(&["RPUSH", "queues:{default}:notify", "1"]);
    anywhere(&["ZADD", "queues:{default}:delayed", &(now + 500).to_string(), &laravel(2, "")]);
    let ran = adopt(&["--key", "default", "--to", "mail"]);
    assert!(ran.code == 2 && ran.err.contains("--key {default}"), "{ran:?}");
    let ran = adopt(&["--key", "{default}", "--to", "mail", "--drain", "--yes", "laravel"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let jobs = jobs(&server);
    assert_eq!((jobs.len(), &jobs[0].1["tags"][0]), (2, &"adopted:{default}".into()));
    let ran = adopt(&["--key", "{default}", "--to", "mail", "--hand-back"]);
    assert!(ran.code == 2 && ran.err.contains("redis:// or rediss://"), "{ran:?}");
}
