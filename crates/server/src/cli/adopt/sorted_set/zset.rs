//! `duetime adopt zset`: a sorted set to which the old code adds members, and whose consumers run what they remove.

use super::{Done, PUT_BACK, SetArgs, SortedSet, TAKE};
use crate::cli::adopt::layout::{Layout, RedisSource};
use crate::cli::adopt::redis::{Claimed, Redis};
use crate::cli::adopt::source::{Look, Source, Step};
use crate::cli::exit::Result;
use async_trait::async_trait;
use duetime_core::{NewJob, OnConflict};

const LAYOUT: &str = "zset";
/// A note about old consumers.
const CONSUMERS: &str = "Old consumers may keep running beside --follow if each one runs a member only after its own ZREM, or script, removed it.";

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
    pub(in crate::cli::adopt) fn source(&self) -> Result<Box<dyn Source>> {
        let zset = Zset(SortedSet::new(&self.set, OnConflict::Replace)?);
        Ok(Box::new(RedisSource::new(&self.set.from, &self.set.key, Box::new(zset))?))
    }
}

struct Zset(SortedSet);

#[async_trait]
impl Layout for Zset {
    async fn look(&mut self, redis: &Redis) -> Done<Look> {
        let mut look = self.0.look(redis, LAYOUT).await?;
        look.notes.push(CONSUMERS.to_owned());
        Ok(look)
    }

    async fn claim(&mut self, redis: &mut Redis, step: Step) -> Done<Claimed> {
        self.0.claim(redis, step, TAKE, None).await
    }

    fn read(&self, texts: &[Vec<u8>]) -> std::result::Result<NewJob, String> {
        self.0.read(texts)
    }

    fn put_back(&self) -> (&'static str, Vec<Vec<u8>>) {
        (PUT_BACK, vec![self.0.key.clone().into_bytes()])
    }
}
