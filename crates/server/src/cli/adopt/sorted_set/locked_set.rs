//! `duetime adopt locked-set`: a sorted set whose producers and consumers work under a lock, a string beside it.
//!
//! A consumer reads the range that is due, and then removes it. What came or went in between would be lost, or run twice. So a
//! script takes and puts back only while nobody has the lock. It never takes the lock itself: no round trip holds the old code up.

use super::{Done, SetArgs, SortedSet, TAKE};
use crate::cli::adopt::layout::{Layout, RedisSource};
use crate::cli::adopt::redis::{Claimed, Redis, hashed, is_cluster};
use crate::cli::adopt::source::{Look, Source, Step, Trouble};
use crate::cli::exit::{Failure, Result};
use crate::cli::output::note;
use async_trait::async_trait;
use duetime_core::{NewJob, OnConflict};
use std::time::Duration;
use tokio::time::Instant;

const LAYOUT: &str = "locked-set";
/// The pause between two tries while somebody has the lock, in milliseconds.
const LOCKED_MS: u64 = 20;
/// A drain that has tried for so long says so.
const LOCKED_MAX: Duration = Duration::from_secs(1);
/// The same of a follower, which tries on.
const LOCKED_LONG: Duration = Duration::from_secs(10);
const PUT_BACK: &str = "if redis.call('EXISTS', KEYS[3]) == 1 then return false end
redis.call('ZADD', KEYS[2], 'NX', parts[2], parts[1])";

/// Take over a sorted set in Redis that its users lock.
///
/// Nothing is taken while the lock exists. A member that is already in the queue keeps its due time. By default it only
/// looks and changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime adopt locked-set --from redis://127.0.0.1:6379 --key Queue:mail --to mail
  duetime adopt locked-set --from redis://127.0.0.1:6379 --key Queue:mail --to mail --follow --yes locked-set
  duetime adopt locked-set --from redis://127.0.0.1:6379 --key jobs --lock jobs-lock --to jobs --drain --yes locked-set")]
pub(in crate::cli::adopt) struct Args {
    #[command(flatten)]
    pub(in crate::cli::adopt) set: SetArgs,
    /// Key of the lock; by default `Lock:` followed by the key of the set
    #[arg(long, value_name = "KEY")]
    lock: Option<String>,
}

impl Args {
    pub(in crate::cli::adopt) fn source(&self) -> Result<Box<dyn Source>> {
        let SetArgs { from, key, .. } = &self.set;
        let lock = self.lock.clone().unwrap_or_else(|| format!("Lock:{key}"));
        if is_cluster(from) && hashed(key) != hashed(&lock) {
            return Err(Failure::usage(format!(
                "in a Redis Cluster, the lock {lock:?} must be in the same slot as the set {key:?}"
            ))
            .hint("keys with the same hash tag share a slot, such as Queue:{mail} and Lock:Queue:{mail}"));
        }
        let script = format!(
            "if redis.call('EXISTS', KEYS[3]) == 1 then wait_ms = {LOCKED_MS} return {{now_ms, wait_ms, claimed}} end\n{TAKE}"
        );
        let locked = LockedSet { set: SortedSet::new(&self.set, OnConflict::Keep)?, lock, script, locked: None };
        Ok(Box::new(RedisSource::new(from, key, Box::new(locked))?))
    }
}

struct LockedSet {
    set: SortedSet,
    lock: String,
    script: String,
    /// Since when the lock is there, whenever it was asked; and whether that was said.
    locked: Option<(Instant, bool)>,
}

impl LockedSet {
    fn held(&self) -> String {
        format!("nothing is taken while the lock {:?} exists", self.lock)
    }

    /// Remembers since when it is locked, and says so once if that is long.
    fn note(&mut self, is_locked: bool) {
        if !is_locked {
            self.locked = None;
            return;
        }
        let (since, is_said) = self.locked.unwrap_or((Instant::now(), false));
        let is_long = since.elapsed() > LOCKED_LONG;
        if is_long && !is_said {
            note!("{}; if no process holds it any more, delete it", self.held());
        }
        self.locked = Some((since, is_long));
    }
}

#[async_trait]
impl Layout for LockedSet {
    async fn look(&mut self, redis: &Redis) -> Done<Look> {
        let mut look = self.set.look(redis, LAYOUT).await?;
        let is_locked: bool = redis.ask(redis::cmd("EXISTS").arg(&self.lock)).await?;
        let now = if is_locked { " It exists now." } else { "" };
        look.notes.push(format!("Nothing is taken while the lock {:?} exists.{now}", self.lock));
        Ok(look)
    }

    async fn claim(&mut self, redis: &mut Redis, step: Step) -> Done<Claimed> {
        let begin = Instant::now();
        loop {
            let claimed = self.set.claim(redis, step, &self.script, Some(&self.lock)).await?;
            let is_locked = claimed.logged.is_empty() && claimed.wait_ms == LOCKED_MS;
            self.note(is_locked);
            // A drain ends when there is nothing more, and so must know.
            if step == Step::Follow || !is_locked {
                return Ok(claimed);
            }
            if begin.elapsed() > LOCKED_MAX {
                return Err(Trouble::Away(self.held()));
            }
            tokio::time::sleep(Duration::from_millis(LOCKED_MS)).await;
        }
    }

    fn read(&self, texts: &[Vec<u8>]) -> std::result::Result<NewJob, String> {
        self.set.read(texts)
    }

    fn put_back(&self) -> (&'static str, Vec<Vec<u8>>) {
        (PUT_BACK, vec![self.set.key.clone().into_bytes(), self.lock.clone().into_bytes()])
    }
}
