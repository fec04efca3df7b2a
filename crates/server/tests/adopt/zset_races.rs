//! The old code continues at full speed beside the command: its changes before the claim count, and each member is one job
//! or one run of an old consumer.

use super::redis_source::{Adopt, Ends, Made, OldSet, made, now_ms};
use crate::cli::server::Server;
use crate::cli::support::until;
use crate::common::Random;
use duetime_store::testing::RedisServer;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};

const KEY: &str = "delayed";
/// Members of one producer.
const MEMBERS: u64 = 150;

/// From when a member is added until it is removed.
#[derive(Clone, Debug)]
struct Life {
    score: u64,
    is_cancelled: bool,
}

/// The lives of each member, as producers know them.
type Lives = BTreeMap<Vec<u8>, Vec<Life>>;
/// The runs of each member by consumers.
type Runs = HashMap<Vec<u8>, usize>;

/// Adds members, reschedules and removes them, each known by what the command answered.
fn produce(url: &str, producer: u64, seed: u64, operations: u64) -> Lives {
    let (mut old, mut random) = (OldSet::open(url, KEY), Random::new(seed));
    let mut lives = Lives::new();
    for _ in 0..operations {
        let number = random.within(0..MEMBERS);
        // Half of them cannot be keys, so that each life is a job.
        let prefix: &[u8] = if number % 2 == 0 { b"\xff" } else { b"text-" };
        let member = [prefix, format!("{producer}-{number}").as_bytes()].concat();
        let known = lives.entry(member.clone()).or_default();
        if random.percent(25) {
            if old.remove(&member) {
                known.last_mut().expect("it was added").is_cancelled = true;
            }
            continue;
        }
        let score = now_ms() - 20 + random.within(0..200);
        if old.add(&member, score) {
            known.push(Life { score, is_cancelled: false });
        } else {
            known.last_mut().expect("it was added").score = score;
        }
    }
    lives
}

/// Runs the due jobs that its own ZREM removed, until it is over.
fn consume(url: &str, is_over: &AtomicBool) -> Runs {
    let (mut old, mut runs) = (OldSet::open(url, KEY), Runs::new());
    while !is_over.load(Ordering::Relaxed) {
        for member in old.due(10) {
            if old.remove(&member) {
                *runs.entry(member).or_default() += 1;
            }
        }
    }
    runs
}

type Producers<'scope> = Vec<ScopedJoinHandle<'scope, Lives>>;

fn start_producers<'scope>(
    scope: &'scope Scope<'scope, '_>,
    url: &'scope str,
    random: &mut Random,
    operations: u64,
) -> Producers<'scope> {
    let producer = |producer| {
        let seed = random.any();
        scope.spawn(move || produce(url, producer, seed, operations))
    };
    (0..3).map(producer).collect()
}

fn lives_of(producers: Producers<'_>) -> Lives {
    producers.into_iter().flat_map(|producer| producer.join().unwrap()).collect()
}

/// Compares the jobs with what the producers and the consumers know.
fn check(jobs: Vec<Made>, lives: Lives, mut runs: Runs) {
    let mut made: HashMap<Vec<u8>, Vec<u64>> = HashMap::new();
    let mut live = HashSet::new();
    for job in jobs {
        assert!(job.created_at >= job.due_at, "it was taken when it was due: {}", job.job);
        if job.key.is_some() && job.job["state"] != "cancelled" {
            assert!(live.insert(job.member.clone()), "one job has a key: {}", job.job);
        }
        made.entry(job.member).or_default().push(job.due_at);
    }
    let (mut claimed, mut cancelled, mut ran_there) = (0, 0, 0);
    for (member, lives) in lives {
        let ran = runs.remove(&member).unwrap_or_default();
        let dues = made.remove(&member).unwrap_or_default();
        let mut scores: Vec<u64> = lives.iter().filter(|life| !life.is_cancelled).map(|life| life.score).collect();
        cancelled += lives.len() - scores.len();
        ran_there += ran;
        let claims = scores.len() - ran;
        claimed += claims;
        let about =
            format!("{:?} lived {lives:?}, ran {ran} times there, jobs due {dues:?}", String::from_utf8_lossy(&member));
        assert_eq!(dues.len(), claims, "{about}");
        assert_eq!(live.contains(&member), member[0] != 0xff && claims > 0, "{about}");
        for due in dues {
            let at =
                scores.iter().position(|score| *score == due).unwrap_or_else(|| panic!("the last due time: {about}"));
            scores.swap_remove(at);
        }
    }
    assert!(made.is_empty() && runs.is_empty(), "nothing comes from nowhere: {made:?}, {runs:?}");
    println!("{claimed} claimed, {cancelled} cancelled, {ran_there} run by consumers");
    assert!(claimed > 20 && cancelled > 100, "the sides met");
}

fn seeded() -> Random {
    let seed = now_ms();
    println!("seed {seed}");
    Random::new(seed)
}

#[test]
fn two_followers_and_an_old_consumer_share_the_members() {
    let mut random = seeded();
    let (server, redis) = (Server::start(), RedisServer::start());
    let url = redis.url();
    let adopt = Adopt::new(&server, "zset", &url, KEY).with(&["--score", "milliseconds"]);
    let followers = [adopt.follow(), adopt.follow()];
    let is_over = AtomicBool::new(false);
    let (lives, runs) = std::thread::scope(|scope| {
        let consumer = scope.spawn(|| consume(&url, &is_over));
        let ends = Ends(&is_over);
        let lives = lives_of(start_producers(scope, &url, &mut random, 6_000));
        drop(ends);
        (lives, consumer.join().unwrap())
    });
    let mut old = OldSet::open(&url, KEY);
    until("all is taken", || (old.count() + old.claims() == 0).then_some(()));
    followers.into_iter().for_each(|follower| drop(follower.stop()));
    assert!(runs.len() > 10, "the consumer had some: {}", runs.len());
    check(made(&server), lives, runs);
}
