//! The command and Redis are killed, and each job is in one place.

use super::framework::{
    DELAYED, LARAVEL, LARAVEL_CLAIMS, LIST, NOTIFY, RESERVED, SIDEKIQ_CLAIMS, add, command, connect, drain, due_ms,
    jobs, kills, laravel, lines, now_ms, number, seeded, sidekiq, spawn, step, succeeded_or_killed,
};
use crate::cli::server::Server;
use crate::cli::support::{Place, until};
use crate::common::Random;
use duetime_store::testing::RedisServer;
use serde_json::json;
use std::collections::HashMap;
use std::process::{Child, Stdio};

/// The command is killed so often in each test, unless `DUETIME_ADOPT_KILLS` says otherwise.
const KILLS: u64 = 24;

/// A source, and how its old code feeds it and takes from it.
struct Old {
    source: &'static [&'static str],
    claims: &'static str,
    sets: &'static [&'static str],
    lists: &'static [&'static str],
    job: fn(u64) -> String,
    push: fn(&mut redis::Pipeline, &str, &str),
    /// Pops a job as a worker does, from the list `KEYS[1]`.
    pop: &'static str,
}

const OF_LARAVEL: Old = Old {
    source: &LARAVEL,
    claims: LARAVEL_CLAIMS,
    sets: &[DELAYED],
    lists: &[LIST],
    job: |n| laravel(n, ""),
    push: |pipe, list, job| {
        pipe.rpush(list, job).rpush(NOTIFY, 1);
    },
    pop: "redis.call('LPOP', KEYS[1] .. ':notify') return redis.call('LPOP', KEYS[1])",
};

const OF_SIDEKIQ: Old = Old {
    source: &["sidekiq"],
    claims: SIDEKIQ_CLAIMS,
    sets: &["schedule", "retry"],
    lists: &["queue:default", "queue:low"],
    job: |n| sidekiq(n, "default", ""),
    push: |pipe, list, job| {
        pipe.sadd("queues", list.trim_start_matches("queue:")).lpush(list, job);
    },
    pop: "return redis.call('RPOP', KEYS[1])",
};

fn one_of<T: Copy>(all: &[T], random: &mut Random) -> T {
    all[random.within(0..all.len() as u64) as usize]
}

impl Old {
    /// The number of jobs that are ready, or have a score up to this.
    fn left(&self, redis: &RedisServer, max: &str) -> u64 {
        let sets = self.sets.iter().map(|set| number(redis, &["ZCOUNT", set, "-inf", max]));
        sets.chain(self.lists.iter().map(|list| number(redis, &["LLEN", list]))).sum()
    }

    /// Feeds some jobs, and notes when each is due; 0 for those that are ready. Answers those that wait in a sorted set.
    fn feed(
        &self,
        redis: &RedisServer,
        random: &mut Random,
        put: &mut HashMap<String, u64>,
    ) -> Vec<(&'static str, String)> {
        let now = now_ms() / 1_000;
        let (mut pipe, mut waiting) = (redis::pipe(), Vec::new());
        // Now and then more than one claim takes.
        let most = if random.percent(20) { 1_500 } else { 300 };
        for _ in 0..random.within(50..most) {
            let job = (self.job)(put.len() as u64);
            let mut due_ms = 0;
            if random.percent(40) {
                (self.push)(&mut pipe, one_of(self.lists, random), &job);
            } else {
                let set = one_of(self.sets, random);
                let score = if random.percent(50) { now - random.within(0..9) } else { now + 50_000 };
                pipe.zadd(set, &job, score);
                waiting.push((set, job.clone()));
                due_ms = score * 1_000;
            }
            put.insert(job, due_ms);
        }
        let _: redis::Value = pipe.query(&mut connect(redis)).unwrap();
        waiting
    }
}

fn has_ended(child: &mut Child) -> bool {
    child.try_wait().unwrap().is_some()
}

/// Each job must be in one place: once in the server, with its due time, or once elsewhere.
fn account(server: &Server, mut put: HashMap<String, u64>, elsewhere: Vec<String>) {
    let adopted = jobs(server);
    println!("{} jobs, {} of them adopted", put.len(), adopted.len());
    for (payload, job) in adopted {
        let due = put.remove(&payload).unwrap_or_else(|| panic!("twice, or never put: {job}"));
        assert!(due == 0 || due_ms(&job) == due, "{due}: {job}");
    }
    for job in elsewhere {
        assert!(put.remove(&job).is_some(), "twice, or adopted as well: {job}");
    }
    assert!(put.is_empty(), "{} are lost, such as {:?}", put.len(), put.iter().next());
}

/// Kills the command over and over, while the old code goes on: jobs are pushed, cancelled, and run by a worker.
fn kill_beside_the_old_code(old: &Old) {
    let mut random = seeded();
    let (server, redis) = (Server::start(), RedisServer::start());
    let (mut put, mut waiting) = (HashMap::new(), Vec::new());
    let (mut cancelled, mut ran) = (Vec::new(), Vec::new());
    let mut connection = connect(&redis);
    for _ in 0..kills(KILLS) {
        waiting.extend(old.feed(&redis, &mut random, &mut put));
        let now = (now_ms() / 1_000).to_string();
        let (how, max) = if random.percent(50) { ("--drain", "+inf") } else { ("--follow", &*now) };
        let until_left = random.within(0..old.left(&redis, max) + 1);
        let mut child = spawn(&server, &redis, &step(old.source, how));
        until("progress, or the end", || {
            if random.percent(5) && !waiting.is_empty() {
                let (set, job) = waiting.swap_remove(random.within(0..waiting.len() as u64) as usize);
                let removed: u64 = redis::cmd("ZREM").arg(set).arg(&job).query(&mut connection).unwrap();
                cancelled.extend((removed == 1).then_some(job));
            }
            if random.percent(5) {
                let list = one_of(old.lists, &mut random);
                let job: Option<String> =
                    redis::cmd("EVAL").arg(old.pop).arg(1).arg(list).query(&mut connection).unwrap();
                ran.extend(job);
            }
            (old.left(&redis, max) <= until_left || has_ended(&mut child)).then_some(())
        });
        let _ = child.kill();
        succeeded_or_killed(child);
    }
    drain(&server, &redis, old.source, 0);
    println!("{} were run by the worker, {} cancelled", ran.len(), cancelled.len());
    assert_eq!(number(&redis, &["EXISTS", old.claims]), 0, "no claim is left");
    assert_eq!(old.left(&redis, "+inf"), 0);
    account(&server, put, [ran, cancelled].concat());
}

