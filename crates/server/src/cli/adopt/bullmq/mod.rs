//! `duetime adopt bullmq`: queues of BullMQ, and of Bull, which came before it.
//!
//! A job is a hash, and its id stands in a list (`wait`, `paused`) or a sorted set (`prioritized`, `delayed`). One script removes the id, notes
//! the hash in the claim log, and removes it. An id that a worker has taken stands in `active`, which is never touched. So one side runs it.
//!
//! Jobs that others depend on (parents, children, schedulers, de-duplication) stay.

mod job;
mod look;
#[cfg(test)]
mod tests;

use super::Options;
use super::layout::{BATCH, Layout, RedisSource};
use super::redis::{Claimed, Redis, check_slot};
use super::source::{Look, Step, Trouble, tag};
use crate::cli::exit::{Failure, Result};
use async_trait::async_trait;
use duetime_core::NewJob;
use duetime_core::model::name;
use std::sync::Arc;

/// A function that says why a job stays.
const WHY_LEFT: &str = include_str!("why_left.lua");
const CLAIM: &str = include_str!("claim.lua");
const PUT_BACK: &str = include_str!("put_back.lua");

/// A list or a sorted set with ids of jobs that wait.
#[derive(Clone, Copy, Debug)]
struct Place {
    name: &'static str,
    is_list: bool,
}

/// Those that are taken, in the order in which BullMQ runs their jobs.
const PLACES: [Place; 4] = [
    Place { name: "wait", is_list: true },
    Place { name: "paused", is_list: true },
    Place { name: "prioritized", is_list: false },
    Place { name: "delayed", is_list: false },
];
/// The jobs that become due.
const DELAYED: &str = "delayed";
/// A score of [`DELAYED`] is milliseconds since 1970 times this, and a counter below it.
const SCORES_PER_MS: f64 = 4_096.0;

type Done<T = ()> = std::result::Result<T, Trouble>;

/// Take over the waiting jobs of a queue of BullMQ or Bull.
///
/// Keeps due times, names, priorities, attempts and backoff. By default it only looks and changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime adopt bullmq --from redis://127.0.0.1:6379 --key mail --to mail
  duetime adopt bullmq --from redis://127.0.0.1:6379 --key mail --to mail --drain --yes bullmq")]
pub(super) struct Args {
    /// Address of the Redis with the queue
    #[arg(long, value_name = "URL")]
    from: String,
    /// Queue name in BullMQ
    #[arg(long, value_name = "NAME")]
    key: String,
    /// Prefix of BullMQ's keys
    #[arg(long, value_name = "PREFIX", default_value = "bull")]
    prefix: String,
    /// Queue for the jobs
    #[arg(long, value_name = "QUEUE")]
    to: Arc<str>,
    /// Refused, with what to do
    #[arg(long, hide = true)]
    hand_back: bool,
    #[command(flatten)]
    pub(super) options: Options,
}

/// A queue of BullMQ.
struct Bullmq {
    /// The start of all its keys.
    base: String,
    to: Arc<str>,
    tag: Arc<str>,
    /// The page of ids to look at next: the number of its place, and the count of ids before it.
    place: usize,
    offset: usize,
    /// Whether anything was claimed since the first page of the first place.
    has_claimed: bool,
}

pub(super) fn source(args: &Args) -> Result<RedisSource> {
    if args.options.follow {
        return Err(Failure::usage(
            "expected --drain, got --follow: workers of BullMQ run jobs as soon as they are due",
        )
        .hint("drain, and drain again until no producer adds jobs there; workers of BullMQ may go on meanwhile"));
    }
    if args.hand_back {
        return Err(Failure::usage("expected no --hand-back: jobs of BullMQ do not go back to its workers").hint(
            "run what you drain with workers of Duetime, or leave the queue to BullMQ: only jobs of Laravel and Sidekiq are handed back",
        ));
    }
    name::check_queue(&args.to)?;
    let key = format!("{}:{}", args.prefix, args.key);
    check_slot(&args.from, &key, "--prefix {bull}")?;
    let layout = Bullmq {
        base: format!("{key}:"),
        to: args.to.clone(),
        tag: tag(&args.key)?,
        place: 0,
        offset: 0,
        has_claimed: false,
    };
    RedisSource::new(&args.from, &key, Box::new(layout))
}

impl Bullmq {
    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.base)
    }

    /// Some of the ids in a place, what runs first before the others. Only a hint: other programs change it at any time.
    async fn page(&self, redis: &Redis, place: Place, offset: usize) -> Done<Vec<Vec<u8>>> {
        let (first, end) = (offset, offset + BATCH);
        let mut command = redis::cmd(if place.is_list { "LRANGE" } else { "ZRANGE" });
        command.arg(self.key(place.name));
        if !place.is_list {
            return redis.ask(command.arg(first).arg(end - 1)).await;
        }
        // The right end of a list runs first.
        let mut ids: Vec<Vec<u8>> = redis.ask(command.arg(format!("-{end}")).arg(format!("-{}", first + 1))).await?;
        ids.reverse();
        Ok(ids)
    }
}

#[async_trait]
impl Layout for Bullmq {
    async fn look(&mut self, redis: &Redis) -> Done<Look> {
        self.survey(redis).await
    }

    /// Goes through all places, again and again until it claims nothing from one end to the other.
    async fn claim(&mut self, redis: &mut Redis, _step: Step) -> Done<Claimed> {
        loop {
            let Some(&place) = PLACES.get(self.place) else {
                (self.place, self.offset) = (0, 0);
                if std::mem::take(&mut self.has_claimed) {
                    continue;
                }
                return Ok(Claimed { logged: Vec::new(), now: redis.now().await?, wait_ms: 0 });
            };
            let ids = self.page(redis, place, self.offset).await?;
            if ids.is_empty() {
                (self.place, self.offset) = (self.place + 1, 0);
                continue;
            }
            let key = self.key(place.name);
            let mut arguments = vec![self.base.as_bytes(), place.name.as_bytes()];
            arguments.extend(ids.iter().map(Vec::as_slice));
            let claimed = redis.claim(&[WHY_LEFT, CLAIM].concat(), &[key.as_bytes()], &arguments).await?;
            if !claimed.logged.is_empty() {
                self.has_claimed = true;
                return Ok(claimed);
            }
            // All of them stay.
            self.offset += ids.len();
        }
    }

    fn read(&self, texts: &[Vec<u8>]) -> std::result::Result<NewJob, String> {
        job::read(texts, &self.to, &self.tag)
    }

    fn put_back(&self) -> (&'static str, Vec<Vec<u8>>) {
        (PUT_BACK, vec![self.key("meta").into_bytes()])
    }
}
