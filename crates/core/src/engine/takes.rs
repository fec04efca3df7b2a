//! Take: due jobs are handed out at most once.
//!
//! A broker that is its own ledger does it in one step. Beside a ledger a take *leases* jobs, *records* in the ledger that
//! they were taken, *finishes* them in the broker, and only then answers. So the row decides, whatever fails in between: a
//! job that is recorded as taken under its lease never runs again, and any other is given back, its attempt uncounted. Only
//! a broker that was emptied before the take was recorded, and loaded meanwhile, may hand out such a job: the take fails, and
//! the end of that run is recorded in its place.
//!
//! Only the call that leased records. A repeat of the request reads the rows, so it gets the answer that the first call
//! could not give.

use crate::engine::admission::{Admission, Producer};
use crate::engine::base::Base;
use crate::engine::consumers::Consumers;
use crate::engine::events::Publisher;
use crate::engine::follow_ups::FollowUps;
use crate::engine::handout::{Handout, check_limit, check_request_id, check_source};
use crate::engine::observation::Observation;
use crate::engine::recorder::Recorder;
use crate::engine::supervisor::Supervisor;
use crate::error::Error;
use crate::json::{Span, Timestamp};
use crate::model::id::{JobId, Numbers, Receipt};
use crate::model::job::{Job, Stage};
use crate::ports::{
    Broker, Detail, HandOut, Lease, Ledger, OutboxEntry, Reserved, Settle, Source, Take, Taken, Window,
};
use crate::request::{Reservation, TakeRequest};
use crate::rules::{self, Decision, Finish, TAKEN};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How often the leases of one request may be given back before it gets nothing more.
const ROUNDS_MAX: u32 = 100;

/// Hands out jobs at most once.
pub(super) struct Takes {
    broker: Arc<dyn Broker>,
    ledger: Arc<dyn Ledger>,
    admission: Arc<Admission>,
    follow_ups: Arc<FollowUps>,
    recorder: Arc<Recorder>,
    handout: Arc<Handout>,
    publisher: Arc<Publisher>,
    supervisor: Arc<Supervisor>,
    consumers: Arc<Consumers>,
    ending_takes: tokio::sync::Mutex<()>,
}

impl Takes {
    pub(super) fn new(
        base: &Base,
        admission: Arc<Admission>,
        follow_ups: Arc<FollowUps>,
        recorder: Arc<Recorder>,
        handout: Arc<Handout>,
        consumers: Arc<Consumers>,
    ) -> Self {
        let Base { stores, publisher, supervisor, .. } = base;
        Self {
            broker: stores.broker.clone(),
            ledger: stores.ledger.clone(),
            admission,
            follow_ups,
            recorder,
            handout,
            publisher: publisher.clone(),
            supervisor: supervisor.clone(),
            consumers,
            ending_takes: tokio::sync::Mutex::default(),
        }
    }

    pub(in crate::engine) async fn take(self: &Arc<Self>, request: TakeRequest) -> Result<Reservation, Error> {
        self.supervisor.check_open()?;
        let now = self.broker.now();
        if let Some(due_to) = request.due_to.filter(|&to| to > Timestamp(now)) {
            return Err(Error::invalid("due_to", format!("now ({}) or earlier", Timestamp(now)), due_to));
        }
        let from = check_source(request.from, request.limit)?;
        let take = Take {
            window: Window { from: request.due_from.map_or(0, |at| at.0), to: request.due_to.map_or(now, |at| at.0) },
            request_id: check_request_id(request.request_id)?,
            ..Take::new(from, check_limit(request.limit)?)
        };
        if let Source::Queues(queues) = &take.from {
            self.consumers.requests.note(queues, now);
        }
        self.supervisor.complete(self, |takes| async move { takes.take_once(take).await }).await
    }

