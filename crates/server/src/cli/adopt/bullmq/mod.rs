//! `duetime adopt bullmq`: queues of BullMQ, and of Bull, which came before it.
//!
//! A job is a hash, and its id is in a list (`wait`, `paused`) or a sorted set (`prioritized`, `delayed`). One script
//! removes the id, notes the hash in the claim log, and removes it. An id that a worker has taken is in `active`, which is
//! never touched. So one side runs it.
//!
//! With `--hand-back` only delayed jobs are taken. They go back once they are due, as they were.
//!
//! Jobs that others depend on (parents, children, schedulers, de-duplication) stay.

mod job;
mod look;
#[cfg(test)]
mod tests;

use super::hand_back::{HandBack, check_no_circle};
use super::layout::{BATCH, Layout, RedisSource};
use super::redis::{ClaimResult, Redis, check_slot};
use super::source::{Done, Look, Step, tag};
use crate::cli::adopt::options::Options;
use crate::cli::exit::{Failure, Result};
use crate::deliver::{ADD_TO_BULLMQ, BULLMQ};
use async_trait::async_trait;
use duetime::Client;
use duetime_core::NewJob;
use duetime_core::model::name;
use std::sync::Arc;

/// Functions that read ids, and say why a job stays.
const PAGE: &str = include_str!("page.lua");
const CLAIM: &str = include_str!("claim.lua");

/// A list or a sorted set with ids of jobs that wait.
#[derive(Clone, Copy, Debug)]
struct Place {
    name: &'static str,
    is_list: bool,
}

/// The places that are taken, in the order in which BullMQ runs their jobs.
static PLACES: [Place; 4] = [
    Place { name: "wait", is_list: true },
    Place { name: "paused", is_list: true },
    Place { name: "prioritized", is_list: false },
    Place { name: "delayed", is_list: false },
];
/// The name of a queue that Bull writes, as a layout and as the dialect in a claim.
const BULL: &str = "bull";
/// The jobs that become due.
const DELAYED: &str = "delayed";
/// A score of [`DELAYED`] is milliseconds since 1970 times this, and a counter below it.
const SCORES_PER_MS: f64 = 4_096.0;

/// Take over the waiting jobs of a queue of BullMQ or Bull.
///
/// Keeps due times, names, priorities, attempts and backoff. By default it only looks and changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime adopt bullmq --from redis://127.0.0.1:6379 --key mail --to mail
  duetime adopt bullmq --from redis://127.0.0.1:6379 --key mail --to mail --drain --yes bullmq
  duetime adopt bullmq --from redis://127.0.0.1:6379 --key mail --to mail --hand-back --drain --yes bullmq")]
// Refused, with what to do.
#[command(mut_arg("follow", |arg| arg.hide(true)))]
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
    /// Hand delayed jobs back to BullMQ's workers once they are due; the others stay
    #[arg(long)]
    hand_back: bool,
    #[command(flatten)]
    pub(super) options: Options,
}

impl Args {
    /// The source that they name.
    pub(super) fn source(&self) -> Result<RedisSource> {
        let Self { from, key, prefix, to, hand_back, options } = self;
        if options.follow {
            return Err(Failure::usage(
                "expected --drain, got --follow: workers of BullMQ run jobs as soon as they are due",
            )
            .hint(
                "drain, and drain again until no producer adds jobs there; workers of BullMQ may continue meanwhile",
            ));
        }
        name::check_queue(to)?;
        let key_start = format!("{prefix}:{key}");
        check_slot(from, &key_start, "--prefix {bull}")?;
        let layout = Bullmq {
            hand_back: hand_back.then(|| HandBack::new(from, to, BULLMQ)).transpose()?,
            base: format!("{key_start}:"),
            to: to.clone(),
            tag: tag(key)?,
            place: 0,
            offset: 0,
            has_claimed: false,
            has_gone_through: false,
        };
        RedisSource::new(from, &key_start, Some(to), Box::new(layout))
    }
}

/// A queue of BullMQ.
struct Bullmq {
    /// The start of all its keys.
    base: String,
    to: Arc<str>,
    tag: Arc<str>,
    hand_back: Option<HandBack>,
    /// The ids to look at next: the number of their place, and the count of ids before them.
    place: usize,
    offset: u64,
    /// Whether anything was claimed since the first page of the first place.
    has_claimed: bool,
    /// Whether what is left stays: nothing was claimed from one end to the other.
    has_gone_through: bool,
}

impl Bullmq {
    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.base)
    }

    /// The start of all keys, without its colon.
    fn queue(&self) -> &str {
        &self.base[..self.base.len() - 1]
    }

    /// A script that reads pages.
    fn script(&self, body: &str) -> String {
        format!("local only_later = {}\n{PAGE}{body}", self.hand_back.is_some())
    }

    /// The places that this command takes from, and those that it leaves because their jobs can be run now.
    fn places(&self) -> (&'static [Place], &'static [Place]) {
        let (ready, delayed) = PLACES.split_at(PLACES.len() - 1);
        if self.hand_back.is_some() { (delayed, ready) } else { (&PLACES, &[]) }
    }
}

#[async_trait]
impl Layout for Bullmq {
    async fn look(&mut self, redis: &Redis) -> Done<Look> {
        self.survey(redis).await
    }

    async fn check(&mut self, client: &Client) -> Result {
        match &self.hand_back {
            Some(hand_back) => hand_back.check(client, self.queue()).await,
            None => check_no_circle(client, &self.to, |target| &*target.key == self.queue()).await,
        }
    }

    /// Goes through all places, again and again until it claims nothing from one end to the other.
    async fn claim(&mut self, redis: &mut Redis, _step: Step) -> Done<ClaimResult> {
        loop {
            let Some(&place) = self.places().0.get(self.place) else {
                (self.place, self.offset) = (0, 0);
                if std::mem::take(&mut self.has_claimed) {
                    continue;
                }
                self.has_gone_through = true;
                return Ok(ClaimResult { now: redis.now().await?, wait_ms: 0, ..ClaimResult::default() });
            };
            let key = self.key(place.name);
            let arguments = (&self.base, place.name, self.offset, BATCH);
            let claimed = redis.claim(&self.script(CLAIM), &[&key], arguments).await?;
            if !claimed.logged.is_empty() {
                self.has_claimed = true;
                return Ok(claimed);
            }
            // All of them stay.
            self.offset += BATCH as u64;
            if self.offset >= look::size(redis, &key).await? {
                (self.place, self.offset) = (self.place + 1, 0);
            }
        }
    }

    fn read(&self, texts: &[Vec<u8>]) -> std::result::Result<NewJob, String> {
        let job = job::read(texts, &self.to, &self.tag)?;
        match &self.hand_back {
            Some(hand_back) => {
                let payload = job::handed_back(texts, job.due)?.into();
                Ok(NewJob { payload, options: hand_back.options(self.queue()), ..job })
            }
            None => Ok(job),
        }
    }

    fn put_back(&self) -> &'static str {
        ADD_TO_BULLMQ
    }

    fn keys(&self) -> Vec<String> {
        vec![self.key("meta")]
    }
}
