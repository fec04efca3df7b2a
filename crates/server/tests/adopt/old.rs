//! Imitations of old queues in Redis, of each layout, and of the code that feeds and empties them.

use super::framework::{DELAYED, LARAVEL, LIST, NOTIFY, laravel, now_ms, sidekiq};
use super::old_bullmq::OldQueue;
use super::old_listener::{OldListener, member};
use super::redis_source::{Adopt, OldSet};
use crate::cli::server::Server;
use crate::common::Random;
use crate::inbox::database::Database;
use duetime_store::testing::RedisServer;
use redis::{Connection, Pipeline};
use std::collections::HashMap;
use tokio::runtime::Runtime;

/// Ids of rows in a database.
const ROWS: u64 = 1_000_000;
/// Members that become due long after a test.
const LATER_S: i64 = 50_000;

/// Runs the next jobs, and returns the payloads.
pub(super) type Worker = Box<dyn FnMut() -> Vec<String> + Send>;

/// An old queue.
pub(super) struct Old {
    /// The arguments of `duetime adopt`, after its address; the layout first.
    pub(super) source: &'static [&'static str],
    /// More of them once its workers are stopped.
    pub(super) stopped: &'static [&'static str],
    /// The key by which the claim log is named.
    main: &'static str,
    sets: &'static [&'static str],
    lists: &'static [&'static str],
    /// Of its scores.
    per_second: f64,
    /// The time from which members become due that do so during a test.
    soon_s: i64,
    /// Beside its workers, only members are taken that are due later than these seconds from now.
    beyond_s: Option<i64>,
    /// The payload of the job with a number.
    payload: fn(u64) -> String,
    push: fn(&mut Pipeline, &str, u64),
    add: fn(&mut Pipeline, &str, f64, u64),
    /// Removes a member from a sorted set, if the old code may do that at any time.
    cancel: Option<fn(&mut Connection, &str, u64) -> bool>,
    /// A worker that may run beside the command.
    work: Option<fn(String) -> Worker>,
    has_rows: bool,
}

/// Of a set that is not a list.
fn no_list(_: &mut Pipeline, list: &str, _: u64) {
    unreachable!("{list}")
}

fn text(n: u64) -> String {
    format!("member-{n}")
}

fn add_text(pipe: &mut Pipeline, set: &str, score: f64, n: u64) {
    pipe.zadd(set, text(n), score);
}

fn cancel_text(connection: &mut Connection, set: &str, n: u64) -> bool {
    zrem(connection, set, &text(n))
}

fn zrem(connection: &mut Connection, set: &str, member: &str) -> bool {
    redis::cmd("ZREM").arg(set).arg(member).query(connection).unwrap()
}

fn connect(url: &str) -> Connection {
    redis::Client::open(url).unwrap().get_connection().unwrap()
}

fn query<T: redis::FromRedisValue>(connection: &mut Connection, words: &[&str]) -> T {
    redis::cmd(words[0]).arg(&words[1..]).query(connection).unwrap()
}

fn due(connection: &mut Connection, set: &str, max: u64, limit: &str) -> Vec<String> {
    query(connection, &["ZRANGEBYSCORE", set, "-inf", &max.to_string(), "LIMIT", "0", limit])
}

/// A set of one kind of member, in seconds.
const SET: Old = Old {
    source: &["zset", "--key", "delayed", "--to", "jobs", "--score", "milliseconds"],
    stopped: &[],
    main: "delayed",
    sets: &["delayed"],
    lists: &[],
    per_second: 1_000.0,
    soon_s: -9,
    beyond_s: None,
    payload: text,
    push: no_list,
    add: add_text,
    cancel: Some(cancel_text),
    work: None,
    has_rows: false,
};

/// A consumer runs what its own ZREM has removed.
pub(super) const ZSET: Old = Old {
    work: Some(|url| {
        let mut connection = connect(&url);
        Box::new(move || {
            let due = due(&mut connection, "delayed", now_ms(), "5");
            due.into_iter().filter(|member| zrem(&mut connection, "delayed", member)).collect()
        })
    }),
    ..SET
};