    async fn take_once(self: &Arc<Self>, take: Take) -> Result<Reservation, Error> {
        self.recorder.check_backlog()?;
        let mut rounds = 1..=ROUNDS_MAX;
        let (Taken { reserved, .. }, before) = loop {
            let round = rounds.next().ok_or_else(|| Error::Unavailable("the take was repeated too often".into()))?;
            // Jobs that were given back under one name are taken again under the next one.
            let name = |id: &Arc<str>| if round == 1 { id.clone() } else { Arc::from(format!("{id} {round}")) };
            let take = Take { request_id: take.request_id.as_ref().map(name), ..take.clone() };
            let call = || self.broker.take(take.clone());
            let taken = self.handout.with_overflow(HandOut::Take(&take), call).await?;
            let before = self.taken_before(&taken.repeats).await?;
            let was_given_back = before.is_empty() && !taken.repeats.is_empty();
            if !was_given_back || !taken.reserved.leases.is_empty() {
                break (taken, before);
            }
        };
        let Reserved { leases, next_at, refused, entries, .. } = reserved;
        let jobs = leases.into_iter().map(|lease| lease.job).collect();
        let taken = if !self.broker.is_ledger() {
            self.take_leased(jobs, &entries).await?
        } else {
            self.take_followed(jobs).await?
        };
        self.publisher.observe_jobs(taken.iter(), |_| Observation::Taken);
        let refused = self.handout.refusals(refused).await?;
        let leases =
            before.into_iter().chain(taken).map(|job| Lease { job, length: Span(<dyn Broker>::TAKE_LEASE_MS) });
        Ok(Reservation { leases: leases.collect(), next_due_at: next_at.map(Timestamp), refused })
    }

    /// A broker that is its own ledger has finished all but those that others follow: finishes these.
    async fn take_followed(self: &Arc<Self>, mut jobs: Vec<Job>) -> Result<Vec<Job>, Error> {
        let leased: Vec<Job> = jobs.iter().filter(|job| job.is_pending()).cloned().collect();
        if leased.is_empty() {
            return Ok(jobs);
        }
        let finished = self.finish_taken(&leased).await?;
        jobs.retain(|job| !job.is_pending() || finished.contains_key(&job.id));
        let now = self.broker.now();
        Ok(jobs.into_iter().map(|job| if job.is_pending() { as_taken(job, now) } else { job }).collect())
    }

    /// Records leased jobs as taken, finishes them, and returns them as they are recorded.
    async fn take_leased(self: &Arc<Self>, leased: Vec<Job>, entries: &[OutboxEntry]) -> Result<Vec<Job>, Error> {
        let memory = self.broker.reading().memory;
        let (mut jobs, mut taken, mut ends) = (self.known_best(leased).await?, Vec::new(), Vec::new());
        let now = self.broker.now();
        let rewritten = |id| entries.iter().any(|entry| matches!(entry, OutboxEntry::Rewritten(job) if job.id == id));
        let mut unread = Ok(());
        for job in &jobs {
            let job = as_taken(job.clone(), now);
            match self.follow_ups.after(&job, Stage::Succeeded, None, None).await {
                Ok(successors) => {
                    let change = if rewritten(job.id) { OutboxEntry::Rewritten } else { OutboxEntry::Changed };
                    ends.push(change(job.clone()).followed_by(successors));
                    taken.push(job);
                }
                // It stays leased for a moment, and holds up no other.
                Err(error @ Error::Damaged(_)) => {
                    tracing::error!(%error, "a job is not taken");
                    unread = Err(error);
                }
                Err(error) => {
                    self.give_back(&jobs).await;
                    return Err(error);
                }
            }
        }
        if taken.is_empty() {
            return unread.map(|()| taken);
        }
        jobs.retain(|job| taken.iter().any(|taken| taken.id == job.id));
        let mut successors = match self.recorder.apply(ends).await {
            Ok(successors) => successors,
            Err(error) if self.broker.shares_ledger() && matches!(error, Error::Unavailable(_)) => {
                tracing::warn!(%error, jobs = jobs.len(), "cannot find out whether a take was recorded; trying again");
                return Err(unknown());
            }
            Err(error) => {
                self.give_back(&jobs).await;
                return Err(error);
            }
        };
        self.publisher.observe_jobs(successors.iter(), |_| Observation::Pushed);
        if let Err(error) = self.admission.admit(&mut successors, Producer::End).await {
            tracing::warn!(%error, "jobs that begin with a take are recorded, and are loaded later");
        }
        let finished = self.finish_taken(&jobs).await?;
        let count = taken.len();
        let (mut taken, missing): (Vec<Job>, Vec<Job>) =
            taken.into_iter().partition(|job| finished.contains_key(&job.id));
        // An end whose answer was lost is repeated, and another process may have recorded and forgotten it meanwhile. A broker that
        // was emptied may hand them out again.
        if self.broker.reading().memory == memory {
            let receipts: Vec<Receipt> = missing.iter().map(Job::receipt).collect();
            taken.extend(self.taken_before(&receipts).await?);
        }
        if taken.len() < count {
            tracing::warn!(
                jobs = count - taken.len(),
                "leases were lost before their jobs were taken; these jobs may be handed out again"
            );
        }
        if taken.is_empty() {
            return Err(Error::Unavailable("the broker lost the jobs while they were being taken".into()));
        }
        let noted: Vec<(JobId, u64)> = finished.into_iter().collect();
        if let Err(error) = self.broker.forget(&noted, crate::Millis::MAX).await {
            tracing::debug!(%error, "jobs that were taken stay in the outbox and are recorded once more");
        }
        Ok(taken)
    }

