//! Sources in Redis: the connection, and the claim log.
//!
//! The log is a hash beside the source's key. A script removes members and writes them there in one step, under claim ids
//! that were never used before. They begin with the time, so that a replay keeps the order. So after any crash a member is in its place or in the log.

use super::source::{Done, Trouble, fresh_id};
use crate::cli::exit::Failure;
use duetime_core::{Error, Millis};
use duetime_store::redis::Foreign;
use redis::{Cmd, FromRedisValue, ToRedisArgs, Value};
use std::collections::HashSet;
use std::sync::Arc;

/// Claims read, or put back, at a time. Each may be large.
const PAGE: usize = 16;

/// The beginning of a claiming script: functions that take members and write claims.
const CLAIM: &str = include_str!("claim.lua");
/// The end of a claiming script.
const CLAIMED: &str = "\nreturn {now_ms, wait_ms, claimed}\n";

/// Wraps the function that puts a claim back; it returns false if it cannot do so now.
const PUT_BACK: &str = "local function put_back(parts)\n";
const PUT_BACK_ALL: &str = r#"
end
local left = 0
for place = 1, tonumber(ARGV[1]) do
  local id = ARGV[place + 1]
  local packed = redis.call('HGET', KEYS[1], id)
  if packed then
    local parts, at = {}, 1
    while at <= #packed do
      local colon = string.find(packed, ':', at, true)
      local bytes = tonumber(string.sub(packed, at, colon - 1))
      parts[#parts + 1] = string.sub(packed, colon + 1, colon + bytes)
      at = colon + bytes + 1
    end
    table.remove(parts, 1)
    if put_back(parts) == false then left = left + 1 else redis.call('HDEL', KEYS[1], id) end
  end
end
return left
"#;

/// A claim, as the log has it: its id, and the texts that the script gave.
pub(super) type Logged = (Arc<str>, Vec<Vec<u8>>);

/// The result of a claiming script; by default that there is nothing to claim.
pub(super) struct Claimed {
    pub(super) logged: Vec<Logged>,
    /// The clock of Redis.
    pub(super) now: Millis,
    /// When it is worth asking again, in milliseconds.
    pub(super) wait_ms: u64,
}

impl Default for Claimed {
    fn default() -> Self {
        Self { logged: Vec::new(), now: 0, wait_ms: 1_000 }
    }
}

/// A Redis with a source.
pub(super) struct Redis {
    foreign: Foreign,
    claims: Vec<u8>,
    /// The queue that the command names for all jobs; else empty.
    to: Arc<str>,
    /// Claims that this run works on.
    in_hand: HashSet<Arc<str>>,
    /// Claims that are still to be replayed, the last one first; `None` before the replay.
    to_replay: Option<Vec<Vec<u8>>>,
}

impl Redis {
    /// For a source whose main key is this.
    pub(super) fn new(address: &str, key: &str, to: Option<&Arc<str>>) -> std::result::Result<Self, Failure> {
        let to = to.cloned().unwrap_or_default();
        let claims = claims_key(key).into_bytes();
        let foreign = Foreign::new(address).map_err(|error| match error {
            Error::Invalid { expected, got, .. } => Error::invalid("from", expected, got),
            error => error,
        })?;
        Ok(Self { foreign, claims, to, in_hand: HashSet::new(), to_replay: None })
    }

    /// The address, without user and password.
    pub(super) fn place(&self) -> &str {
        self.foreign.place()
    }

    /// Forgets the claims in hand and restarts the replay. For [`Source::connect`](super::source::Source::connect).
    pub(super) fn forget(&mut self) {
        self.in_hand.clear();
        self.to_replay = None;
    }

    /// Carries a command out, at most once.
    pub(super) async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Done<T> {
        let value = self.foreign.once(command).await.map_err(trouble)?;
        T::from_redis_value(value).map_err(|error| Trouble::Failed(Failure::error(format!("Redis: {error}"))))
    }

    /// The same, with these arguments.
    pub(super) async fn call<T: FromRedisValue>(&self, name: &str, arguments: impl ToRedisArgs) -> Done<T> {
        let mut command = redis::cmd(name);
        command.arg(arguments);
        self.ask(&command).await
    }

    /// The clock of Redis, in milliseconds since 1970.
    pub(super) async fn now(&self) -> Done<Millis> {
        let (seconds, micros): (u64, u64) = self.ask(&redis::cmd("TIME")).await?;
        Ok(seconds * 1_000 + micros / 1_000)
    }

    /// Runs a script that removes members and calls `claim(…)` for each: see [`CLAIM`].
    pub(super) async fn claim(
        &mut self,
        script: &str,
        keys: &[impl ToRedisArgs],
        arguments: impl ToRedisArgs,
    ) -> Done<Claimed> {
        let mut command = self.eval(&[CLAIM, script, CLAIMED].concat(), keys);
        command.arg(format!("{}{}", fresh_id(), self.to)).arg(arguments);
        let (now, wait_ms, flat): (Millis, u64, Vec<Vec<u8>>) = self.ask(&command).await?;
        Ok(Claimed { logged: self.read(flat)?, now, wait_ms })
    }

    /// The next claims in the log that this run does not work on, in the order of their ids, which is that of the claims; none when all
    /// were given.
    pub(super) async fn replay(&mut self) -> Done<Vec<Logged>> {
        let mut ids: Vec<Vec<u8>> = match self.to_replay.take() {
            Some(ids) => ids,
            None => {
                let mut ids: Vec<_> = self.call("HKEYS", &self.claims).await?;
                ids.sort_unstable_by(|a: &Vec<u8>, b| b.cmp(a));
                ids
            }
        };
        let mut logged = Vec::new();
        while logged.is_empty() && !ids.is_empty() {
            let page: Vec<Vec<u8>> = (0..PAGE).map_while(|_| ids.pop()).collect();
            let texts: Vec<Option<Vec<u8>>> = self.call("HMGET", (&self.claims, &page)).await?;
            let found = page.into_iter().zip(texts).filter_map(|(id, texts)| Some([id, texts?]));
            logged = self.read(found.flatten().collect())?;
        }
        self.to_replay = Some(ids);
        Ok(logged)
    }

    /// How many claims the log has.
    pub(super) async fn count(&self) -> Done<u64> {
        self.call("HLEN", &self.claims).await
    }

    /// Removes claims from the log.
    pub(super) async fn done(&mut self, claims: &[Arc<str>]) -> Done {
        if claims.is_empty() {
            return Ok(());
        }
        let ids: Vec<&str> = claims.iter().map(|claim| &**claim).collect();
        self.call::<Value>("HDEL", (&self.claims, ids)).await?;
        claims.iter().for_each(|claim| _ = self.in_hand.remove(claim));
        Ok(())
    }

    /// Runs a script on the log and other keys, which answers of each of these claims whether it is still claimed. This run does not work on
    /// the others any more.
    pub(super) async fn settle(
        &mut self,
        script: &str,
        keys: &[impl ToRedisArgs],
        arguments: impl ToRedisArgs,
        claims: &[Arc<str>],
    ) -> Done<HashSet<Arc<str>>> {
        let mut command = self.eval(script, keys);
        command.arg(arguments);
        let held: Vec<bool> = self.ask(&command).await?;
        let (held, gone): (Vec<_>, Vec<_>) = claims.iter().zip(held).partition(|(_, is_held)| *is_held);
        gone.into_iter().for_each(|(claim, _)| _ = self.in_hand.remove(claim));
        Ok(held.into_iter().map(|(claim, _)| claim.clone()).collect())
    }

    /// Puts claims back with a script that gets the texts of each as `parts`, and removes them from the log. The last claim comes first, so
    /// that a list from whose front they were taken gets its order back.
    pub(super) async fn put_back(&mut self, script: &str, keys: &[impl ToRedisArgs], claims: &[Arc<str>]) -> Done {
        for some in claims.rchunks(PAGE) {
            let mut command = self.eval(&[PUT_BACK, script, PUT_BACK_ALL].concat(), keys);
            command.arg(some.len()).arg(some.iter().rev().map(|claim| &**claim).collect::<Vec<_>>());
            if self.ask::<u64>(&command).await? > 0 {
                return Err(Trouble::Away("the source accepts no jobs back at the moment".to_owned()));
            }
            some.iter().for_each(|claim| _ = self.in_hand.remove(claim));
        }
        Ok(())
    }

    fn eval(&self, script: &str, keys: &[impl ToRedisArgs]) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(script).arg(keys.len() + 1).arg(&self.claims).arg(keys);
        command
    }

    /// Reads ids and texts by turns. Claims that are in hand already are left out.
    fn read(&mut self, flat: Vec<Vec<u8>>) -> Done<Vec<Logged>> {
        let wrong =
            || Trouble::Failed(Failure::error("the claim log contains an entry that `duetime adopt` has not written"));
        let mut logged = Vec::with_capacity(flat.len() / 2);
        let mut flat = flat.into_iter();
        while let (Some(id), Some(packed)) = (flat.next(), flat.next()) {
            let id: Arc<str> = String::from_utf8(id).map_err(|_| wrong())?.into();
            let mut parts = unpack(&packed).ok_or_else(wrong)?.into_iter();
            let to = parts.next().ok_or_else(wrong)?;
            if to != self.to.as_bytes() {
                return Err(Trouble::Failed(other_queue(&to)));
            }
            let parts = parts.collect();
            if self.in_hand.insert(id.clone()) {
                logged.push((id, parts));
            }
        }
        Ok(logged)
    }
}

