//! Claims of an earlier run, and requests without an answer.

use super::framework::{LARAVEL, LARAVEL_CLAIMS, LIST, adopt as run, laravel, number, step};
use super::redis_source::{Adopt, OldSet, QUEUE, jobs_made, made, now_ms, report};
use crate::cli::server::Server;
use crate::cli::support::{Place, pid, until};
use duetime_store::testing::RedisServer;
use nix::sys::signal::{Signal, kill};
use std::time::{Duration, Instant};

const KEY: &str = "delayed";

/// Writes a claim as a run does that is killed before it removes it: the queue, and what the layout notes.
fn claim(redis: &RedisServer, log: &str, id: &str, texts: &[&str]) {
    let packed: String = texts.iter().map(|text| format!("{}:{text}", text.len())).collect();
    redis.command(&["HSET", log, id, &packed]);
}

fn claim_of_set(redis: &RedisServer, id: &str, member: &str, score: u64) {
    claim(redis, "duetime:adopt:{delayed}:delayed:claims", id, &[QUEUE, member, &score.to_string(), "milliseconds"]);
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
    claim_of_set(&redis, "adopt-0000-1", "left", now_ms());
    let ran = adopt.run(&adopt.step("--drain"));
    assert!(ran.code == 1 && ran.err.contains("must be a sorted set; it is a hash"), "{ran:?}");
    assert_eq!((&report(&ran.out)["adopted"], old.claims(), jobs_made(&server)), (&1.into(), 0, 1), "{ran:?}");

    redis.command(&["RPUSH", LIST, "no job"]);
    claim(&redis, LARAVEL_CLAIMS, "adopt-0000-1", &["mail", LIST, &laravel(7, ""), "1700000000"]);
    let ran = run(&server, &redis, &step(&LARAVEL, "--follow"));
    assert!(ran.code == 2 && ran.err.contains("these are not jobs of laravel"), "{ran:?}");
    assert_eq!((number(&redis, &["HLEN", LARAVEL_CLAIMS]), number(&redis, &["LLEN", LIST])), (0, 1));
    assert_eq!(made(&server).iter().filter(|made| made.member == laravel(7, "").as_bytes()).count(), 1);
}

/// The answer to the push of a repeat is lost. Before it is pushed again, the member was added once more, and the job has run.
#[test]
fn a_repeat_whose_answer_is_lost_makes_one_job() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut old = OldSet::open(&redis.url(), KEY);
    let adopt = Adopt::new(&server, "zset", &redis.url(), KEY);
    old.add(b"order", now_ms() + 3_600_000);
    adopt.drain();
    let now = now_ms();
    let states = || {
        let jobs = made(&server).into_iter().map(|made| made.job["state"].as_str().unwrap().to_owned());
        jobs.collect::<std::collections::BTreeSet<_>>()
    };
    for (count, id, is_repeat) in [(2, "adopt-1", false), (2, "adopt-1", true), (3, "adopt-2", false)] {
        claim_of_set(&redis, id, "order", now);
        assert_eq!(adopt.drain()["repeated"], u64::from(is_repeat));
        assert_eq!((jobs_made(&server), old.claims()), (count, 0));
        assert_eq!(states(), ["cancelled".to_owned(), "ready".to_owned()].into());
    }
    assert_eq!(server.run(&["take", QUEUE]).code, 0);
    for id in ["adopt-1", "adopt-2"] {
        claim_of_set(&redis, id, "order", now);
        assert_eq!(adopt.drain()["repeated"], 1);
    }
    assert_eq!(states(), ["cancelled".to_owned(), "succeeded".to_owned()].into());
    // Another repeat is another job, once that one has started.
    old.add(b"order", now);
    adopt.drain();
    assert_eq!(jobs_made(&server), 4);
}

/// A member was claimed, added again and claimed again.
#[test]
fn the_last_of_the_claims_of_a_member_counts() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let adopt = Adopt::new(&server, "zset", &redis.url(), KEY);
    let due_at = now_ms() + 3_600_000;
    // Later claims are due earlier and later by turns. The log does not have them in their order.
    let due_of = |n: u64| due_at + u64::from(n.is_multiple_of(2)) * 10_000 - n * 10;
    for n in (1..100).map(|n| n * 37 % 100) {
        claim_of_set(&redis, &format!("adopt-{n:03}"), "order", due_of(n));
    }
    assert_eq!(adopt.drain()["adopted"], 99);
    let jobs = made(&server);
    let live: Vec<_> = jobs.iter().filter(|made| made.job["state"] == "scheduled").map(|made| made.due_at).collect();
    assert_eq!((jobs.len(), live), (99, vec![due_of(99)]));
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

#[test]
fn a_follower_tells_that_the_server_is_away_and_goes_on() {
    let (mut server, redis) = (Server::start(), RedisServer::start());
    let mut old = OldSet::open(&redis.url(), KEY);
    let adopt = Adopt::new(&server, "zset", &redis.url(), KEY);
    let follower = adopt.follow();
    old.add(b"first", now_ms());
    until("it has begun", || (jobs_made(&server) == 1 && old.claims() == 0).then_some(()));
    server.stop();
    old.add(b"second", now_ms());
    until("it is claimed", || (old.claims() == 1).then_some(()));
    let address = server.url.trim_start_matches("http://").to_owned();
    let place = std::mem::replace(&mut server.place, Place::new());
    let command = place.command(&["serve", "--listen", &address]);
    let server = Server::spawn(place, command);
    until("it is pushed", || (jobs_made(&server) == 2 && old.claims() == 0).then_some(()));
    kill(pid(follower.0.as_ref().unwrap()), Signal::SIGTERM).unwrap();
    let ran = follower.wait();
    assert_eq!(ran.code, 0, "{ran:?}");
    let told: Vec<&str> = ran.err.lines().filter(|line| line.contains("pushed")).collect();
    assert_eq!(told.len(), 2, "{ran:?}");
    assert!(told[0].starts_with("jobs cannot be pushed: ") && told[1] == "jobs are pushed again", "{told:?}");
}

