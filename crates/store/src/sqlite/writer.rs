//! The writer: one thread that owns the connection for writing. It takes waiting tasks, runs them in one transaction,
//! commits, and answers. If a task of a group fails, the group is rolled back and each task is run separately, so that only
//! the affected callers get an error.

use super::durability::{Durability, FULL, NORMAL};
use super::fault::Fault;
use super::lease;
use super::log::Log;
use super::prune;
use super::queue::{Batch, Queue};
use super::room::{self, Room};
use super::tally;
use super::task::{Task, Transaction};
use crate::sums::Tallies;
use duetime_core::Error;
use duetime_core::ports::LeaseRecord;
use rusqlite::Connection;
use std::mem;
use std::sync::Arc;

/// Rows from which another thread syncs a transaction.
const ROWS_SYNCED_BESIDE: usize = 256;

/// The writer's state.
pub(super) struct Writer {
    connection: Connection,
    store: String,
    durability: Durability,
    synchronous: &'static str,
    log: Option<Arc<Log>>,
    room: Room,
    /// Whether leases could not be written the last time.
    have_leases_failed: bool,
}

impl Writer {
    /// A writer with a connection that [`super::file`] has set up for this durability. A store in a file has a `log`.
    pub(super) fn new(connection: Connection, store: String, durability: Durability, log: Option<Arc<Log>>) -> Self {
        if log.is_some() {
            super::log::watch(&connection);
        }
        let synchronous = durability.synchronous();
        Self { connection, store, durability, synchronous, log, room: Room::default(), have_leases_failed: false }
    }

    /// Works until the queue is closed and empty, then returns the connection.
    pub(super) fn run(mut self, queue: &Queue) -> Connection {
        // If this thread panics, waiting callers must get an error.
        let _abandon = Abandon(queue, self.log.clone());
        while let Some(batch) = queue.take() {
            self.group(batch, queue);
            self.keep_room();
            if let Some(log) = &self.log {
                log.tend(&self.connection);
            }
        }
        self.connection
    }

    fn group(&mut self, Batch { mut tasks, leases }: Batch, queue: &Queue) {
        let syncer = self.syncer(&tasks);
        if let Some(log) = &syncer {
            log.begin();
        }
        // Leases need no sync: if only this process ends, written data is not lost.
        let synchronous = if tasks.is_empty() || syncer.is_some() { NORMAL } else { FULL };
        let outcome = self.attempt(&mut tasks, &leases, synchronous, false);
        let Err(fault) = outcome else {
            if !tasks.is_empty() {
                self.note(Ok(()));
            }
            self.took_leases(&leases, queue);
            return match syncer {
                Some(log) => log.end(tasks),
                None => tasks.into_iter().for_each(|task| task.answer(Ok(()))),
            };
        };
        if let Some(log) = syncer {
            log.end(Vec::new());
            log.wait_synced();
        }
        if tasks.is_empty() {
            return self.give_back(fault, leases, queue);
        }
        tracing::debug!(?fault, tasks = tasks.len(), "a transaction failed; its tasks are retried one by one");
        if room::is_full(&fault) && self.room.measure(&self.connection).is_ok() {
            self.make_room();
        }
        for mut task in tasks {
            let outcome = self.attempt(std::slice::from_mut(&mut task), &[], FULL, true);
            let outcome = outcome.map_err(|fault| fault.into_error(&self.store));
            self.note(outcome.as_ref().copied());
            task.answer(outcome);
        }
        match self.attempt(&mut [], &leases, NORMAL, true) {
            Ok(()) => self.took_leases(&leases, queue),
            Err(fault) => self.give_back(fault, leases, queue),
        }
    }

    /// Makes finished records give way while the disk is nearly full.
    fn keep_room(&mut self) {
        let Some(log) = self.log.clone() else { return };
        let is_low = self.room.look(&self.connection).unwrap_or_else(|error| {
            log.note(&error);
            false
        });
        if is_low {
            self.make_room();
        }
    }

