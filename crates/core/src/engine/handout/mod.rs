//! Reserve: due jobs are handed out under leases.

mod ahead;
mod extend;
mod unclaimed;

use crate::engine::base::Base;
use crate::engine::consumers::{Consumers, WaitingWorker};
use crate::engine::events::Publisher;
use crate::engine::loader::Loader;
use crate::engine::metrics::Metrics;
use crate::engine::queues::Settings;
use crate::engine::recorder::Recorder;
use crate::engine::settler::Settler;
use crate::engine::supervisor::Supervisor;
use crate::engine::waiters::Registration;
use crate::error::Error;
use crate::json::Timestamp;
use crate::limits::{REQUEST_ID_BYTES_MAX, RESERVE_JOBS_MAX, RESERVE_QUEUES_MAX, WAIT_MS_MAX};
use crate::model::id::JobId;
use crate::model::job::{Job, State, check_lease};
use crate::model::name;
use crate::ports::{
    Broker, Edited, HandOut, Lease, LeaseRecord, Leases, Ledger, OutboxEntry, Pick, Reserve, Reserved, Room, Source,
};
use crate::request::{Reservation, ReserveRequest};
use ahead::Rests;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
pub use unclaimed::Unclaimed;

/// Hands out due jobs.
pub(in crate::engine) struct Handout {
    broker: Arc<dyn Broker>,
    ledger: Arc<dyn Ledger>,
    loader: Arc<Loader>,
    recorder: Arc<Recorder>,
    settler: Arc<Settler>,
    publisher: Arc<Publisher>,
    settings: Arc<Settings>,
    supervisor: Arc<Supervisor>,
    consumers: Arc<Consumers>,
    leases: Option<Arc<dyn Leases>>,
    metrics: Arc<Metrics>,
    resting: Rests,
}

impl Handout {
    pub(in crate::engine) fn new(
        base: &Base,
        loader: Arc<Loader>,
        recorder: Arc<Recorder>,
        settler: Arc<Settler>,
        settings: Arc<Settings>,
        consumers: Arc<Consumers>,
    ) -> Self {
        let Base { stores, metrics, publisher, supervisor, .. } = base;
        Self {
            broker: stores.broker.clone(),
            ledger: stores.ledger.clone(),
            loader,
            recorder,
            settler,
            publisher: publisher.clone(),
            settings,
            supervisor: supervisor.clone(),
            consumers,
            leases: stores.leases.clone(),
            metrics: metrics.clone(),
            resting: Rests::default(),
        }
    }

    /// Restores the leases that were noted. Must end before anything is served: their holders may settle at once.
    pub(in crate::engine) async fn restore_leases(&self) -> Result<(), Error> {
        let reading = self.broker.reading();
        let Some(leases) = &self.leases else { return Ok(()) };
        let leased = leases.leased().await?;
        if !leased.is_empty() {
            tracing::info!(leases = leased.len(), "restored the leases of running jobs");
        }
        self.broker.put(leased, reading, Room::Any).await.map(drop)
    }

    /// Calls the broker's reserve or take, so that it also gets what waits in an overflow.
    pub(in crate::engine) async fn with_overflow<A: AsMut<Reserved>, C: Future<Output = Result<A, Error>>>(
        &self,
        request: HandOut<'_>,
        call: impl Fn() -> C,
    ) -> Result<A, Error> {
        let has_overflow = self.loader.has_overflow();
        if has_overflow {
            self.loader.load_for_request(request).await;
        }
        let mut answer = self.metrics.stores.reserve.time(call()).await?;
        if let Some(queues) = request.queues().filter(|_| has_overflow) {
            if answer.as_mut().leases.is_empty() && self.loader.load_for_reserve(queues).await {
                answer = self.metrics.stores.reserve.time(call()).await?;
            }
            let reserved = answer.as_mut();
            reserved.next_at = self.loader.look_by(queues, reserved.next_at);
        }
        Ok(answer)
    }

