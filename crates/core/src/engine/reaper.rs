//! Ends by time: leases that have expired, and jobs that were not started in time.

use super::comparison::Comparison;
use super::consumers::waiting::LOOK_AGAIN;
use super::observation::Observation;
use super::settler::log_end;
use crate::api::DegradedCode;
use crate::engine::base::Base;
use crate::engine::events::Publisher;
use crate::engine::follow_ups::FollowUps;
use crate::engine::recorder::Recorder;
use crate::engine::settler::Settler;
use crate::engine::status::Status;
use crate::engine::supervisor::Supervisor;
use crate::engine::takes::Takes;
use crate::engine::timers::{Timer, Timers};
use crate::error::Error;
use crate::limits::{LEASE_MS_MIN, STEP_JOBS_MAX};
use crate::model::job::Job;
use crate::model::retry::Retry;
use crate::ports::{Broker, Change, Edit, Edited, Expired, Settle};
use crate::rules;
use std::sync::Arc;
use std::time::Duration;

/// How long the broker may take to answer before it counts as unavailable.
const SILENT_MAX: Duration = Duration::from_secs(3);

/// Takes back what was not settled or started in time.
pub(super) struct Reaper {
    broker: Arc<dyn Broker>,
    follow_ups: Arc<FollowUps>,
    recorder: Arc<Recorder>,
    settler: Arc<Settler>,
    takes: Arc<Takes>,
    comparison: Arc<Comparison>,
    publisher: Arc<Publisher>,
    status: Arc<Status>,
    supervisor: Arc<Supervisor>,
    timers: Arc<Timers>,
}

impl Reaper {
    pub(super) fn new(
        base: &Base,
        follow_ups: Arc<FollowUps>,
        recorder: Arc<Recorder>,
        settler: Arc<Settler>,
        takes: Arc<Takes>,
        comparison: Arc<Comparison>,
    ) -> Self {
        let Base { stores, publisher, status, supervisor, timers, .. } = base;
        Self {
            broker: stores.broker.clone(),
            follow_ups,
            recorder,
            settler,
            takes,
            comparison,
            publisher: publisher.clone(),
            status: status.clone(),
            supervisor: supervisor.clone(),
            timers: timers.clone(),
        }
    }

    /// Takes back jobs whose leases have expired, and ends jobs that were not started in time, until the process stops.
    pub(super) async fn reap(&self) {
        // Another process that shares the broker may begin a lease at any time: none ends sooner than the shortest.
        let idle = if self.broker.is_shared() { Duration::from_millis(LEASE_MS_MIN) } else { LOOK_AGAIN };
        loop {
            let now = self.broker.now();
            let (next_ms, at_most) = match self.reap_once().await {
                Ok(next_ms) => {
                    self.status.mend(DegradedCode::CrashedJobs);
                    (next_ms, idle.min(next_ms.map_or(idle, Duration::from_millis)))
                }
                Err(error) => {
                    self.status.degrade(DegradedCode::CrashedJobs, &error);
                    (None, LOOK_AGAIN)
                }
            };
            if at_most.is_zero() {
                tokio::task::yield_now().await;
            } else {
                let next_at = next_ms.map(|ms| now.saturating_add(ms));
                self.timers.sleep(Timer::Reaper, next_at, at_most).await;
            }
        }
    }

    /// Asks the broker for expired leases and jobs, and records whether the broker is available.
    async fn expired(&self) -> Result<Expired, Error> {
        let mut asked = std::pin::pin!(self.broker.expired(STEP_JOBS_MAX));
        let expired = match tokio::time::timeout(SILENT_MAX, &mut asked).await {
            Ok(expired) => expired,
            Err(_) => {
                self.status
                    .degrade(DegradedCode::BrokerUnavailable, &Error::Unavailable("the broker does not answer".into()));
                asked.await
            }
        };
        match &expired {
            Err(error @ Error::Unavailable(_)) => self.status.degrade(DegradedCode::BrokerUnavailable, error),
            _ => self.status.mend(DegradedCode::BrokerUnavailable),
        }
        expired
    }

