//! Outcomes on their way from the broker's outbox to the ledger.

use super::Engine;
use crate::clock::Millis;
use crate::error::Error;
use crate::id::JobId;
use crate::limits::STEP_JOBS_MAX;
use crate::ports::{Note, Outcomes};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::Notify;

/// How often the outbox is searched for notes that whoever wrote them did not get recorded.
const DRAIN_EVERY: Duration = Duration::from_secs(1);
/// A note younger than this is still on its way.
const DRAIN_AGE_MS: u64 = 1_000;
/// The same where other processes have notes on their way, too.
const DRAIN_AGE_SHARED_MS: u64 = 2_000;
/// Notes that wait to be recorded soon, at most.
const SOON_MAX: usize = 50_000;
/// Notes recorded in one go.
const SOON_STEP: usize = 4 * STEP_JOBS_MAX;
/// What is degraded while outcomes cannot be recorded.
const RECORDING: &str = "outcomes are not recorded";

/// Notes that are recorded soon.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    notes: Mutex<VecDeque<Note>>,
    filled: Notify,
}

impl Recorder {
    fn add(&self, notes: Vec<Note>) {
        let mut waiting = self.notes();
        if notes.is_empty() || waiting.len() + notes.len() > SOON_MAX {
            return;
        }
        waiting.extend(notes);
        drop(waiting);
        self.filled.notify_one();
    }

    fn take(&self) -> Option<Vec<Note>> {
        let mut waiting = self.notes();
        let count = waiting.len().min(SOON_STEP);
        let notes: Vec<Note> = waiting.drain(..count).collect();
        if !waiting.is_empty() {
            self.filled.notify_one();
        }
        if notes.is_empty() { None } else { Some(notes) }
    }

    async fn next(&self) -> Vec<Note> {
        loop {
            let filled = self.filled.notified();
            if let Some(notes) = self.take() {
                return notes;
            }
            filled.await;
        }
    }

    fn clear(&self) {
        self.notes().clear();
    }

    fn notes(&self) -> std::sync::MutexGuard<'_, VecDeque<Note>> {
        self.notes.lock().expect("no panic under this lock")
    }
}

impl Engine {
    /// Records notes, and answers whether that went well. Otherwise they stay in the outbox until it does.
    pub(super) async fn record(&self, notes: Vec<Note>) -> bool {
        self.try_record(notes).await.is_ok()
    }

    /// As [`record`](Self::record), with the reason.
    pub(super) async fn try_record(&self, mut notes: Vec<Note>) -> Result<(), Error> {
        if notes.is_empty() {
            return Ok(());
        }
        if self.topology.shares_ledger() {
            // Such a lease ends with the broker's memory; the row must be loaded again then.
            notes.iter_mut().for_each(|note| note.job_mut().lease_until = None);
        }
        let mut noted: Vec<(JobId, u64)> = Vec::with_capacity(notes.len());
        let mut successors = Vec::new();
        let mut latest_due = 0;
        for note in &notes {
            let job = note.job();
            noted.push((job.id, job.version));
            if job.is_pending() {
                latest_due = latest_due.max(job.due_at);
            }
            if let Note::Moved(_, successor) = note {
                successors.push(successor.id);
            }
        }
        let noted_now = self.metrics.stores.note.time(self.ledger.note(notes, self.frontier.get())).await;
        if let Err(error) = noted_now {
            self.status.degrade(RECORDING, &error);
            return Err(error);
        }
        self.status.mend(RECORDING);
        // While the note stands, a crash before the copies are put has them put again.
        if !successors.is_empty() {
            // As they are now: a note that stood for long has been recorded before, and they may have run.
            let reading = self.broker.reading();
            let successors = self.ledger.get(&successors).await?;
            self.hold(successors.into_iter().flatten().collect(), reading).await?;
        }
        let frontier = self.frontier.get();
        let frontier = if latest_due < frontier { Millis::MAX } else { frontier };
        let outdated = self.broker.forget(&noted, frontier).await?;
        if outdated.is_empty() {
            return Ok(());
        }
        tracing::warn!(jobs = outdated.len(), "the broker held jobs as they had been before: they are read anew");
        self.stray(outdated.into_iter());
        self.find_strays().await
    }

    /// Records notes for which nobody waits. Where a shared broker keeps the outbox, a bounded number waits here, and
    /// what does not fit is left to whoever drains it.
    pub(super) async fn record_soon(&self, notes: Vec<Note>) -> bool {
        if !self.topology.shares_ledger() || self.options.settles_recorded {
            return self.record(notes).await;
        }
        let is_empty = notes.is_empty();
        self.recorder.add(notes);
        is_empty
    }

    /// Records what waits to be recorded soon, for ever.
    pub(super) async fn record_waiting(&self) {
        loop {
            let notes = self.recorder.next().await;
            if !self.record(notes).await {
                // They stand in the outbox.
                self.recorder.clear();
                tokio::time::sleep(DRAIN_EVERY).await;
            }
        }
    }

    /// Records what waits to be recorded soon, once.
    pub(super) async fn record_rest(&self) {
        while let Some(notes) = self.recorder.take() {
            if !self.record(notes).await {
                return;
            }
        }
    }

    /// Records what was left in the outbox, for ever; of an outbox that several processes share, one does.
    pub(super) async fn drain(&self) {
        let age_ms = if self.topology.shares_ledger() { DRAIN_AGE_SHARED_MS } else { DRAIN_AGE_MS };
        loop {
            tokio::time::sleep(DRAIN_EVERY).await;
            self.try_left().await;
            if self.broker.backlog() == 0 {
                // What could not be recorded is, by another; or has gone.
                self.status.mend(RECORDING);
            }
            if self.leads() {
                self.drain_older(age_ms).await;
            }
        }
    }

    /// Records all notes of this age, as far as the ledger takes them.
    pub(super) async fn drain_older(&self, age_ms: u64) {
        loop {
            let oldest = Outcomes::Oldest { limit: STEP_JOBS_MAX, age_ms };
            let notes = self.broker.outcomes(oldest).await.unwrap_or_default();
            let is_all = notes.len() < STEP_JOBS_MAX;
            if !self.record(notes).await || is_all {
                return;
            }
        }
    }
}
