//! No inserted job is lost, whichever process is killed.

use super::script::Talk;
use super::server::{Alone, Both, free_port};
use crate::common::Random;
use duetime_store::testing::RedisServer;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Kills of a run.
const KILLS: u64 = 4;
/// Jobs that are inserted between two of them.
const INSERTED: u64 = 300;

/// State that all clients share.
struct Load {
    address: SocketAddr,
    /// The jobs' time to run, in seconds.
    ttr_s: u64,
    /// True while a job is to be there, false once a delete of it was sent.
    jobs: Mutex<HashMap<u64, bool>>,
    inserted: AtomicU64,
    ends: AtomicBool,
}

impl Load {
    /// Puts jobs and deletes some. Connects again whenever the server is gone.
    fn run(&self, seed: u64) {
        let mut random = Random::new(seed);
        while !self.ends.load(Ordering::Relaxed) {
            match Talk::try_open(self.address) {
                Ok(mut talk) => while self.converse(&mut talk, &mut random).is_some() {},
                Err(_) => std::thread::yield_now(),
            }
        }
    }

    /// A few jobs more; `None` if the server is gone.
    fn converse(&self, talk: &mut Talk, random: &mut Random) -> Option<()> {
        let (count, ttr_s) = (random.within(1..20), self.ttr_s);
        let puts: String = (0..count).map(|n| format!("put {n} 0 {ttr_s} 3\r\nabc\r\n")).collect();
        talk.try_send(puts.as_bytes())?;
        for _ in 0..count {
            let line = talk.try_line()?;
            let id = line.strip_prefix("INSERTED ").expect(&line).parse().unwrap();
            // Another client may have deleted it already.
            self.jobs.lock().unwrap().entry(id).or_insert(true);
            self.inserted.fetch_add(1, Ordering::Relaxed);
        }
        talk.try_send(b"reserve\r\n")?;
        let line = talk.try_line()?;
        if line == "DEADLINE_SOON" {
            return Some(());
        }
        let id: u64 = line.split(' ').nth(1).expect(&line).parse().unwrap();
        talk.bytes(5)?;
        if random.percent(50) {
            self.jobs.lock().unwrap().insert(id, false);
            talk.try_send(format!("delete {id}\r\n").as_bytes())?;
            // If its time to run is over, the client has lost it.
            let line = talk.try_line()?;
            assert!(line == "DELETED" || line == "NOT_FOUND" && ttr_s < 60, "{line}");
        }
        Some(())
    }

    /// Every expected job is ready: reserved jobs came back with the start, or come back when their time to run ends.
    /// Returns the number of these.
    fn check(&self) -> u64 {
        let mut talk = Talk::open(self.address);
        let mut timeouts = 0;
        let jobs = self.jobs.lock().unwrap();
        assert!(jobs.len() as u64 >= KILLS * INSERTED);
        for (id, is_there) in jobs.iter() {
            let mut look = || talk.stats(&format!("stats-job {id}"));
            let mut stats = look();
            while self.ttr_s < 60 && stats.as_ref().is_some_and(|stats| stats["state"] == "reserved") {
                stats = look();
            }
            let Some(stats) = stats else {
                assert!(!is_there, "the job {id} is lost");
                continue;
            };
            assert_eq!(stats["state"], "ready", "{stats:?}");
            timeouts += stats["timeouts"].parse::<u64>().unwrap();
        }
        timeouts
    }
}

/// Kills a server under the load of clients that connect again, starts it again each time, and accounts for all jobs. Answers
/// how many times to run had to end for that.
fn kill_and_account<S>(port: u16, ttr_s: u64, start: impl Fn() -> S) -> u64 {
    let (address, jobs) = (SocketAddr::from(([127, 0, 0, 1], port)), Mutex::default());
    let load = Load { address, ttr_s, jobs, inserted: AtomicU64::new(0), ends: AtomicBool::new(false) };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|seed| {
                scope.spawn({
                    let load = &load;
                    move || load.run(seed)
                })
            })
            .collect();
        for kill in 1..=KILLS {
            let server = start();
            let enough = kill * INSERTED;
            while load.inserted.load(Ordering::Relaxed) < enough && !clients.iter().any(|client| client.is_finished()) {
                std::thread::yield_now();
            }
            // SIGKILL.
            drop(server);
        }
        load.ends.store(true, Ordering::Relaxed);
    });
    let _server = start();
    load.check()
}

