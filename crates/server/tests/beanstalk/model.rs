//! A plain model of tubes, jobs and connections, as the oracle for thousands of random steps. Nothing in it depends on time:
//! delays and times to run are so long that they end only by a command. `DUETIME_BEANSTALK_SEED` repeats a run.

use super::script::Talk;
use super::server::Both;
use crate::common::Random;
use duetime_store::testing::{PostgresServer, RedisServer};
use std::collections::BTreeMap;
use std::net::SocketAddr;

const TUBES: [&str; 3] = ["red", "green", "blue"];
const CONNECTIONS: usize = 4;
const STEPS: usize = 2_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    Delayed,
    Buried,
    /// By this connection.
    Reserved(usize),
}

#[derive(Clone, Debug)]
struct Job {
    tube: &'static str,
    priority: u32,
    state: State,
    delay: u64,
    /// Whether its due time differs from that of its put.
    is_moved: bool,
    reserves: u64,
    releases: u64,
    buries: u64,
    kicks: u64,
}

struct World {
    address: SocketAddr,
    random: Random,
    jobs: BTreeMap<u64, Job>,
    talks: Vec<Talk>,
    used: Vec<&'static str>,
    watched: Vec<Vec<&'static str>>,
    seed: u64,
    step: usize,
}

impl World {
    fn new(address: SocketAddr, seed: u64) -> Self {
        let talks = (0..CONNECTIONS).map(|_| Talk::open(address)).collect();
        let (used, watched) = (vec!["default"; CONNECTIONS], vec![vec!["default"]; CONNECTIONS]);
        Self { address, random: Random::new(seed), jobs: BTreeMap::new(), talks, used, watched, seed, step: 0 }
    }

    fn place(&self) -> String {
        format!("DUETIME_BEANSTALK_SEED={}, step {}", self.seed, self.step)
    }

    #[track_caller]
    fn expect(&mut self, who: usize, command: &str, expected: &str) {
        let got = self.talks[who].ask(command);
        assert_eq!(got, expected, "{}: {command}", self.place());
    }

    fn any_job(&mut self) -> Option<u64> {
        let count = self.jobs.len() as u64;
        if count == 0 || self.random.percent(3) {
            return Some(1);
        }
        let place = self.random.within(0..count) as usize;
        self.jobs.keys().nth(place).copied()
    }

    fn priority(&mut self) -> u32 {
        [0, 1, 1, 1_023, 1_024, 1_024, 1_025, u32::MAX][self.random.within(0..8) as usize]
    }

    fn step(&mut self) {
        self.step += 1;
        let who = self.random.within(0..CONNECTIONS as u64) as usize;
        match self.random.within(0..100) {
            0..30 => self.put(who),
            30..50 => self.reserve(who),
            50..58 => self.delete(who),
            58..66 => self.release(who),
            66..72 => self.bury(who),
            72..76 => self.kick(who),
            76..79 => self.kick_job(who),
            79..83 => self.reserve_job(who),
            83..85 => self.touch(who),
            85..88 => self.use_tube(who),
            88..92 => self.watch(who),
            92..94 => self.peeks(who),
            94..96 => self.look(who),
            96..98 => self.count(who),
            _ => self.close(who),
        }
    }

    fn put(&mut self, who: usize) {
        let (priority, delay) = (self.priority(), if self.random.percent(30) { 5_000 } else { 0 });
        let count = if self.random.percent(10) { self.random.within(2..30) } else { 1 };
        let puts = format!("put {priority} {delay} 5000 4\r\nbody\r\n").repeat(count as usize);
        self.talks[who].send(puts.as_bytes());
        for _ in 0..count {
            let line = self.talks[who].line();
            let id = line.strip_prefix("INSERTED ").unwrap_or_else(|| panic!("{}: {line}", self.place()));
            let state = if delay > 0 { State::Delayed } else { State::Ready };
            let tube = self.used[who];
            let (reserves, releases, buries, kicks) = (0, 0, 0, 0);
            let job = Job { tube, priority, state, delay, is_moved: false, reserves, releases, buries, kicks };
            assert!(self.jobs.insert(id.parse().unwrap(), job).is_none(), "{}: {id} twice", self.place());
        }
    }

