//! The PHP project message_queue, rewritten from its description: a producer, and its listener, whose commands can be sent one by one.

use super::redis_source::{OldSet, now_ms};

pub(super) struct OldListener {
    pub(super) delayed: OldSet,
    list: String,
    reserved: String,
    /// The number of seconds that its clock is ahead of that of Redis.
    pub(super) ahead_s: i64,
    /// Messages that it has read, and not removed yet.
    read: Vec<Vec<u8>>,
    /// Up to this instant.
    read_until: i64,
}

/// A member, as PHP writes it.
pub(super) fn member(id: &str) -> Vec<u8> {
    format!(r#"{{"job":{{"id":"{id}","attemps":0,"data":{{"order":"\u8ba2\u5355 {id}"}}}}}}"#).into_bytes()
}

impl OldListener {
    pub(super) fn open(url: &str, name: &str) -> Self {
        let delayed = OldSet::open(url, &format!("queue:{name}:delay"));
        let [list, reserved] = ["job", "reserved"].map(|part| format!("queue:{name}:{part}"));
        Self { delayed, list, reserved, ahead_s: 0, read: Vec::new(), read_until: 0 }
    }

    /// Pushes a job with a delay.
    pub(super) fn push(&mut self, id: &str, delay_s: i64) {
        let at = now_s() + delay_s;
        self.delayed.add(&member(id), at);
    }

    /// The shortest delay that its producer may use: a member added before those that it has read makes it lose one of
    /// these.
    pub(super) fn delay_min(&self) -> i64 {
        if self.read.is_empty() { -5 } else { self.read_until + 1 - now_s() }
    }

    /// Its first command: reads members that are due by its clock, in whole seconds.
    pub(super) fn read(&mut self) -> usize {
        self.read_until = now_s() + self.ahead_s;
        let mut command = redis::cmd("ZRANGEBYSCORE");
        command.arg(&self.delayed.key).arg("-inf").arg(self.read_until);
        self.read = self.delayed.ask(&command);
        self.read.len()
    }

    /// Its second one: removes the same number by rank. Then it pushes the members that it has read to the list.
    pub(super) fn remove(&mut self) {
        let read = std::mem::take(&mut self.read);
        if read.is_empty() {
            return;
        }
        let mut command = redis::cmd("ZREMRANGEBYRANK");
        command.arg(&self.delayed.key).arg(0).arg(read.len() - 1);
        self.delayed.ask::<u64>(&command);
        let mut command = redis::cmd("RPUSH");
        command.arg(&self.list).arg(read);
        self.delayed.ask::<u64>(&command);
    }

    /// Takes the next job of the list, and notes that it is being run.
    pub(super) fn pop(&mut self) -> Option<Vec<u8>> {
        let job: Option<Vec<u8>> = self.delayed.ask(redis::cmd("LPOP").arg(&self.list));
        let job = job?;
        let mut command = redis::cmd("ZADD");
        command.arg(&self.reserved).arg(now_s() + 60).arg(&job);
        self.delayed.ask::<u64>(&command);
        Some(job)
    }

    /// A job that it has popped has ended.
    pub(super) fn end(&mut self, job: &[u8]) {
        let mut command = redis::cmd("ZREM");
        command.arg(&self.reserved).arg(job);
        self.delayed.ask::<u64>(&command);
    }

    /// Members of the list.
    pub(super) fn listed(&mut self) -> Vec<Vec<u8>> {
        let mut command = redis::cmd("LRANGE");
        command.arg(&self.list).arg(0).arg(-1);
        self.delayed.ask(&command)
    }

    /// Members of the sorted set, in order.
    pub(super) fn left(&mut self) -> Vec<Vec<u8>> {
        self.delayed.members().into_iter().map(|(member, _)| member).collect()
    }
}

pub(super) fn now_s() -> i64 {
    (now_ms() / 1_000) as i64
}
