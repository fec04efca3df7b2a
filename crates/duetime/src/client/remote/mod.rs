//! A server, through its HTTP API. Its answers are converted to those of an engine in this process.

mod connector;
mod events;
mod locks;
mod schedules;
pub(super) mod token;
mod transport;

use super::connect_options::ConnectOptions;
use crate::error::{Answers, Error};
use crate::request_id;
use api::path_segment;
use duetime_core::api::{self, DueCounts, Failures, History, HistorySpan, Pushed, Span};
use duetime_core::engine::Pause;
use duetime_core::engine::{
    BulkAction, BulkCounts, CancelOutcome, Configured, Extension, Health, JobRef, Listed, Outcome, Patch, PushOutcome,
    Query, QueueSettings, QueueStatus, Reservation, ReserveRequest, Settlement, TakeRequest,
};
use duetime_core::limits::PAGE_NAMES_MAX;
use duetime_core::model::name;
use duetime_core::ports::Lease;
use duetime_core::{Job, JobId, NewJob, Receipt};
pub(super) use events::Stream;
use hyper::Method;
use serde::de::DeserializeOwned;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use transport::{Call, Transport, of_problem};

/// Extra time for a bulk change of all matching jobs: an hour, for tens of millions.
const BULK: Duration = Duration::from_secs(3_600);

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Remote({})", self.address())
    }
}

/// A server.
#[derive(Clone)]
pub(super) struct Remote {
    transport: Arc<Transport>,
    /// For the thread that renews locks.
    kept: Arc<OnceLock<Remote>>,
}

impl Remote {
    pub(super) fn new(address: &str, options: ConnectOptions) -> Result<Self, Error> {
        Ok(Self::over(Transport::new(address, options)?))
    }

    fn over(transport: Transport) -> Self {
        Self { transport: Arc::new(transport), kept: Arc::default() }
    }

    pub(super) fn detached(&self) -> Self {
        Self::over(self.transport.detached())
    }

    /// One detached copy, shared by all clones.
    pub(super) fn for_keeper(&self) -> Self {
        self.kept.get_or_init(|| self.detached()).clone()
    }

    pub(super) fn address(&self) -> &str {
        self.transport.address()
    }

