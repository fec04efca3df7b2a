//! `duetime adopt` from a private Redis, the old code's side of it, and the outcome of its members.

use crate::cli::server::Server;
use crate::cli::support::{Place, Ran, finish, pid};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use nix::sys::signal::{Signal, kill};
use redis::{Cmd, Connection, FromRedisValue, Pipeline, ToRedisArgs};
use serde_json::Value;
use serde_json::value::RawValue;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// The queue of all these tests.
pub(super) const QUEUE: &str = "jobs";

/// A sorted set, as the old code has it.
pub(super) struct OldSet {
    connection: Connection,
    pub(super) key: String,
}

impl OldSet {
    pub(super) fn open(url: &str, key: &str) -> Self {
        let connection = redis::Client::open(url).unwrap().get_connection().unwrap();
        Self { connection, key: key.to_owned() }
    }

    pub(super) fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> T {
        command.query(&mut self.connection).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(super) fn pipe(&mut self, pipe: &Pipeline) {
        pipe.query::<redis::Value>(&mut self.connection).unwrap();
    }

    fn of(&self, name: &str) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(&self.key);
        command
    }

    /// Answers whether the member was not there.
    pub(super) fn add(&mut self, member: &[u8], score: impl ToRedisArgs) -> bool {
        let mut command = self.of("ZADD");
        command.arg(score).arg(member);
        self.ask(&command)
    }

    pub(super) fn add_all(&mut self, members: &[(Vec<u8>, f64)]) {
        for some in members.chunks(10_000) {
            let mut command = self.of("ZADD");
            some.iter().for_each(|(member, score)| _ = command.arg(score).arg(member));
            self.ask::<u64>(&command);
        }
    }

    /// Returns whether the member was there.
    pub(super) fn remove(&mut self, member: &[u8]) -> bool {
        let mut command = self.of("ZREM");
        command.arg(member);
        self.ask(&command)
    }

    /// The first members that are due, if scores are milliseconds.
    pub(super) fn due(&mut self, limit: usize) -> Vec<Vec<u8>> {
        let mut command = self.of("ZRANGEBYSCORE");
        command.arg("-inf").arg(now_ms()).arg("LIMIT").arg(0).arg(limit);
        self.ask(&command)
    }

    pub(super) fn members(&mut self) -> Vec<(Vec<u8>, f64)> {
        let mut command = self.of("ZRANGE");
        command.arg(0).arg(-1).arg("WITHSCORES");
        self.ask(&command)
    }

    pub(super) fn score(&mut self, member: &[u8]) -> Option<f64> {
        let mut command = self.of("ZSCORE");
        command.arg(member);
        self.ask(&command)
    }

    pub(super) fn count(&mut self) -> usize {
        let command = self.of("ZCARD");
        self.ask(&command)
    }

    /// Claims in the log.
    pub(super) fn claims(&mut self) -> usize {
        let key = &self.key;
        let tag = key.split_once('{').map_or(key.as_str(), |(_, rest)| rest.split_once('}').unwrap().0);
        let mut command = redis::cmd("HLEN");
        command.arg(format!("duetime:adopt:{{{tag}}}:{key}:claims"));
        self.ask(&command)
    }

    /// The number of calls of a command.
    pub(super) fn calls(&mut self, name: &str) -> u64 {
        let stats: String = self.ask(redis::cmd("INFO").arg("commandstats"));
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls=")));
        line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
    }
}

pub(super) fn now_ms() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap()
}

/// A server whose jobs are in this Redis.
pub(super) fn server_on(url: &str) -> Server {
    let place = Place::new();
    let command = place.bare(&["serve", "--listen", "127.0.0.1:0", "--broker", url]);
    Server::spawn(place, command)
}

/// `duetime adopt`, from a set into a server.
pub(super) struct Adopt<'a> {
    pub(super) server: &'a Server,
    words: Vec<String>,
}

impl<'a> Adopt<'a> {
    pub(super) fn new(server: &'a Server, layout: &str, from: &str, key: &str) -> Self {
        Self::from_words(server, from, &[layout, "--key", key, "--to", QUEUE])
    }

    /// With a layout, and its options.
    pub(super) fn from_words(server: &'a Server, from: &str, words: &[&str]) -> Self {
        let words = [&["adopt", words[0], "--from", from], &words[1..]].concat();
        Self { server, words: words.into_iter().map(str::to_owned).collect() }
    }

    /// With more options.
    pub(super) fn with(mut self, options: &[&str]) -> Self {
        self.words.extend(options.iter().map(|&word| word.to_owned()));
        self
    }

    fn layout(&self) -> &str {
        &self.words[1]
    }