/// A consumer reads due members and removes them, under the lock.
pub(super) const LOCKED_SET: Old = Old {
    source: &["locked-set", "--key", "Queue:mail", "--to", "jobs", "--score", "seconds"],
    main: "Queue:mail",
    sets: &["Queue:mail"],
    per_second: 1.0,
    cancel: None,
    work: Some(|url| {
        let mut connection = connect(&url);
        Box::new(move || {
            assert!(query::<bool>(&mut connection, &["SETNX", "Lock:Queue:mail", "worker"]), "nobody else locks it");
            let due = due(&mut connection, "Queue:mail", now_ms() / 1_000, "3");
            for member in &due {
                assert!(zrem(&mut connection, "Queue:mail", member), "it is there until it is removed under the lock");
            }
            query::<u64>(&mut connection, &["DEL", "Lock:Queue:mail"]);
            due
        })
    }),
    ..SET
};

/// Its cron job must not run beside the command.
pub(super) const TABLE_SET: Old = Old {
    source: &["table-set", "--key", "delay_queue_job", "--to", "jobs", "--score", "seconds", "--table", "delay_queue"],
    main: "delay_queue_job",
    sets: &["delay_queue_job"],
    per_second: 1.0,
    payload: |n| n.to_string(),
    add: |pipe, set, score, n| {
        pipe.zadd(set, n, score);
    },
    cancel: Some(|connection, set, n| zrem(connection, set, &n.to_string())),
    has_rows: true,
    ..SET
};

/// Old code may add due members only after those that its listener has read, and remove none.
pub(super) const MESSAGE_QUEUE: Old = Old {
    source: &["message-queue", "--key", "mail", "--to", "jobs"],
    stopped: &["--listener-stopped"],
    main: "queue:mail",
    sets: &["queue:mail:delay"],
    lists: &["queue:mail:job"],
    per_second: 1.0,
    soon_s: 8,
    beyond_s: Some(65),
    payload: |n| String::from_utf8(member(&n.to_string())).unwrap(),
    push: |pipe, list, n| {
        pipe.rpush(list, member(&n.to_string()));
    },
    add: |pipe, set, score, n| {
        pipe.zadd(set, member(&n.to_string()), score);
    },
    cancel: None,
    work: Some(|url| {
        let mut listener = OldListener::open(&url, "mail");
        Box::new(move || {
            listener.read();
            listener.remove();
            let job = listener.pop();
            job.iter().for_each(|job| listener.end(job));
            job.into_iter().map(|job| String::from_utf8(job).unwrap()).collect()
        })
    }),
    ..SET
};

/// A worker pops from a list with a script.
fn pop(url: &str, lists: &'static [&'static str], script: &'static str) -> Worker {
    let mut connection = connect(url);
    Box::new(move || {
        lists.iter().filter_map(|list| query::<Option<String>>(&mut connection, &["EVAL", script, "1", list])).collect()
    })
}

pub(super) const OF_LARAVEL: Old = Old {
    source: &LARAVEL,
    main: "shop_queues:default",
    sets: &[DELAYED],
    lists: &[LIST],
    per_second: 1.0,
    payload: |n| laravel(n, ""),
    push: |pipe, list, n| {
        pipe.rpush(list, laravel(n, "")).rpush(NOTIFY, 1);
    },
    add: |pipe, set, score, n| {
        pipe.zadd(set, laravel(n, ""), score);
    },
    cancel: Some(|connection, set, n| zrem(connection, set, &laravel(n, ""))),
    work: Some(|url| {
        let script = "redis.call('LPOP', KEYS[1] .. ':notify') return redis.call('LPOP', KEYS[1])";
        pop(&url, &[LIST], script)
    }),
    ..SET
};

