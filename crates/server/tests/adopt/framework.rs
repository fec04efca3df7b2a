//! Imitated jobs of Laravel and Sidekiq in Redis, and commands that take them.

use crate::cli::server::Server;
use crate::cli::support::{Ran, finish, pid};
use crate::common::Random;
use duetime_store::testing::RedisServer;
use nix::sys::signal::{Signal, kill};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};

/// Of Laravel's queue `default`, with a prefix.
pub(super) const LARAVEL: [&str; 7] = ["laravel", "--prefix", "shop_", "--key", "default", "--to", "mail"];
pub(super) const LIST: &str = "shop_queues:default";
pub(super) const DELAYED: &str = "shop_queues:default:delayed";
pub(super) const RESERVED: &str = "shop_queues:default:reserved";
pub(super) const NOTIFY: &str = "shop_queues:default:notify";
pub(super) const LARAVEL_CLAIMS: &str = "duetime:adopt:{shop_queues:default}:shop_queues:default:claims";
pub(super) const SIDEKIQ_CLAIMS: &str = "duetime:adopt:{queues}:queues:claims";

pub(super) fn now_ms() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap()
}

/// A source of random numbers, whose seed is printed.
pub(super) fn seeded() -> Random {
    let seed = now_ms();
    println!("seed {seed}");
    Random::new(seed)
}

/// The number of times that a command is killed.
pub(super) fn kills(default: u64) -> u64 {
    std::env::var("DUETIME_ADOPT_KILLS").map_or(default, |kills| kills.parse().unwrap())
}

/// A job as Laravel writes it, with other fields before `data`, such as `"maxTries":3,`.
pub(super) fn laravel(n: u64, own: &str) -> String {
    let attempts = if own.contains("attempts") { "" } else { r#""attempts":0,"# };
    format!(
        r#"{{"uuid":"{n:08}-87a6-4a52-9eb5-0bd3fa2e6cd6","displayName":"App\\Jobs\\Ship","job":"Illuminate\\Queue\\CallQueuedHandler@call",{own}"data":{{"commandName":"App\\Jobs\\Ship","command":"O:13:\"App\\Jobs\\Ship\":1:{{s:5:\"order\";i:{n};}}","price":1.10}},{attempts}"id":"{n}"}}"#
    )
}

/// A job as Sidekiq writes it, with other fields, such as `"retry":5,`.
pub(super) fn sidekiq(n: u64, queue: &str, own: &str) -> String {
    format!(
        r#"{{{own}"queue":"{queue}","class":"Ship","args":[{n}, 12345678901234567890123, "é"],"jid":"{n:024x}","created_at":1700000000.25}}"#
    )
}

pub(super) fn connect(redis: &RedisServer) -> redis::Connection {
    redis::Client::open(redis.url()).unwrap().get_connection().unwrap()
}

/// A command with many texts.
pub(super) fn give(redis: &RedisServer, command: &[&str], texts: &[String]) {
    if !texts.is_empty() {
        let texts = texts.iter().map(String::as_str);
        redis.command(&command.iter().copied().chain(texts).collect::<Vec<_>>());
    }
}

/// Pushes ready jobs as Laravel does.
pub(super) fn push_ready(redis: &RedisServer, jobs: &[String]) {
    give(redis, &["RPUSH", LIST], jobs);
    give(redis, &["RPUSH", NOTIFY], &vec!["1".to_owned(); jobs.len()]);
}

#[expect(clippy::needless_pass_by_value, reason = "calls are short with numbers of any type")]
pub(super) fn add(redis: &RedisServer, key: &str, score: impl ToString, member: &str) {
    redis.command(&["ZADD", key, &score.to_string(), member]);
}

/// A number that Redis answers.
pub(super) fn number(redis: &RedisServer, words: &[&str]) -> u64 {
    redis.command(words).parse().unwrap()
}

/// All that a Redis has.
pub(super) fn digest(redis: &RedisServer) -> String {
    let script = "local all, keys = {}, redis.call('KEYS', '*') table.sort(keys)
        for _, key in ipairs(keys) do all[#all + 1] = key .. redis.call('DUMP', key) end
        return redis.sha1hex(table.concat(all))";
    redis.command(&["EVAL", script, "0"])
}

pub(super) fn lines(redis: &RedisServer, words: &[&str]) -> Vec<String> {
    redis.command(words).lines().map(str::to_owned).collect()
}

/// `duetime adopt` from there, into this server. The first argument is the source.
pub(super) fn command(server: &Server, redis: &RedisServer, arguments: &[&str]) -> Command {
    let url = redis.url();
    let mut command = server.place.bare(&[&["adopt", arguments[0], "--from", &url], &arguments[1..]].concat());
    command.env("DUETIME_SERVER", &server.url);
    command
}

pub(super) fn adopt(server: &Server, redis: &RedisServer, arguments: &[&str]) -> Ran {
    finish(command(server, redis, arguments), b"")
}

/// A source with the options of a step.
pub(super) fn step<'a>(source: &[&'a str], step: &'a str) -> Vec<&'a str> {
    [source, &[step, "--yes", source[0], "--json"]].concat()
}

/// The report of a drain that ends with this code.
pub(super) fn drain(server: &Server, redis: &RedisServer, source: &[&str], code: i32) -> Value {
    let ran = adopt(server, redis, &step(source, "--drain"));
    assert_eq!(ran.code, code, "{ran:?}");
    serde_json::from_str(ran.out.lines().last().unwrap()).unwrap()
}

/// All jobs of a server, each with its exact payload.
pub(super) fn jobs(server: &Server) -> Vec<(String, Value)> {
    #[derive(Deserialize)]
    struct Page {
        jobs: Vec<Box<RawValue>>,
    }
    #[derive(Deserialize)]
    struct Job {
        payload: Box<RawValue>,
    }
    let ran = server.run(&["list", "--limit", "100000", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let page: Page = serde_json::from_str(&ran.out).unwrap();
    let read = |job: &RawValue| {
        let Job { payload } = serde_json::from_str(job.get()).unwrap();
        (payload.get().to_owned(), serde_json::from_str(job.get()).unwrap())
    };
    page.jobs.iter().map(|job| read(job)).collect()
}

/// The due time of a job, in milliseconds.
pub(super) fn due_ms(job: &Value) -> u64 {
    let at: jiff::Timestamp = job["due_at"].as_str().unwrap().parse().unwrap();
    u64::try_from(at.as_millisecond()).unwrap()
}

/// A command that may be killed.
pub(super) fn spawn(server: &Server, redis: &RedisServer, arguments: &[&str]) -> Child {
    let mut command = command(server, redis, arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits for its end.
pub(super) fn succeeded_or_killed(mut child: Child) {
    let status = child.wait().unwrap();
    assert!(status.success() || status.signal() == Some(Signal::SIGKILL as i32), "{status}");
}

/// A command that runs until it is stopped.
pub(super) struct Running(Option<Child>);

impl Running {
    pub(super) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(Some(command.spawn().unwrap()))
    }

    /// Stops it with SIGTERM; returns its report.
    pub(super) fn stop(mut self, code: i32) -> Value {
        let child = self.0.take().unwrap();
        kill(pid(&child), Signal::SIGTERM).unwrap();
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(code), "{ended:?}");
        let out = String::from_utf8(ended.stdout).unwrap();
        serde_json::from_str(out.lines().last().unwrap()).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
