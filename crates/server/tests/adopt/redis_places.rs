//! Sources beside the broker, behind Sentinel, and in a Cluster.

use super::old_listener::member;
use super::redis_source::{Adopt, OldSet, QUEUE, jobs_made, made, now_ms, server_on};
use crate::cli::server::Server;
use crate::cli::support::until;
use duetime_store::testing::{RedisCluster, RedisSentinel, RedisServer};

const KEY: &str = "delayed";
const HOUR_MS: u64 = 3_600_000;

fn add(old: &mut OldSet, name: &str, count: u64, score: u64) {
    old.add_all(&(0..count).map(|n| (format!("{name}-{n}").into_bytes(), (score + n) as f64)).collect::<Vec<_>>());
}

/// The keys of neither are in the way of the other's.
#[test]
fn the_source_may_be_in_the_redis_of_the_broker() {
    let redis = RedisServer::start();
    let server = server_on(&redis.url());
    let mut old = OldSet::open(&redis.url(), KEY);
    add(&mut old, "later", 700, now_ms() + HOUR_MS);
    add(&mut old, "due", 700, now_ms() - HOUR_MS);
    let adopt = Adopt::new(&server, "zset", &redis.url(), KEY);
    let follower = adopt.follow();
    until("what is due is taken", || (jobs_made(&server) == 700).then_some(()));
    assert_eq!(follower.stop()["there"][0]["later"], 700);
    assert_eq!(adopt.drain()["adopted"], 700);
    assert_eq!((jobs_made(&server), old.count(), old.claims()), (1_400, 0, 0));
}

#[test]
fn the_broker_may_be_in_another_redis_without_a_server() {
    let (redis, broker) = (RedisServer::start(), RedisServer::start());
    let server = server_on(&broker.url());
    let mut old = OldSet::open(&redis.url(), KEY);
    add(&mut old, "later", 700, now_ms() + HOUR_MS);
    let adopt = Adopt::new(&server, "zset", &redis.url(), KEY).with(&["--server", &broker.url()]);
    assert_eq!(adopt.drain()["adopted"], 700);
    assert_eq!((jobs_made(&server), &*redis.command(&["DBSIZE"])), (700, "0"));
}

#[test]
fn a_follower_behind_sentinel_goes_on_with_the_next_master() {
    let mut sentinel = RedisSentinel::start();
    let server = Server::start();
    let url = |port: u16| format!("redis://127.0.0.1:{port}/0");
    let mut old = OldSet::open(&url(sentinel.master_port()), KEY);
    add(&mut old, "before", 700, now_ms() - HOUR_MS);
    let adopt = Adopt::new(&server, "zset", &sentinel.url(), KEY);
    let follower = adopt.follow();
    until("all is taken", || (jobs_made(&server) == 700 && old.claims() == 0).then_some(()));
    let port = sentinel.master_port();
    let master = sentinel.servers().iter().find(|server| server.port() == port).unwrap();
    master.wait_for_replicas(2);
    let dead = sentinel.kill_master();
    let new = sentinel.wait_for_failover(dead);
    // A master without one refuses writes.
    sentinel.servers().iter().find(|server| server.port() == new).unwrap().wait_for_replicas(1);
    let mut old = OldSet::open(&url(new), KEY);
    add(&mut old, "after", 700, now_ms() - HOUR_MS);
    until("all is taken from the next master", || (jobs_made(&server) == 1_400 && old.claims() == 0).then_some(()));
    follower.stop();
    assert_eq!(old.count(), 0);
    add(&mut old, "later", 10, now_ms() + HOUR_MS);
    assert_eq!(adopt.drain()["adopted"], 10);
}

