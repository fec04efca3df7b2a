//! The pushers, and the answers that they got.

use crate::common::Random;
use crate::fleet::Fleet;
use crate::scenario::{Plan, QUEUES};
use crate::worker::Clients;
use duetime_core::api::Span;
use duetime_core::engine::{BulkAction, Query};
use duetime_core::{Due, JobId, Millis, NewJob};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::interval;

/// Between two pushes.
const EVERY: Duration = Duration::from_millis(50);

/// The acknowledged requests.
#[derive(Debug, Default)]
pub(crate) struct Acknowledged {
    /// When.
    pub(crate) jobs: BTreeMap<JobId, Millis>,
    /// Pushes whose answer was lost: jobs beside those that were acknowledged.
    pub(crate) unanswered: u64,
    /// Of those, jobs that were cancelled by their tag, and when that was answered.
    pub(crate) cancelled: BTreeMap<JobId, Millis>,
}

impl Acknowledged {
    pub(crate) fn extend(&mut self, other: Self) {
        self.jobs.extend(other.jobs);
        self.unanswered += other.unanswered;
        self.cancelled.extend(other.cancelled);
    }
}

/// A batch that is to be cancelled.
struct Cancel {
    turn: u64,
    tag: Arc<str>,
    jobs: Vec<JobId>,
}

/// Pushes this many jobs over three quarters of the time, due up to a quarter of it later.
pub(crate) async fn push(fleet: &Fleet, urls: &[String], plan: &Plan, count: u64, mut random: Random) -> Acknowledged {
    let mut clients = Clients::connect(urls, plan.ledger.as_deref()).await;
    let mut cancels: Vec<Cancel> = Vec::new();
    let turns = (plan.span() * 3 / 4).as_millis().div_ceil(EVERY.as_millis()) as u64;
    let delay_ms_max = plan.span().as_millis() as u64 / 4;
    let mut acknowledged = Acknowledged::default();
    let mut ticks = interval(EVERY);
    for turn in 0..turns {
        ticks.tick().await;
        for cancel in cancels.extract_if(.., |cancel| cancel.turn <= turn).collect::<Vec<_>>() {
            cancel_batch(fleet, &mut clients, cancel, &mut acknowledged).await;
        }
        let size = count * (turn + 1) / turns - count * turn / turns;
        if size == 0 {
            continue;
        }
        let tag: Arc<str> = Arc::from(format!("batch-{:x}", random.any()));
        let mut job = || NewJob {
            tags: vec![tag.clone()],
            queue: QUEUES[random.within(0..QUEUES.len() as u64) as usize].into(),
            due: Due::After(Span(random.within(0..delay_ms_max))),
            ..NewJob::new(*b"{}")
        };
        let batch: Vec<NewJob> = (0..size).map(|_| job()).collect();
        let (answers, unanswered) = clients.call(async |client| client.push_many(batch.clone()).await).await;
        acknowledged.unanswered += unanswered;
        let now = fleet.now();
        let mut jobs = Vec::new();
        for answer in answers.expect("a push within the limits") {
            match answer {
                Ok(pushed) => {
                    acknowledged.jobs.insert(pushed.id, now);
                    jobs.push(pushed.id);
                }
                Err(error) => {
                    assert!(error.is_retryable(), "{error}");
                    acknowledged.unanswered += 1;
                }
            }
        }
        // Every third batch: many of its jobs before they are due.
        if plan.ledger.is_some() && turn % 3 == 0 {
            cancels.push(Cancel { turn: turn + random.within(1..10), tag, jobs });
        }
    }
    for cancel in cancels {
        cancel_batch(fleet, &mut clients, cancel, &mut acknowledged).await;
    }
    acknowledged
}

async fn cancel_batch(fleet: &Fleet, clients: &mut Clients, cancel: Cancel, acknowledged: &mut Acknowledged) {
    let query = Query { tag: Some(cancel.tag), ..Query::default() };
    loop {
        let (answer, _) = clients.call(async |client| client.jobs().bulk(&query, BulkAction::Cancel).await).await;
        let counts = answer.expect("a tag can be cancelled");
        // If some could not be cancelled for now, the answer says so.
        if counts.iter().all(|(word, _)| matches!(word, "cancelled" | "cancel_requested" | "already_finished")) {
            break;
        }
    }
    let now = fleet.now();
    acknowledged.cancelled.extend(cancel.jobs.into_iter().map(|id| (id, now)));
}
