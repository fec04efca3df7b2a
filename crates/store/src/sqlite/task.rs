//! A request to the writer with the way back to whoever waits for its answer.

use super::fault::Fault;
use crate::sums::Tallies;
use duetime_core::Error;
use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// The transaction that a task runs in.
pub(super) struct Transaction<'a> {
    /// Where to write.
    pub(super) connection: &'a Connection,
    /// What becomes of the tallies.
    pub(super) tallies: Tallies,
    /// Whether every row is written by itself, which tells apart what a statement for many cannot.
    pub(super) is_careful: bool,
}

/// What the writer does for somebody. It may run more than once, each time in a transaction that begins where the
/// failed one did.
pub(super) trait Task: Send {
    /// Does it, keeping the answer.
    fn run(&mut self, transaction: &mut Transaction<'_>) -> Result<(), Fault>;

    /// Sends the answer, or the error in its place.
    fn answer(self: Box<Self>, outcome: Result<(), Error>);

    /// How many rows it is about.
    fn rows(&self) -> usize;
}

/// A function as a task.
pub(super) struct Call<F, T> {
    /// What to do.
    pub(super) function: F,
    /// What came of it.
    pub(super) found: Option<T>,
    /// Who waits.
    pub(super) reply: oneshot::Sender<Result<T, Error>>,
    /// See [`Task::rows`].
    pub(super) rows: usize,
    /// Its place in the queue, given back when it is done.
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
        // Who asked may have gone.
        let _ = reply.send(outcome);
    }

    fn rows(&self) -> usize {
        self.rows
    }
}
