//! The command and Redis are killed while jobs go back to Laravel.

use super::framework::{
    DELAYED, LARAVEL, LIST, RESERVED, add, connect, drain, jobs, kills, laravel, lines, now_ms, number, seeded, spawn,
    step, succeeded_or_killed,
};
use crate::cli::server::Server;
use crate::cli::support::{Place, until};
use duetime_store::testing::RedisServer;
use serde_json::json;
use std::collections::HashMap;

/// How often the command is killed, unless `DUETIME_ADOPT_KILLS` says otherwise.
const KILLS: u64 = 24;

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
    let mut redis = RedisServer::with(&["--appendonly", "yes", "--appendfsync", "always"]);
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
            (number(&redis, &["ZCARD", DELAYED]) <= until_left || child.try_wait().unwrap().is_some()).then_some(())
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