    /// The next job must be among the most urgent of all watched tubes, and among those with known due times the first.
    fn reserve(&mut self, who: usize) {
        let answer = self.talks[who].ask("reserve-with-timeout 0");
        let place = self.place();
        let fits = |job: &Job| job.state == State::Ready && self.watched[who].contains(&job.tube);
        let ready: Vec<(u64, &Job)> =
            self.jobs.iter().filter(|(_, job)| fits(job)).map(|(id, job)| (*id, job)).collect();
        let Some(least) = ready.iter().map(|(_, job)| job.priority).min() else {
            return assert_eq!(answer, "TIMED_OUT", "{place}");
        };
        let id: u64 = answer.split(' ').nth(1).unwrap_or_else(|| panic!("{place}: {answer}")).parse().unwrap();
        assert_eq!(answer, format!("RESERVED {id} 4"), "{place}");
        assert_eq!(self.talks[who].line(), "body", "{place}");
        let job = ready.iter().find(|(other, _)| *other == id).unwrap_or_else(|| panic!("{place}: {answer}")).1;
        assert_eq!(job.priority, least, "{place}");
        if !job.is_moved {
            let first = ready.iter().find(|(_, job)| job.priority == least && !job.is_moved).unwrap().0;
            assert_eq!(id, first, "{place}");
        }
        let job = self.jobs.get_mut(&id).unwrap();
        (job.state, job.reserves) = (State::Reserved(who), job.reserves + 1);
    }

    /// A job and whether this connection holds it.
    fn held(&mut self, who: usize) -> Option<(u64, bool)> {
        let held = self.jobs.iter().filter(|(_, job)| job.state == State::Reserved(who)).map(|(id, _)| *id);
        let held: Vec<u64> = held.collect();
        if !held.is_empty() && self.random.percent(85) {
            let place = self.random.within(0..held.len() as u64) as usize;
            return Some((held[place], true));
        }
        let id = self.any_job()?;
        Some((id, held.contains(&id)))
    }

    fn delete(&mut self, who: usize) {
        let Some((id, is_held)) = self.held(who) else { return };
        let may = is_held || self.jobs.get(&id).is_some_and(|job| !matches!(job.state, State::Reserved(_)));
        self.expect(who, &format!("delete {id}"), if may { "DELETED" } else { "NOT_FOUND" });
        if may {
            self.jobs.remove(&id);
        }
    }

    fn release(&mut self, who: usize) {
        let Some((id, is_held)) = self.held(who) else { return };
        let (priority, delay) = (self.priority(), if self.random.percent(30) { 6_000 } else { 0 });
        self.expect(who, &format!("release {id} {priority} {delay}"), if is_held { "RELEASED" } else { "NOT_FOUND" });
        if let Some(job) = self.jobs.get_mut(&id).filter(|_| is_held) {
            job.state = if delay > 0 { State::Delayed } else { State::Ready };
            job.is_moved |= delay > 0;
            (job.priority, job.delay, job.releases) = (priority, delay, job.releases + 1);
        }
    }

    fn bury(&mut self, who: usize) {
        let Some((id, is_held)) = self.held(who) else { return };
        let priority = self.priority();
        self.expect(who, &format!("bury {id} {priority}"), if is_held { "BURIED" } else { "NOT_FOUND" });
        if let Some(job) = self.jobs.get_mut(&id).filter(|_| is_held) {
            (job.state, job.priority, job.buries) = (State::Buried, priority, job.buries + 1);
        }
    }

    fn touch(&mut self, who: usize) {
        let Some((id, is_held)) = self.held(who) else { return };
        self.expect(who, &format!("touch {id}"), if is_held { "TOUCHED" } else { "NOT_FOUND" });
    }

    fn kicked(job: &mut Job, counts: bool) {
        (job.state, job.is_moved, job.kicks) = (State::Ready, true, job.kicks + u64::from(counts));
    }