#[test]
fn kill_under_load_loses_no_inserted_job() {
    let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
    assert_eq!(kill_and_account(port, 600, || Alone::at(port, folder.path())), 0);
}

/// Leases outlive a server on Redis: reserved jobs come back when their time to run is over.
#[test]
fn kill_under_load_on_redis_loses_no_inserted_job() {
    let (redis, port) = (RedisServer::start(), free_port());
    let timeouts = kill_and_account(port, 3, || Both::at(port, &["--broker", &redis.url()]));
    assert!(timeouts > 0);
}

#[test]
fn counts_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Alone::on(folder.path());
    let mut talk = Talk::open(server.address);
    talk.send(b"put 5 0 60 1\r\na\r\n");
    let id = talk.line().strip_prefix("INSERTED ").unwrap().to_owned();
    let reserve = |talk: &mut Talk| {
        assert_eq!(talk.ask(&format!("reserve-job {id}")), format!("RESERVED {id} 1"));
        assert_eq!(talk.line(), "a");
    };
    reserve(&mut talk);
    assert_eq!(talk.ask(&format!("release {id} 9 7")), "RELEASED");
    assert_eq!(talk.ask(&format!("kick-job {id}")), "KICKED");
    reserve(&mut talk);
    assert_eq!(talk.ask(&format!("bury {id} 3")), "BURIED");
    let look = |talk: &mut Talk| {
        let stats = talk.stats(&format!("stats-job {id}")).unwrap();
        let keys = ["state", "pri", "delay", "ttr", "reserves", "timeouts", "releases", "buries", "kicks"];
        keys.map(|key| stats[key].clone()).join(" ")
    };
    assert_eq!(look(&mut talk), "buried 3 7 60 2 0 1 1 1");
    server.kill();
    let server = Alone::on(folder.path());
    let mut talk = Talk::open(server.address);
    assert_eq!(look(&mut talk), "buried 3 7 60 2 0 1 1 1");
    assert_eq!(talk.ask("kick 1"), "KICKED 1");
    assert_eq!(look(&mut talk), "ready 3 7 60 2 0 1 1 2");
    assert_eq!(talk.ask(&format!("delete {id}")), "DELETED");
}

/// Also one that was due too late to be in memory. A lease that was not yet noted has not begun.
#[test]
fn jobs_that_are_reserved_early_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Alone::on(folder.path());
    let mut talk = Talk::open(server.address);
    let put = |talk: &mut Talk, delay: u64| {
        talk.send(format!("put 5 {delay} 600 1\r\na\r\n").as_bytes());
        talk.line().strip_prefix("INSERTED ").unwrap().to_owned()
    };
    let ids = [100, 7_200, 1_000_000].map(|delay| put(&mut talk, delay));
    for id in &ids {
        assert_eq!(talk.ask(&format!("reserve-job {id}")), format!("RESERVED {id} 1"));
        assert_eq!(talk.line(), "a");
    }
    server.kill();
    let server = Alone::on(folder.path());
    let mut talk = Talk::open(server.address);
    for (id, delay) in ids.iter().zip(["100", "7200", "1000000"]) {
        let stats = talk.stats(&format!("stats-job {id}")).unwrap();
        let shown = ["state", "reserves", "delay", "kicks"].map(|key| &*stats[key]);
        assert!(shown == ["ready", "1", delay, "0"] || shown == ["delayed", "0", delay, "0"], "{shown:?}");
        assert_eq!(talk.ask(&format!("delete {id}")), "DELETED");
    }
}
