//! Laravel and Sidekiq themselves, as Debian has them: `cargo xtask outside`.

use super::program::{PROGRAMS, Program};
use crate::adopt::framework::{
    LARAVEL, LIST, RESERVED, Running, command, drain, jobs, kills, laravel, lines, now_ms, number, seeded, spawn, step,
    succeeded_or_killed,
};
use crate::cli::server::Server;
use crate::cli::support::{Place, until};
use crate::common::Random;
use duetime_store::testing::RedisServer;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::process::{Child, Command, Stdio};

/// How often the command is killed in each test, unless `DUETIME_ADOPT_KILLS` says otherwise.
const KILLS: u64 = 12;
/// The same of Redis.
const KILLS_OF_REDIS: u64 = 6;
/// Jobs that are put before each kill.
const JOBS: u64 = 150;
/// Of a worker of Sidekiq.
const THREADS: usize = 3;

/// A framework's programs, and its places to take jobs from.
struct Framework {
    source: &'static [&'static str],
    hand_back: &'static [&'static str],
    queue: &'static str,
    /// Key and `as` of the queue's target.
    target: [&'static str; 2],
    /// Sorted sets of jobs that wait.
    sets: &'static [&'static str],
    produce: fn(&RedisServer) -> Command,
    work: fn(&RedisServer) -> Command,
    /// The number of a job.
    name: fn(&Value) -> u64,
    /// True for jobs that fail at first, and are retried by the framework.
    fails: fn(u64) -> bool,
}

const OF_LARAVEL: Framework = Framework {
    source: &LARAVEL,
    hand_back: &["laravel", "--prefix", "shop_", "--key", "default", "--to", "mail", "--hand-back"],
    queue: "mail",
    target: [LIST, "laravel"],
    sets: &["shop_queues:default:delayed"],
    produce: php,
    work: |redis| {
        let mut command = php(redis);
        command.arg("work");
        command
    },
    name: |payload| payload["data"]["name"].as_u64().unwrap(),
    fails: |_| false,
};

const OF_SIDEKIQ: Framework = Framework {
    source: &["sidekiq"],
    hand_back: &["sidekiq", "--to", "later", "--hand-back"],
    queue: "later",
    target: ["queue:default", "sidekiq"],
    sets: &["schedule", "retry"],
    produce: |redis| {
        let mut command = Command::new("/usr/bin/ruby");
        command.arg(format!("{PROGRAMS}/sidekiq.rb")).env("REDIS_URL", redis.url());
        command
    },
    work: |redis| {
        let mut command = Command::new("/usr/bin/sidekiq");
        command.args(["-r", &format!("{PROGRAMS}/ship.rb"), "-q", "default", "-q", "low", "-c", &THREADS.to_string()]);
        command.env("REDIS_URL", redis.url()).stderr(Stdio::null());
        command
    },
    name: |payload| payload["args"][0].as_u64().unwrap(),
    fails: |n| n % 10 == 9,
};

fn php(redis: &RedisServer) -> Command {
    let mut command = Command::new("/usr/bin/php");
    command.arg(format!("{PROGRAMS}/laravel.php")).arg(redis.port().to_string()).arg("shop_");
    command
}

impl Framework {
    fn run(&self, redis: &RedisServer, arguments: &[&str], numbers: [u64; 3]) -> Program {
        let mut command = (self.produce)(redis);
        command.args(arguments).args(numbers.map(|number| number.to_string()));
        Program::start(command)
    }

    /// Members that wait, up to a score.
    fn waiting(&self, redis: &RedisServer, max: &str) -> u64 {
        self.sets.iter().map(|set| number(redis, &["ZCOUNT", set, "-inf", max])).sum()
    }

