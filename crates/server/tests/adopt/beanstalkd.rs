//! From Debian's beanstalkd.

use crate::beanstalk::limits::token;
use crate::beanstalk::script::Talk;
use crate::beanstalk::server::{Alone, free_port};
use crate::cli::server::Server;
use crate::cli::support::{Place, Ran, finish, pid, until};
use crate::common::Random;
use duetime_store::testing::RedisServer;
use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};

pub(super) fn put(talk: &mut Talk, tube: &str, head: &str, body: &[u8]) -> String {
    assert_eq!(talk.ask(&format!("use {tube}")), format!("USING {tube}"));
    talk.send(&[format!("put {head} {}\r\n", body.len()).as_bytes(), body, b"\r\n"].concat());
    talk.line().strip_prefix("INSERTED ").unwrap().to_owned()
}

/// `duetime adopt beanstalkd` from there, into this server.
pub(super) fn command(server: &Server, source: &Alone, arguments: &[&str]) -> Command {
    let from = source.address.to_string();
    let mut command = server.place.bare(&[&["adopt", "beanstalkd", "--from", &from], arguments].concat());
    command.env("DUETIME_SERVER", &server.url);
    command
}

pub(super) fn adopt(server: &Server, source: &Alone, arguments: &[&str]) -> Ran {
    finish(command(server, source, arguments), b"")
}

pub(super) const DRAIN: [&str; 4] = ["--drain", "--yes", "beanstalkd", "--json"];

/// Runs a drain and returns its report.
pub(super) fn drain(server: &Server, source: &Alone) -> Value {
    let ran = adopt(server, source, &DRAIN);
    assert_eq!(ran.code, 0, "{ran:?}");
    serde_json::from_str(ran.out.lines().last().unwrap()).unwrap()
}

/// All jobs of a server.
pub(super) fn jobs(server: &Server) -> Vec<Value> {
    server.json(&["list", "--limit", "100000"])["jobs"].as_array().unwrap().clone()
}

fn number(talk: &mut Talk, ask: &str, key: &str) -> u64 {
    talk.stats(ask).unwrap()[key].parse().unwrap()
}

/// Counts of the whole source, in the order of states.
pub(super) fn counts(talk: &mut Talk) -> [u64; 4] {
    ["ready", "delayed", "reserved", "buried"].map(|state| number(talk, "stats", &format!("current-jobs-{state}")))
}