    /// Those of these leased jobs of which the ledger has nothing newer: a shared broker may have fallen back. If the ledger
    /// cannot be read, they are given back.
    async fn known_best(self: &Arc<Self>, jobs: Vec<Job>) -> Result<Vec<Job>, Error> {
        if !self.broker.shares_ledger() || jobs.is_empty() {
            return Ok(jobs);
        }
        match self.recorder.drop_older(&jobs).await {
            Ok(older) => Ok(jobs.into_iter().filter(|job| !older.contains(&job.id)).collect()),
            Err(error) => {
                self.give_back(&jobs).await;
                Err(error)
            }
        }
    }

    /// Ends the leases of jobs that are recorded as taken; returns those that were still held, and their versions. If a
    /// lease had ended before, it is unknown who has the job.
    async fn finish_taken(&self, jobs: &[Job]) -> Result<BTreeMap<JobId, u64>, Error> {
        let finish = |job: &Job| Settle::new(job.receipt(), Decision::Finish(Finish::taken()));
        let settled = self.follow_ups.settle(jobs.iter().map(finish).collect()).await?;
        if self.broker.is_ledger() {
            self.publisher
                .observe_jobs(settled.entries.iter().flat_map(OutboxEntry::successors), |_| Observation::Pushed);
            self.recorder.record(settled.entries.clone()).await;
        }
        let versions = settled.entries.iter().map(|entry| (entry.job().id, entry.job().version));
        let versions: BTreeMap<JobId, u64> = versions.collect();
        let ended = jobs.iter().zip(settled.states).filter(|(_, state)| state.is_some());
        Ok(ended.map(|(job, _)| (job.id, versions.get(&job.id).copied().unwrap_or(job.version))).collect())
    }

    /// Ends leases of a take that was not recorded.
    async fn give_back(self: &Arc<Self>, jobs: &[Job]) {
        let now = self.broker.now();
        let release = |job: &Job| Settle::new(job.receipt(), rules::after_unclaimed(job, now));
        match self.broker.settle(jobs.iter().map(release).collect()).await {
            Ok(settled) => {
                let takes = self.clone();
                self.supervisor.spawn(async move { takes.recorder.record_soon(settled.entries).await });
            }
            Err(error) => {
                tracing::warn!(%error, "jobs that were not taken are handed out again only when their leases expire");
            }
        }
    }

    /// The jobs that an earlier call of the same request took.
    ///
    /// # Errors
    /// If that is not known yet.
    async fn taken_before(&self, receipts: &[Receipt]) -> Result<Vec<Job>, Error> {
        if receipts.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<JobId> = receipts.iter().map(|receipt| receipt.id).collect();
        // The broker first: jobs that it no longer holds by then are complete in the ledger.
        let held = self.broker.get(&ids, Detail::Head).await?;
        let rows = self.ledger.get(&ids).await?;
        let (mut taken, mut to_finish) = (Vec::new(), Vec::new());
        for ((&receipt, held), row) in receipts.iter().zip(held).zip(rows) {
            let row = row.filter(|row| is_taken(row, receipt));
            match (held, row) {
                (None, Some(row)) => taken.push(row),
                (Some(held), row) if held.receipt() == receipt => match (held.is_pending(), row) {
                    (true, _) if held.lease_until.is_none() => {}
                    (true, None) => return Err(unknown()),
                    (true, Some(row)) => to_finish.push(row),
                    (false, row) => taken.extend(row),
                },
                _ => {}
            }
        }
        if !to_finish.is_empty() {
            let finished = self.finish_taken(&to_finish).await?;
            taken.extend(to_finish.into_iter().filter(|job| finished.contains_key(&job.id)));
        }
        Ok(taken)
    }

