//! From BullMQ itself, 6 and 5, and from Bull: `cargo xtask outside`.

use crate::adopt::framework::seeded;
use crate::adopt::redis_source::{Adopt, OldSet, QUEUE, made, report};
use crate::cli::server::Server;
use crate::cli::support::{Place, finish, until};
use crate::common::Random;
use duetime_store::testing::RedisServer;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

const LIBRARIES: [(&str, &str); 3] = [("bullmq", "6.7.0"), ("bullmq", "5.81.5"), ("bull", "4.16.5")];

/// Producers and workers in Node.
struct Program {
    child: Child,
    stdin: ChildStdin,
    /// The lines that it has printed so far.
    said: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Program {
    fn start(redis: &RedisServer, name: &str, version: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{version}"));
        std::fs::create_dir_all(&folder).unwrap();
        // One test at a time installs it.
        let lock = std::fs::File::create(folder.join("lock")).unwrap();
        lock.lock().unwrap();
        let mut npm = Command::new("npm");
        // BullMQ 6 leaves the choice of a client to its user.
        npm.args(["install", "--silent", "--prefix"])
            .arg(&folder)
            .args([&format!("{name}@{version}"), "ioredis@5.11.1"]);
        let ran = finish(npm, b"");
        assert_eq!(ran.code, 0, "{ran:?}");
        drop(lock);
        let mut node = Command::new("node");
        node.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/adopt/programs/with_bullmq.cjs"));
        node.args([&redis.port().to_string(), name]).env("LIBRARY", folder.join("node_modules").join(name));
        let mut child = node.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let said = Arc::new(Mutex::new(Vec::new()));
        let told = said.clone();
        let reader = std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).for_each(|line| told.lock().unwrap().push(line));
        });
        Self { child, stdin, said, reader: Some(reader) }
    }

    /// Sends a command, and does not wait until it is carried out.
    fn send(&mut self, command: &str) {
        writeln!(self.stdin, "{command}").unwrap();
    }

    fn is_done(&mut self, command: &str) -> bool {
        assert!(command == "stop" || self.child.try_wait().unwrap().is_none(), "the program has ended");
        self.said.lock().unwrap().contains(&format!("done {command}"))
    }

    fn run(&mut self, command: &str) {
        self.send(command);
        until(command, || self.is_done(command).then_some(()));
    }

    /// SIGKILL. Its output is known afterwards.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
    }

    /// The numbers of jobs of a queue, in the order in which its worker ran them.
    fn ran(&self, queue: &str) -> Vec<i64> {
        let start = format!("ran {queue} ");
        self.said.lock().unwrap().iter().filter_map(|line| line.strip_prefix(&start)?.parse().ok()).collect()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The word for `--yes`, and options.
fn drain_of(library: &str) -> [&str; 4] {
    ["--drain", "--yes", library, "--json"]
}

/// Each job is either run by the worker or adopted, and never both, whichever process is killed.
#[test]
fn each_job_is_run_by_bullmq_or_adopted() {
    for (library, version) in LIBRARIES {
        let seed = u64::from(std::process::id());
        println!("{library} {version}, seed {seed}");
        let mut random = Random::new(seed);
        let (server, redis) = (Server::start(), RedisServer::start());
        let mut program = Program::start(&redis, library, version);
        let adopt = Adopt::new(&server, "bullmq", &redis.url(), "mail");
        let mut log = OldSet::open(&redis.url(), "bull:mail");
        program.run("add mail 70");
        program.run("work mail");
        let mut total = 70;
        for round in 0..12 {
            let number = 200 + round;
            let add = format!("add mail {number}");
            total += number;
            program.send(&add);
            let mut command = adopt.command(&drain_of(library));
            let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let (claims, by) = (log.calls("hgetall"), random.within(0..200));
            until("claims, or the end", || {
                (log.calls("hgetall") > claims + by || child.try_wait().unwrap().is_some()).then_some(())
            });
            if random.percent(60) {
                let _ = child.kill();
            }
            child.wait().unwrap();
            until("jobs are added", || program.is_done(&add).then_some(()));
        }
        let ran = adopt.run(&drain_of(library));
        assert_eq!(ran.code, 0, "{ran:?}");
        let jobs = made(&server);
        // Jobs that the worker has taken are completed.
        until("the worker has run the rest", || (program.ran("mail").len() + jobs.len() >= total).then_some(()));
        program.run("stop");
        let by_worker = program.ran("mail");
        println!("{total} jobs, {} run by the worker", by_worker.len());
        assert_eq!(jobs.len() + by_worker.len(), total);
        let mut seen: HashMap<i64, u64> = HashMap::new();
        for job in &jobs {
            check(&job.job, library == "bull");
        }
        let adopted = jobs.iter().map(|made| made.job["payload"]["n"].as_i64().unwrap());
        adopted.chain(by_worker).for_each(|n| *seen.entry(n).or_default() += 1);
        assert!(seen.len() == total && seen.values().all(|count| *count == 1), "each of them, once");
        assert_eq!(log.claims(), 0);
    }
}

/// A worker that dies leaves the job that it runs locked. Another one runs it again, or it is adopted: at most one more run for each that died.
#[test]
fn workers_of_bullmq_that_die_lose_nothing() {
    for (library, version) in LIBRARIES {
        let mut random = seeded();
        println!("{library} {version}");
        let (server, redis) = (Server::start(), RedisServer::start());
        let mut producer = Program::start(&redis, library, version);
        let adopt = Adopt::new(&server, "bullmq", &redis.url(), "mail");
        let mut log = OldSet::open(&redis.url(), "bull:mail");
        producer.run("add mail 70");
        let (mut total, mut by_workers, deaths) = (70, Vec::new(), 6);
        for round in 0..deaths {
            let mut worker = Program::start(&redis, library, version);
            worker.run("die mail");
            let number = 300 + round;
            let add = format!("add mail {number}");
            total += number;
            producer.send(&add);
            let mut command = adopt.command(&drain_of(library));
            let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let (claims, by) = (log.calls("hgetall"), random.within(0..100));
            until("claims, or the end", || {
                (log.calls("hgetall") > claims + by || child.try_wait().unwrap().is_some()).then_some(())
            });
            worker.kill();
            by_workers.extend(worker.ran("mail"));
            if random.percent(50) {
                let _ = child.kill();
            }
            child.wait().unwrap();
            until("jobs are added", || producer.is_done(&add).then_some(()));
        }
        let ran = adopt.run(&drain_of(library));
        assert_eq!(ran.code, 0, "{ran:?}");
        // It takes over what those that died have left.
        let mut worker = Program::start(&redis, library, version);
        worker.run("die mail");
        let jobs = made(&server);
        let adopted: Vec<i64> = jobs.iter().map(|made| made.job["payload"]["n"].as_i64().unwrap()).collect();
        let all = |worker: &Program| [&*adopted, &*by_workers, &*worker.ran("mail")].concat();
        until("each has run or is adopted", || {
            (all(&worker).into_iter().collect::<HashSet<_>>().len() >= total).then_some(())
        });
        worker.run("stop");
        producer.run("stop");
        let (twice, once) = (all(&worker).len() - total, adopted.iter().collect::<HashSet<_>>().len());
        println!(
            "{total} jobs, {} adopted, {} run by workers, {twice} twice",
            jobs.len(),
            all(&worker).len() - jobs.len()
        );
        assert_eq!(once, adopted.len(), "none is adopted twice");
        assert!(twice <= deaths, "{twice} twice");
        assert_eq!(log.claims(), 0);
    }
}

/// The options that the program gives to the job with this number.
fn check(job: &Value, is_bull: bool) {
    let n = job["payload"]["n"].as_u64().unwrap();
    assert_eq!((&job["kind"], &job["payload"]["text"]), (&"welcome".into(), &"Zoë".into()), "{job}");
    let expected = match n % 7 {
        3 => 1 + n % 5,
        _ if is_bull => 1_024,
        _ => 0,
    };
    assert_eq!(job["priority"], expected, "{job}");
    assert_eq!(job["key"].as_str().is_some(), n % 7 == 4, "{job}");
    if n % 7 == 1 {
        assert_eq!(job["state"], "scheduled", "{job}");
    }
    assert_eq!(job["max_attempts"], if n % 7 == 5 { 4 } else { 1 }, "{job}");
}

/// A queue whose jobs went to Duetime and back runs them like one whose jobs stayed.
#[test]
fn refused_jobs_are_run_by_bullmq_in_their_order() {
    for (library, version) in LIBRARIES {
        println!("{library} {version}");
        for is_paused in [false, true] {
            let server = Server::start_in(Place::new(), &["--payload-max", "100KiB"]);
            let redis = RedisServer::start();
            let mut program = Program::start(&redis, library, version);
            let mut delayed = OldSet::open(&redis.url(), "bull:mail:delayed");
            if is_paused {
                program.run("pause mail");
                program.run("pause stays");
            }
            program.run("large mail 40");
            program.run("large stays 40");
            let before = delayed.members();
            let ran = Adopt::new(&server, "bullmq", &redis.url(), "mail").run(&drain_of(library));
            assert_eq!(ran.code, 1, "all are refused: {ran:?}");
            assert_eq!(report(&ran.out)["refused"], 40, "{ran:?}");
            assert_eq!((delayed.members(), before.len()), (before, 5));
            if is_paused {
                program.run("resume mail");
                program.run("resume stays");
            }
            for queue in ["mail", "stays"] {
                program.run(&format!("work {queue}"));
                until("all but delayed ones are run", || (program.ran(queue).len() == 35).then_some(()));
            }
            assert_eq!(program.ran("mail"), program.ran("stays"), "{library} {version}");
            program.run("stop");
            assert_eq!(made(&server).len(), 0);
        }
    }
}

/// Delayed jobs wait in Duetime, and are run by the framework: each once, not early, with the attempts that it has.
#[test]
fn delayed_jobs_go_back_and_are_run_by_bullmq() {
    for (library, version) in LIBRARIES {
        let mut random = seeded();
        println!("{library} {version}");
        let redis = RedisServer::start();
        let server = Server::start_in(Place::new(), &["--deliver-redis", &redis.url()]);
        let target = json!({"redis_list": {"url": redis.url(), "key": "bull:mail", "as": "bullmq"}}).to_string();
        assert_eq!(server.run(&["queues", "set", QUEUE, "--target", &target]).code, 0);
        let mut program = Program::start(&redis, library, version);
        let adopt = Adopt::new(&server, "bullmq", &redis.url(), "mail");
        let options = [&["--hand-back"], &drain_of(library)[..]].concat();
        let mut log = OldSet::open(&redis.url(), "bull:mail");
        program.run("work mail");
        let mut total = 0;
        for round in 0..8 {
            let number = 100 + round;
            total += number;
            program.run(&format!("delay mail {number}"));
            let mut command = adopt.command(&options);
            let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let (claims, by) = (log.calls("hgetall"), random.within(0..100));
            until("claims, or the end", || {
                (log.calls("hgetall") > claims + by || child.try_wait().unwrap().is_some()).then_some(())
            });
            if random.percent(60) {
                let _ = child.kill();
            }
            child.wait().unwrap();
        }
        let ran = adopt.run(&options);
        assert_eq!(ran.code, 0, "{ran:?}");
        until("all have run", || (program.ran("mail").len() >= total).then_some(()));
        program.run("stop");
        let (ran, adopted) = (program.ran("mail"), made(&server).len());
        println!("{total} jobs, {adopted} of them by way of Duetime");
        assert!(ran.len() == total && ran.iter().collect::<HashSet<_>>().len() == total, "each of them, once");
        assert!(adopted > total / 4, "{adopted} of {total}");
        assert!(!program.said.lock().unwrap().iter().any(|line| line.starts_with("early")), "none early");
        assert_eq!(log.claims(), 0);
    }
}

#[test]
fn what_depends_on_other_jobs_stays_in_bullmq() {
    for (library, version) in &LIBRARIES[..2] {
        println!("{library} {version}");
        let (server, redis) = (Server::start(), RedisServer::start());
        let mut program = Program::start(&redis, library, version);
        program.run("special mail");
        program.run("add mail 14");
        let ran = Adopt::new(&server, "bullmq", &redis.url(), "mail").run(&drain_of(library));
        assert_eq!(ran.code, 0, "{ran:?}");
        let report = report(&ran.out);
        assert_eq!(report["adopted"], 14, "{report}");
        let why = report["there"].to_string();
        for reason in
            ["1 of a scheduler", "1 with a parent or children", "1 with a de-duplication id", "waiting for children"]
        {
            assert!(why.contains(reason), "{reason}: {why}");
        }
        program.run("stop");
    }
}
