//! Outcomes on their way from the broker's outbox to the ledger.

use super::Engine;
use crate::error::Error;
use crate::id::JobId;
use crate::limits::STEP_JOBS_MAX;
use crate::ports::{Note, Outcomes};
use std::time::Duration;

/// How often the outbox is searched for notes that whoever wrote them did not get recorded.
const DRAIN_EVERY: Duration = Duration::from_secs(1);
/// A note younger than this is still on its way.
const DRAIN_AGE_MS: u64 = 1_000;
/// What is degraded while outcomes cannot be recorded.
const RECORDING: &str = "outcomes are not recorded";

impl Engine {
    /// Records notes, and answers whether that went well. Otherwise they stay in the outbox until it does.
    pub(super) async fn record(&self, notes: Vec<Note>) -> bool {
        self.try_record(notes).await.is_ok()
    }

    /// As [`record`](Self::record), with the reason.
    pub(super) async fn try_record(&self, notes: Vec<Note>) -> Result<(), Error> {
        if notes.is_empty() {
            return Ok(());
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
                successors.push(successor.as_ref().clone());
            }
        }
        let read_at = self.now();
        if let Err(error) = self.ledger.note(notes, self.frontier.get()).await {
            self.status.degrade(RECORDING, &error);
            return Err(error);
        }
        self.status.mend(RECORDING);
        if latest_due < self.frontier.get() {
            self.broker.forget(&noted, crate::Millis::MAX).await?;
        } else {
            // Jobs beyond the frontier leave the broker, and the frontier stands still until they have: what it then
            // passes is read from the ledger.
            let frontier = self.frontier.hold().await;
            self.broker.forget(&noted, frontier.at()).await?;
        }
        self.hold(successors, read_at).await
    }

    /// Records what was left in the outbox, for ever.
    pub(super) async fn drain(&self) {
        loop {
            tokio::time::sleep(DRAIN_EVERY).await;
            self.drain_older(DRAIN_AGE_MS).await;
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