    /// Decides about jobs whose take did not finish in time.
    pub(super) async fn end_takes(&self, jobs: Vec<Job>) {
        // If the ledger does not answer, the broker reports them again.
        let Ok(_one_at_a_time) = self.ending_takes.try_lock() else { return };
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        let rows = match self.ledger.get(&ids).await {
            Ok(rows) => rows,
            Err(error) => return tracing::warn!(%error, "cannot find out whether jobs were taken; they stay leased"),
        };
        let decide = |(job, row): (Job, Option<Job>)| {
            let is_taken = row.is_some_and(|row| is_taken(&row, job.receipt()));
            let taken = Decision::Finish(Finish::taken());
            let decision = if is_taken { taken } else { rules::after_unclaimed(&job, self.broker.now()) };
            Settle::while_unchanged(job, decision)
        };
        match self.follow_ups.settle(jobs.into_iter().zip(rows).map(decide).collect()).await {
            Ok(settled) => {
                let noted = settled.entries.iter().map(OutboxEntry::job);
                self.publisher.observe_jobs(noted.filter(|job| !job.is_pending()), |_| Observation::Taken);
                // The drain tries again.
                drop(self.recorder.record_soon(settled.entries).await);
            }
            Err(error) => tracing::warn!(%error, "jobs that were not taken stay leased for a moment longer"),
        }
    }
}

/// The recorded job, in a version that no broker issues. It cannot change while it is leased to be taken.
fn as_taken(mut job: Job, now: crate::Millis) -> Job {
    rules::apply(&mut job, Decision::Finish(Finish::taken()), now, Numbers::Ledger);
    job
}

/// Whether the row says that the job was taken under this lease.
fn is_taken(row: &Job, receipt: Receipt) -> bool {
    row.receipt() == receipt && row.stage == Stage::Succeeded && row.message.as_deref() == Some(TAKEN)
}

fn unknown() -> Error {
    Error::Unavailable("the take may or may not have been recorded; repeat it with the same `request_id`".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{Fixture, QUEUE, job, pass};
    use crate::testing::fixtures::id;
    use std::time::Duration;

    /// A job that is leased to be taken.
    async fn leased(fixture: &Fixture) -> Job {
        fixture.push(job()).await;
        let Taken { mut reserved, .. } = fixture.base.stores.broker.take(Take::new(QUEUE.into(), 1)).await.unwrap();
        reserved.leases.remove(0).job
    }

    #[tokio::test(start_paused = true)]
    async fn a_take_that_did_not_finish_is_decided_by_its_row() {
        for is_recorded in [true, false] {
            let fixture = Fixture::new().await;
            let leased = leased(&fixture).await;
            if is_recorded {
                let entry = OutboxEntry::Changed(as_taken(leased.clone(), fixture.now()));
                fixture.ledger.apply(vec![entry], crate::Millis::MAX).await.unwrap();
            }
            fixture.services.takes.end_takes(vec![leased]).await;
            let attempts: Vec<u32> = fixture.lease(2).await.iter().map(|job| job.attempt).collect();
            assert_eq!(attempts, if is_recorded { vec![] } else { vec![1] }, "recorded: {is_recorded}");
        }
    }

    /// As after a repeat: the answer to the first end was lost, another process recorded that, and the broker has forgotten it.
    #[tokio::test(start_paused = true)]
    async fn a_job_whose_end_is_already_forgotten_is_taken() {
        let fixture = Fixture::new().await;
        let leased = leased(&fixture).await;
        for _ in 0..2 {
            let taken = fixture.services.takes.take_leased(vec![leased.clone()], &[]).await.unwrap();
            assert_eq!(taken.iter().map(Job::receipt).collect::<Vec<_>>(), [leased.receipt()]);
            assert_eq!(fixture.held(leased.id).await, None);
            pass(Duration::from_secs(60)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_recorded_is_not_taken() {
        let fixture = Fixture::new().await;
        let pushed = fixture.push(job()).await;
        let request = || TakeRequest { from: QUEUE.into(), limit: 1, due_from: None, due_to: None, request_id: None };
        fixture.ledger.set_away(true);
        assert_eq!(fixture.services.takes.take(request()).await.unwrap_err().code(), "store_unavailable");
        fixture.ledger.set_away(false);
        pass(Duration::ZERO).await;
        let taken = fixture.services.takes.take(request()).await.unwrap().leases;
        assert_eq!(taken.iter().map(|lease| lease.job.id).collect::<Vec<_>>(), [pushed.id]);
        assert!(fixture.lease(1).await.is_empty());
    }

    #[test]
    fn a_row_is_taken_under_one_lease_and_not_by_a_worker_that_succeeded() {
        let leased = Job { epoch: 5, ..crate::testing::fixtures::job(1) };
        let row = as_taken(leased.clone(), 9);
        assert!(is_taken(&row, leased.receipt()) && !is_taken(&leased, leased.receipt()));
        assert!(!is_taken(&row, Receipt { id: id(1), epoch: 4 }));
        assert!(!is_taken(&Job { message: None, ..row }, leased.receipt()));
    }
}
