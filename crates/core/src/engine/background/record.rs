//! Outcomes on their way from the broker's outbox to the ledger.

use crate::api::DegradedCode;
use crate::clock::Millis;
use crate::engine::Engine;
use crate::error::Error;
use crate::limits::STEP_JOBS_MAX;
use crate::model::id::JobId;
use crate::ports::{OutboxEntry, Outcomes};
use std::iter;
use std::time::Duration;

/// How often the outbox is searched for entries whose writer failed to have them recorded.
const DRAIN_EVERY: Duration = Duration::from_secs(1);
/// An entry younger than this is still on its way.
const DRAIN_AGE_MS: u64 = 1_000;
/// The same if other processes have entries on their way, too.
const DRAIN_AGE_SHARED_MS: u64 = 2_000;
/// Entries recorded in one go.
const SOON_STEP: usize = 4 * STEP_JOBS_MAX;

impl Engine {
    /// Records entries, and returns whether that succeeded. Otherwise they stay in the outbox until it does.
    pub(crate) async fn record(&self, entries: Vec<OutboxEntry>) -> bool {
        self.try_record(entries).await.is_ok()
    }

    /// Like [`record`](Self::record), with the reason.
    pub(crate) async fn try_record(&self, mut entries: Vec<OutboxEntry>) -> Result<(), Error> {
        if entries.is_empty() {
            return Ok(());
        }
        if self.topology.shares_ledger() {
            // Such a lease ends with the broker's memory; the row must be loaded again then.
            entries.iter_mut().for_each(|entry| entry.job_mut().lease_until = None);
        }
        let mut noted: Vec<(JobId, u64)> = Vec::with_capacity(entries.len());
        let mut successors = Vec::new();
        let mut latest_due = 0;
        for entry in &entries {
            let job = entry.job();
            noted.push((job.id, job.version));
            if job.is_pending() {
                latest_due = latest_due.max(job.due_at);
            }
            if let OutboxEntry::Moved(_, successor) = entry {
                successors.push(successor.id);
            }
        }
        let noted_now = self.metrics.stores.apply.time(self.ledger.apply(entries, self.watermark.get())).await;
        if let Err(error) = noted_now {
            self.status.degrade(DegradedCode::Recording, &error);
            return Err(error);
        }
        self.status.mend(DegradedCode::Recording);
        // While the entry exists, a crash before the copies are put makes the next process put them again.
        if !successors.is_empty() {
            // In their current state: an entry that existed for long has been recorded before, and they may have run.
            let reading = self.broker.reading();
            let successors = self.ledger.get(&successors).await?;
            self.hold(successors.into_iter().flatten().collect(), reading).await?;
        }
        let watermark = self.watermark.get();
        let watermark = if latest_due < watermark { Millis::MAX } else { watermark };
        let outdated = self.broker.forget(&noted, watermark).await?;
        if outdated.is_empty() {
            return Ok(());
        }
        tracing::warn!(
            jobs = outdated.len(),
            "the broker had older versions of jobs; they are loaded again from the ledger"
        );
        self.reconcile_later(outdated.into_iter());
        self.reconcile().await
    }

    /// Records entries, or has them recorded soon: if a shared broker keeps the outbox, a bounded number waits here, and the
    /// rest is left to the process that drains it. Returns whether they are recorded.
    pub(crate) async fn record_soon(&self, entries: Vec<OutboxEntry>) -> Result<bool, Error> {
        if !self.topology.shares_ledger() || self.options.settles_recorded {
            return self.try_record(entries).await.map(|()| true);
        }
        let is_empty = entries.is_empty();
        if let Ok(room) = self.recorder.entries.try_reserve_many(entries.len()) {
            room.zip(entries).for_each(|(place, entry)| place.send(entry));
        }
        Ok(is_empty)
    }

    /// Records waiting entries as they come, until the engine stops.
    pub(crate) async fn record_waiting(&self) {
        let mut waiting = self.recorder.waiting.lock().await;
        loop {
            let mut entries = Vec::new();
            waiting.recv_many(&mut entries, SOON_STEP).await;
            if !self.record(entries).await {
                // They are still in the outbox. A ledger that has just failed is not asked again at once.
                while waiting.try_recv().is_ok() {}
                tokio::time::sleep(DRAIN_EVERY).await;
            }
        }
    }

    /// Records the waiting entries, once.
    pub(crate) async fn record_rest(&self) {
        let mut waiting = self.recorder.waiting.lock().await;
        loop {
            let entries: Vec<_> = iter::from_fn(|| waiting.try_recv().ok()).take(SOON_STEP).collect();
            if entries.is_empty() || !self.record(entries).await {
                return;
            }
        }
    }

    /// Records entries that were left in the outbox, until the engine stops. The leader does it if several processes share
    /// the outbox. It looks once a second because an entry whose process has died causes no wake.
    pub(crate) async fn drain(&self) {
        let age_ms = if self.topology.shares_ledger() { DRAIN_AGE_SHARED_MS } else { DRAIN_AGE_MS };
        loop {
            tokio::time::sleep(DRAIN_EVERY).await;
            self.look_at_ledger();
            self.try_left().await;
            if self.broker.backlog() == 0 {
                // Entries that could not be recorded have been recorded by another process, or are gone.
                self.status.mend(DegradedCode::Recording);
            }
            if self.leads() {
                self.drain_older(age_ms).await;
            }
        }
    }

    /// Records all entries that are at least this old, until the ledger refuses one.
    pub(crate) async fn drain_older(&self, age_ms: u64) {
        loop {
            let oldest = Outcomes::Oldest { limit: STEP_JOBS_MAX, age_ms };
            let entries = self.broker.outcomes(oldest).await.unwrap_or_default();
            // Of large ones it returns few at a time.
            if entries.is_empty() || !self.record(entries).await {
                return;
            }
        }
    }
}
