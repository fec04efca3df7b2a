//! Old code in PHP, many kills, and a million members: `cargo xtask outside`.
//!
//! `DUETIME_ADOPT_KILLS` is how often the command is killed, `DUETIME_ADOPT_MEMBERS` how many members are measured, and `DUETIME_BIN` the
//! binary. Times are printed, and never asserted.

use super::redis_source::{Adopt, OldSet, made, now_ms, report, server_on};
use super::zset_dies::{kill_redis, kill_the_command};
use crate::cli::server::Server;
use crate::cli::support::until;
use duetime_store::testing::{MariaDbServer, RedisServer};
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/adopt/clients/sets.php");
const KILLS_DEFAULT: u64 = 300;
const MEMBERS_DEFAULT: u64 = 100_000;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn kills_of_the_command_lose_and_double_nothing() {
    kill_the_command(number("DUETIME_ADOPT_KILLS", KILLS_DEFAULT));
}

#[test]
fn kills_of_redis_lose_and_double_nothing() {
    kill_redis(number("DUETIME_ADOPT_KILLS", KILLS_DEFAULT) / 4);
}

/// A program of the old code.
fn php(redis: &RedisServer, arguments: &[&str], more: &[&str]) -> Child {
    let port = redis.port().to_string();
    let mut command = Command::new("/usr/bin/php");
    command.arg(SCRIPT).args(arguments).arg(port).args(more);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Ends its input, and reads what it prints.
fn lines(mut child: Child) -> Vec<Vec<u8>> {
    drop(child.stdin.take());
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    ended.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
}

/// Two producers and two consumers in PHP beside a follower; then a drain. Each member is one job or one run.
fn beside_php(layout: &str, key: &str) {
    let (server, redis) = (Server::start(), RedisServer::start());
    let adopt = Adopt::new(&server, layout, &redis.url(), key);
    let follower = adopt.follow();
    let consumers = [0; 2].map(|_| php(&redis, &[layout, "consumer", key], &[]));
    let producers = [0; 2].map(|_| php(&redis, &[layout, "producer", key], &["3000"]));
    let kept: Vec<Vec<u8>> = producers.into_iter().flat_map(lines).collect();
    let ran: Vec<Vec<u8>> = consumers.into_iter().flat_map(lines).collect();
    let followed = follower.stop();
    let drained = adopt.drain();
    println!("{layout}: {} kept, {} ran there, {followed}, {drained}", kept.len(), ran.len());
    let jobs: Vec<Vec<u8>> = made(&server).into_iter().map(|job| job.member).collect();
    assert_eq!(jobs.len() + ran.len(), kept.len());
    let all: BTreeSet<Vec<u8>> = jobs.into_iter().chain(ran).collect();
    assert_eq!(all, kept.into_iter().collect());
    let mut old = OldSet::open(&redis.url(), key);
    assert_eq!((old.count(), old.claims()), (0, 0));
}

#[test]
fn a_plain_set_is_shared_with_php() {
    beside_php("zset", "order_delay");
}

#[test]
fn a_locked_set_is_shared_with_php() {
    beside_php("locked-set", "Queue:mail");
}

#[test]
fn rows_are_taken_while_php_inserts_them() {
    let (server, redis, maria_db) = (Server::start(), RedisServer::start(), MariaDbServer::start());
    let key = "delay_queue_job";
    let dsn = format!("mysql:host=127.0.0.1;port={};dbname=duetime", maria_db.port());
    let producer = || php(&redis, &["table-set", "producer", key], &["1500", &dsn]);
    // The first one makes the table.
    let mut kept = lines(producer());
    let adopt = Adopt::new(&server, "table-set", &redis.url(), key).with(&[
        "--rows",
        &maria_db.url(),
        "--table",
        "delay_queue",
    ]);
    let follower = adopt.follow();
    let producers = [producer(), producer()];
    kept.extend(producers.into_iter().flat_map(lines));
    let followed = follower.stop();
    let drained = adopt.drain();
    println!("{} kept, {followed}, {drained}", kept.len());
    let jobs: Vec<Vec<u8>> = made(&server).into_iter().map(|job| job.member).collect();
    assert_eq!(jobs.len(), kept.len());
    assert_eq!(jobs.into_iter().collect::<BTreeSet<_>>(), kept.into_iter().collect());
    assert_eq!(OldSet::open(&redis.url(), key).count(), 3 * 1_500_usize.div_ceil(7), "the cancelled ones");
}

/// Looks at many members, and drains them into Redis without a server between, as fast as it goes.
#[test]
fn a_million_members_are_looked_at_and_drained() {
    let members = number("DUETIME_ADOPT_MEMBERS", MEMBERS_DEFAULT);
    let (redis, broker) = (RedisServer::start(), RedisServer::start());
    let server = server_on(&broker.url());
    let mut old = OldSet::open(&redis.url(), "delayed");
    let from = now_ms() + 3_600_000;
    let member =
        |n: u64| (format!("order-{n}").into_bytes(), (from + n.wrapping_mul(2_654_435_761) % 2_592_000_000) as f64);
    old.add_all(&(0..members).map(member).collect::<Vec<_>>());
    redis.command(&["CONFIG", "SET", "slowlog-log-slower-than", "1000"]);
    redis.command(&["CONFIG", "SET", "slowlog-max-len", "100000"]);
    redis.command(&["SLOWLOG", "RESET"]);
    let adopt = Adopt::new(&server, "zset", &redis.url(), "delayed").with(&["--server", &broker.url()]);
    let begin = Instant::now();
    assert_eq!(adopt.look()["parts"][0]["later"], members);
    println!("looked at {members} members in {:.0} ms", begin.elapsed().as_secs_f64() * 1e3);
    let begin = Instant::now();
    let running = adopt.spawn("--drain");
    let ran = running.wait();
    let seconds = begin.elapsed().as_secs_f64();
    assert_eq!((ran.code, &report(&ran.out)["adopted"]), (0, &members.into()), "{ran:?}");
    println!("drained in {seconds:.1} s: {:.0} a second", members as f64 / seconds);
    for name in ["eval", "hset", "zrem", "hdel"] {
        println!("{name}: {} calls", old.calls(name));
    }
    println!("calls of 1 ms or more: {}", slow_calls(&mut old).join(", "));
    until("no claim is left", || (old.claims() == 0).then_some(()));
}

/// Calls that took 1 ms or more in Redis: by command their number, their median, and the longest.
fn slow_calls(old: &mut OldSet) -> Vec<String> {
    type Entry = (u64, u64, u64, Vec<Vec<u8>>);
    let entries: Vec<redis::Value> = old.ask(redis::cmd("SLOWLOG").arg("GET").arg(-1));
    let mut times: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for entry in entries {
        let redis::Value::Array(mut fields) = entry else { panic!("{entry:?}") };
        fields.truncate(4);
        let (_, _, micros, words): Entry = redis::from_redis_value(redis::Value::Array(fields)).unwrap();
        times.entry(String::from_utf8_lossy(&words[0]).into_owned()).or_default().push(micros);
    }
    let line = |(name, mut micros): (String, Vec<u64>)| {
        micros.sort_unstable();
        let ms = |micros: u64| micros as f64 / 1e3;
        let (median, longest) = (micros[micros.len() / 2], micros[micros.len() - 1]);
        format!("{name} {} ({:.1} ms, at most {:.1} ms)", micros.len(), ms(median), ms(longest))
    };
    times.into_iter().map(line).collect()
}