/// The key of the claim log, in the same slot as the source's key.
fn claims_key(key: &str) -> String {
    format!("duetime:adopt:{{{}}}:{key}:claims", hashed(key))
}

/// The part of a key that decides its slot in a Cluster: its hash tag, else all of it.
pub(super) fn hashed(key: &str) -> &str {
    let tag = key.split_once('{').and_then(|(_, rest)| Some(rest.split_once('}')?.0));
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// Refuses a queue of several keys in a Cluster if they are not in one slot.
pub(super) fn check_slot(address: &str, key: &str, example: &str) -> std::result::Result<(), Failure> {
    if is_cluster(address) && hashed(key) == key {
        return Err(Failure::usage(format!(
            "expected a queue whose keys have a hash tag, since in a Cluster one script can see all of them only in one slot, got {key:?}"
        ))
        .hint(format!("braces make a hash tag, such as {example}, if the queue has them there")));
    }
    Ok(())
}

/// Whether an address is that of a Cluster.
pub(super) fn is_cluster(address: &str) -> bool {
    address.split_once("://").is_some_and(|(scheme, _)| scheme.ends_with("+cluster"))
}

/// Texts, each with its length before it.
fn unpack(mut packed: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut parts = Vec::new();
    while !packed.is_empty() {
        let colon = packed.iter().position(|&byte| byte == b':')?;
        let bytes: usize = std::str::from_utf8(&packed[..colon]).ok()?.parse().ok()?;
        let (part, rest) = packed[colon + 1..].split_at_checked(bytes)?;
        parts.push(part.to_vec());
        packed = rest;
    }
    Some(parts)
}

/// The error for claims that may be jobs of another queue already: origins are known by queue.
fn other_queue(to: &[u8]) -> Failure {
    let to = String::from_utf8_lossy(to);
    let option = if to.is_empty() { "without --to".to_owned() } else { format!("with --to {to}") };
    Failure::usage(format!("an earlier run {option} was killed, and has left claims"))
        .hint(format!("run the command {option} first: it finishes them"))
}

fn trouble(error: Error) -> Trouble {
    let is_retryable = error.is_retryable();
    let failure = match error {
        // These speak of a store of Duetime.
        Error::Unavailable(why) | Error::Full(why) | Error::Damaged(why) | Error::Unusable(why) => {
            Failure::error(format!("the source: {why}"))
        }
        error => error.into(),
    };
    if is_retryable {
        Trouble::Away(failure.to_string())
    } else if failure.to_string().contains("can't run this command") {
        Trouble::Failed(
            failure.hint("its user may not run all commands that are needed; the guide for this source lists them"),
        )
    } else {
        Trouble::Failed(failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duetime_store::testing::RedisServer;

    const TAKE: &str = "take(KEYS[2], '-inf', ARGV[2], tonumber(ARGV[3]), function(...) claim(KEYS[2], ...) end) wait_for(KEYS[2], 1000)";
    const GIVE: &str = "redis.call('ZADD', parts[1], parts[3], parts[2])";

    #[test]
    fn the_log_is_in_the_slot_of_the_key() {
        assert_eq!(claims_key("jobs"), "duetime:adopt:{jobs}:jobs:claims");
        assert_eq!(claims_key("queues:{mail}:delayed"), "duetime:adopt:{mail}:queues:{mail}:delayed:claims");
        assert_eq!(claims_key("a{}b"), "duetime:adopt:{a{}b}:a{}b:claims");
    }

    #[tokio::test]
    async fn a_claim_is_replayed_until_it_is_done_or_put_back() {
        let server = RedisServer::start();
        let key = &b"jobs"[..];
        let odd = b"1:\r\n\0\xff:".to_vec();
        let mut redis = Redis::new(&server.url(), "jobs", None).unwrap();
        let mut add = redis::cmd("ZADD");
        add.arg(key).arg("1.5").arg(&odd).arg(2).arg("b").arg(3).arg("c");
        let _: Value = redis.ask(&add).await.unwrap();
        let Claimed { logged: claimed, now, wait_ms } = redis.claim(TAKE, &[key], ("+inf", 2)).await.unwrap();
        let parts: Vec<_> = claimed.iter().map(|(_, parts)| parts.clone()).collect();
        let part = |member: &[u8], score: &[u8]| vec![key.to_vec(), member.to_vec(), score.to_vec()];
        assert_eq!(parts, [part(&odd, b"1.5"), part(b"b", b"2")]);
        assert!(now > 1_700_000_000_000);
        assert_eq!(wait_ms, 0, "the next is due");
        assert!(redis.replay().await.unwrap().is_empty(), "they are in hand");

        // Another run finds them, with their ids.
        let mut next = Redis::new(&server.url(), "jobs", None).unwrap();
        let mut replayed = next.replay().await.unwrap();
        replayed.sort();
        assert_eq!(replayed, claimed);
        assert!(next.replay().await.unwrap().is_empty());
        next.done(&[claimed[1].0.clone()]).await.unwrap();
        next.put_back(GIVE, &[key], &[claimed[0].0.clone(), claimed[1].0.clone()]).await.unwrap();
        assert_eq!(next.count().await.unwrap(), 0);
        let left: Vec<(Vec<u8>, f64)> =
            next.ask(redis::cmd("ZRANGE").arg(key).arg(0).arg(-1).arg("WITHSCORES")).await.unwrap();
        assert_eq!(left, [(odd, 1.5), (b"c".to_vec(), 3.0)]);
        let again = next.claim(TAKE, &[key], ("+inf", 2)).await.unwrap().logged;
        assert!(again.iter().all(|(id, _)| claimed.iter().all(|(other, _)| id != other)), "ids are fresh");
        // A connection broke: the claims in hand are replayed.
        next.forget();
        assert_eq!(next.replay().await.unwrap().len(), again.len());
    }

    #[tokio::test]
    async fn a_claim_waits_until_the_head_is_due_and_a_second_at_most() {
        let server = RedisServer::start();
        let mut redis = Redis::new(&server.url(), "jobs", None).unwrap();
        let head = redis.now().await.unwrap() + 700;
        for (unit_ms, score) in [(1_000.0, head as f64 / 1e3), (1.0, head as f64)] {
            let key = format!("of {unit_ms}");
            let _: Value = redis.ask(redis::cmd("ZADD").arg(&key).arg(score).arg("later")).await.unwrap();
            let script = format!("take(KEYS[2], '-inf', now_ms / {unit_ms}, 10, claim) wait_for(KEYS[2], {unit_ms})");
            let claimed = redis.claim(&script, &[key.as_bytes()], "").await.unwrap();
            assert!(claimed.logged.is_empty());
            assert_eq!(claimed.now + claimed.wait_ms, head.max(claimed.now));
        }
        let none =
            redis.claim("take(KEYS[2], '-inf', now_ms, 10, claim) wait_for(KEYS[2], 1)", &["empty"], "").await.unwrap();
        assert_eq!((none.logged.len(), none.wait_ms), (0, 1_000));
    }

    /// Large members, from a sorted set and from both ends of a list.
    #[tokio::test]
    async fn a_claim_is_bounded_by_bytes_too() {
        let server = RedisServer::start();
        let mut redis = Redis::new(&server.url(), "jobs", None).unwrap();
        let key = &b"jobs"[..];
        let member = |n: usize| [format!("{n:03}").as_bytes(), &[b'x'; 100_000]].concat();
        for script in [
            "take(KEYS[2], '-inf', '+inf', 500, claim)",
            "take_list(KEYS[2], 'left', 500, claim)",
            "take_list(KEYS[2], 'right', 500, claim)",
        ] {
            for n in 0..50 {
                let (is_list, is_right) = (script.contains("list"), script.contains("right"));
                let mut add = redis::cmd(if !is_list {
                    "ZADD"
                } else if is_right {
                    "LPUSH"
                } else {
                    "RPUSH"
                });
                add.arg(key);
                if !is_list {
                    add.arg(n);
                }
                let _: Value = redis.ask(add.arg(member(n))).await.unwrap();
            }
            let mut taken = Vec::new();
            loop {
                let some = redis.claim(script, &[key], "").await.unwrap().logged;
                if some.is_empty() {
                    break;
                }
                // The one that exceeds the bound is the last one.
                assert!(some.len() == 6 || taken.len() == 48, "{script}: {}", some.len());
                taken.extend(some.into_iter().map(|(_, mut texts)| texts.swap_remove(0)));
            }
            assert_eq!(taken, (0..50).map(member).collect::<Vec<_>>(), "{script}: all of them, in order");
        }
    }

    #[tokio::test]
    async fn no_reply_is_trouble_that_passes() {
        let redis = Redis::new("redis://127.0.0.1:1", "jobs", None).unwrap();
        assert_eq!(redis.place(), "redis://127.0.0.1:1");
        assert!(matches!(redis.now().await, Err(Trouble::Away(_))));
    }
}
