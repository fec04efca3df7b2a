//! Pushing jobs.

use super::{Client, forward};
use crate::error::{Answers, Error};
use crate::kind::Kind;
use crate::push::{Push, Pushed, new_job};
use duetime_core::engine::Imported;
use duetime_core::{Job, NewJob, Payload};
use std::sync::Arc;

impl Client {
    /// Pushes a typed job, by default due at once. Await the returned builder to send it. Once the await returns, the job is
    /// recorded.
    ///
    /// If the connection to a server is lost, the client repeats the push without making a second job: it sends an
    /// `Idempotency-Key` header with each push. To repeat a push later, or from another process, give it an
    /// [origin](Push::origin).
    #[expect(clippy::needless_pass_by_value, reason = "a push reads like a call of the handler")]
    pub fn push<K: Kind>(&self, job: K) -> Push {
        Push::new(self.clone(), new_job(&job))
    }

    /// Pushes a job with a payload of bytes, for handlers of this kind.
    pub fn push_raw(&self, kind: impl Into<Arc<str>>, payload: impl Into<Payload>) -> Push {
        Push::new(self.clone(), Ok(NewJob { kind: kind.into(), ..NewJob::new(payload) }))
    }

    /// Pushes at most 10,000 jobs with at most 64 MiB of payload. Returns one answer for each, in order. Not atomic as a
    /// whole.
    ///
    /// # Errors
    /// If the batch as a whole exceeds a limit, or did not reach the engine.
    pub async fn push_all(&self, jobs: Vec<NewJob>) -> Result<Answers<Pushed>, Error> {
        forward!(self.push(jobs))
    }

    /// Imports jobs of another store, in any state: at most 10,000, with at most 64 MiB of payload. Returns one answer for
    /// each, in order. The call can be repeated: existing jobs are not changed.
    ///
    /// # Errors
    /// If the batch as a whole exceeds a limit, or the store cannot be written. Always on a server, which accepts new jobs
    /// only: open its store instead.
    pub async fn import(&self, jobs: Vec<Job>) -> Result<Answers<Imported>, Error> {
        forward!(self.import(jobs))
    }

    pub(crate) async fn push_one(&self, job: NewJob) -> Result<Pushed, Error> {
        only(self.push_all(vec![job]).await?)
    }
}

/// Returns the only answer to a request with one item.
pub(super) fn only<T>(mut answers: Answers<T>) -> Result<T, Error> {
    match answers.pop() {
        Some(answer) if answers.is_empty() => answer,
        _ => Err(Error::Protocol("expected one answer".to_owned())),
    }
}