#[test]
fn a_look_changes_nothing_and_says_how_to_go_on() {
    let (server, source) = (Server::start(), Alone::original(free_port(), &[]));
    let mut talk = Talk::open(source.address);
    put(&mut talk, "mail", "7 0 60", b"{\"to\":1}");
    put(&mut talk, "mail", "7 3600 60", b"later");
    put(&mut talk, "mail", "0 0 60", b"bad");
    talk.ask("watch mail");
    assert!(talk.ask("reserve").starts_with("RESERVED 3"));
    talk.line();
    talk.ask("bury 3 0");
    let looked = adopt(&server, &source, &[]);
    assert_eq!((looked.code, &*looked.err), (0, ""), "{looked:?}");
    for text in
        ["recognised: beanstalkd", "1 buried, 0 reserved", "{\"to\":1}", "in 60 min", "--drain --yes beanstalkd"]
    {
        assert!(looked.out.contains(text), "{text}: {}", looked.out);
    }
    let look: Value = serde_json::from_str(&adopt(&server, &source, &["--json"]).out).unwrap();
    assert_eq!(look["parts"][0]["name"], "mail");
    assert_eq!((&look["parts"][0]["due"], &look["parts"][0]["later"]), (&1.into(), &1.into()));
    assert_eq!(look["samples"].as_array().unwrap().len(), 2);

    for (arguments, expected) in [
        (&["--drain", "--yes", "laravel"][..], "the layout that was recognised is beanstalkd"),
        (&["--drain"], "--yes"),
        (&["--yes", "beanstalkd"], "--yes needs --follow or --drain"),
        (&["--drain", "--follow", "--yes", "beanstalkd"], "cannot be used with"),
        (&["--tube", "no tube"], "queue"),
        (&["--tube", "duetime-adopt"], "is reserved for claims"),
    ] {
        let ran = adopt(&server, &source, arguments);
        assert!(ran.code == 2 && ran.err.contains(expected), "{arguments:?}: {ran:?}");
    }
    assert_eq!(counts(&mut talk), [1, 1, 0, 1]);
    assert_eq!(jobs(&server).len(), 0);
    let missing = adopt(&server, &source, &["--tube", "mial"]);
    assert!(missing.code == 1 && missing.out.contains("The tube \"mial\" does not exist"), "{missing:?}");
    let ran = finish(server.place.bare(&["adopt", "beanstalkd", "--from", "beanstalk://127.0.0.1:11300"]), b"");
    assert!(ran.code == 2 && ran.err.contains("expected --from HOST or HOST:PORT"), "{ran:?}");

    let own = Alone::start(&[]);
    put(&mut Talk::open(own.address), "mail", "0 0 60", b"ours");
    for arguments in [&[][..], &DRAIN] {
        let ran = adopt(&server, &own, arguments);
        assert!(ran.code == 2 && ran.err.contains("is Duetime, not beanstalkd"), "{ran:?}");
    }

    let redis = RedisServer::start();
    let other = server.place.bare(&["adopt", "beanstalkd", "--from", &format!("127.0.0.1:{}", redis.port())]);
    let ran = finish(other, b"");
    assert!(ran.code == 1 && ran.err.contains("is not beanstalkd: it answered \"-ERR"), "{ran:?}");

    let no_source = server.place.bare(&["adopt", "beanstalkd", "--from", "127.0.0.1:1"]);
    let ran = finish(no_source, b"");
    assert!(ran.code == 75 && ran.err.contains("127.0.0.1:1"), "{ran:?}");
}

/// A job that was put, identified by its body in hexadecimal digits.
struct Put {
    tube: &'static str,
    priority: u64,
    delay_s: u64,
    ttr_s: u64,
    at_ms: u64,
}

fn now_ms() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap()
}

fn body_of(job: &Value) -> Vec<u8> {
    use base64::prelude::{BASE64_STANDARD, Engine as _};
    match job["payload_base64"].as_str() {
        Some(text) => BASE64_STANDARD.decode(text).unwrap(),
        None => job["payload"].to_string().into_bytes(),
    }
}