    pub(in crate::engine) async fn reserve_early(self: &Arc<Self>, id: JobId) -> Result<Lease, Error> {
        let mut held = false;
        loop {
            let request = ReserveRequest::new(Source::Jobs(vec![id.into()]));
            let mut reservation = self.reserve(request, |_| Pick::Early(id.into())).await?.claim();
            if let Some(lease) = reservation.leases.pop() {
                return Ok(lease);
            }
            let error = reservation.refused.pop().map_or(Error::NotFound(id), |(_, error)| error);
            if held || !matches!(error, Error::NotDue(_) | Error::HeldBack(_)) || self.broker.is_ledger() {
                return Err(error);
            }
            // It may not be loaded: it is due too late for that, or there was no room. The broker now holds it as waiting.
            let reading = self.broker.reading();
            let jobs = self.ledger.get(&[id]).await?.into_iter().flatten().collect();
            self.loader.try_put(jobs, reading, Room::Any).await?;
            held = true;
        }
    }

    /// Leases jobs of the source that `pick` chooses.
    pub(in crate::engine) async fn reserve(
        self: &Arc<Self>,
        request: ReserveRequest,
        pick: impl FnOnce(Source) -> Pick + Send,
    ) -> Result<Unclaimed, Error> {
        self.supervisor.check_open()?;
        if let Some(lease) = request.lease {
            check_lease(lease)?;
        }
        request.wait.check("wait", 0, WAIT_MS_MAX)?;
        let pick = pick(check_source(request.from, request.limit)?);
        let reserve = Reserve {
            lease_ms: request.lease.map(|lease| lease.0),
            queue_leases: self.settings.leases(),
            request_id: check_request_id(request.request_id)?,
            ..Reserve::new(pick, check_limit(request.limit)?)
        };
        let free = check_free(request.free, &reserve)?;
        // A caller that has work asks again once it can start a job.
        let wait = if free == 0 { Duration::ZERO } else { Duration::from(request.wait) };
        if let Some(worker) = &request.worker {
            name::check_worker(worker)?;
        }
        let worker = request.worker.map(|worker| self.consumers.enter(worker, &reserve.pick));
        let Some(queues) = reserve.pick.queues() else {
            // It does not wait, and may have to ask the ledger once it has leased something.
            return self
                .supervisor
                .complete(self, |handout| async move { handout.reserve_and_note(reserve, free, wait, worker).await })
                .await;
        };
        self.consumers.requests.note(queues, self.broker.now());
        self.reserve_and_note(reserve, free, wait, worker).await
    }

    /// Reserves, and notes the leases.
    async fn reserve_and_note(
        self: &Arc<Self>,
        reserve: Reserve,
        free: usize,
        wait: Duration,
        worker: Option<WaitingWorker>,
    ) -> Result<Unclaimed, Error> {
        let may_be_repeated = reserve.request_id.is_some();
        let mut reserved = self.reserve_or_wait(reserve, free, wait).await?;
        if let Some(worker) = worker {
            worker.add_leases(&reserved.leases);
        }
        let (refused, next_due_at) = (std::mem::take(&mut reserved.refused), reserved.next_at);
        let unclaimed = self.note_leases(reserved, may_be_repeated).await?;
        let refused = self.refusals(refused).await?;
        Ok(unclaimed.with(Reservation { leases: Vec::new(), next_due_at: next_due_at.map(Timestamp), refused }))
    }

    /// The leases. With one process, they are noted first: if it is killed, the next one must not hand the jobs out again. If
    /// they cannot be noted, they are given back.
    pub(in crate::engine) async fn note_leases(
        self: &Arc<Self>,
        reserved: Reserved,
        may_be_repeated: bool,
    ) -> Result<Unclaimed, Error> {
        let Reserved { leases, entries, .. } = reserved;
        // Dropped while this waits, it gives the leases back.
        let unclaimed = Unclaimed::new(self, leases, may_be_repeated);
        let noted = match &self.leases {
            Some(noting) => self.note(noting.as_ref(), unclaimed.leases(), entries).await,
            None => {
                if !entries.is_empty() {
                    // Leases of jobs that were given back a moment ago. Nobody waits for these.
                    let handout = self.clone();
                    self.supervisor.finish_alone(async move { drop(handout.recorder.record_soon(entries).await) });
                }
                Ok(())
            }
        };
        if let Err(error) = noted {
            unclaimed.give_back().await;
            return Err(error);
        }
        Ok(unclaimed)
    }

