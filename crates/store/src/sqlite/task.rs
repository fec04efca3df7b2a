//! A request to the writer, with the channel for its answer.

use super::fault::Fault;
use crate::sums::Tallies;
use duetime_core::Error;
use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// The transaction that a task runs in.
pub(super) struct Transaction<'a> {
    /// The connection to write with.
    pub(super) connection: &'a Connection,
    /// Changes of the tallies.
    pub(super) tallies: Tallies,
    /// Whether every row is written separately, which finds the row that makes a statement for many fail.
    pub(super) is_careful: bool,
}

/// Work for the writer. It may run more than once, each time in a transaction that starts from the same state as the failed
/// one.
pub(super) trait Task: Send {
    /// Runs the work and keeps the result.
    fn run(&mut self, transaction: &mut Transaction<'_>) -> Result<(), Fault>;

    /// Sends the result, or the error instead.
    fn answer(self: Box<Self>, outcome: Result<(), Error>);

    /// How many rows it affects.
    fn rows(&self) -> usize;
}

/// A function as a task.
pub(super) struct Call<F, T> {
    /// The function.
    pub(super) function: F,
    /// Its result.
    pub(super) found: Option<T>,
    /// The channel to the caller.
    pub(super) reply: oneshot::Sender<Result<T, Error>>,
    /// See [`Task::rows`].
    pub(super) rows: usize,
    /// Its permits, returned when it is done.
    pub(super) _permit: OwnedSemaphorePermit,
}

impl<F, T> Task for Call<F, T>
where
    F: FnMut(&mut Transaction<'_>) -> Result<T, Fault> + Send,
    T: Send,
{
    fn run(&mut self, transaction: &mut Transaction<'_>) -> Result<(), Fault> {
        self.found = Some((self.function)(transaction)?);
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<(), Error>) {
        let Self { found, reply, .. } = *self;
        let outcome = outcome.map(|()| found.expect("a task that ran has found something"));
        // The caller may be gone.
        let _ = reply.send(outcome);
    }

    fn rows(&self) -> usize {
        self.rows
    }
}
