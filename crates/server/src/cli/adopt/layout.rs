//! Sources in Redis: the interface of a layout of keys, and the code that all layouts share.

use super::redis::{ClaimResult, LogEntries, Redis};
use super::source::{Claim, Done, Look, Source, Step};
use crate::cli::exit::{self, Failure};
use crate::cli::output::{count, snippet};
use crate::cli::time::now;
use async_trait::async_trait;
use duetime::Client;
use duetime_core::api::Timestamp;
use duetime_core::{Due, Millis, NewJob};
use std::sync::Arc;
use std::time::Duration;

/// Members claimed by one script, so that it blocks Redis for less than 10 ms. If they are large, `claim.lua` takes fewer.
pub(super) const BATCH: usize = 250;

/// A look warns if the clocks differ by more than this.
const CLOCKS_MS: u64 = 5_000;

/// The layout of jobs in Redis. `docs/internals/adopt-redis.md` has the contract of each method.
#[async_trait]
pub(super) trait Layout: Send {
    async fn look(&mut self, redis: &Redis) -> Done<Look>;
    async fn check(&mut self, _client: &Client) -> exit::Result {
        Ok(())
    }
    async fn claim(&mut self, redis: &mut Redis, step: Step) -> Done<ClaimResult>;
    async fn replayed(&mut self, _redis: &mut Redis, logged: Vec<LogEntries>) -> Done<Vec<LogEntries>> {
        Ok(logged)
    }
    fn read(&self, texts: &[Vec<u8>]) -> std::result::Result<NewJob, String>;
    fn put_back(&self) -> &'static str;
    fn keys(&self) -> Vec<String>;
}

/// A queue in Redis.
pub(super) struct RedisSource {
    redis: Redis,
    layout: Box<dyn Layout>,
    /// Until it is worth asking again.
    wait: Duration,
}

impl RedisSource {
    /// Jobs at an address, of which this is the main key.
    pub(super) fn new(
        address: &str,
        key: &str,
        to: Option<&Arc<str>>,
        layout: Box<dyn Layout>,
    ) -> std::result::Result<Self, Failure> {
        Ok(Self { redis: Redis::new(address, key, to)?, layout, wait: Duration::ZERO })
    }

    fn claims(&self, logged: Vec<LogEntries>, now: Option<Millis>) -> Vec<Claim> {
        let claim = |(id, texts): LogEntries| {
            // The longest text tells most of it.
            let longest = texts.iter().max_by_key(|text| text.len());
            let told = |why| format!("{why}: {}", snippet(longest.map_or(&[], Vec::as_slice)));
            let job = self.layout.read(&texts).map_err(told);
            let late_ms = match (now, &job) {
                (Some(now), Ok(NewJob { due: Due::At(Timestamp(at)), .. })) => Some(now.saturating_sub(*at)),
                _ => None,
            };
            Claim { id, job, due_here: None, late_ms, is_replay: now.is_none() }
        };
        logged.into_iter().map(claim).collect()
    }
}

#[async_trait]
impl Source for RedisSource {
    async fn connect(&mut self) -> Done {
        self.redis.forget();
        self.redis.now().await.map(drop)
    }

    async fn look(&mut self) -> Done<Look> {
        let mut look = self.layout.look(&self.redis).await?;
        let off_ms = self.redis.now().await?.cast_signed() - now().cast_signed();
        if off_ms.unsigned_abs() > CLOCKS_MS {
            let (off_s, side) = (off_ms.unsigned_abs() / 1_000, if off_ms > 0 { "ahead of" } else { "behind" });
            look.notes.push(format!(
                "The clock of Redis is {off_s} s {side} that of this machine. --follow uses the clock of Redis."
            ));
        }
        let claims = self.redis.count().await?;
        if claims > 0 {
            look.first = self.redis.first().await?.or(look.first);
            look.notes.push(format!(
                "An earlier run that was killed, or one that is still running, has claimed {}. --follow and --drain push \
                 these first.",
                count(claims, "job")
            ));
        }
        Ok(look)
    }

    async fn check(&mut self, client: &Client) -> exit::Result {
        self.layout.check(client).await
    }

    async fn replay(&mut self) -> Done<Vec<Claim>> {
        loop {
            let logged = self.redis.replay().await?;
            let is_over = logged.is_empty();
            let logged = self.layout.replayed(&mut self.redis, logged).await?;
            if is_over || !logged.is_empty() {
                return Ok(self.claims(logged, None));
            }
        }
    }

    async fn claim(&mut self, step: Step) -> Done<Vec<Claim>> {
        let ClaimResult { logged, now, wait_ms, go_on: _ } = self.layout.claim(&mut self.redis, step).await?;
        self.wait = Duration::from_millis(wait_ms);
        Ok(self.claims(logged, Some(now)))
    }

    async fn wait(&mut self) -> Done {
        tokio::time::sleep(self.wait).await;
        Ok(())
    }

    async fn done(&mut self, claims: &[Arc<str>]) -> Done {
        self.redis.done(claims).await
    }

    async fn put_back(&mut self, claims: &[Arc<str>]) -> Done {
        self.redis.put_back(self.layout.put_back(), &self.layout.keys(), claims).await
    }
}
