//! Why a job does not run, as this process and the stores know it. At most four reads of stores.

use crate::api::{Reason, ReasonCode, Timestamp, Why};
use crate::clock::Millis;
use crate::engine::base::Base;
use crate::engine::consumers::Consumers;
use crate::engine::overflow::Overflow;
use crate::engine::queues::Settings;
use crate::engine::recorder::Recorder;
use crate::error::Error;
use crate::limits::MINUTE_MS;
use crate::model::id::JobId;
use crate::model::job::{Job, State};
use crate::ports::{Broker, Detail, Ledger, Queues};
use std::sync::Arc;

/// A queue without a request for this long has no worker: it is the longest wait of a reserve.
const NO_WORKER_MS: u64 = MINUTE_MS;

/// Says why a job does not run.
pub(in crate::engine) struct Explainer {
    broker: Arc<dyn Broker>,
    ledger: Arc<dyn Ledger>,
    recorder: Arc<Recorder>,
    overflow: Arc<Overflow>,
    settings: Arc<Settings>,
    consumers: Arc<Consumers>,
}

impl Explainer {
    pub(in crate::engine) fn new(
        base: &Base,
        recorder: Arc<Recorder>,
        overflow: Arc<Overflow>,
        settings: Arc<Settings>,
        consumers: Arc<Consumers>,
    ) -> Self {
        let Base { stores, .. } = base;
        Self { broker: stores.broker.clone(), ledger: stores.ledger.clone(), recorder, overflow, settings, consumers }
    }

    pub(in crate::engine) async fn why(&self, id: JobId) -> Result<Why, Error> {
        let held = self.broker.get(&[id], Detail::Head).await?.pop().flatten();
        let is_held = held.is_some();
        let job = match held {
            Some(job) => job,
            None => self.ledger.get(&[id]).await?.pop().flatten().ok_or(Error::NotFound(id))?,
        };
        let now = self.broker.now();
        let state = job.state(now);
        let reasons = match state {
            State::Scheduled => [not_due(&job)].into_iter().chain(self.paused(&job.queue)).collect(),
            State::Ready => self.why_ready(&job, is_held, now).await?,
            State::Running => vec![Reason { worker: self.consumers.workers.holder(job.receipt()), ..running(&job) }],
            State::Succeeded | State::Failed | State::Cancelled => {
                vec![Reason::new(ReasonCode::Finished, format!("It has finished: {state}."), None)]
            }
        };
        Ok(Why { id, queue: job.queue.clone(), state, version: job.version, reasons })
    }

    async fn why_ready(&self, job: &Job, is_held: bool, now: Millis) -> Result<Vec<Reason>, Error> {
        let mut reasons: Vec<Reason> = self.paused(&job.queue).into_iter().collect();
        if let Err(Error::Backlog(backlog)) = self.recorder.check_backlog() {
            let detail = format!("{backlog} outcomes are not recorded yet, so this server hands out no jobs.");
            reasons.push(Reason { count: Some(backlog as u64), ..Reason::new(ReasonCode::Backlog, detail, None) });
        }
        if !is_held && !self.broker.is_ledger() {
            reasons.push(if self.overflow.takes(job, now) {
                let detail = "The broker has no room for more jobs of the queue. The job waits in the ledger.";
                Reason::new(ReasonCode::Overflow, detail, None)
            } else {
                Reason::new(ReasonCode::NotLoaded, "The job is being loaded from the ledger.", None)
            });
        }
        let counted = self.broker.counts(Queues::one(&job.queue)).await?.pop();
        let running = counted.map_or(0, |(_, counts, _)| counts.running);
        let settings = self.settings.of(&job.queue);
        match settings.max_running {
            Some(max) if running >= u64::from(max) => {
                let detail = format!("{running} jobs of the queue run, and its `max_running` is {max}.");
                let reached = Reason::new(ReasonCode::MaxRunning, detail, None);
                reasons.push(Reason { count: Some(running), limit: Some(max.into()), ..reached });
            }
            _ if is_held && !settings.paused && settings.rate.is_some() => {
                let free_at = self.free_at(&job.queue).await?.filter(|&at| at > now);
                let detail = "The `rate` of the queue is used up.";
                reasons.extend(free_at.map(|at| Reason::new(ReasonCode::Rate, detail, Some(at))));
            }
            _ => {}
        }
        if running == 0 {
            reasons.extend(self.no_worker(&job.queue, settings.target.is_some(), now));
        }
        Ok(reasons)
    }