    /// Jobs are delayed by the framework, wait in Duetime, and are run by the framework: each once, and not early.
    fn hands_back(&self) {
        let mut random = seeded();
        let redis = RedisServer::start();
        let server = Server::start_in(Place::new(), &["--deliver-redis", &redis.url()]);
        let [key, way] = self.target;
        let target = json!({"redis_list": {"url": redis.url(), "key": key, "as": way}}).to_string();
        assert_eq!(server.run(&["queues", "set", self.queue, "--target", &target]).code, 0);
        let mut worker = Program::start((self.work)(&redis));
        for round in 0..kills(KILLS) {
            let mut producer = self.run(&redis, &["delay"], [round * JOBS, JOBS, 3]);
            producer.ended();
            let until_left = random.within(0..self.waiting(&redis, "+inf") + 1);
            let mut child = spawn(&server, &redis, &step(self.hand_back, "--drain"));
            until("progress, or the end", || {
                let has_ended = child.try_wait().unwrap().is_some();
                (self.waiting(&redis, "+inf") <= until_left || has_ended).then_some(())
            });
            let _ = child.kill();
            succeeded_or_killed(child);
        }
        let count = kills(KILLS) * JOBS;
        // Also what the framework wants to retry.
        until("each job has run", || {
            drain(&server, &redis, self.hand_back, 0);
            (worker.told("ran").len() as u64 >= count).then_some(())
        });
        // A job is deleted after it has run.
        until("nothing is under way", || {
            let is_over = |(_, job): &(String, Value)| job["state"] == "succeeded";
            (self.waiting(&redis, "+inf") == 0 && jobs(&server).iter().all(is_over)).then_some(())
        });
        if self.source[0] == "sidekiq" {
            worker.stop();
        } else {
            worker.ended();
        }
        let sorted = |mut numbers: Vec<u64>| {
            numbers.sort_unstable();
            numbers
        };
        assert_eq!(sorted(worker.told("ran")), (0..count).collect::<Vec<_>>());
        assert_eq!(sorted(worker.told("failed")), (0..count).filter(|&n| (self.fails)(n)).collect::<Vec<_>>());
        assert_eq!(worker.told("early"), [0; 0]);
        println!("{count} jobs, {} of them waited in Duetime", jobs(&server).len());
        assert_eq!(number(&redis, &["EXISTS", "dead", key, &format!("{key}:reserved")]), 0);
    }

    /// A follower is killed over and over, and old workers now and then, or Redis and all of them, while old producers push and cancel at full
    /// speed. Redis writes each change to its disk before it answers.
    fn follows(&self, count: u64, redis_dies: bool) {
        let mut random = seeded();
        let durable: &[&str] = if redis_dies { &["--appendonly", "yes", "--appendfsync", "always"] } else { &[] };
        let (server, mut redis) = (Server::start(), RedisServer::with(durable));
        let mut worker = Program::start((self.work)(&redis));
        let (mut put, mut cancelled) = (BTreeSet::new(), BTreeSet::new());
        // Redis died before it answered whether they were put, or cancelled.
        let mut open = BTreeSet::new();
        let (mut ran, mut early, mut dead) = (Vec::new(), Vec::new(), 0);
        for round in 0..kills(count) {
            let first = round * JOBS;
            let mut producer = self.run(&redis, &["produce"], [first, JOBS, random.within(0..1 << 30)]);
            let stop_at = random.within(1..JOBS + 1) as usize;
            let mut follower = spawn(&server, &redis, &step(self.source, "--follow"));
            until("so many are pushed", || (producer.told("pushed").len() >= stop_at).then_some(()));
            let worker_dies = redis_dies || random.percent(40);
            if redis_dies {
                // Before it has begun it does not wait for Redis.
                let has_begun = || redis.command(&["INFO", "commandstats"]).contains("cmdstat_hkeys");
                until("it has begun", || has_begun().then_some(()));
                redis.kill();
                producer.has_succeeded();
                worker.kill();
                if random.percent(50) {
                    let _ = follower.kill();
                    succeeded_or_killed(follower);
                    redis.start_again();
                    follower = spawn(&server, &redis, &step(self.source, "--follow"));
                } else {
                    redis.start_again();
                }
            } else if worker_dies {
                worker.kill();
            }
            self.kill(follower, &redis, &mut random);
            if !redis_dies {
                producer.ended();
            }
            let pushed = producer.told("pushed");
            open.extend((pushed.len() < JOBS as usize).then_some(first + pushed.len() as u64));
            let is_step = |line: &String| line.starts_with("pushed") || line.starts_with("cancel");
            let step = producer.lines().into_iter().rfind(is_step);
            open.extend(step.and_then(|line| line.strip_prefix("cancelling ")?.parse::<u64>().ok()));
            put.extend(pushed);
            cancelled.extend(producer.told("cancelled"));
            if worker_dies {
                ran.extend(worker.told("ran"));
                early.extend(worker.told("early"));
                dead += 1;
                worker = Program::start((self.work)(&redis));
            }
        }
        // The rest, except jobs that are due much later.
        let follower = Running::start(command(&server, &redis, &step(self.source, "--follow")));
        let soon = (now_ms() / 1_000 + 60).to_string();
        until("what is due soon is taken", || (self.waiting(&redis, &soon) == 0).then_some(()));
        follower.stop(0);
        let lists = lines(&redis, &["KEYS", "*queue*"]);
        let are_empty = || {
            lists
                .iter()
                .filter(|key| !self.sets.contains(&&***key) && *key != "queues" && *key != RESERVED)
                .all(|key| number(&redis, &["EXISTS", key]) == 0)
        };
        until("ready jobs are run", || are_empty().then_some(()));
        if self.source[0] == "sidekiq" {
            worker.stop();
        } else {
            worker.ended();
        }
        let before = jobs(&server).len();
        drain(&server, &redis, self.source, 0);
        let adopted: Vec<u64> = jobs(&server).iter().map(|(_, job)| (self.name)(&job["payload"])).collect();
        ran.extend(worker.told("ran"));
        early.extend(worker.told("early"));
        println!(
            "{} put, {} cancelled, {} run there, {before} followed, {} drained, {dead} workers died",
            put.len(),
            cancelled.len(),
            ran.len(),
            adopted.len() - before
        );
        assert_eq!(early, [0; 0]);
        let mut places: BTreeMap<u64, Vec<&str>> = put.union(&open).map(|&n| (n, Vec::new())).collect();
        let all = ran.iter().map(|n| (n, "ran")).chain(adopted.iter().map(|n| (n, "adopted")));
        all.chain(cancelled.iter().map(|n| (n, "cancelled")))
            .for_each(|(n, place)| places.get_mut(n).unwrap().push(place));
        // A worker of Laravel that dies leaves its job there, whether it has run it or not.
        for job in lines(&redis, &["ZRANGE", RESERVED, "0", "-1"]) {
            places.remove(&(self.name)(&serde_json::from_str(&job).unwrap()));
        }
        // One of Sidekiq loses what its threads have popped, and what its poller moves.
        let lost = places.iter().filter(|(n, places)| places.is_empty() && !open.contains(n)).count();
        let most = if self.source[0] == "sidekiq" { dead * (THREADS + 1) } else { 0 };
        assert!(lost <= most, "{lost} lost by {dead} that died");
        places.retain(|_, places| places.len() > 1);
        assert!(places.is_empty(), "in several places: {places:?}");
    }