    /// The jobs show which ones are kicked: delayed ones have almost the same due time.
    fn kick(&mut self, who: usize) {
        let (tube, bound) = (self.used[who], self.random.within(1..6) as usize);
        let of = |state| {
            let fits = move |job: &Job| job.tube == tube && job.state == state;
            self.jobs.iter().filter(|(_, job)| fits(job)).map(|(id, _)| *id).collect::<Vec<u64>>()
        };
        let (buried, delayed) = (of(State::Buried), of(State::Delayed));
        let from = if buried.is_empty() { delayed } else { buried };
        let kicked = from.len().min(bound);
        self.expect(who, &format!("kick {bound}"), &format!("KICKED {kicked}"));
        let mut count = 0;
        for id in from {
            let stats = self.talks[who].stats(&format!("stats-job {id}")).unwrap();
            if stats["state"] == "ready" {
                Self::kicked(self.jobs.get_mut(&id).unwrap(), true);
                count += 1;
            }
        }
        assert_eq!(count, kicked, "{}", self.place());
    }

    fn kick_job(&mut self, who: usize) {
        let Some(id) = self.any_job() else { return };
        let may = self.jobs.get(&id).is_some_and(|job| matches!(job.state, State::Buried | State::Delayed));
        self.expect(who, &format!("kick-job {id}"), if may { "KICKED" } else { "NOT_FOUND" });
        if may {
            Self::kicked(self.jobs.get_mut(&id).unwrap(), true);
        }
    }

    fn reserve_job(&mut self, who: usize) {
        let Some(id) = self.any_job() else { return };
        let may = self.jobs.get(&id).is_some_and(|job| !matches!(job.state, State::Reserved(_)));
        let expected = if may { format!("RESERVED {id} 4") } else { "NOT_FOUND".to_owned() };
        self.expect(who, &format!("reserve-job {id}"), &expected);
        if may {
            assert_eq!(self.talks[who].line(), "body");
            let job = self.jobs.get_mut(&id).unwrap();
            if job.state != State::Ready {
                Self::kicked(job, false);
            }
            (job.state, job.reserves) = (State::Reserved(who), job.reserves + 1);
        }
    }

    fn use_tube(&mut self, who: usize) {
        let tube = TUBES[self.random.within(0..3) as usize];
        self.expect(who, &format!("use {tube}"), &format!("USING {tube}"));
        self.used[who] = tube;
    }

    fn watch(&mut self, who: usize) {
        let tube = TUBES[self.random.within(0..3) as usize];
        let is_watched = self.watched[who].contains(&tube);
        if self.random.percent(50) {
            if !is_watched {
                self.watched[who].push(tube);
            }
            let count = self.watched[who].len();
            self.expect(who, &format!("watch {tube}"), &format!("WATCHING {count}"));
        } else if is_watched && self.watched[who].len() == 1 {
            self.expect(who, &format!("ignore {tube}"), "NOT_IGNORED");
        } else {
            self.watched[who].retain(|watched| *watched != tube);
            let count = self.watched[who].len();
            self.expect(who, &format!("ignore {tube}"), &format!("WATCHING {count}"));
        }
    }

    fn peeks(&mut self, who: usize) {
        for (word, state) in [("ready", State::Ready), ("delayed", State::Delayed), ("buried", State::Buried)] {
            let answer = self.talks[who].ask(&format!("peek-{word}"));
            let place = self.place();
            let mut fitting = self.jobs.iter().filter(|(_, job)| job.tube == self.used[who] && job.state == state);
            if answer == "NOT_FOUND" {
                assert_eq!(fitting.next().map(|(id, _)| id), None, "{place}: {word}");
                continue;
            }
            assert_eq!(self.talks[who].line(), "body", "{place}");
            let id: u64 = answer.split(' ').nth(1).unwrap().parse().unwrap();
            let job = fitting.clone().find(|(other, _)| **other == id).unwrap_or_else(|| panic!("{place}: {answer}")).1;
            if state == State::Ready {
                assert_eq!(Some(job.priority), fitting.map(|(_, job)| job.priority).min(), "{place}");
            }
        }
    }

    /// All that is shown of a job.
    fn look(&mut self, who: usize) {
        let Some(id) = self.any_job() else { return };
        let stats = self.talks[who].stats(&format!("stats-job {id}"));
        let place = self.place();
        let Some(job) = self.jobs.get(&id) else { return assert!(stats.is_none(), "{place}") };
        let stats = stats.unwrap_or_else(|| panic!("{place}: {id} is lost"));
        let state = match job.state {
            State::Ready => "ready",
            State::Delayed => "delayed",
            State::Buried => "buried",
            State::Reserved(_) => "reserved",
        };
        assert_eq!((&*stats["state"], &*stats["tube"]), (state, job.tube), "{place}");
        let numbers = [
            ("pri", u64::from(job.priority)),
            ("delay", job.delay),
            ("ttr", 5_000),
            ("reserves", job.reserves),
            ("timeouts", 0),
            ("releases", job.releases),
            ("buries", job.buries),
            ("kicks", job.kicks),
        ];
        for (key, number) in numbers {
            assert_eq!(stats[key], number.to_string(), "{place}: {key} of {stats:?}");
        }
    }

