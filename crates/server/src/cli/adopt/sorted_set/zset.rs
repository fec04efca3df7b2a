//! `duetime adopt zset` and `duetime adopt locked-set`: sorted sets to which the old code adds members, and whose consumers run what they
//! remove, or work under a lock, a string beside the set.
//!
//! A consumer under a lock reads the range that is due, and then removes it. Members that came or went in between would be
//! lost, or run twice. So a script takes and puts back members only while the lock is free. It never takes the lock itself,
//! so no round trip delays the old code.

use super::{Done, PUT_BACK, SetArgs, SortedSet};
use crate::cli::adopt::layout::{BATCH, Layout, RedisSource};
use crate::cli::adopt::redis::{ClaimResult, Redis, hashed, is_cluster};
use crate::cli::adopt::source::{Look, Step, Trouble};
use crate::cli::exit::{Failure, Result};
use crate::cli::output::note;
use async_trait::async_trait;
use duetime_core::{NewJob, OnConflict};
use std::time::Duration;
use tokio::time::Instant;

/// Claims the members that are due; see there for its arguments.
const TAKE: &str = include_str!("take.lua");
/// A note about old consumers of a plain set.
const CONSUMERS: &str = "Old consumers may keep running beside --follow if each one runs a member only after its own ZREM, or script, removed it.";
/// The pause between two tries while the lock is held, in milliseconds. No other wait is as long.
const LOCKED_MS: u64 = 20;
/// A drain that has tried for this long says so.
const LOCKED_MAX: Duration = Duration::from_secs(1);
/// The same for a follower, which continues to try.
const LOCKED_LONG: Duration = Duration::from_secs(10);

/// Take over a sorted set in Redis whose scores are due times.
///
/// Each member becomes the payload of a job, byte for byte, and its key. By default it only looks and changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime adopt zset --from redis://127.0.0.1:6379 --key delayed --to orders
  duetime adopt zset --from redis://127.0.0.1:6379 --key delayed --to orders --follow --yes zset
  duetime adopt zset --from redis://127.0.0.1:6379 --key delayed --to orders --score seconds --drain --yes zset --json")]
pub(in crate::cli::adopt) struct Args {
    #[command(flatten)]
    pub(in crate::cli::adopt) set: SetArgs,
}

impl Args {
    pub(in crate::cli::adopt) fn source(&self) -> Result<RedisSource> {
        Zset::source(&self.set, "zset", OnConflict::Replace, None)
    }
}

/// Take over a sorted set in Redis that its users lock.
///
/// Nothing is taken while the lock exists. A member that is already in the queue keeps its due time. By default it only
/// looks and changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime adopt locked-set --from redis://127.0.0.1:6379 --key Queue:mail --to mail
  duetime adopt locked-set --from redis://127.0.0.1:6379 --key Queue:mail --to mail --follow --yes locked-set
  duetime adopt locked-set --from redis://127.0.0.1:6379 --key jobs --lock jobs-lock --to jobs --drain --yes locked-set")]
pub(in crate::cli::adopt) struct LockedArgs {
    #[command(flatten)]
    pub(in crate::cli::adopt) set: SetArgs,
    /// Key of the lock; by default `Lock:` followed by the key of the set
    #[arg(long, value_name = "KEY")]
    lock: Option<String>,
}

impl LockedArgs {
    pub(in crate::cli::adopt) fn source(&self) -> Result<RedisSource> {
        Zset::source(&self.set, "locked-set", OnConflict::Keep, Some(self.lock()?))
    }

    /// The key of the lock.
    pub(in crate::cli::adopt) fn lock(&self) -> Result<String> {
        let SetArgs { from, key, .. } = &self.set;
        let lock = self.lock.clone().unwrap_or_else(|| format!("Lock:{key}"));
        if is_cluster(from) && hashed(key) != hashed(&lock) {
            return Err(Failure::usage(format!(
                "in a Redis Cluster, the lock {lock:?} must be in the same slot as the set {key:?}"
            ))
            .hint("keys with the same hash tag share a slot, such as Queue:{mail} and Lock:Queue:{mail}"));
        }
        Ok(lock)
    }
}

struct Zset {
    set: SortedSet,
    name: &'static str,
    lock: Option<String>,
    /// Since when the lock is there, whenever it was asked; and whether that was said.
    locked: Option<(Instant, bool)>,
}

impl Zset {
    fn source(
        args: &SetArgs,
        name: &'static str,
        on_conflict: OnConflict,
        lock: Option<String>,
    ) -> Result<RedisSource> {
        let zset = Self { set: SortedSet::new(args, on_conflict)?, name, lock, locked: None };
        RedisSource::new(&args.from, &args.key, Some(&args.to), Box::new(zset))
    }

    fn held(&self) -> String {
        format!("nothing is taken while the lock {:?} exists", self.lock.as_deref().unwrap_or_default())
    }

    /// Remembers since when the set is locked, and says so once if that is long.
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
impl Layout for Zset {
    async fn look(&mut self, redis: &Redis) -> Done<Look> {
        let mut look = self.set.look(redis, self.name).await?;
        look.notes.push(match &self.lock {
            None => CONSUMERS.to_owned(),
            Some(lock) => {
                let is_locked: bool = redis.call("EXISTS", lock).await?;
                let now = if is_locked { " It exists now." } else { "" };
                format!("Nothing is taken while the lock {lock:?} exists.{now}")
            }
        });
        Ok(look)
    }

    async fn claim(&mut self, redis: &mut Redis, step: Step) -> Done<ClaimResult> {
        let begin = Instant::now();
        loop {
            let Some(range) = self.set.range(redis, step).await? else { return Ok(ClaimResult::default()) };
            let claimed = redis.claim(TAKE, &self.keys(), (range, BATCH, LOCKED_MS)).await?;
            let is_locked = self.lock.is_some() && claimed.logged.is_empty() && claimed.wait_ms == LOCKED_MS;
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

    fn put_back(&self) -> &'static str {
        PUT_BACK
    }

    fn keys(&self) -> Vec<String> {
        std::iter::once(self.set.key.clone()).chain(self.lock.clone()).collect()
    }
}
