//! The command is killed, and each job of message_queue is adopted exactly once.

use super::old_listener::{OldListener, member};
use super::redis_source::{Adopt, OldSet, Running, made, now_ms};
use crate::cli::server::Server;
use crate::cli::support::until;
use crate::common::Random;
use duetime_store::testing::RedisServer;
use std::collections::HashSet;

/// What the command calls while it works. A follower with nothing to do calls only the first.
const CALLS: [&str; 5] = ["eval", "hset", "zrem", "hdel", "hscan"];
const KILLS: u64 = 30;

fn wait_for_progress(log: &mut OldSet, running: &mut Running, step: &str, random: &mut Random) {
    let place = if step == "--drain" { random.within(0..CALLS.len() as u64) } else { 0 };
    let name = CALLS[place as usize];
    let by = if name == "hset" { random.within(0..1_000) } else { random.within(0..4) };
    let before = log.calls(name);
    until("progress, or the end", || (log.calls(name) >= before + by || running.has_ended()).then_some(()));
}

#[test]
fn kill_of_the_command_loses_and_doubles_nothing_of_message_queue() {
    let seed = now_ms();
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let (server, redis) = (Server::start(), RedisServer::start());
    let url = redis.url();
    let (mut old, mut log) = (OldListener::open(&url, "mail"), OldSet::open(&url, "queue:mail"));
    let of = |options: &[&str]| Adopt::new(&server, "message-queue", &url, "mail").with(options);
    let (beside, stopped) = (of(&[]), of(&["--listener-stopped"]));
    let mut total = 0_u64;
    for _ in 0..KILLS {
        for _ in 0..random.within(200..700) {
            let id = total.to_string();
            if random.percent(40) {
                let mut push = redis::cmd("RPUSH");
                old.delayed.ask::<u64>(push.arg("queue:mail:job").arg(member(&id)));
            } else {
                old.push(&id, random.within(0..500) as i64 - 50);
            }
            total += 1;
        }
        let adopt = if random.percent(50) { &beside } else { &stopped };
        let step = if random.percent(70) { "--drain" } else { "--follow" };
        let mut running = adopt.spawn(step);
        wait_for_progress(&mut log, &mut running, step, &mut random);
        // Now and then two at once.
        let other = random.percent(30).then(|| beside.spawn("--drain"));
        running.kill();
        if let Some(mut other) = other {
            wait_for_progress(&mut log, &mut other, "--drain", &mut random);
            other.kill();
        }
    }
    stopped.drain();
    let jobs = made(&server);
    println!("{total} jobs");
    assert_eq!(jobs.len() as u64, total);
    assert_eq!(jobs.into_iter().map(|made| made.member).collect::<HashSet<_>>().len() as u64, total, "each, once");
    assert_eq!((old.left().len(), old.listed().len(), log.claims()), (0, 0, 0));
}