    /// All that is counted of a tube.
    fn count(&mut self, who: usize) {
        let tube = TUBES[self.random.within(0..3) as usize];
        let of = |fits: &dyn Fn(&Job) -> bool| self.jobs.values().filter(|job| job.tube == tube && fits(job)).count();
        let is_ready = |job: &Job| job.state == State::Ready;
        let counts = [
            ("current-jobs-urgent", of(&|job| is_ready(job) && job.priority < 1_024)),
            ("current-jobs-ready", of(&is_ready)),
            ("current-jobs-reserved", of(&|job| matches!(job.state, State::Reserved(_)))),
            ("current-jobs-delayed", of(&|job| job.state == State::Delayed)),
            ("current-jobs-buried", of(&|job| job.state == State::Buried)),
            ("current-using", self.used.iter().filter(|used| **used == tube).count()),
            ("current-watching", self.watched.iter().filter(|watched| watched.contains(&tube)).count()),
        ];
        let stats = self.talks[who].stats(&format!("stats-tube {tube}"));
        let place = self.place();
        let Some(stats) = stats else { return assert!(counts.iter().all(|(_, count)| *count == 0), "{place}: {tube}") };
        for (key, count) in counts {
            assert_eq!(stats[key], count.to_string(), "{place}: {key} of {stats:?}");
        }
    }

    /// Closes a connection and opens another; waits until the jobs that it held are ready.
    fn close(&mut self, who: usize) {
        self.talks[who] = Talk::open(self.address);
        self.used[who] = "default";
        self.watched[who] = vec!["default"];
        let held = self.jobs.iter_mut().filter(|(_, job)| job.state == State::Reserved(who));
        for (id, job) in held {
            while self.talks[who].stats(&format!("stats-job {id}")).unwrap()["state"] == "reserved" {}
            job.state = State::Ready;
        }
        // Its place in its tubes is released after its jobs.
        let wanted = CONNECTIONS.to_string();
        while self.talks[who].stats("stats").unwrap()["current-connections"] != wanted {}
    }
}

fn run(address: SocketAddr, steps: usize) {
    let given = std::env::var("DUETIME_BEANSTALK_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| u64::from(std::process::id()));
    println!("DUETIME_BEANSTALK_SEED={seed}");
    let mut world = World::new(address, seed);
    for who in 0..CONNECTIONS {
        world.use_tube(who);
        for tube in TUBES {
            world.talks[who].ask(&format!("watch {tube}"));
            world.watched[who].push(tube);
        }
    }
    (0..steps).for_each(|_| world.step());
    // In the end the whole known state is as it should be.
    let ids: Vec<u64> = world.jobs.keys().copied().collect();
    for id in ids {
        assert!(world.talks[0].stats(&format!("stats-job {id}")).is_some(), "{}: {id} is lost", world.place());
    }
}

#[test]
fn random_steps_in_memory_are_as_in_the_model() {
    run(Both::with(&["--store", "memory"]).address, STEPS);
}

#[test]
fn random_steps_on_sqlite_are_as_in_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("duetime.db");
    run(Both::with(&["--store", store.to_str().unwrap()]).address, STEPS);
}

#[test]
fn random_steps_on_redis_are_as_in_the_model() {
    let redis = RedisServer::start();
    run(Both::with(&["--broker", &redis.url()]).address, STEPS / 2);
}

#[test]
fn random_steps_on_redis_beside_postgres_are_as_in_the_model() {
    let (redis, postgres) = (RedisServer::start(), PostgresServer::start());
    // Ended jobs are counted, and can be kicked, once they are recorded.
    let stores = ["--broker", &redis.url(), "--ledger", &postgres.url(), "--ledger-may-lose"];
    let arguments = [&stores[..], &["--settle", "recorded"]].concat();
    run(Both::with(&arguments).address, STEPS / 2);
}
