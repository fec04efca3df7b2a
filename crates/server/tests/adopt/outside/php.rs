//! Beside old code in PHP, which pushes, reschedules, cancels and runs jobs at full speed: `cargo xtask outside`.
//!
//! The command, Redis, producers and consumers are killed by a seed. Each program reports its steps, so the history of a job
//! before its claim is known, except for the last step of a killed program.

use super::program::{PROGRAMS, Program};
use crate::adopt::framework::{kills, seeded};
use crate::adopt::redis_source::{Adopt, Made, OldSet, Running, made};
use crate::cli::server::Server;
use crate::cli::support::until;
use crate::common::Random;
use crate::inbox::database::Database;
use duetime_store::testing::RedisServer;
use std::collections::BTreeMap;
use std::process::Command;
use tokio::runtime::Runtime;

/// Rounds, most of them with a kill, unless `DUETIME_ADOPT_KILLS` says otherwise.
const KILLS: u64 = 15;
/// Jobs of a producer in a round.
const JOBS: u64 = 250;

/// An old queue in PHP.
struct Old {
    layout: &'static str,
    key: &'static str,
    /// The key by which the claim log is named.
    main: &'static str,
    /// The lock.
    lock: Option<&'static str>,
    /// The consumers that run beside the command, if that is safe.
    consumers: usize,
    /// A consumer that dies may lose the job that it has popped.
    is_lossy: bool,
    /// Options of the last drain.
    stopped: &'static [&'static str],
}

const ZSET: Old = Old {
    layout: "zset",
    key: "order_delay",
    main: "order_delay",
    lock: None,
    consumers: 2,
    is_lossy: false,
    stopped: &[],
};
const LOCKED_SET: Old = Old {
    layout: "locked-set",
    key: "Queue:mail",
    main: "Queue:mail",
    lock: Some("Lock:Queue:mail"),
    consumers: 1,
    ..ZSET
};
const TABLE_SET: Old =
    Old { layout: "table-set", key: "delay_queue_job", main: "delay_queue_job", consumers: 0, ..ZSET };
const MESSAGE_QUEUE: Old = Old {
    layout: "message-queue",
    key: "mail",
    main: "queue:mail",
    consumers: 1,
    is_lossy: true,
    stopped: &["--listener-stopped"],
    ..ZSET
};

/// The events of a job that the programs reported, as lower and upper bounds.
#[derive(Debug, Default)]
struct Job {
    /// How often it was put and not cancelled.
    lives: [i64; 2],
    /// How often the old code ran it.
    ran: [i64; 2],
    /// When it may be due, in milliseconds; 0: no matter when.
    due: Vec<u64>,
}

/// Reads what a program said. Answers whether it died while it popped some job.
fn read(lines: &[String], jobs: &mut BTreeMap<u64, Job>) -> bool {
    let mut is_popping = false;
    let mut open: BTreeMap<u64, (&str, u64)> = BTreeMap::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |place: usize| words.get(place).map_or(0, |word| word.parse::<u64>().unwrap());
        let (word, n, due) = (words[0], number(1), number(2));
        is_popping = word == "popping";
        if is_popping || word == "popped" {
            continue;
        }
        let job = jobs.entry(n).or_default();
        open.remove(&n);
        match word {
            "putting" | "moving" | "cancelling" | "taking" => _ = open.insert(n, (word, due)),
            "put" => {
                job.lives = job.lives.map(|lives| lives + 1);
                job.due.push(due);
            }
            "moved" => job.due = vec![due],
            "cancelled" => job.lives = job.lives.map(|lives| (lives - 1).max(0)),
            "unsure" => job.lives[0] = 0,
            "ran" => job.ran = job.ran.map(|ran| ran + 1),
            "missed" => {}
            other => panic!("{other}"),
        }
    }
    for (n, (word, due)) in open {
        let job = jobs.entry(n).or_default();
        match word {
            "putting" => {
                job.lives[1] += 1;
                job.due.push(due);
            }
            "moving" => job.due.push(due),
            "cancelling" => job.lives[0] = 0,
            _ => job.ran[1] += 1,
        }
    }
    is_popping
}

/// The first number in a payload is that of its job.
fn number(payload: &str) -> u64 {
    let digits = payload.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    digits.split(|letter: char| !letter.is_ascii_digit()).next().unwrap().parse().unwrap()
}

