//! Pushes of many jobs, and imports.

use super::{Client, forward};
use crate::error::{Answers, Error, only};
use duetime_core::api::Pushed;
use duetime_core::engine::Imported;
use duetime_core::{Job, NewJob};

impl Client {
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
