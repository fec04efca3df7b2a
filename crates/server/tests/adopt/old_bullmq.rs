//! A queue of BullMQ, as its scripts write it, and a worker of it.

use redis::{Cmd, Connection, FromRedisValue};
use std::collections::{BTreeMap, BTreeSet};

/// When jobs were added.
pub(super) const TIMESTAMP: u64 = 1_700_000_000_000;

/// How a worker of BullMQ 5 or 6 gets a job: it promotes due jobs, and takes the next one.
const NEXT: &str = r#"
local base = ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, id in ipairs(redis.call('ZRANGEBYSCORE', base .. 'delayed', 0, (now + 1) * 4096 - 1, 'LIMIT', 0, 1000)) do
  redis.call('ZREM', base .. 'delayed', id)
  redis.call('LPUSH', base .. 'wait', id)
  redis.call('HSET', base .. id, 'delay', 0)
end
local id = redis.call('RPOPLPUSH', base .. 'wait', base .. 'active')
if not id then
  id = redis.call('ZPOPMIN', base .. 'prioritized')[1]
  if not id then return {} end
  redis.call('LPUSH', base .. 'active', id)
end
redis.call('SET', base .. id .. ':lock', 'token', 'PX', 30000)
return {id, redis.call('HGET', base .. id, 'data')}
"#;

pub(super) struct OldQueue {
    connection: Connection,
    /// The start of all its keys.
    pub(super) base: String,
}

impl OldQueue {
    pub(super) fn open(url: &str, name: &str) -> Self {
        let connection = redis::Client::open(url).unwrap().get_connection().unwrap();
        Self { connection, base: format!("bull:{name}:") }
    }

    /// With what BullMQ writes before the first job.
    pub(super) fn bullmq(url: &str, name: &str) -> Self {
        let mut queue = Self::open(url, name);
        let mut meta = queue.of("HSET", "meta");
        meta.arg("opts.maxLenEvents").arg(10_000).arg("version").arg("bullmq:6.7.0");
        queue.ask::<u64>(&meta);
        let id = queue.of("INCR", "id");
        queue.ask::<u64>(&id);
        queue
    }

    pub(super) fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> T {
        command.query(&mut self.connection).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A command on a key.
    pub(super) fn of(&self, command: &str, name: &str) -> Cmd {
        let mut command = redis::cmd(command);
        command.arg(format!("{}{name}", self.base));
        command
    }

    /// The hash of a job, with more fields, or others.
    pub(super) fn hash(&mut self, id: &str, data: &[u8], more: &[(&str, &str)]) {
        let mut command = self.of("HSET", id);
        command.arg("name").arg("welcome").arg("data").arg(data).arg("opts").arg("{}");
        command.arg("timestamp").arg(TIMESTAMP).arg("delay").arg(0).arg("priority").arg(0);
        more.iter().for_each(|(name, value)| _ = command.arg(name).arg(value));
        self.ask::<u64>(&command);
    }

    pub(super) fn wait(&mut self, id: &str) {
        let mut command = self.of("LPUSH", "wait");
        self.ask::<u64>(command.arg(id));
    }

    pub(super) fn delayed(&mut self, id: &str, due_at: u64) {
        let mut command = self.of("ZADD", "delayed");
        self.ask::<u64>(command.arg(due_at * 4_096 + due_at % 4_096).arg(id));
    }

    pub(super) fn prioritized(&mut self, id: &str, priority: u64, count: u64) {
        let mut command = self.of("ZADD", "prioritized");
        self.ask::<u64>(command.arg(priority * (1 << 32) + count).arg(id));
    }

    /// Members of a list, or of a sorted set with their scores.
    pub(super) fn members(&mut self, name: &str) -> Vec<String> {
        let kind: String = self.ask(&self.of("TYPE", name));
        let is_list = kind == "list";
        let mut command = self.of(if is_list { "LRANGE" } else { "ZRANGE" }, name);
        command.arg(0).arg(-1);
        if !is_list {
            command.arg("WITHSCORES");
        }
        self.ask(&command)
    }

    /// All keys with their values, except the marks that wake workers.
    pub(super) fn snapshot(&mut self) -> BTreeMap<String, String> {
        let keys: Vec<Vec<u8>> = self.ask(redis::cmd("KEYS").arg(format!("{}*", self.base)));
        let mut all = BTreeMap::new();
        for key in keys {
            let kind: String = self.ask(redis::cmd("TYPE").arg(&key));
            let range = |name: &str| redis::cmd(name).arg(&key).arg(0).arg(-1).to_owned();
            let holds = match &*kind {
                "hash" => {
                    let hash: BTreeMap<Vec<u8>, Vec<u8>> = self.ask(redis::cmd("HGETALL").arg(&key));
                    format!("{hash:?}")
                }
                "list" => format!("{:?}", self.ask::<Vec<Vec<u8>>>(&range("LRANGE"))),
                "zset" => format!("{:?}", self.ask::<Vec<Vec<u8>>>(range("ZRANGE").arg("WITHSCORES"))),
                "set" => format!("{:?}", self.ask::<BTreeSet<Vec<u8>>>(redis::cmd("SMEMBERS").arg(&key))),
                _ => format!("{:?}", self.ask::<Vec<u8>>(redis::cmd("GET").arg(&key))),
            };
            all.insert(String::from_utf8_lossy(&key).into_owned(), holds);
        }
        all.remove(&format!("{}marker", self.base));
        all
    }

    /// Runs the next job as a worker, if one is ready: returns its data.
    pub(super) fn run_next(&mut self) -> Option<Vec<u8>> {
        let base = self.base.clone();
        let mut next: Vec<Vec<u8>> = self.ask(redis::cmd("EVAL").arg(NEXT).arg(0).arg(&base));
        let data = next.pop()?;
        let id = next.pop().expect("an id and its data");
        assert!(!data.is_empty(), "a worker has taken {:?}, which has no data", String::from_utf8_lossy(&id));
        let mut command = self.of("LREM", "active");
        assert_eq!(self.ask::<u64>(command.arg(1).arg(&id)), 1);
        let job = [base.as_bytes(), &id].concat();
        self.ask::<u64>(redis::cmd("DEL").arg(&job).arg([&job[..], b":lock"].concat()));
        Some(data)
    }
}
