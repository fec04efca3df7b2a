//! Who pushes, and what was acknowledged.

use crate::common::Random;
use crate::fleet::Fleet;
use crate::scenario::{Plan, QUEUES};
use crate::worker::Clients;
use duetime::{JobId, Millis, NewJob};
use duetime_core::Due;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::interval;

/// Between two pushes.
const EVERY: Duration = Duration::from_millis(50);

/// What was acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Acknowledged {
    /// When.
    pub(crate) jobs: BTreeMap<JobId, Millis>,
    /// Pushes whose answer was lost: jobs beside those that were acknowledged.
    pub(crate) unanswered: u64,
}

/// Pushes so many jobs over three quarters of the time, due up to a quarter of it later.
pub(crate) async fn push(fleet: &Fleet, urls: &[String], plan: &Plan, count: u64, mut random: Random) -> Acknowledged {
    let mut clients = Clients::connect(urls).await;
    let turns = (plan.span() * 3 / 4).as_millis().div_ceil(EVERY.as_millis()) as u64;
    let delay_ms_max = plan.span().as_millis() as u64 / 4;
    let mut acknowledged = Acknowledged::default();
    let mut ticks = interval(EVERY);
    for turn in 0..turns {
        ticks.tick().await;
        let size = count * (turn + 1) / turns - count * turn / turns;
        if size == 0 {
            continue;
        }
        let mut job = || NewJob {
            queue: QUEUES[random.within(0..QUEUES.len() as u64) as usize].into(),
            due: Due::After(random.within(0..delay_ms_max)),
            ..NewJob::new(*b"{}")
        };
        let batch: Vec<NewJob> = (0..size).map(|_| job()).collect();
        let (answers, unanswered) = clients.call(async |client| client.push_all(batch.clone()).await).await;
        acknowledged.unanswered += unanswered;
        let now = fleet.now();
        for answer in answers.expect("a push within the limits") {
            match answer {
                Ok(pushed) => drop(acknowledged.jobs.insert(pushed.id, now)),
                Err(error) => {
                    assert!(error.is_retryable(), "{error}");
                    acknowledged.unanswered += 1;
                }
            }
        }
    }
    acknowledged
}
