//! Pushing.

use super::{Client, forward};
use crate::error::{Answers, Error};
use crate::kind::Kind;
use crate::push::{Push, Pushed, new_job};
use duetime_core::engine::Imported;
use duetime_core::{Job, NewJob, Payload};
use std::sync::Arc;

impl Client {
    /// Pushes a typed job, by default due at once. Await the returned builder to send it. Once that returns, the job is
    /// recorded.
    ///
    /// If the connection to a server is lost, the client repeats the push without making a second job: it names each push
    /// (header `Idempotency-Key`). To repeat a push later, or from another process, give it an [origin](Push::origin).
    #[expect(clippy::needless_pass_by_value, reason = "a push reads like a call of the handler")]
    pub fn push<K: Kind>(&self, job: K) -> Push {
        Push::new(self.clone(), new_job(&job))
    }

    /// Pushes bytes, for handlers of this kind.
    pub fn push_raw(&self, kind: impl Into<Arc<str>>, payload: impl Into<Payload>) -> Push {
        Push::new(self.clone(), Ok(NewJob { kind: kind.into(), ..NewJob::new(payload) }))
    }

    /// Pushes jobs: at most 10,000, and 64 MiB of payload. One answer for each, in order; not atomic as a whole.
    ///
    /// # Errors
    /// Where the batch as a whole breaks a limit, or did not reach the engine.
    pub async fn push_all(&self, jobs: Vec<NewJob>) -> Result<Answers<Pushed>, Error> {
        forward!(self.push(jobs))
    }

    /// Records whole jobs of another store, in whatever state: at most 10,000, and 64 MiB of payload. One answer for each,
    /// in order. It may be repeated: what is there stays as it is.
    ///
    /// # Errors
    /// Where the batch as a whole breaks a limit, or the store cannot be written; and on a server, which takes new jobs
    /// only: name its store instead.
    pub async fn import(&self, jobs: Vec<Job>) -> Result<Answers<Imported>, Error> {
        forward!(self.import(jobs))
    }

    pub(crate) async fn push_one(&self, job: NewJob) -> Result<Pushed, Error> {
        only(self.push_all(vec![job]).await?)
    }
}

/// The answer to the one thing that was asked.
pub(super) fn only<T>(mut answers: Answers<T>) -> Result<T, Error> {
    match answers.pop() {
        Some(answer) if answers.is_empty() => answer,
        _ => Err(Error::Protocol("expected one answer".to_owned())),
    }
}
