//! The writer's input: tasks, bounded by a semaphore that callers wait for, and leases, bounded by the journal.

use super::fault::Fault;
use super::journal::Journal;
use super::task::{Call, Task, Transaction};
use duetime_core::ports::{LeaseRecord, OutboxEntry};
use duetime_core::{Clock, Error, JobId, Millis, SystemClock};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};

/// Limit of waiting work, in rows and KiB of payload.
const WEIGHT_MAX: u32 = 128 << 10;
/// Rows after which a transaction takes no further task.
const ROWS_PER_TRANSACTION: usize = 4_096;
/// How long the writer waits for as many tasks as it last answered. Callers that return at once then share the next
/// transaction, and its cost.
const COMPANY_WAIT: Duration = Duration::from_micros(100);
/// Pause between two attempts to write leases, in milliseconds.
const LEASE_AGAIN_MS: Millis = 500;
/// How long leases wait for their jobs to end, which makes writing them unnecessary, in milliseconds.
const LEASE_WAIT_MS: u64 = 20;

/// The writer's queue.
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    filled: Condvar,
    room: Arc<Semaphore>,
    clock: SystemClock,
    /// Of a store in a file. Locked before `waiting`.
    journal: Option<Mutex<Journal>>,
}

#[derive(Default)]
struct Waiting {
    tasks: VecDeque<Box<dyn Task>>,
    leases: HashMap<JobId, LeaseRecord>,
    /// Leases in the writer's hand.
    writing: Vec<LeaseRecord>,
    /// Whether leases could not be written at the end.
    has_left_leases: bool,
    /// The number of tasks that wakes the writer, which waits for more tasks (see [`Queue::take`]).
    wanted: usize,
    /// The number of tasks in the last transaction, whose callers may soon return.
    last: usize,
    /// Since when leases wait.
    leases_since: Option<Millis>,
    is_closed: bool,
    /// Whether the writer ended unexpectedly.
    is_abandoned: bool,
}

/// The work of one transaction.
#[derive(Default)]
pub(super) struct Batch {
    /// In order of arrival.
    pub(super) tasks: Vec<Box<dyn Task>>,
    /// At most one for each job.
    pub(super) leases: Vec<LeaseRecord>,
}

impl Queue {
    pub(super) fn new(journal: Option<Journal>) -> Self {
        Self {
            journal: journal.map(Mutex::new),
            waiting: Mutex::default(),
            filled: Condvar::new(),
            room: Arc::new(Semaphore::new(WEIGHT_MAX as usize)),
            clock: SystemClock::new(),
        }
    }