    /// The options of a step.
    pub(super) fn step<'b>(&'b self, step: &'b str) -> [&'b str; 4] {
        [step, "--yes", self.layout(), "--json"]
    }

    pub(super) fn command(&self, options: &[&str]) -> Command {
        let words: Vec<&str> = self.words.iter().map(String::as_str).chain(options.iter().copied()).collect();
        let mut command = self.server.place.bare(&words);
        command.env("DUETIME_SERVER", &self.server.url);
        command
    }

    pub(super) fn run(&self, options: &[&str]) -> Ran {
        finish(self.command(options), b"")
    }

    /// Looks.
    pub(super) fn look(&self) -> Value {
        self.look_with(0)
    }

    /// Looks, with this exit code: 1 if something that was named is not there.
    pub(super) fn look_with(&self, code: i32) -> Value {
        let ran = self.run(&["--json"]);
        assert_eq!((ran.code, &*ran.err), (code, ""), "{ran:?}");
        serde_json::from_str(&ran.out).unwrap()
    }

    /// Drains, which must succeed, and returns the report.
    pub(super) fn drain(&self) -> Value {
        let ran = self.run(&self.step("--drain"));
        assert_eq!(ran.code, 0, "{ran:?}");
        report(&ran.out)
    }

    /// A drain, or a follower, that runs beside the test.
    pub(super) fn spawn(&self, step: &str) -> Running {
        let mut command = self.command(&self.step(step));
        Running(Some(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
    }

    pub(super) fn follow(&self) -> Running {
        self.spawn("--follow")
    }
}

/// The last line that the command prints.
pub(super) fn report(out: &str) -> Value {
    serde_json::from_str(out.lines().last().unwrap_or_else(|| panic!("no report"))).unwrap()
}

/// The command; killed when it is dropped.
pub(super) struct Running(pub(super) Option<Child>);

impl Running {
    pub(super) fn has_ended(&mut self) -> bool {
        self.0.as_mut().unwrap().try_wait().unwrap().is_some()
    }

    /// SIGKILL.
    pub(super) fn kill(mut self) {
        let mut child = self.0.take().unwrap();
        let _ = child.kill();
        child.wait().unwrap();
    }

    /// Waits for its end; returns its exit code and its output.
    pub(super) fn wait(mut self) -> Ran {
        let ended = self.0.take().unwrap().wait_with_output().unwrap();
        let [out, err] = [ended.stdout, ended.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        Ran { code: ended.status.code().unwrap_or(-1), out, err }
    }

    /// Sends SIGTERM.
    pub(super) fn end(self) -> Ran {
        kill(pid(self.0.as_ref().unwrap()), Signal::SIGTERM).unwrap();
        self.wait()
    }

    /// Sends SIGTERM; returns its report.
    pub(super) fn stop(self) -> Value {
        let ran = self.end();
        assert_eq!(ran.code, 0, "{ran:?}");
        report(&ran.out)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
        }
    }
}

/// Ends a thread beside a test, also if the test fails.
pub(super) struct Ends<'a>(pub(super) &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A job that was made of a member.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) member: Vec<u8>,
    pub(super) key: Option<String>,
    pub(super) due_at: u64,
    pub(super) created_at: u64,
    /// All of it except its payload.
    pub(super) job: Value,
}

/// All jobs of a server.
pub(super) fn made(server: &Server) -> Vec<Made> {
    #[derive(serde::Deserialize)]
    struct Page {
        jobs: Vec<Box<RawValue>>,
    }
    #[derive(serde::Deserialize)]
    struct Payload {
        payload: Option<Box<RawValue>>,
        payload_base64: Option<String>,
    }
    let ran = server.run(&["list", "--limit", "1000000", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let page: Page = serde_json::from_str(&ran.out).unwrap();
    let made = |job: Box<RawValue>| {
        let Payload { payload, payload_base64 } = serde_json::from_str(job.get()).unwrap();
        let member = match payload_base64 {
            Some(text) => BASE64_STANDARD.decode(text).unwrap(),
            None => payload.unwrap().get().as_bytes().to_vec(),
        };
        let job: Value = serde_json::from_str(job.get()).unwrap();
        let instant = |name: &str| {
            let at: jiff::Timestamp = job[name].as_str().unwrap().parse().unwrap();
            u64::try_from(at.as_millisecond()).unwrap()
        };
        let key = job["key"].as_str().map(str::to_owned);
        Made { member, key, due_at: instant("due_at"), created_at: instant("created_at"), job }
    };
    page.jobs.into_iter().map(made).collect()
}

/// The number of jobs of a server.
pub(super) fn jobs_made(server: &Server) -> usize {
    made(server).len()
}