struct World {
    old: &'static Old,
    server: Server,
    redis: RedisServer,
    /// The address, and the one for PHP.
    rows: Option<(Database, [String; 2])>,
    jobs: BTreeMap<u64, Job>,
    /// Consumers that died with a job that they had popped, if there was one.
    popped: usize,
}

impl World {
    fn new(old: &'static Old) -> Self {
        let (server, redis) = (Server::start(), RedisServer::with(&["--appendonly", "yes", "--appendfsync", "always"]));
        let rows = (old.layout == "table-set").then(|| {
            let runtime = Runtime::new().unwrap();
            let rows = runtime.block_on(Database::mysql());
            let table = "CREATE TABLE delay_queue (id INT PRIMARY KEY, body TEXT, status TINYINT)";
            runtime.block_on(rows.run(&[table]));
            let url = rows.url();
            let port = url.rsplit_once(':').unwrap().1.split('/').next().unwrap();
            let dsn = format!("mysql:host=127.0.0.1;port={port};dbname=duetime");
            (rows, [url, dsn])
        });
        Self { old, server, redis, rows, jobs: BTreeMap::new(), popped: 0 }
    }

    fn php(&self, role: &str, numbers: [u64; 2]) -> Program {
        let Old { layout, key, .. } = *self.old;
        let mut command = Command::new("/usr/bin/php");
        command.args([&format!("{PROGRAMS}/old.php"), layout, role, key, &self.redis.port().to_string()]);
        command.args(numbers.map(|number| number.to_string()));
        command.args(self.rows.iter().map(|(_, [_, dsn])| dsn));
        Program::start(command)
    }

    fn adopt(&self) -> Adopt<'_> {
        let adopt = Adopt::new(&self.server, self.old.layout, &self.redis.url(), self.old.key);
        match &self.rows {
            Some((_, [url, _])) => adopt.with(&["--rows", url, "--table", "delay_queue"]),
            None => adopt,
        }
    }

    fn log(&self) -> OldSet {
        OldSet::open(&self.redis.url(), self.old.main)
    }

    /// A follower that has begun.
    fn follow(&self) -> Running {
        let mut log = self.log();
        let before = log.calls("hkeys");
        let mut follower = self.adopt().follow();
        until("it has begun", || (follower.has_ended() || log.calls("hkeys") > before).then_some(()));
        follower
    }

    /// Kills a program, and deletes the lock that it held, as an operator does.
    fn kill(&mut self, mut program: Program) {
        let id = program.id();
        program.kill();
        self.keep(&program);
        let script = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1])";
        if let Some(lock) = self.old.lock {
            self.redis.command(&["EVAL", script, "1", lock, &id.to_string()]);
        }
    }

    fn keep(&mut self, program: &Program) {
        self.popped += usize::from(read(&program.lines(), &mut self.jobs));
    }

    fn ended(&mut self, mut program: Program) {
        program.ended();
        self.keep(&program);
    }

    /// Redis dies, and with it all programs.
    fn kill_redis(&mut self, programs: &mut Vec<Program>) {
        self.redis.kill();
        for mut program in programs.drain(..) {
            program.has_succeeded();
            self.keep(&program);
        }
        self.redis.start_again();
        if let Some(lock) = self.old.lock {
            self.redis.command(&["DEL", lock]);
        }
    }

    /// Compares the outcome of each job with the allowed outcomes.
    fn account(mut self) {
        let ran = self.adopt().with(self.old.stopped).run(&self.adopt().step("--drain"));
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(self.log().claims(), 0);
        for job in self.redis.command(&["ZRANGE", "queue:mail:reserved", "0", "-1"]).lines() {
            // Its worker died before it had ended, or noted that.
            self.jobs.get_mut(&number(job)).unwrap().ran[1] += 1;
        }
        let mut adopted: BTreeMap<u64, Vec<Made>> = BTreeMap::new();
        for job in made(&self.server) {
            adopted.entry(number(std::str::from_utf8(&job.member).unwrap())).or_default().push(job);
        }
        let (mut lost, mut ran_there, mut taken, count) = (0, 0, 0, self.jobs.len());
        for (n, mut job) in self.jobs {
            let made = adopted.remove(&n).unwrap_or_default();
            if self.old.consumers == 0 && job.ran[1] > 0 && job.lives[0] == 0 {
                // The cron job runs a member before it removes it, so a cancel may come between.
                job.lives[1] = 1;
            }
            let about = format!("{n}: {job:?}, adopted {made:?}");
            // A job by each key, at most.
            let most = (job.lives[1] - job.ran[0]).clamp(0, 1);
            let least = (job.lives[0] - job.ran[1]).clamp(0, 1);
            assert!(job.ran[0] <= job.lives[1] && made.len() as i64 <= most, "twice, or cancelled: {about}");
            if (made.len() as i64) < least {
                assert!(self.old.is_lossy, "lost: {about}");
                lost += 1;
            }
            ran_there += job.ran[0];
            taken += made.len();
            for made in made {
                let is_right = |due: &u64| match (*due, self.old.is_lossy) {
                    (0, _) => true,
                    (due, false) => made.due_at.abs_diff(due) <= 1,
                    // The listener may have moved it to the list.
                    (due, true) => made.due_at >= due,
                };
                assert!(job.due.iter().any(is_right), "the last due time counts: {about}");
            }
        }
        assert!(adopted.is_empty(), "nobody put them, or their rows are no jobs: {adopted:?}");
        let popped = self.popped;
        println!(
            "{count} jobs: {taken} adopted, {ran_there} run there, {lost} lost by {popped} that died as they popped one"
        );
        assert!(lost <= popped, "a consumer that dies loses one at most");
        assert!(taken > 20 && ran_there > 20, "the sides met");
    }
}

