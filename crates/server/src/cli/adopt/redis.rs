//! Sources in Redis: the connection, and the claim log.
//!
//! The log is a hash beside the source's key. A script removes members and writes them there in one step, under claim ids
//! that were never used before. They begin with the time, so that a replay keeps the order. So after any crash a member is in its place or in the log.

#[cfg(test)]
mod tests;

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
/// Begins what one layout claims. If it fails, what it has claimed until then counts, and the next script tells why.
const BODY: &str = "\nlocal is_done, answer = pcall(function()\n";
/// The end of a claiming script.
const CLAIMED: &str = "
end)
if not is_done then
  unclaim()
  if #claimed == 0 then error(answer, 0) end
end
write()
return is_done and answer or {now_ms, wait_ms, claimed, go_on}
";

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
pub(super) type LogEntries = (Arc<str>, Vec<Vec<u8>>);

/// The result of a claiming script; by default that there is nothing to claim.
pub(super) struct ClaimResult {
    pub(super) logged: Vec<LogEntries>,
    /// The clock of Redis.
    pub(super) now: Millis,
    /// When it is worth asking again, in milliseconds.
    pub(super) wait_ms: u64,
    /// Where a script that looked at a part goes on; [`START`] after the last part.
    pub(super) go_on: String,
}

/// The first part of what a script looks at.
pub(super) const START: &str = "0";

impl Default for ClaimResult {
    fn default() -> Self {
        Self { logged: Vec::new(), now: 0, wait_ms: 1_000, go_on: START.to_owned() }
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
            Error::Invalid(invalid) => Error::invalid("from", invalid.expected, invalid.got),
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
    ) -> Done<ClaimResult> {
        let mut command = self.eval(&[CLAIM, BODY, script, CLAIMED].concat(), keys);
        command.arg(format!("{}{}", fresh_id(), self.to)).arg(arguments);
        let (now, wait_ms, flat, go_on): (Millis, u64, Vec<Vec<u8>>, String) = self.ask(&command).await?;
        Ok(ClaimResult { logged: self.read(flat)?, now, wait_ms, go_on })
    }

    /// The next claims in the log that this run does not work on, in the order of their ids, which is that of the claims; none when all
    /// were given.
    pub(super) async fn replay(&mut self) -> Done<Vec<LogEntries>> {
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

    /// What must be done first if the log has claims for another queue.
    pub(super) async fn first(&self) -> Done<Option<String>> {
        let (_, some): (Vec<u8>, Vec<Vec<u8>>) = self.call("HSCAN", (&self.claims, START)).await?;
        let to = some.get(1).and_then(|packed| unpack(packed)?.into_iter().next());
        Ok(to.filter(|to| to != self.to.as_bytes()).map(|to| format!("First {}.", finish(&to))))
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
    fn read(&mut self, flat: Vec<Vec<u8>>) -> Done<Vec<LogEntries>> {
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
    Failure::usage("an earlier run for another queue was killed, and has left claims").hint(finish(to))
}

/// How to finish the claims of this queue.
fn finish(to: &[u8]) -> String {
    let to = String::from_utf8_lossy(to);
    let option = if to.is_empty() { "without --to".to_owned() } else { format!("with --to {to}") };
    format!("run the command {option}: it finishes the claims of an earlier run")
}

fn trouble(error: Error) -> Trouble {
    let is_of_replica = error.to_string().contains("READONLY");
    match Trouble::with("the source", error) {
        _ if is_of_replica => {
            Trouble::Away("it is a read-only replica: name its master, or its Sentinels, in --from".to_owned())
        }
        Trouble::Failed(failure) if failure.to_string().contains("can't run this command") => Trouble::Failed(
            failure.hint("its user may not run all commands that are needed; the guide for this source lists them"),
        ),
        Trouble::Failed(failure) if failure.to_string().contains("access one of the keys") => {
            Trouble::Failed(failure.hint("its user must have the keys of the source, and duetime:adopt:*"))
        }
        trouble => trouble,
    }
}