    /// Kills a follower once it has taken some of the due jobs.
    fn kill(&self, mut follower: Child, redis: &RedisServer, random: &mut Random) {
        let now = (now_ms() / 1_000).to_string();
        let until_left = random.within(0..self.waiting(redis, &now) + 1);
        until("due jobs are taken", || (self.waiting(redis, &now) <= until_left).then_some(()));
        let _ = follower.kill();
        succeeded_or_killed(follower);
    }
}

#[test]
fn laravel_runs_each_job_that_was_handed_back_once() {
    OF_LARAVEL.hands_back();
}

#[test]
fn sidekiq_runs_each_job_that_was_handed_back_once() {
    OF_SIDEKIQ.hands_back();
}

#[test]
fn laravel_goes_on_beside_a_follower_that_is_killed() {
    OF_LARAVEL.follows(KILLS, false);
}

#[test]
fn sidekiq_goes_on_beside_a_follower_that_is_killed() {
    OF_SIDEKIQ.follows(KILLS, false);
}

#[test]
fn laravel_and_a_follower_go_on_after_a_kill_of_redis() {
    OF_LARAVEL.follows(KILLS_OF_REDIS, true);
}

#[test]
fn sidekiq_and_a_follower_go_on_after_a_kill_of_redis() {
    OF_SIDEKIQ.follows(KILLS_OF_REDIS, true);
}

/// Jobs that it was handing back come again when their leases have ended, after a minute.
#[test]
fn a_server_that_is_killed_hands_back_each_job_at_least_once() {
    let redis = RedisServer::start();
    let options = ["--deliver-redis", &redis.url()];
    let mut server = Server::start_in(Place::new(), &options);
    let target = json!({"redis_list": {"url": redis.url(), "key": LIST, "as": "laravel"}}).to_string();
    assert_eq!(server.run(&["queues", "set", "mail", "--target", &target]).code, 0);
    let (start, mut due) = (now_ms() / 1_000, HashMap::new());
    for n in 0..3_000 {
        let (job, score) = (laravel(n, ""), start + n % 4);
        crate::adopt::framework::add(&redis, OF_LARAVEL.sets[0], score, &job);
        due.insert(job, score * 1_000);
    }
    drain(&server, &redis, OF_LARAVEL.hand_back, 0);
    for back in [500, 1_500] {
        until("some are handed back", || (number(&redis, &["LLEN", LIST]) >= back).then_some(()));
        let mut child = server.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        server = Server::start_in(std::mem::replace(&mut server.place, Place::new()), &options);
    }
    let mut counts: HashMap<String, u64> = HashMap::new();
    until("each is handed back", || {
        for job in redis.command(&["LPOP", LIST, "1000"]).lines() {
            assert!(now_ms() >= due[job], "early: {job}");
            *counts.entry(job.to_owned()).or_default() += 1;
        }
        (counts.len() == due.len()).then_some(())
    });
    let twice = counts.values().filter(|&&count| count > 1).count();
    println!("{} jobs, {twice} of them more than once", due.len());
    assert!(counts.values().all(|&count| count <= 3), "at most once more for each kill");
}