    /// Notes leases. Those of jobs that were given back a moment ago are in outbox entries. The ledger must record these first:
    /// it would take the lease for newer than the change.
    async fn note(
        self: &Arc<Self>,
        noting: &dyn Leases,
        leases: &[Lease],
        entries: Vec<OutboxEntry>,
    ) -> Result<(), Error> {
        if leases.is_empty() && entries.is_empty() {
            return Ok(());
        }
        let in_entries: HashSet<JobId> = entries.iter().map(|entry| entry.job().id).collect();
        let jobs = leases.iter().map(|lease| &lease.job).filter(|job| !in_entries.contains(&job.id));
        let records: Vec<LeaseRecord> = jobs.map(LeaseRecord::of).collect();
        if !records.is_empty() {
            noting.lease(records).await?;
        }
        if entries.is_empty() {
            return Ok(());
        }
        self.supervisor.complete(self, |handout| async move { handout.recorder.try_record(entries).await }).await
    }

    async fn reserve_or_wait(
        self: &Arc<Self>,
        reserve: Reserve,
        free: usize,
        wait: Duration,
    ) -> Result<Reserved, Error> {
        let Some(queues) = reserve.pick.queues() else {
            self.recorder.check_backlog()?;
            return self.reserve_once(reserve, free).await;
        };
        let (queues, end) = (queues.to_vec(), Instant::now() + wait);
        let place = (!wait.is_zero()).then(|| self.consumers.waiting.at_queues.register(queues.clone()));
        let mut is_last = place.is_none();
        let reserved = loop {
            self.recorder.check_backlog()?;
            // Registered before the broker is asked, so that no wake in between is missed.
            let woken = place.as_ref().filter(|_| !is_last).map(Registration::woken);
            let reserved = self.reserve_once(reserve.clone(), free).await?;
            let has_answer = reserved.is_repeat || !reserved.leases.is_empty();
            let Some(woken) = woken.filter(|_| !has_answer) else { break reserved };
            if let Some(next_at) = reserved.next_at {
                self.consumers.waiting.arm(&queues, next_at);
            }
            tokio::select! {
                biased;
                () = self.supervisor.stopping().cancelled() => return Ok(reserved),
                // Also as the wait ends.
                () = woken.wait() => is_last = Instant::now() >= end,
                () = tokio::time::sleep_until(end) => return Ok(reserved),
            }
        };
        drop(place);
        self.pass_on(&queues, &reserved);
        Ok(reserved)
    }

    /// Wakes the next waiting caller if more is due.
    fn pass_on(&self, queues: &[Arc<str>], reserved: &Reserved) {
        match reserved.next_at {
            Some(next_at) if next_at <= self.broker.now() => {
                queues.iter().for_each(|queue| self.consumers.waiting.at_queues.wake_first(queue));
            }
            Some(next_at) => self.consumers.waiting.arm_waited(queues, next_at),
            None => {}
        }
    }

    /// Why named jobs were not handed out; the ledger is asked about jobs that the broker does not know.
    pub(in crate::engine) async fn refusals(
        &self,
        refused: Vec<(JobId, Edited)>,
    ) -> Result<Vec<(JobId, Error)>, Error> {
        let mut refusals = Vec::with_capacity(refused.len());
        for (id, edited) in refused {
            let error = match edited {
                Edited::Mismatch(job) => Error::VersionMismatch { id, current: job.version },
                Edited::Running(_) => Error::Running(id),
                Edited::Unfit { state, .. } => not_handed_out(id, state),
                _ => {
                    let row: Option<Job> = self.ledger.get(&[id]).await?.pop().flatten();
                    row.map_or(Error::NotFound(id), |job| not_handed_out(id, job.state(self.broker.now())))
                }
            };
            refusals.push((id, error));
        }
        Ok(refusals)
    }
}

fn not_handed_out(id: JobId, state: State) -> Error {
    match state {
        State::Scheduled => Error::NotDue(id),
        State::Ready => Error::HeldBack(id),
        State::Running => Error::Running(id),
        state => Error::Finished { id, state },
    }
}