#[test]
fn kill_of_the_command_beside_laravel_loses_and_doubles_nothing() {
    kill_beside_the_old_code(&OF_LARAVEL);
}

#[test]
fn kill_of_the_command_beside_sidekiq_loses_and_doubles_nothing() {
    kill_beside_the_old_code(&OF_SIDEKIQ);
}

/// A Redis that keeps what it has acknowledged: it writes each change to the disk.
fn durable() -> RedisServer {
    RedisServer::with(&["--appendonly", "yes", "--appendfsync", "always"])
}

fn kill_redis(old: &Old) {
    let mut random = seeded();
    let (server, mut redis, mut put) = (Server::start(), durable(), HashMap::new());
    for round in 0..kills(KILLS) / 3 {
        old.feed(&redis, &mut random, &mut put);
        // Less than there is: a command that has not begun gives up at once.
        let until_left = random.within(0..old.left(&redis, "+inf"));
        let mut command = command(&server, &redis, &step(old.source, "--drain"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        until("progress, or the end", || {
            (old.left(&redis, "+inf") <= until_left || has_ended(&mut child)).then_some(())
        });
        // Either both die, or the command finds it again.
        let both = round % 2 == 0;
        if both {
            let _ = child.kill();
        }
        redis.kill();
        redis.start_again();
        if both {
            succeeded_or_killed(child);
        } else {
            let ended = child.wait_with_output().unwrap();
            assert!(ended.status.success(), "{ended:?}");
        }
    }
    drain(&server, &redis, old.source, 0);
    assert_eq!(number(&redis, &["EXISTS", old.claims]), 0, "no claim is left");
    account(&server, put, Vec::new());
}

#[test]
fn kill_of_redis_with_laravel_loses_and_doubles_nothing() {
    kill_redis(&OF_LARAVEL);
}

#[test]
fn kill_of_redis_with_sidekiq_loses_and_doubles_nothing() {
    kill_redis(&OF_SIDEKIQ);
}

/// Pops all that is in Laravel's list, and counts it.
fn pop_all(redis: &RedisServer, due: &HashMap<String, u64>, back: &mut HashMap<String, u64>) {
    let script = "local all = redis.call('LRANGE', KEYS[1], 0, -1) redis.call('DEL', KEYS[1]) return all";
    for job in lines(redis, &["EVAL", script, "1", LIST]) {
        assert!(now_ms() >= due[&job], "early: {job}");
        *back.entry(job).or_default() += 1;
    }
}

/// The command dies over and over, and Redis once while jobs go back to it.
#[test]
fn kill_of_the_command_and_of_redis_hands_back_each_job() {
    let mut random = seeded();
    let mut redis = durable();
    let server = Server::start_in(Place::new(), &["--deliver-redis", &redis.url()]);
    let target = json!({"redis_list": {"url": redis.url(), "key": LIST, "as": "laravel"}}).to_string();
    assert_eq!(server.run(&["queues", "set", "mail", "--target", &target]).code, 0);
    let source = [&LARAVEL[..], &["--hand-back"]].concat();
    let (mut due, mut back) = (HashMap::new(), HashMap::new());
    add(&redis, RESERVED, now_ms() / 1_000 - 5, "left alone");
    for round in 0..kills(KILLS) {
        let (now, mut pipe) = (now_ms() / 1_000, redis::pipe());
        for _ in 0..random.within(50..200) {
            let (job, score) = (laravel(due.len() as u64, ""), now + random.within(0..4));
            pipe.zadd(DELAYED, &job, score);
            due.insert(job, score * 1_000);
        }
        let _: redis::Value = pipe.query(&mut connect(&redis)).unwrap();
        let until_left = random.within(0..number(&redis, &["ZCARD", DELAYED]) + 1);
        let mut child = spawn(&server, &redis, &step(&source, "--drain"));
        until("progress, or the end", || {
            pop_all(&redis, &due, &mut back);
            (number(&redis, &["ZCARD", DELAYED]) <= until_left || has_ended(&mut child)).then_some(())
        });
        let _ = child.kill();
        succeeded_or_killed(child);
        if round == kills(KILLS) / 2 {
            redis.kill();
            redis.start_again();
        }
    }
    drain(&server, &redis, &source, 0);
    until("each job is back, and has ended", || {
        pop_all(&redis, &due, &mut back);
        let has_ended = || jobs(&server).iter().all(|(_, job)| job["state"] == "succeeded");
        (back.len() == due.len() && has_ended()).then_some(())
    });
    pop_all(&redis, &due, &mut back);
    assert_eq!(jobs(&server).len(), due.len(), "each is one job");
    // A reply that was lost with Redis is the one reason for a second time.
    let twice = back.values().filter(|&&count| count > 1).count();
    println!("{} jobs, {twice} of them twice", due.len());
    assert!(back.values().all(|&count| count <= 2), "{back:?}");
    assert_eq!(lines(&redis, &["ZRANGE", RESERVED, "0", "-1"]), ["left alone"]);
}