    pub(super) async fn push(&self, jobs: Vec<NewJob>) -> Result<Answers<Pushed>, Error> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let bodies: Vec<_> = jobs.iter().map(api::Push::from).collect();
        let call = Call::post("/v1/jobs").json(&bodies)?.idempotency_key(request_id::next());
        let answers: Answers<Pushed> = each(self.transport.send(call).await?.read()?, jobs.len())?;
        let jobs = jobs.iter().map(|job| job.origin.is_some());
        Ok(answers.into_iter().zip(jobs).map(|(answer, has_origin)| Ok(first(answer?, has_origin))).collect())
    }

    pub(super) async fn reserve(&self, mut request: ReserveRequest) -> Result<Reservation, Error> {
        request.request_id.get_or_insert_with(request_id::next);
        let call = Call::post("/v1/reserve").json(&api::Reserve::from(&request))?;
        let reply = self.transport.send(call.wait(request.wait).repeats(true)).await?;
        let reservation: api::Reservation<'_> = reply.read()?;
        let leases = reservation.leases.into_iter().map(Lease::try_from).collect::<Result<_, _>>()?;
        Ok(Reservation::new(leases, reservation.next_due_at, refused(&reservation.refused)))
    }

    pub(super) async fn take(&self, mut request: TakeRequest) -> Result<Reservation, Error> {
        request.request_id.get_or_insert_with(request_id::next);
        let call = Call::post("/v1/take").json(&api::Take::from(&request))?.repeats(true);
        let reply = self.transport.send(call).await?;
        let taken: api::Taken<'_> = reply.read()?;
        let lease = |body| Ok::<_, Error>(Lease::new(Job::try_from(body)?, Span(0)));
        let leases = taken.jobs.into_iter().map(lease).collect::<Result<_, _>>()?;
        Ok(Reservation::new(leases, taken.next_due_at, refused(&taken.refused)))
    }

    pub(super) async fn settle(&self, outcomes: Vec<(Receipt, Outcome)>) -> Result<Answers<Settlement>, Error> {
        let bodies: Vec<_> = outcomes.iter().map(|(receipt, outcome)| api::Settle::new(*receipt, outcome)).collect();
        let reply = self.transport.send(Call::post("/v1/settle").json(&bodies)?.repeats(true)).await?;
        each(reply.read()?, outcomes.len())
    }

    pub(super) async fn extend(&self, leases: Vec<(Receipt, Option<Duration>)>) -> Result<Answers<Extension>, Error> {
        let body =
            |(receipt, lease): (Receipt, Option<Duration>)| api::ExtendOne { receipt, lease: lease.map(Span::from) };
        let bodies: Vec<_> = leases.into_iter().map(body).collect();
        let reply = self.transport.send(Call::post("/v1/extend").json(&bodies)?.repeats(true)).await?;
        each(reply.read()?, bodies.len())
    }

    pub(super) async fn progress(
        &self,
        receipt: Receipt,
        percent: u8,
        note: Option<Arc<str>>,
    ) -> Result<Extension, Error> {
        let body = api::Progress { percent, note };
        let call = Call::post(format!("/v1/leases/{receipt}/progress")).json(&body)?.repeats(true);
        self.transport.send(call).await?.read()
    }

    pub(super) async fn job(&self, id: JobId) -> Result<Job, Error> {
        self.shown(Call::get(format!("/v1/jobs/{id}"))).await
    }

    /// The job once it has ended, or after this wait of at most 60 s as it is then.
    pub(super) async fn ended(&self, id: JobId, wait: Duration) -> Result<Job, Error> {
        let query = api::Parameters { wait: Some(wait.into()), ..api::Parameters::default() };
        self.shown(Call::get(format!("/v1/jobs/{id}?{query}")).wait(wait)).await
    }

    pub(super) async fn why(&self, id: JobId) -> Result<api::Why, Error> {
        self.transport.send(Call::get(format!("/v1/jobs/{id}/why"))).await?.read()
    }

    async fn shown(&self, call: Call) -> Result<Job, Error> {
        let reply = self.transport.send(call).await?;
        Ok(Job::try_from(reply.read::<api::JobBody<'_>>()?)?)
    }

    pub(super) async fn find(&self, query: &Query, cursor: Option<&str>, limit: usize) -> Result<Listed, Error> {
        let find = api::Find { query: query.clone(), cursor: cursor.map(str::to_owned), limit: Some(limit) };
        let reply = self.transport.send(Call::get(format!("/v1/jobs?{find}"))).await?;
        Ok(Listed::try_from(reply.read::<api::Page<'_>>()?)?)
    }

    pub(super) async fn cancel(&self, target: JobRef) -> Result<CancelOutcome, Error> {
        let call = Call::post(format!("/v1/jobs/{}/cancel", target.id)).version(target.version);
        Ok(self.transport.send(call).await?.read::<api::Cancelled>()?.outcome)
    }

    pub(super) async fn update(&self, target: JobRef, patch: Patch) -> Result<Job, Error> {
        let call = Call::new(Method::PATCH, format!("/v1/jobs/{}", target.id)).version(target.version);
        self.shown(call.json(&api::Patch::from(&patch))?).await
    }

    pub(super) async fn run(&self, target: JobRef) -> Result<Job, Error> {
        self.shown(Call::post(format!("/v1/jobs/{}/run", target.id)).version(target.version)).await
    }

    pub(super) async fn retry(&self, target: JobRef) -> Result<Job, Error> {
        self.shown(Call::post(format!("/v1/jobs/{}/retry", target.id)).version(target.version)).await
    }

    pub(super) async fn delete(&self, target: JobRef) -> Result<(), Error> {
        let call = Call::new(Method::DELETE, format!("/v1/jobs/{}", target.id)).version(target.version);
        self.transport.send(call).await?.done()
    }

    pub(super) async fn bulk(&self, query: &Query, action: BulkAction) -> Result<BulkCounts, Error> {
        let call = Call::post(format!("/v1/jobs/{}", action.word()));
        let call = match action {
            BulkAction::RetryOver(spread) => Call::post(format!("/v1/jobs/retry?spread={spread}")).json(query),
            BulkAction::Reschedule(to) => call.json(&api::Reschedule::new(query.clone(), to)),
            BulkAction::RescheduleOver(to, spread) => {
                call.json(&api::Reschedule { spread: Some(spread), ..api::Reschedule::new(query.clone(), to) })
            }
            _ => call.json(query),
        };
        self.transport.send(call?.wait(BULK)).await?.read()
    }

    pub(super) async fn queues(&self) -> Result<Vec<QueueStatus>, Error> {
        self.pages("/v1/queues", |page: api::Queues| (page.queues, page.next_cursor)).await
    }

    /// Fetches all pages of a list.
    async fn pages<P: DeserializeOwned, T>(
        &self,
        path: &str,
        parts: fn(P) -> (Vec<T>, Option<String>),
    ) -> Result<Vec<T>, Error> {
        let mut all = Vec::new();
        let mut page = api::Parameters { limit: Some(PAGE_NAMES_MAX), ..api::Parameters::default() };
        loop {
            let (some, next) = parts(self.transport.send(Call::get(format!("{path}?{page}"))).await?.read()?);
            all.extend(some);
            page.cursor = next;
            if page.cursor.is_none() {
                return Ok(all);
            }
        }
    }

    pub(super) async fn queue(&self, queue: &str) -> Result<QueueStatus, Error> {
        self.transport.send(Call::get(queue_path(queue)?)).await?.read()
    }

    pub(super) async fn pause(&self, queue: &str, pause: Pause) -> Result<QueueSettings, Error> {
        let body = api::PauseBody::from(pause);
        self.configured(Call::post(format!("{}/pause", queue_path(queue)?)).json(&body)?).await
    }

    pub(super) async fn resume(&self, queue: &str) -> Result<QueueSettings, Error> {
        self.configured(Call::post(format!("{}/resume", queue_path(queue)?))).await
    }

    async fn configured(&self, call: Call) -> Result<QueueSettings, Error> {
        Ok(self.transport.send(call.repeats(true)).await?.read::<Configured>()?.into_settings())
    }

    pub(super) async fn purge(&self, queue: &str) -> Result<u64, Error> {
        let call = Call::post(format!("{}/purge", queue_path(queue)?)).wait(BULK);
        Ok(self.transport.send(call).await?.read::<api::Purged>()?.purged)
    }

    pub(super) async fn delete_queue(&self, queue: &str, force: bool) -> Result<api::DeletedQueue, Error> {
        let query = api::Parameters { force: Some(force), ..api::Parameters::default() };
        let call = Call::new(Method::DELETE, format!("{}?{query}", queue_path(queue)?)).wait(BULK);
        self.transport.send(call.repeats(true)).await?.read()
    }

    pub(super) async fn configure(&self, queue: &str, settings: QueueSettings) -> Result<QueueSettings, Error> {
        let configured = self.change_settings(queue, api::QueueChanges::all(&settings)).await?;
        match (configured == settings, settings.paused) {
            (true, _) => Ok(configured),
            (false, true) => self.pause(queue, settings.paused_until.map_or(Pause::UntilResumed, Pause::Until)).await,
            (false, false) => self.resume(queue).await,
        }
    }

    pub(super) async fn change_settings(
        &self,
        queue: &str,
        changes: api::QueueChanges,
    ) -> Result<QueueSettings, Error> {
        self.configured(Call::new(Method::PUT, queue_path(queue)?).json(&changes)?).await
    }

    pub(super) async fn history(&self, queue: Option<&str>, span: HistorySpan) -> Result<History, Error> {
        let query = api::Parameters { queue: queue.map(Arc::from), span: Some(span), ..api::Parameters::default() };
        self.transport.send(Call::get(format!("/v1/history?{query}"))).await?.read()
    }

    pub(super) async fn due_counts(&self, queue: Option<&str>) -> Result<DueCounts, Error> {
        let query = api::Parameters { queue: queue.map(Arc::from), ..api::Parameters::default() };
        self.transport.send(Call::get(format!("/v1/due?{query}"))).await?.read()
    }

    pub(super) async fn failures(&self, queue: Option<&str>) -> Result<Failures, Error> {
        let query = api::Parameters { queue: queue.map(Arc::from), ..api::Parameters::default() };
        self.transport.send(Call::get(format!("/v1/failures?{query}"))).await?.read()
    }

    pub(super) async fn workers(&self) -> Result<Vec<api::WorkerStatus>, Error> {
        self.pages("/v1/workers", |page: api::Workers| (page.workers, page.next_cursor)).await
    }

    pub(super) async fn attention(&self) -> Result<api::Attention, Error> {
        self.transport.send(Call::get("/v1/attention")).await?.read()
    }

    pub(super) async fn health(&self) -> Result<Health, Error> {
        self.transport.send(Call::get("/readyz")).await?.read_any()
    }

    pub(super) async fn version(&self) -> Result<Option<String>, Error> {
        Ok(self.transport.send(Call::get("/healthz")).await?.read::<api::Alive>()?.version)
    }

    pub(super) async fn metrics_text(&self) -> Result<String, Error> {
        self.transport.send(Call::get("/metrics")).await?.text()
    }

    #[expect(clippy::unused_async, reason = "the same form as for an embedded store")]
    pub(super) async fn close(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// The answer to a push. Without an origin from the caller, a repeat means that the reply to the first attempt was lost.
fn first(mut pushed: Pushed, has_origin: bool) -> Pushed {
    if pushed.outcome == PushOutcome::Repeated && !has_origin {
        pushed.outcome = PushOutcome::Created;
    }
    pushed
}

/// Checked here because an invalid name may lead to another path.
fn queue_path(queue: &str) -> Result<String, Error> {
    name::check_queue(queue)?;
    Ok(format!("/v1/queues/{}", path_segment(queue)))
}

/// Checks that there is one answer for each of `count` items.
fn each<T>(bodies: Vec<api::Answer<T>>, count: usize) -> Result<Answers<T>, Error> {
    if bodies.len() != count {
        return Err(Error::protocol("expected one answer for each that was asked"));
    }
    let answer = |body| match body {
        api::Answer::Done(done) => Ok(done),
        api::Answer::Problem(problem) => Err(of_problem(&problem)),
    };
    Ok(bodies.into_iter().map(answer).collect())
}

fn refused(problems: &[api::Problem]) -> Vec<(JobId, duetime_core::Error)> {
    problems.iter().filter_map(|problem| Some((problem.id?, problem.error()?))).collect()
}