#[test]
fn a_drain_keeps_bodies_priorities_delays_and_times_to_run() {
    let seed = now_ms();
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let (server, source) = (Server::start(), Alone::original(free_port(), &[]));
    let mut talk = Talk::open(source.address);
    let mut puts: BTreeMap<Vec<u8>, Put> = BTreeMap::new();
    for n in 0..2_000_u64 {
        let tube = ["default", "mail", "paused", "a-b+c/d;e.f$g_h(i)"][random.within(0..4) as usize];
        let delay_s = if random.percent(50) { 0 } else { random.within(100..100_000_000) };
        let (priority, ttr_s) = (random.within(0..1 << 32), random.within(1..40_000));
        let length = random.within(0..200) as usize;
        let mut body: Vec<u8> = n.to_be_bytes().to_vec();
        body.extend((0..length).map(|_| random.any() as u8));
        let put_ = Put { tube, priority, delay_s, ttr_s, at_ms: now_ms() };
        put(&mut talk, tube, &format!("{priority} {delay_s} {ttr_s}"), &body);
        puts.insert(body, put_);
    }
    assert_eq!(talk.ask("pause-tube paused 1000"), "PAUSED");
    // Ids far apart, and one that is buried.
    for id in (1..2_000).step_by(7) {
        let body = talk.ask(&format!("peek {id}"));
        let bytes: usize = body.rsplit(' ').next().unwrap().parse().unwrap();
        let body = talk.bytes(bytes + 2).unwrap();
        puts.remove(&body[..bytes]).unwrap();
        assert_eq!(talk.ask(&format!("delete {id}")), "DELETED");
    }
    let buried = put(&mut talk, "bad", "0 0 60", b"bad");
    assert!(talk.ask(&format!("reserve-job {buried}")).starts_with("RESERVED"));
    talk.line();
    assert_eq!(talk.ask(&format!("bury {buried} 0")), "BURIED");

    let report = drain(&server, &source);
    assert_eq!(report["adopted"], puts.len(), "{report}");
    assert_eq!((&report["refused"], &report["in_flight"], &report["has_ended"]), (&0.into(), &0.into(), &true.into()));
    assert_eq!(report["there"][0]["name"], "bad", "{report}");
    assert_eq!(report["there"][0]["left"], 1);
    assert_eq!(counts(&mut talk), [0, 0, 0, 1]);

    for job in jobs(&server) {
        let put = puts.remove(&body_of(&job)).expect("it was put, and is there once");
        assert_eq!(job["queue"], put.tube);
        assert_eq!((&job["kind"], &job["priority"]), (&"beanstalk".into(), &put.priority.into()), "{job}");
        assert_eq!(job["tags"][0], format!("adopted:{}", put.tube));
        let lease: duetime_core::api::Span = serde_json::from_value(job["lease"].clone()).unwrap();
        assert_eq!(lease.0, put.ttr_s * 1_000);
        let due_at: jiff::Timestamp = job["due_at"].as_str().unwrap().parse().unwrap();
        let due_at = u64::try_from(due_at.as_millisecond()).unwrap();
        assert!(put.delay_s == 0 || due_at >= put.at_ms + put.delay_s * 1_000, "early: {job}");
        assert!(due_at <= now_ms() + put.delay_s * 1_000 + 1_000, "late: {job}");
    }
    assert_eq!(puts.len(), 0);
    let again = drain(&server, &source);
    assert_eq!((&again["claimed"], &again["adopted"]), (&0.into(), &0.into()));
}

#[test]
fn a_long_time_to_run_is_kept_by_a_store_and_refused_by_a_server() {
    let (server, source) = (Server::start(), Alone::original(free_port(), &[]));
    let mut talk = Talk::open(source.address);
    let id = put(&mut talk, "long", "5 0 50000", b"1");
    let ran = adopt(&server, &source, &DRAIN);
    assert!(ran.code == 1 && ran.err.contains("12 h"), "{ran:?}");
    let stats = talk.stats(&format!("stats-job {id}")).unwrap();
    assert_eq!((&*stats["state"], &*stats["pri"], &*stats["ttr"]), ("ready", "5", "50000"));
    let place = Place::new();
    let from = source.address.to_string();
    place.ok(&["adopt", "beanstalkd", "--from", &from, "--to", "jobs", "--drain", "--yes", "beanstalkd"]);
    let job = &place.json(&["list"])["jobs"][0];
    assert_eq!((&job["queue"], &job["marks"]["ttr_s"]), (&"jobs".into(), &50_000.into()), "{job}");
}

/// A follower, which ends with SIGTERM.
struct Follower(Option<Child>);

