//! A queue in the Redis under test, as an engine uses it.

use duetime_core::api::Span;
use duetime_core::ports::{Broker, BrokerClock, Extend, Extended, Host, Ledger, Queues, Recorded, Settle};
use duetime_core::rules::Decision;
use duetime_core::testing::fixtures::{FixedHost, QUEUE, id, reserve};
use duetime_core::{Due, Error, Job, NewJob, Receipt, State};
use duetime_store::redis::{Options, Redis, all_scripts};
use duetime_store::testing::{Command, RedisServer};
use std::sync::Arc;
use std::time::Duration;

/// The time limit for a condition; never reached if all is well.
const CONDITION_LIMIT: Duration = Duration::from_secs(60);
/// The interval between two checks of a server, which sends no signal.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A handle of one process.
#[derive(Clone)]
pub(crate) struct Subject {
    pub(crate) redis: Redis,
}

impl Subject {
    pub(crate) async fn connect(url: &str) -> Self {
        Self::try_connect(url).await.expect("connected")
    }

    pub(crate) async fn try_connect(url: &str) -> Result<Self, Error> {
        Self::connect_for(url, Arc::new(FixedHost::default())).await
    }

    pub(crate) async fn connect_for(url: &str, host: Arc<dyn Host>) -> Result<Self, Error> {
        let redis = Redis::connect(url, Options::default()).await?;
        redis.begin(host).await?;
        Ok(Self { redis })
    }

    /// The n-th job, due now.
    pub(crate) fn job(&self, n: u64) -> Job {
        let new = NewJob { queue: QUEUE.into(), due: Due::After(Span(0)), ..NewJob::new(n.to_string().into_bytes()) };
        new.accept(id(n), self.redis.now(), 1_000).expect("a job within the limits")
    }

    /// Pushes the jobs of these numbers.
    pub(crate) async fn push(&self, numbers: impl IntoIterator<Item = u64>) -> Result<Vec<Recorded>, Error> {
        self.redis.record(numbers.into_iter().map(|n| self.job(n)).collect(), u64::MAX).await
    }

    pub(crate) async fn reserve(&self, limit: usize) -> Result<Vec<Job>, Error> {
        let reserved = self.redis.reserve(reserve(QUEUE, limit)).await?;
        Ok(reserved.leases.into_iter().map(|lease| lease.job).collect())
    }

    /// The next due job.
    pub(crate) async fn one(&self) -> Job {
        let mut jobs = self.reserve(1).await.expect("reserved");
        assert_eq!(jobs.len(), 1, "something is due");
        jobs.remove(0)
    }

    pub(crate) async fn settle(&self, receipt: Receipt, decision: Decision) -> Result<Option<State>, Error> {
        Ok(self.redis.settle(vec![Settle::new(receipt, decision)]).await?.states[0])
    }

    pub(crate) async fn extend(&self, receipt: Receipt) -> Result<Extended, Error> {
        Ok(self.redis.extend(vec![Extend::new(receipt, None)]).await?[0])
    }

    /// The number of waiting, running and succeeded jobs, by the counters.
    pub(crate) async fn counts(&self) -> (u64, u64, u64) {
        let counts = self.redis.counts(Queues::Named(vec![QUEUE.into()])).await.expect("counts");
        let tallies = self.redis.tallies(Queues::first()).await.expect("tallies");
        let succeeded = tallies.iter().find(|(queue, _)| **queue == *QUEUE).map_or(0, |(_, tally)| tally.succeeded);
        counts.first().map_or((0, 0, succeeded), |(_, c, _)| (c.scheduled + c.ready, c.running, succeeded))
    }
}

/// Waits until a condition holds.
pub(crate) async fn until(expected: &str, mut holds: impl FnMut() -> bool) {
    let looks = async {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        while !holds() {
            looks.tick().await;
        }
    };
    tokio::time::timeout(CONDITION_LIMIT, looks).await.unwrap_or_else(|_| panic!("expected {expected}"));
}

/// How often the server has answered with this error.
pub(crate) fn errors(server: &RedisServer, code: &str) -> u64 {
    let info = server.try_command(&["INFO", "errorstats"]).unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("errorstat_{code}:count=")).map(str::to_owned));
    line.map_or(0, |count| count.trim().parse().expect("a number"))
}

/// Whether a command has these words.
pub(crate) fn has(command: &Command<'_>, words: &str) -> bool {
    command.bytes.windows(words.len()).any(|part| part == words.as_bytes())
}

/// The hash by which a script is called.
pub(crate) fn hash(name: &str) -> &'static str {
    all_scripts().into_iter().find(|(script, _)| *script == name).expect("a script").1
}