/// Origins are known by queue: in another one, the same claim would be a second job.
#[test]
fn claims_are_finished_in_the_queue_for_which_they_were_made() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut old = OldSet::open(&redis.url(), KEY);
    claim_of_set(&redis, "adopt-1", "order", now_ms());
    let other = Adopt::from_words(&server, &redis.url(), &["zset", "--key", KEY, "--to", "elsewhere"]);
    assert!(other.look()["first"].to_string().contains(&format!("with --to {QUEUE}:")));
    let ran = other.run(&other.step("--drain"));
    assert!(
        ran.code == 2 && ran.err.contains(&format!("run the command with --to {QUEUE}: it finishes the claims")),
        "{ran:?}"
    );
    assert_eq!((jobs_made(&server), old.claims()), (0, 1));
    Adopt::new(&server, "zset", &redis.url(), KEY).drain();
    assert_eq!((jobs_made(&server), old.claims()), (1, 0));
    other.drain();
}

/// A member, and the key of its job, is a name in its own set.
#[test]
fn the_same_member_of_another_set_is_refused_while_the_first_waits() {
    let (server, redis) = (Server::start(), RedisServer::start());
    for layout in ["zset", "locked-set"] {
        let keys = [format!("one of {layout}"), format!("other of {layout}")];
        let [mut one, mut other] = keys.each_ref().map(|key| OldSet::open(&redis.url(), key));
        let [adopt_one, adopt_other] = keys.each_ref().map(|key| Adopt::new(&server, layout, &redis.url(), key));
        let member = format!("user of {layout}");
        one.add(member.as_bytes(), now_ms());
        other.add(member.as_bytes(), now_ms());
        adopt_one.drain();
        let ran = adopt_other.run(&adopt_other.step("--drain"));
        assert!(ran.code == 1 && ran.err.contains("belongs to the live job"), "{ran:?}");
        assert_eq!((other.count(), other.claims()), (1, 0), "it is back");
        assert_eq!(server.run(&["take", QUEUE]).code, 0);
        adopt_other.drain();
        assert_eq!(server.run(&["take", QUEUE]).code, 0);
    }
}

#[test]
fn counts_add_up_though_the_connection_to_the_source_breaks() {
    const MEMBERS: u64 = 10_000;
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut old = OldSet::open(&redis.url(), KEY);
    (0..MEMBERS).for_each(|n| _ = old.add(format!("order {n}").as_bytes(), now_ms()));
    let report = std::thread::scope(|scope| {
        let drain = scope.spawn(|| Adopt::new(&server, "zset", &redis.url(), KEY).drain());
        for left in (1..MEMBERS).rev().step_by(700) {
            until("some are taken", || (number(&redis, &["ZCARD", KEY]) <= left).then_some(()));
            redis.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        }
        drain.join().unwrap()
    });
    let [claimed, adopted, repeated, refused, left] =
        ["claimed", "adopted", "repeated", "refused", "left_claimed"].map(|name| report[name].as_u64().unwrap());
    assert_eq!((claimed, refused, left), (adopted + repeated, 0, 0), "{report}");
    // A reply to the end of a claim can be lost.
    assert!(claimed <= MEMBERS, "{report}");
    assert_eq!(jobs_made(&server) as u64, MEMBERS);
}

/// The end of a drain is exit code 0 only if everything was taken.
#[test]
fn a_drain_that_is_stopped_before_its_end_says_what_is_left() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut old = OldSet::open(&redis.url(), KEY);
    old.add(b"order", now_ms() / 1_000 - 60);
    redis.command(&["SET", &format!("Lock:{KEY}"), "1"]);
    let adopt = Adopt::new(&server, "locked-set", &redis.url(), KEY);
    let running = adopt.spawn("--drain");
    // The look asks once for the lock.
    until("it waits for the lock", || (old.calls("exists") > 2).then_some(()));
    let ran = running.end();
    let report = report(&ran.out);
    assert_eq!((ran.code, &report["claimed"], &report["there"][0]["due"]), (75, &0.into(), &1.into()), "{ran:?}");
    assert!(ran.err.contains("run the same command again"), "{ran:?}");
}

#[test]
fn what_cannot_go_back_is_counted_as_claimed() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut old = OldSet::open(&redis.url(), KEY);
    let later_s = now_ms() / 1_000 + 3_600;
    old.add(&vec![b'x'; 1_100_000], later_s);
    old.add(b"order", later_s);
    redis.command(&["ACL", "SETUSER", "shop", "on", ">hush", "~*", "&*", "+@all", "-zadd"]);
    let url = redis.url().replace("redis://", "redis://shop:hush@");
    let adopt = Adopt::new(&server, "zset", &url, KEY);
    let ran = adopt.run(&adopt.step("--drain"));
    let counted = report(&ran.out);
    let counts = ["claimed", "adopted", "refused", "left_claimed"].map(|name| counted[name].as_u64().unwrap());
    assert_eq!((ran.code, counts, old.claims(), old.count()), (1, [2, 1, 0, 1], 1, 0), "{ran:?}");
    assert!(ran.err.contains("may not run all commands") && !ran.err.contains("hush"), "{ran:?}");
    redis.command(&["ACL", "SETUSER", "shop", "+zadd"]);
    assert_eq!((adopt.run(&adopt.step("--drain")).code, old.claims(), old.count()), (1, 0, 1));
}