    async fn reap_once(&self) -> Result<Option<u64>, Error> {
        let expired = self.expired().await?;
        self.status.set(
            DegradedCode::BrokerFull,
            expired.is_full.then(|| Error::Full("the broker has no room for new jobs".into())),
        );
        let (mut settles, mut events) = (Vec::with_capacity(expired.crashed.len()), Vec::new());
        for job in &expired.crashed {
            let is_blameless = rules::has_lapsed(job) || self.comparison.outlasted(job);
            let rule = |retry: &Retry, now, copy_id| {
                if is_blameless {
                    rules::after_abandonment(job, now)
                } else {
                    rules::after_crash(job, retry, now, copy_id)
                }
            };
            if let Some(decision) = self.settler.decide_by_rule(job, rule).await? {
                settles.push(Settle::while_unchanged(job.clone(), decision));
                events.push(if is_blameless { Observation::Released } else { Observation::Crashed });
            }
        }
        if !expired.untaken.is_empty() {
            // The ledger is asked, and a slow one must not hold up the other jobs.
            let takes = self.takes.clone();
            self.supervisor.spawn(async move { takes.end_takes(expired.untaken).await });
        }
        let edit = |job: &Job| Edit { id: job.id, version: Some(job.version), change: Change::expire() };
        let edits: Vec<Edit> = expired.unstarted.iter().map(edit).collect();
        let mut entries = Vec::new();
        if !settles.is_empty() {
            let settled = self.follow_ups.settle(settles.clone()).await?;
            for ((settle, run), event) in settles.iter().zip(&settled.runs).zip(&events) {
                let (Some(job), Some(_)) = (&settle.read, run) else { continue };
                let (id, queue, attempt) = (job.id, &job.queue, job.attempt);
                if matches!(event, Observation::Released) {
                    tracing::info!(%id, %queue, attempt, "a lease ended while nobody could extend it");
                } else {
                    tracing::warn!(%id, %queue, attempt, "a lease expired before its job was settled: the worker crashed \
                     or is too slow");
                    log_end(job, &settle.decision);
                }
            }
            let ids = settles.iter().map(|settle| settle.receipt.id);
            self.publisher.observe_settled(&ids, &settled, |place, _| events[place]);
            entries.extend(settled.entries);
        }
        if !edits.is_empty() {
            let (edited, edits) = self.follow_ups.edit(&edits).await?;
            let expired = edited.iter().filter_map(|edited| match edited {
                Edited::Changed(job) => Some(job),
                _ => None,
            });
            self.publisher.observe_jobs(expired, |_| Observation::Expired);
            entries.extend(edits);
        }
        if !entries.is_empty() {
            // Jobs are ready again at once; a slow ledger must not hold up the next ones.
            let recorder = self.recorder.clone();
            self.supervisor.spawn(async move { recorder.record_soon(entries).await });
        }
        Ok(expired.next_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{Fixture, due_in, job, pass};
    use crate::json::Span;
    use crate::model::follow_up::FollowUp;
    use crate::model::id::JobId;
    use crate::model::job::{NewJob, Stage, State};
    use crate::model::options::JobOptions;
    use crate::ports::Room;
    use serde_json::value::RawValue;

    #[tokio::test(start_paused = true)]
    async fn what_was_not_settled_or_not_started_in_time_ends_and_the_rest_stays() {
        let fixture = Fixture::new().await;
        let crashed = fixture.running(NewJob { lease: Some(Span(5_000)), ..job() }).await;
        let runs = fixture.running(job()).await;
        let unstarted = fixture.push(NewJob { expires: Some(Span(1_000)), ..due_in(Duration::from_secs(1)) }).await;
        let next_ms = fixture.loops.reaper.reap_once().await.unwrap();
        assert!(next_ms.is_some_and(|ms| (2_000..2_010).contains(&ms)), "the last instant to start: {next_ms:?}");
        pass(Duration::from_secs(5)).await;
        fixture.loops.reaper.reap_once().await.unwrap();
        pass(Duration::ZERO).await;
        let waits = fixture.held(crashed.id).await.unwrap();
        assert!(waits.lease_until.is_none() && waits.crashes == 1, "{waits:?}");
        assert_eq!(fixture.held(runs.id).await, Some(runs));
        let state = |id| fixture.row(id).unwrap().state(fixture.now());
        assert_eq!((state(unstarted.id), state(crashed.id)), (State::Failed, State::Ready));
    }

    /// A newer version may have pushed it.
    #[tokio::test(start_paused = true)]
    async fn a_job_whose_list_cannot_be_read_holds_up_no_other() {
        let fixture = Fixture::new().await;
        let list = |json: &str| {
            let json = RawValue::from_string(json.to_owned()).unwrap();
            Some(Arc::from([FollowUp::of_json((&*json).into())]))
        };
        let followed = JobOptions {
            otherwise: list(r#"{"payload":1}"#),
            ..Retry { max_attempts: Some(1), ..Retry::default() }.into()
        };
        let other = fixture.running(NewJob { lease: Some(Span(5_000)), options: followed.clone(), ..job() }).await;
        let broker = &fixture.base.stores.broker;
        let options = JobOptions { otherwise: list(r#"{"queue":7}"#), ..followed }.shared();
        let id = JobId::in_partition(other.id.sequence() + 1_000, other.id.partition());
        let waiting = Job { id, options, lease_until: None, started_at: None, attempt: 0, ..other.clone() };
        broker.put(vec![waiting], broker.reading(), Room::Any).await.unwrap();
        let unread = fixture.lease(1).await.remove(0);
        pass(Duration::from_secs(5)).await;
        fixture.loops.reaper.reap_once().await.unwrap();
        pass(Duration::ZERO).await;
        assert_eq!(fixture.row(other.id).unwrap().stage, Stage::Failed);
        assert!(fixture.ledger.jobs().iter().any(|job| job.options().previous.is_some()), "what follows it");
        assert!(fixture.held(unread.id).await.unwrap().lease_until.is_some());
        // The broker tells of it again after a second.
        pass(Duration::from_secs(1)).await;
        let error = fixture.loops.reaper.reap_once().await.unwrap_err();
        assert!(matches!(error, Error::Damaged(_)), "{error}");
    }
}