impl Follower {
    fn start(server: &Server, source: &Alone, arguments: &[&str]) -> Self {
        let mut command =
            command(server, source, &[&["--follow", "--yes", "beanstalkd", "--json"], arguments].concat());
        Self(Some(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
    }

    fn stop(mut self) -> Value {
        let child = self.0.take().unwrap();
        kill(pid(&child), Signal::SIGTERM).unwrap();
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
        let out = String::from_utf8(ended.stdout).unwrap();
        serde_json::from_str(out.lines().last().unwrap()).unwrap()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
        }
    }
}

#[test]
fn a_follower_takes_what_becomes_ready_until_it_is_stopped() {
    let (server, source) = (Server::start(), Alone::original(free_port(), &[]));
    let mut talk = Talk::open(source.address);
    put(&mut talk, "mail", "1 0 60", b"\"first\"");
    put(&mut talk, "mail", "1 1000 60", b"\"never\"");
    put(&mut talk, "mail", "1 1 60", b"\"soon\"");
    let follower = Follower::start(&server, &source, &[]);
    until("what is ready is taken, also what was delayed", || (jobs(&server).len() == 2).then_some(()));
    // A tube that was not there before.
    put(&mut talk, "new", "1 0 60", b"\"new\"");
    until("a new tube is found", || (jobs(&server).len() == 3).then_some(()));
    let report = follower.stop();
    assert_eq!((&report["adopted"], &report["refused"]), (&3.into(), &0.into()), "{report}");
    assert_eq!(counts(&mut talk), [0, 1, 0, 0]);
    // Only named tubes.
    put(&mut talk, "other", "1 0 60", b"\"other\"");
    let follower = Follower::start(&server, &source, &["--tube", "mail", "--tube", "later"]);
    put(&mut talk, "later", "1 0 60", b"\"later\"");
    until("a named tube that came later is found", || (jobs(&server).len() == 4).then_some(()));
    follower.stop();
    assert_eq!(counts(&mut talk), [1, 1, 0, 0]);
}

#[test]
fn what_is_refused_stays_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens.toml");
    let admin = token(&file, "root", &["admin", "push", "read"]);
    let shop = token(&file, "shop", &["push:mail"]);
    let options = ["--tokens", file.to_str().unwrap(), "--payload-max", "100KiB"];
    let server = Server::start_in(Place::new(), &options);
    let source = Alone::original(free_port(), &["-z", "300000"]);
    let mut talk = Talk::open(source.address);
    let large = put(&mut talk, "mail", "3 0 60", &[b'x'; 200_000]);
    let later = put(&mut talk, "mail", "4 5000 60", &[b'x'; 200_000]);
    let too_late = put(&mut talk, "mail", "4 400000000 60", b"more than ten years");
    for n in 0..300 {
        put(&mut talk, "mail", "1 0 60", b"1");
        put(&mut talk, "other", "1 0 60", b"2");
        put(&mut talk, "other", &format!("1 {} 60", 1_000 + n), b"2");
    }
    let as_shop = |arguments: &[&str]| {
        let mut command = command(&server, &source, arguments);
        finish(
            {
                command.env("DUETIME_TOKEN", &shop);
                command
            },
            b"",
        )
    };
    let ran = as_shop(&DRAIN);
    assert_eq!(ran.code, 65, "{ran:?}");
    let report: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
    assert_eq!((&report["adopted"], &report["left_claimed"]), (&300.into(), &0.into()), "{report}");
    assert!(report["refused"].as_u64().unwrap() >= 4, "{report}");
    assert_eq!(counts(&mut talk), [301, 302, 0, 0]);
    let mut state = |id: &str| {
        let stats = talk.stats(&format!("stats-job {id}")).unwrap();
        ["state", "pri", "ttr"].map(|key| stats[key].clone()).join(" ")
    };
    assert_eq!(state(&large), "ready 3 60");
    assert_eq!(state(&later), "delayed 4 60");
    assert_eq!(state(&too_late), "delayed 4 60");
    let left: u64 = number(&mut talk, &format!("stats-job {too_late}"), "time-left");
    assert!((399_999_000..=400_000_000).contains(&left), "{left}");

    // If the queue may not be pushed to, the command ends.
    let ran = as_shop(&["--tube", "other", "--to", "else", "--drain", "--yes", "beanstalkd"]);
    assert!(ran.code == 1 && ran.err.contains("403"), "{ran:?}");
    assert_eq!(counts(&mut talk), [301, 302, 0, 0]);
    // Without a token nothing is claimed.
    let ran = adopt(&server, &source, &DRAIN);
    assert!(ran.code == 1 && ran.err.contains("401"), "{ran:?}");
    assert_eq!(number(&mut talk, "stats", "cmd-bury"), number(&mut talk, "stats", "cmd-bury"));
    assert_eq!(counts(&mut talk), [301, 302, 0, 0]);
    let mut all = command(&server, &source, &DRAIN);
    let ran = finish(
        {
            all.env("DUETIME_TOKEN", &admin);
            all
        },
        b"",
    );
    assert_eq!(ran.code, 65, "{ran:?}");
    assert_eq!(counts(&mut talk), [1, 2, 0, 0]);
}