pub(super) const OF_SIDEKIQ: Old = Old {
    source: &["sidekiq"],
    main: "queues",
    sets: &["schedule", "retry"],
    lists: &["queue:default", "queue:low"],
    per_second: 1.0,
    payload: |n| sidekiq(n, "default", ""),
    push: |pipe, list, n| {
        pipe.sadd("queues", list.trim_start_matches("queue:")).lpush(list, sidekiq(n, "default", ""));
    },
    add: |pipe, set, score, n| {
        pipe.zadd(set, sidekiq(n, "default", ""), score);
    },
    cancel: Some(|connection, set, n| zrem(connection, set, &sidekiq(n, "default", ""))),
    work: Some(|url| pop(&url, &["queue:default", "queue:low"], "return redis.call('RPOP', KEYS[1])")),
    ..SET
};

/// The number of a job, and some more. Its hash has other fields, too.
fn data(n: u64) -> String {
    format!(r#"{{"n":{n},"text":"größe"}}"#)
}

fn hash(pipe: &mut Pipeline, n: u64) {
    let fields = [("name", "welcome".to_owned()), ("data", data(n)), ("opts", "{}".to_owned())];
    pipe.hset_multiple(format!("bull:mail:{n}"), &fields).hset(format!("bull:mail:{n}"), "timestamp", now_ms());
}

pub(super) const OF_BULLMQ: Old = Old {
    source: &["bullmq", "--key", "mail", "--to", "jobs"],
    main: "bull:mail",
    sets: &["bull:mail:delayed"],
    lists: &["bull:mail:wait"],
    per_second: 4_096_000.0,
    payload: data,
    push: |pipe, list, n| {
        hash(pipe, n);
        pipe.lpush(list, n);
    },
    add: |pipe, set, score, n| {
        hash(pipe, n);
        pipe.zadd(set, n, score);
    },
    cancel: Some(|connection, set, n| {
        let script = "local was = redis.call('ZREM', KEYS[1], ARGV[1])
            if was == 1 then redis.call('DEL', 'bull:mail:' .. ARGV[1]) end return was";
        query(connection, &["EVAL", script, "1", set, &n.to_string()])
    }),
    work: Some(|url| {
        let mut queue = OldQueue::open(&url, "mail");
        Box::new(move || queue.run_next().map(|data| String::from_utf8(data).unwrap()).into_iter().collect())
    }),
    ..SET
};

/// An old queue in a Redis, a server, and the known jobs.
pub(super) struct World {
    pub(super) old: &'static Old,
    pub(super) server: Server,
    pub(super) redis: RedisServer,
    rows: Option<Database>,
    /// When each job is due that was put, in milliseconds; 0 for those that are ready.
    pub(super) put: HashMap<String, u64>,
    /// Jobs in sorted sets, by their numbers.
    waiting: Vec<(&'static str, u64)>,
    pub(super) cancelled: Vec<String>,
    count: u64,
}

impl World {
    /// Redis keeps what it has acknowledged if it is durable: it writes each change to the disk.
    pub(super) fn new(old: &'static Old, is_durable: bool) -> Self {
        let durable: &[&str] = if is_durable { &["--appendonly", "yes", "--appendfsync", "always"] } else { &[] };
        let (server, redis) = (Server::start(), RedisServer::with(durable));
        if old.main == OF_BULLMQ.main {
            OldQueue::bullmq(&redis.url(), "mail");
        }
        // Each tenth row is no job.
        let rows = old.has_rows.then(|| {
            let runtime = Runtime::new().unwrap();
            let rows = runtime.block_on(Database::mysql());
            let fill = format!("INSERT INTO delay_queue SELECT seq, seq % 10 <> 9 FROM seq_0_to_{ROWS}");
            let table = "CREATE TABLE delay_queue (id INT PRIMARY KEY, status TINYINT NOT NULL)";
            runtime.block_on(rows.run(&[table, &fill]));
            rows
        });
        let (put, waiting, cancelled) = (HashMap::new(), Vec::new(), Vec::new());
        Self { old, server, redis, rows, put, waiting, cancelled, count: 0 }
    }

    pub(super) fn adopt(&self) -> Adopt<'_> {
        let rows = self.rows.as_ref().map(Database::url);
        let more = rows.iter().flat_map(|url| ["--rows", url]);
        let words: Vec<&str> = self.old.source.iter().copied().chain(more).collect();
        Adopt::from_words(&self.server, &self.redis.url(), &words)
    }

    pub(super) fn worker(&self) -> Option<Worker> {
        self.old.work.map(|work| work(self.redis.url()))
    }

    /// Its Redis.
    pub(super) fn open(&self) -> OldSet {
        OldSet::open(&self.redis.url(), self.old.main)
    }

    /// Feeds some jobs.
    pub(super) fn feed(&mut self, random: &mut Random) {
        let now_s = (now_ms() / 1_000) as i64;
        let (old, mut pipe) = (self.old, redis::pipe());
        // Now and then more than one claim takes.
        let most = if random.percent(20) { 1_500 } else { 400 };
        for n in self.count..self.count + random.within(100..most) {
            self.count = n + 1;
            let is_job = !old.has_rows || n % 10 != 9;
            let mut due_ms = 0;
            if !old.lists.is_empty() && random.percent(40) {
                (old.push)(&mut pipe, one_of(old.lists, random), n);
            } else {
                let set = one_of(old.sets, random);
                // An entry that is not a job stays, and no follower reaches it.
                let soon = old.soon_s + random.within(0..9) as i64;
                let due_s = now_s + if random.percent(50) && is_job { soon } else { LATER_S };
                (old.add)(&mut pipe, set, due_s as f64 * old.per_second, n);
                due_ms = due_s as u64 * 1_000;
                if is_job {
                    self.waiting.push((set, n));
                }
            }
            if is_job {
                self.put.insert((old.payload)(n), due_ms);
            }
        }
        assert!(self.count < ROWS, "more rows are needed");
        pipe.query::<redis::Value>(&mut connect(&self.redis.url())).unwrap();
    }

    /// Cancels some job, if it is still there.
    pub(super) fn cancel(&mut self, connection: &mut Connection, random: &mut Random) {
        let Some(cancel) = self.old.cancel.filter(|_| !self.waiting.is_empty()) else { return };
        let (set, n) = self.waiting.swap_remove(random.within(0..self.waiting.len() as u64) as usize);
        if cancel(connection, set, n) {
            self.cancelled.push((self.old.payload)(n));
        }
    }

    /// The number of jobs that a step takes, beside workers.
    pub(super) fn left(&self, connection: &mut Connection, step: &str) -> u64 {
        let now_s = (now_ms() / 1_000) as i64;
        let score = |s: i64| (s as f64 * self.old.per_second).to_string();
        let (min, max) = match self.old.beyond_s {
            Some(beyond_s) => (score(now_s + beyond_s), "+inf".to_owned()),
            None if step == "--drain" => ("-inf".to_owned(), "+inf".to_owned()),
            None => ("-inf".to_owned(), score(now_s)),
        };
        let sets = self.old.sets.iter().map(|set| query::<u64>(connection, &["ZCOUNT", set, &min, &max])).sum::<u64>();
        sets + self.old.lists.iter().map(|list| query::<u64>(connection, &["LLEN", list])).sum::<u64>()
    }

    /// The number of entries that stay because they are not jobs.
    pub(super) fn stays(&self) -> u64 {
        if self.old.has_rows { self.count / 10 } else { 0 }
    }

    pub(super) fn connect(&self) -> Connection {
        connect(&self.redis.url())
    }
}

pub(super) fn one_of<T: Copy>(all: &[T], random: &mut Random) -> T {
    all[random.within(0..all.len() as u64) as usize]
}
