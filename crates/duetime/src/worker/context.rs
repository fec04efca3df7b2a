//! The context of a handler: its job, progress, and signals.

use crate::client::Client;
use crate::error::Error;
use crate::job_type::JobType;
use crate::push::{IntoNewJob, Push};
use duetime_core::api::Timestamp;
use duetime_core::limits::RESULT_BYTES_MAX;
use duetime_core::{Error as CoreError, FollowUp, FollowUps, Job, JobId, Meta, Payload, Previous, Receipt};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// The job that a handler runs, under its lease. Cheap to clone.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    client: Client,
    job: Job,
    cancellation: CancellationToken,
    /// Whether the handler has begun, or never will.
    begun: AtomicBool,
    /// How many jobs the handler has pushed.
    pushes: AtomicU32,
    result: Mutex<Option<Payload>>,
    added: Mutex<Vec<FollowUp>>,
}

impl Context {
    pub(crate) fn new(client: Client, job: Job) -> Self {
        let (begun, pushes) = (AtomicBool::new(false), AtomicU32::new(0));
        let (cancellation, result, added) = (CancellationToken::new(), Mutex::default(), Mutex::default());
        Self(Arc::new(Inner { client, job, cancellation, begun, pushes, result, added }))
    }

    /// Decides a race: the handler is about to begin, or the dispatcher is about to release the job. Returns true for the
    /// first caller.
    pub(super) fn begin(&self) -> bool {
        !self.0.begun.swap(true, Ordering::AcqRel)
    }

    /// The whole job, as it was handed out.
    pub fn job(&self) -> &Job {
        &self.0.job
    }

    /// The job's id.
    pub fn id(&self) -> JobId {
        self.0.job.id
    }

    /// The receipt of the lease.
    pub fn receipt(&self) -> Receipt {
        self.0.job.receipt()
    }

    /// The number of this attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.0.job.attempt
    }

    /// The epoch: it grows with every lease of the job, so that a store downstream can reject an earlier holder.
    pub fn epoch(&self) -> u64 {
        self.0.job.epoch
    }

    /// The job's queue.
    pub fn queue(&self) -> &Arc<str> {
        &self.0.job.queue
    }

    /// The job's kind.
    pub fn kind(&self) -> &Arc<str> {
        &self.0.job.kind
    }

    /// The job's tags.
    pub fn tags(&self) -> &[Arc<str>] {
        &self.0.job.tags
    }

    /// The due time.
    pub fn due_at(&self) -> Timestamp {
        self.0.job.due_at
    }

    /// The payload's bytes.
    pub fn payload(&self) -> &Payload {
        &self.0.job.payload
    }

    /// The trace that the job belongs to, if it was pushed with one: a W3C `traceparent`.
    pub fn trace(&self) -> Option<&Arc<str>> {
        self.0.job.options().trace.as_ref()
    }

    /// The metadata that the job was pushed with, such as a tenant or a user; empty by default.
    pub fn meta(&self) -> &Meta {
        self.0.job.meta()
    }

    /// The job whose end pushed this one, and how it ended, if there is one: see [`Push::then`].
    pub fn previous(&self) -> Option<&Previous> {
        self.0.job.options().previous.as_deref()
    }

    /// The client of the worker.
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// Pushes another job, like [`Client::push`]. If this job runs again, after a failure, a crash or a retry by hand, the push
    /// makes no second job: its [origin](Push::origin) is the id of this job and the number of the push, from 0. So push in
    /// the same order in each attempt, or set an origin. What the first attempt has pushed stands, also if a later one pushes
    /// something else, such as another time.
    pub fn push<J: JobType>(&self, job: J) -> Push {
        let number = self.0.pushes.fetch_add(1, Ordering::Relaxed);
        self.0.client.push(job).of_handler(format!("{}:{number}", self.id()))
    }

    /// Adds a job to those of this job's [`then`](Push::then): at most 16. It is pushed in the same step in which this job
    /// succeeds, and dropped if this attempt fails. It has no key and no origin, and its delay begins when this job succeeds.
    /// Unlike [`push`](Self::push), it makes no request, and the order does not matter: each attempt decides anew.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) if its payload cannot be serialized as JSON.
    pub fn follow_with(&self, next: impl IntoNewJob) -> Result<(), Error> {
        let next = FollowUp::from(&next.into_new_job()?);
        self.0.added.lock().unwrap_or_else(PoisonError::into_inner).push(next);
        Ok(())
    }

    /// Reports the progress of the job: 0 to 100 percent, and a note of at most 1 KiB. It is shown with the job until its
    /// next attempt begins. This extends the lease. If the lease is lost or the job was cancelled, the handler's
    /// [token](Self::cancellation) is cancelled.
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) if the lease is; [`Invalid`](crate::ErrorKind::Invalid) if a limit is exceeded; if
    /// the call did not reach the engine.
    pub async fn progress(&self, percent: u8, note: Option<&str>) -> Result<(), Error> {
        match self.0.client.leases().progress(self.receipt(), percent, note.map(Arc::from)).await {
            Ok(extension) => {
                if extension.cancel_asked {
                    self.0.cancellation.cancel();
                }
                Ok(())
            }
            Err(error) => {
                if matches!(error.core(), Some(CoreError::LeaseLost(_))) {
                    self.0.cancellation.cancel();
                }
                Err(error)
            }
        }
    }

    /// Cancelled when the handler should stop: the job was cancelled, its lease is lost, or the worker has waited long
    /// enough while stopping.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.0.cancellation
    }

    /// Whether the handler should stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancellation.is_cancelled()
    }

    /// Sets the job's result, as bytes. It is kept if the handler succeeds and returns `()`; a value that it returns is the
    /// result otherwise, as JSON.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) if it exceeds 1 MiB.
    pub fn set_result(&self, result: impl Into<Payload>) -> Result<(), Error> {
        let result = result.into();
        if result.len() > RESULT_BYTES_MAX {
            let expected = format!("at most {RESULT_BYTES_MAX} bytes");
            return Err(CoreError::invalid("result", expected, format!("{} bytes", result.len())).into());
        }
        *self.0.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        Ok(())
    }

    pub(crate) fn take_added(&self) -> FollowUps {
        let added = std::mem::take(&mut *self.0.added.lock().unwrap_or_else(PoisonError::into_inner));
        (!added.is_empty()).then(|| added.into())
    }

    pub(crate) fn take_result(&self) -> Option<Payload> {
        self.0.result.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("receipt", &self.receipt())
            .field("queue", self.queue())
            .field("kind", self.kind())
            .field("attempt", &self.attempt())
            .finish_non_exhaustive()
    }
}