    fn paused(&self, queue: &Arc<str>) -> Option<Reason> {
        let settings = self.settings.of(queue);
        settings
            .paused
            .then(|| Reason::new(ReasonCode::Paused, "The queue is paused.", settings.paused_until.map(|at| at.0)))
    }

    /// The instant at which the broker may hand out the next job of a queue, if only time is missing.
    async fn free_at(&self, queue: &Arc<str>) -> Result<Option<Millis>, Error> {
        self.broker.next_due(queue).await
    }

    fn no_worker(&self, queue: &Arc<str>, is_delivered: bool, now: Millis) -> Option<Reason> {
        if self.consumers.waiting.at_queues.count(&**queue) > 0 {
            return None;
        }
        let (last, words) = match self.consumers.requests.last(queue) {
            Ok(last) if now.saturating_sub(last) < NO_WORKER_MS => return None,
            Ok(last) => (last, "No worker has asked this server for jobs of the queue since"),
            Err(since) => (since, "No worker has asked this server for jobs of the queue. It remembers requests since"),
        };
        let detail = if is_delivered {
            "Jobs of the queue go to a target, and this server delivers none: its log says why.".to_owned()
        } else {
            format!("{words} {}.", Timestamp(last))
        };
        let none = Reason::new(ReasonCode::NoWorker, detail, None);
        Some(Reason { since: Some(Timestamp(last)), ..none })
    }
}

fn not_due(job: &Job) -> Reason {
    let detail = match job.attempt {
        0 => "Its due time has not come.".to_owned(),
        attempts => {
            let failed = job
                .errors
                .last()
                .map(|error| format!(" The last one failed: {}.", error.message.trim_end_matches('.')));
            format!("It waits for its next attempt. Attempts so far: {attempts}.{}", failed.unwrap_or_default())
        }
    };
    let count = (job.attempt > 0).then_some(job.attempt.into());
    Reason { count, ..Reason::new(ReasonCode::NotDue, detail, Some(job.due_at.0)) }
}

fn running(job: &Job) -> Reason {
    let detail = if job.cancel_asked {
        "A worker runs it and was asked to stop. The worker may extend its lease."
    } else {
        "A worker runs it. The worker may extend its lease."
    };
    Reason::new(ReasonCode::Running, detail, job.lease_until.map(|at| at.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{Fixture, QUEUE, due_in, job};
    use crate::request::{Outcome, QueueSettings};
    use std::time::Duration;

    async fn codes(fixture: &Fixture, id: JobId) -> Vec<ReasonCode> {
        let why = fixture.services.observatory.explainer.why(id).await.unwrap();
        why.reasons.into_iter().map(|reason| reason.code).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn each_thing_that_is_in_the_way_is_named() {
        let fixture = Fixture::new().await;
        let later = fixture.push(due_in(Duration::from_secs(9))).await;
        assert_eq!(codes(&fixture, later.id).await, [ReasonCode::NotDue]);
        let ready = fixture.push(job()).await;
        assert_eq!(codes(&fixture, ready.id).await, [ReasonCode::NoWorker]);
        let runs = fixture.lease(1).await.remove(0);
        assert_eq!(codes(&fixture, runs.id).await, [ReasonCode::Running]);
        fixture.settle(runs.receipt(), Outcome::complete(None)).await.unwrap();
        let next = fixture.push(job()).await;
        assert_eq!(codes(&fixture, next.id).await, [], "a worker has asked a moment ago, and will again");
        fixture.lease(1).await;
        let next = fixture.push(job()).await;
        let settings = QueueSettings { paused: true, max_running: Some(1), ..QueueSettings::default() };
        fixture.services.queues.settings.configure(QUEUE, settings).await.unwrap();
        assert_eq!(codes(&fixture, next.id).await, [ReasonCode::Paused, ReasonCode::MaxRunning]);
        assert_eq!(codes(&fixture, later.id).await, [ReasonCode::NotDue, ReasonCode::Paused]);
    }
}