    /// Shortens the log, and drops the oldest finished records until there is room within the file.
    fn make_room(&mut self) {
        let Some(log) = self.log.clone() else { return };
        log.start_over(&self.connection, "TRUNCATE");
        for records in room::STEPS {
            if self.room.has_enough(&self.connection).unwrap_or(true) {
                return;
            }
            let mut dropped = 0;
            let outcome = self.set_synchronous(NORMAL).and_then(|()| {
                self.in_transaction(false, |transaction| {
                    dropped = prune::oldest(transaction, records)?;
                    Ok(())
                })
            });
            log.start_over(&self.connection, "TRUNCATE");
            if outcome.is_err() || dropped == 0 {
                return;
            }
            log.health.dropped(dropped);
        }
    }

    fn note(&self, outcome: Result<(), &Error>) {
        if let Some(log) = &self.log {
            log.health.note(outcome);
        }
    }

    /// The log, if its thread is to sync a transaction of these tasks, and to answer them. Meanwhile this thread begins the
    /// next transaction. Small ones are synced here: their callers often wait for each other's answers.
    fn syncer(&self, tasks: &[Box<dyn Task>]) -> Option<Arc<Log>> {
        let log = self.log.as_ref().filter(|_| self.durability == Durability::Commit)?;
        let rows: usize = tasks.iter().map(|task| task.rows()).sum();
        (rows >= ROWS_SYNCED_BESIDE || !tasks.is_empty() && log.is_syncing()).then(|| log.clone())
    }

    fn took_leases(&mut self, leases: &[LeaseRecord], queue: &Queue) {
        if !leases.is_empty() {
            queue.leases_written();
            self.have_leases_failed = false;
        }
    }

    /// Queues leases again. Until they are written only the journal has them.
    fn give_back(&mut self, fault: Fault, leases: Vec<LeaseRecord>, queue: &Queue) {
        if leases.is_empty() {
            return;
        }
        if !mem::replace(&mut self.have_leases_failed, true) {
            let error = fault.into_error(&self.store);
            tracing::warn!(%error, leases = leases.len(), "leases are not recorded yet; trying again");
        }
        queue.lease_again(leases);
    }

    /// A transaction of these tasks, unless nothing may be written.
    fn attempt(
        &mut self,
        tasks: &mut [Box<dyn Task>],
        leases: &[LeaseRecord],
        synchronous: &'static str,
        is_careful: bool,
    ) -> Result<(), Fault> {
        self.set_synchronous(synchronous)?;
        if let Some(log) = &self.log {
            log.check()?;
            log.health.check_files()?;
        }
        let outcome = self.in_transaction(is_careful, |transaction| {
            for task in tasks {
                task.run(transaction)?;
            }
            lease::write(transaction, leases)
        });
        if let Some(log) = &self.log {
            match &outcome {
                Ok(()) if self.durability == Durability::Interval => log.written(),
                Err(Fault::Sql(error)) => log.note(error),
                _ => {}
            }
        }
        outcome
    }

    /// One transaction: all or nothing.
    fn in_transaction(
        &self,
        is_careful: bool,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let connection = &self.connection;
        let run = || -> Result<(), Fault> {
            connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            let mut transaction = Transaction { connection, tallies: Tallies::default(), is_careful };
            work(&mut transaction)?;
            tally::write(transaction.tallies, connection)?;
            connection.prepare_cached("COMMIT")?.execute([])?;
            Ok(())
        };
        let outcome = run();
        if outcome.is_err() && !self.connection.is_autocommit() {
            self.connection.prepare_cached("ROLLBACK")?.execute([])?;
        }
        outcome
    }

    fn set_synchronous(&mut self, wanted: &'static str) -> Result<(), Fault> {
        if self.durability == Durability::Commit && wanted != self.synchronous {
            self.connection.execute_batch(wanted)?;
            self.synchronous = wanted;
        }
        Ok(())
    }
}

struct Abandon<'a>(&'a Queue, Option<Arc<Log>>);

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.abandon();
            if let Some(log) = &self.1 {
                log.end(Vec::new());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Sqlite;

    #[tokio::test]
    async fn a_writer_that_panics_is_told_to_all() {
        let store = Sqlite::memory().unwrap();
        for _ in 0..2 {
            let write = store.write::<(), _>(1, 0, |_| panic!("a panic that a test asked for"));
            let error = write.await.unwrap_err();
            assert!(error.code() == "store_unavailable" && error.to_string().contains("unexpectedly"), "{error}");
        }
    }
}
