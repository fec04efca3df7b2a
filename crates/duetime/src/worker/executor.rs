//! Running handlers, as tasks of the caller's runtime. Each started handler reports exactly once, however it ends.

use super::context::Context;
use super::handler::AnyHandler;
use super::job_error::JobError;
use super::leases::Running;
use crate::client::Client;
#[cfg(feature = "metrics")]
use crate::measure;
use duetime_core::engine::Outcome;
use duetime_core::model::trace;
use duetime_core::{Job, Receipt};
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;
use tracing::{Instrument, Span};

pub(super) struct Executor {
    client: Client,
    runtime: Handle,
    reports: UnboundedSender<Report>,
    running: usize,
}

/// How the handler of a lease ended.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) receipt: Receipt,
    /// `None` if the job was released before the handler began.
    pub(super) outcome: Option<Outcome>,
}

impl Executor {
    pub(super) fn new(client: Client, runtime: Handle, reports: UnboundedSender<Report>) -> Self {
        Self { client, runtime, reports, running: 0 }
    }

    pub(super) fn running(&self) -> usize {
        self.running
    }

    /// Starts a handler, which gives the slot of its kind back when it ends.
    pub(super) fn start(
        &mut self,
        handler: AnyHandler,
        slot: Option<OwnedSemaphorePermit>,
        job: Job,
        now: Instant,
    ) -> Running {
        self.running += 1;
        let context = Context::new(self.client.clone(), job);
        let (reports, running) = (self.reports.clone(), context.clone());
        let mut reporter = Reporter { context: running, slot, reports, has_begun: false, outcome: None };
        let task = self.runtime.spawn(async move {
            if !reporter.begin() {
                return;
            }
            let outcome = run(handler, reporter.context.clone()).await;
            reporter.end(outcome);
        });
        Running { context, task: task.abort_handle(), since: now }
    }

    pub(super) fn reported(&mut self) {
        self.running -= 1;
    }
}

/// Runs a handler to its end.
pub(super) async fn run(handler: AnyHandler, context: Context) -> Outcome {
    #[cfg(feature = "metrics")]
    let attempt = measure::Attempt::begin(context.job());
    let (span, running) = (span(context.job()), context.clone());
    // The call itself may panic before it returns a future.
    let handled = AssertUnwindSafe(async { handler(running).await }).catch_unwind().instrument(span).await;
    let outcome = match handled {
        Ok(Ok(())) => Outcome::Complete { result: context.take_result(), then: context.take_added() },
        Ok(Err(error)) => error.into_outcome(),
        Err(panic) => JobError::panicked(&*panic).into_outcome(),
    };
    #[cfg(feature = "metrics")]
    attempt.end(&outcome);
    outcome
}

/// Reports when it is dropped, even if the task is aborted or its runtime shuts down.
struct Reporter {
    context: Context,
    slot: Option<OwnedSemaphorePermit>,
    reports: UnboundedSender<Report>,
    has_begun: bool,
    outcome: Option<Outcome>,
}

impl Reporter {
    fn begin(&mut self) -> bool {
        self.has_begun = self.context.begin();
        self.has_begun
    }

    fn end(&mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        // An aborted handler releases its job.
        let released = || (self.has_begun || self.context.begin()).then_some(Outcome::release(Duration::ZERO));
        let outcome = self.outcome.take().or_else(released);
        // Free before the dispatcher looks for the next job.
        drop(self.slot.take());
        // The receiver is gone if the worker has given up on the handler.
        let _ = self.reports.send(Report { receipt: self.context.receipt(), outcome });
    }
}

/// The tracing span of a handler, with its job and the trace that the job was pushed in.
fn span(job: &Job) -> Span {
    let trace_id = job.options().trace.as_deref().map(|trace| trace::ids(trace).0);
    let (queue, kind, id, attempt) = (&*job.queue, &*job.kind, job.id, job.attempt);
    let span = tracing::info_span!("job", queue, kind, %id, attempt, trace_id);
    #[cfg(feature = "otel")]
    if let Some(trace) = &job.options().trace {
        crate::otel::set_parent(&span, trace);
    }
    span
}