pub(in crate::engine) fn check_source(source: Source, limit: usize) -> Result<Source, Error> {
    match &source {
        Source::Jobs(jobs) if jobs.len() > limit => {
            return Err(Error::invalid("jobs", format!("at most the limit of {limit}"), jobs.len()));
        }
        Source::Jobs(_) => {}
        Source::Queues(queues) if queues.is_empty() || queues.len() > RESERVE_QUEUES_MAX => {
            return Err(Error::invalid("queues", format!("between 1 and {RESERVE_QUEUES_MAX} queues"), queues.len()));
        }
        Source::Queues(queues) => queues.iter().try_for_each(|queue| name::check_queue(queue))?,
    }
    Ok(source)
}

pub(in crate::engine) fn check_limit(limit: usize) -> Result<usize, Error> {
    if (1..=RESERVE_JOBS_MAX).contains(&limit) {
        Ok(limit)
    } else {
        Err(Error::invalid("limit", format!("between 1 and {RESERVE_JOBS_MAX}"), limit))
    }
}

/// How many jobs the caller can start at once.
fn check_free(free: Option<usize>, reserve: &Reserve) -> Result<usize, Error> {
    let limit = reserve.limit;
    match free {
        Some(free) if reserve.pick.queues().is_none() => {
            Err(Error::invalid("free", "left out if jobs are named", free))
        }
        Some(free) if free > limit => Err(Error::invalid("free", format!("at most the limit of {limit}"), free)),
        free => Ok(free.unwrap_or(limit)),
    }
}

pub(in crate::engine) fn check_request_id(id: Option<Arc<str>>) -> Result<Option<Arc<str>>, Error> {
    match &id {
        Some(text) if text.is_empty() || text.len() > REQUEST_ID_BYTES_MAX => {
            let got = format!("{} bytes", text.len());
            Err(Error::invalid("request_id", format!("1 to {REQUEST_ID_BYTES_MAX} bytes"), got))
        }
        _ => Ok(id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{Fixture, QUEUE, due_in, far, job};
    use crate::testing::fixtures::id;

    #[tokio::test(start_paused = true)]
    async fn a_named_job_that_is_not_handed_out_has_its_reason_wherever_it_is() {
        let fixture = Fixture::new().await;
        let runs = fixture.running(job()).await;
        let (near, far) = (fixture.push(due_in(Duration::from_secs(1))).await, fixture.push(far()).await);
        let named = [runs.id, near.id, far.id, id(1)].map(Into::into).to_vec();
        let request = ReserveRequest::new(Source::Jobs(named)).limit(4);
        let answer = fixture.services.handout.reserve(request, Into::into).await.unwrap().claim();
        let refused: Vec<Error> = answer.refused.into_iter().map(|(_, error)| error).collect();
        let expected = [Error::Running(runs.id), Error::NotDue(near.id), Error::NotDue(far.id), Error::NotFound(id(1))];
        assert_eq!((answer.leases.len(), refused), (0, expected.to_vec()));
    }

    /// It is beyond the watermark, so the broker has to be given it first.
    #[tokio::test(start_paused = true)]
    async fn a_job_may_be_leased_early_that_the_broker_does_not_hold() {
        let fixture = Fixture::new().await;
        let far = fixture.push(far()).await;
        let lease = fixture.services.handout.reserve_early(far.id).await.unwrap();
        assert_eq!((lease.job.id, lease.job.due_at), (far.id, far.due_at));
        assert_eq!(fixture.services.handout.reserve_early(far.id).await.unwrap_err(), Error::Running(far.id));
    }

    /// If the process is killed, the next one must not hand it out again.
    #[tokio::test(start_paused = true)]
    async fn a_lease_is_noted_before_it_is_answered() {
        let fixture = Fixture::new().await;
        let leased = fixture.running(job()).await;
        let row = fixture.row(leased.id).unwrap();
        assert_eq!((row.receipt(), row.lease_until), (leased.receipt(), leased.lease_until));
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_waits_for_what_becomes_due_and_no_longer() {
        let fixture = Fixture::new().await;
        let handout = &fixture.services.handout;
        let waits = |wait: u64| handout.reserve(ReserveRequest::new(QUEUE).wait(Duration::from_secs(wait)), Into::into);
        assert!(waits(1).await.unwrap().claim().leases.is_empty());
        let end = Instant::now() + Duration::from_secs(9);
        let (got, _) = tokio::join!(waits(9), fixture.push(job()));
        assert_eq!(got.unwrap().claim().leases.len(), 1);
        assert!(Instant::now() < end, "it did not wait to the end");
    }
}