/// The lists and hashes of other layouts, beside those of one key.
fn fill(old: &mut OldSet, layout: &str, base: &str, count: u64) {
    let mut pipe = redis::pipe();
    if layout == "bullmq" {
        pipe.hset(format!("{base}:meta"), "version", "bullmq:6.7.0");
    }
    for n in 0..count {
        let (list, later) = (n % 2 == 0, now_ms() + HOUR_MS + n);
        if layout == "bullmq" {
            let fields = [("name", "welcome".to_owned()), ("data", format!(r#"{{"n":{n}}}"#))];
            pipe.hset_multiple(format!("{base}:{n}"), &fields);
            if list {
                pipe.lpush(format!("{base}:wait"), n)
            } else {
                pipe.zadd(format!("{base}:delayed"), n, later * 4_096)
            };
        } else {
            let job = member(&n.to_string());
            if list {
                pipe.rpush(format!("{base}:job"), job)
            } else {
                pipe.zadd(format!("{base}:delay"), job, later / 1_000)
            };
        }
    }
    old.pipe(&pipe);
}

/// The arguments, the start of all keys, and of those a sorted set.
const OTHERS: [(&[&str], &str, &str); 2] = [
    (&["bullmq", "--prefix", "{shop}", "--key", "mail", "--to", QUEUE], "{shop}:mail", "delayed"),
    (&["message-queue", "--key", "{mail}", "--to", QUEUE], "queue:{mail}", "delay"),
];

fn take_over(server: &Server, url: &str, old: &mut OldSet, (words, base, set): (&[&str], &str, &str)) {
    fill(old, words[0], base, 700);
    let adopt = Adopt::from_words(server, url, words);
    let look = adopt.look();
    let part = |name: &str| look["parts"].as_array().unwrap().iter().find(|part| part["name"] == name).unwrap();
    assert_eq!(part(&format!("{base}:{set}"))["later"], 350, "{look}");
    assert_eq!(adopt.drain()["adopted"], 700);
    let later = made(server).iter().filter(|job| job.job["state"] == "scheduled").count();
    assert_eq!((later, old.claims()), (350, 0));
}

#[test]
fn bullmq_and_message_queue_are_taken_from_sentinel_and_a_cluster() {
    let sentinel = RedisSentinel::start();
    for other in OTHERS {
        let mut old = OldSet::open(&format!("redis://127.0.0.1:{}/0", sentinel.master_port()), other.1);
        take_over(&Server::start(), &sentinel.url(), &mut old, other);
    }
    let cluster = RedisCluster::masters_only();
    for other in OTHERS {
        let mut old = in_cluster(&cluster, other.1);
        take_over(&Server::start(), &cluster.url(), &mut old, other);
    }
    // Keys that are not in one slot.
    let server = Server::start();
    for layout in ["bullmq", "message-queue"] {
        let ran = Adopt::new(&server, layout, &cluster.url(), "mail").run(&[]);
        assert!(ran.code == 2 && ran.err.contains("hash tag"), "{ran:?}");
    }
}

/// The node that holds a key, and a connection to it.
fn in_cluster(cluster: &RedisCluster, key: &str) -> OldSet {
    let is_there = |node: &&RedisServer| node.try_command(&["EXISTS", key]).is_ok();
    let node = cluster.nodes().iter().find(is_there).expect("one of them holds its slot");
    OldSet::open(&node.url(), key)
}

#[test]
fn sets_in_a_cluster_are_taken_from_any_slot() {
    let cluster = RedisCluster::masters_only();
    let server = Server::start();
    for key in ["delayed", "delayed-2", "shop:{orders}:delayed", "jobs-7"] {
        let mut old = in_cluster(&cluster, key);
        add(&mut old, key, 700, now_ms() + HOUR_MS);
        let adopt = Adopt::new(&server, "zset", &cluster.url(), key);
        assert_eq!(adopt.look()["parts"][0]["later"], 700);
        assert_eq!(adopt.drain()["adopted"], 700);
        assert_eq!((old.count(), old.claims()), (0, 0));
    }
    assert_eq!(made(&server).len(), 4 * 700);

    // A lock in the same slot.
    let mut old = in_cluster(&cluster, "Queue:{mail}");
    add(&mut old, "mail", 700, now_ms() / 1_000 + 3_600);
    let adopt = Adopt::new(&server, "locked-set", &cluster.url(), "Queue:{mail}");
    assert_eq!(adopt.drain()["adopted"], 700);
    for (key, lock) in [("Queue:mail", &[][..]), ("Queue:{mail}", &["--lock", "Lock:{other}"])] {
        let ran = Adopt::new(&server, "locked-set", &cluster.url(), key).with(lock).run(&[]);
        assert!(ran.code == 2 && ran.err.contains("hash tag"), "{ran:?}");
    }
}