    /// Makes the writer call this function, and returns its result once that is committed.
    pub(super) async fn call<T, F>(&self, rows: usize, payload_bytes: usize, function: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnMut(&mut Transaction<'_>) -> Result<T, Fault> + Send + 'static,
    {
        let weight =
            u32::try_from(rows + payload_bytes / 1024).map_or(WEIGHT_MAX, |weight| weight.clamp(1, WEIGHT_MAX));
        let permit = self.room.clone().acquire_many_owned(weight).await.map_err(|_| self.closed())?;
        let (reply, answer) = oneshot::channel();
        self.push(Box::new(Call { function, found: None, reply, rows, _permit: permit }))?;
        answer.await.unwrap_or_else(|_| Err(abandoned()))
    }

    /// Makes the writer change something small, whose outcome nobody waits for: it shows whether changes are possible again.
    pub(super) fn try_change(&self) {
        let Ok(permit) = self.room.clone().try_acquire_owned() else { return };
        let function = |transaction: &mut Transaction<'_>| {
            let mut change = transaction
                .connection
                .prepare_cached("INSERT OR REPLACE INTO duetime_meta (name, value) VALUES ('tried', 1)")?;
            change.execute([])?;
            Ok(())
        };
        let (reply, _) = oneshot::channel();
        // A closed queue needs no try.
        let _ = self.push(Box::new(Call { function, found: None, reply, rows: 1, _permit: permit }));
    }

    /// Why no more tasks are accepted.
    fn closed(&self) -> Error {
        if self.waiting().is_abandoned { abandoned() } else { Error::Stopping }
    }

    fn push(&self, task: Box<dyn Task>) -> Result<(), Error> {
        let mut waiting = self.waiting();
        if waiting.is_closed {
            return Err(if waiting.is_abandoned { abandoned() } else { Error::Stopping });
        }
        waiting.tasks.push_back(task);
        if waiting.tasks.len() == waiting.wanted {
            drop(waiting);
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Adds leases to the journal, and to those that are written into the store soon.
    ///
    /// # Errors
    /// Of the journal. Nothing is added then.
    pub(super) fn lease(&self, leases: Vec<LeaseRecord>) -> Result<(), Error> {
        let mut journal = self.journal.as_ref().map(|journal| journal.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(journal) = &mut journal {
            journal.append(&leases, || {
                let waiting = self.waiting();
                waiting.leases.values().chain(&waiting.writing).copied().collect()
            })?;
        }
        let mut waiting = self.waiting();
        waiting.add_leases(leases);
        if waiting.leases_since.is_none() && !waiting.leases.is_empty() {
            waiting.leases_since = Some(self.clock.mono());
            drop(waiting);
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Called once the leases of a batch are written.
    pub(super) fn leases_written(&self) {
        self.waiting().writing.clear();
    }

    /// Returns leases that could not be written, to be retried a moment later.
    pub(super) fn lease_again(&self, leases: Vec<LeaseRecord>) {
        let mut waiting = self.waiting();
        waiting.writing.clear();
        // Closing does not wait until the disk has room. They stay in the journal.
        if waiting.is_closed {
            waiting.has_left_leases = true;
        } else {
            waiting.add_leases(leases);
            waiting.leases_since = Some(self.clock.mono() + LEASE_AGAIN_MS);
        }
    }

    /// Called when the writer has ended.
    pub(super) fn empty_journal(&self) {
        let has_left_leases = self.waiting().has_left_leases;
        if let Some(journal) = &self.journal
            && !has_left_leases
        {
            journal.lock().unwrap_or_else(PoisonError::into_inner).empty();
        }
    }

    /// Drops unwritten leases of jobs whose leases ended with these entries.
    pub(super) fn end_leases(&self, entries: &[OutboxEntry]) {
        let mut waiting = self.waiting();
        if waiting.leases.is_empty() {
            return;
        }
        for job in entries.iter().map(OutboxEntry::job) {
            if waiting.leases.get(&job.id).is_some_and(|lease| lease.version < job.version) {
                waiting.leases.remove(&job.id);
            }
        }
    }

    /// Waits for work; `None` once closed and empty.
    pub(super) fn take(&self) -> Option<Batch> {
        let mut waiting = self.waiting();
        let mut has_waited = false;
        loop {
            if !has_waited && !waiting.is_closed && !waiting.tasks.is_empty() && waiting.tasks.len() < waiting.last {
                has_waited = true;
                waiting.wanted = waiting.last;
                let wait = self.filled.wait_timeout(waiting, COMPANY_WAIT);
                waiting = wait.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            let leases_in = waiting.leases_since.map(|since| (since + LEASE_WAIT_MS).saturating_sub(self.clock.mono()));
            let takes_leases = leases_in == Some(0) || waiting.is_closed;
            if !waiting.tasks.is_empty() || (takes_leases && !waiting.leases.is_empty()) {
                waiting.wanted = 0;
                return Some(waiting.batch(takes_leases));
            }
            if waiting.is_closed {
                return None;
            }
            waiting.wanted = 1;
            waiting = match leases_in.filter(|_| !waiting.leases.is_empty()) {
                Some(wait_ms) => {
                    let wait = self.filled.wait_timeout(waiting, Duration::from_millis(wait_ms));
                    wait.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    waiting.leases_since = None;
                    self.filled.wait(waiting).unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }

    /// Refuses new tasks; waiting tasks are still done.
    pub(super) fn close(&self) {
        self.waiting().is_closed = true;
        self.room.close();
        self.filled.notify_all();
    }

    /// Drops waiting tasks; their callers and all later ones get an error.
    pub(super) fn abandon(&self) {
        self.waiting().is_abandoned = true;
        self.close();
        let tasks = std::mem::take(&mut self.waiting().tasks);
        drop(tasks);
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn abandoned() -> Error {
    Error::Unavailable("the store's writer ended unexpectedly; restart this process".into())
}

impl Waiting {
    /// Only the latest lease of a job counts.
    fn add_leases(&mut self, leases: Vec<LeaseRecord>) {
        for lease in leases {
            let known = self.leases.entry(lease.id).or_insert(lease);
            if known.version < lease.version {
                *known = lease;
            }
        }
    }

    fn batch(&mut self, takes_leases: bool) -> Batch {
        let mut batch = Batch::default();
        let mut rows = 0;
        while rows < ROWS_PER_TRANSACTION
            && let Some(task) = self.tasks.pop_front()
        {
            rows += task.rows();
            batch.tasks.push(task);
        }
        self.last = batch.tasks.len();
        if takes_leases {
            // The rest follows in the next transaction, so `leases_since` is kept.
            let ids: Vec<JobId> = self.leases.keys().copied().take(ROWS_PER_TRANSACTION).collect();
            batch.leases.extend(ids.iter().filter_map(|id| self.leases.remove(id)));
            self.writing.clone_from(&batch.leases);
            if self.leases.is_empty() {
                self.leases_since = None;
            }
        }
        batch
    }
}
