//! A look at a large set, and its drain: `cargo xtask outside`. `DUETIME_ADOPT_MEMBERS` says how many members it has.
//!
//! Times are printed, and never asserted.

use crate::adopt::redis_source::{Adopt, OldSet, now_ms, report, server_on};
use crate::cli::support::until;
use duetime_store::testing::RedisServer;
use std::collections::BTreeMap;
use std::time::Instant;

const MEMBERS_DEFAULT: u64 = 100_000;

/// Looks at many members, and drains them into Redis without a server between, as fast as it goes.
#[test]
fn a_million_members_are_looked_at_and_drained() {
    let members =
        std::env::var("DUETIME_ADOPT_MEMBERS").map_or(MEMBERS_DEFAULT, |text| text.parse().expect("a number"));
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