fn beside(old: &'static Old) {
    let mut random: Random = seeded();
    let mut world = World::new(old);
    let (mut consumers, mut follower, mut first) = (Vec::new(), None, 0);
    let mut killed: BTreeMap<&str, u64> = BTreeMap::new();
    for round in 0..kills(KILLS) {
        let mut producers = Vec::new();
        for _ in 0..2 {
            producers.push(world.php("producer", [first, JOBS]));
            first += JOBS;
        }
        if old.consumers == 0 && round % 3 == 0 {
            // Its consumer runs while the command does not.
            follower.take().map(Running::stop);
            let cron = world.php("consumer", [0, 0]);
            producers.into_iter().for_each(|producer| world.ended(producer));
            world.ended(cron);
            continue;
        }
        while consumers.len() < old.consumers {
            consumers.push(world.php("consumer", [0, 0]));
        }
        if follower.is_none() {
            follower = Some(world.follow());
        }
        // Each says more than that.
        let lines = random.within(1..4 * JOBS) as usize;
        until("so much is done", || {
            (producers.iter().map(|program| program.lines().len()).sum::<usize>() >= lines).then_some(())
        });
        let victim =
            ["command", "command", "consumer", "producer", "redis", "redis and command"][random.within(0..6) as usize];
        *killed.entry(victim).or_default() += 1;
        if victim.contains("redis") {
            producers.append(&mut consumers);
            world.kill_redis(&mut producers);
        }
        if victim == "redis" {
            let mut log = world.log();
            until("the command has found it again", || (log.calls("hkeys") > 0).then_some(()));
        }
        match victim {
            "command" | "redis and command" => follower.take().unwrap().kill(),
            "consumer" if old.consumers > 0 => {
                let consumer = consumers.pop().unwrap();
                world.kill(consumer);
            }
            "consumer" | "producer" => {
                let producer = producers.pop().unwrap();
                world.kill(producer);
            }
            _ => {}
        }
        producers.into_iter().for_each(|producer| world.ended(producer));
    }
    consumers.into_iter().for_each(|consumer| world.ended(consumer));
    follower.map(Running::stop);
    println!("{}: killed {killed:?}", old.layout);
    world.account();
}

#[test]
fn kills_beside_a_plain_set_of_php_lose_and_double_nothing() {
    beside(&ZSET);
}

#[test]
fn kills_beside_a_locked_set_of_php_lose_and_double_nothing() {
    beside(&LOCKED_SET);
}

#[test]
fn kills_beside_rows_of_php_lose_and_double_nothing() {
    beside(&TABLE_SET);
}

#[test]
fn kills_beside_message_queue_lose_and_double_nothing() {
    beside(&MESSAGE_QUEUE);
}
