//! If several processes share a broker and a ledger, one of them leads: it loads, drains the outbox and prunes. The role is
//! a lock that its holder renews, so it moves when that process dies. Two leaders for a moment do no harm: everything that a
//! leader does may be done twice.
//!
//! The ledger marks the jobs that the broker holds as loaded, so that each job is loaded once. The marks are valid for one
//! incarnation of the broker. When the incarnation has changed, the leader *adopts* the new one, so that a former leader
//! marks nothing more. Then it compares what is left with the ledger, and puts all loaded jobs again. Once no earlier
//! reading can be put any more, it compares again: from then on the broker has nothing that is older than the ledger. A slow
//! audit keeps putting loaded jobs again, so a job that slipped through is late, but not lost.

use super::documents::{document, set_document};
use super::load::{LoadProgress, NEAR};
use crate::api::DegradedCode;
use crate::engine::Engine;
use crate::engine::parts::overflow::OVERFLOWING;
use crate::error::Error;
use crate::limits::STEP_JOBS_MAX;
use crate::model::id::JobId;
use crate::model::job::{Job, State};
use crate::model::name::OF_ENGINE;
use crate::ports::{
    ADOPTED, Acquire, Acquired, BROKER, Broker, COMPARED, Counts, Cursor, Detail, LOADED, Listing, Queues, Window,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

/// The lock of who leads: one of [`OF_ENGINE`].
const LEADER: &str = "duetime:leader";
/// How long the role stays with a leader that has died.
const LEADER_TTL_MS: u64 = 3_000;
/// Tasks that record outcomes: while one removes recorded entries from the outbox, the other records.
const RECORDERS: usize = 2;
/// How often the leader renews its role, and others try to get it.
const RENEW_EVERY: Duration = Duration::from_millis(500);
/// How often the broker is checked for a loss of its memory.
const LOOK_AT_BROKER_EVERY: Duration = Duration::from_millis(500);
/// How often the ledger is asked for jobs that enter the horizon or were left to the loader.
const LOAD_EVERY: Duration = Duration::from_millis(200);
/// Between two pages of the audit.
const AUDIT_EVERY: Duration = Duration::from_secs(4);
/// Between two rounds of the audit.
const AUDIT_REST: Duration = Duration::from_secs(15);
/// From the end of loading to the second comparison: until then earlier readings may be put.
const COMPARE_AFTER: Duration = Duration::from_millis(<dyn Broker>::READ_AGE_MS_MAX + 1_000);
/// How often jobs that change meanwhile are compared.
const COMPARE_TRIES: usize = 5;
/// The end of the rows that are marked as loaded.
const END_OF_NEAR: Cursor = Cursor { bucket: 0, id: u64::MAX };

/// The progress of the audit.
#[derive(Debug, Default)]
struct Audit {
    compare_at: Option<Instant>,
    after: Option<Cursor>,
    next_at: Option<Instant>,
}

impl Engine {
    /// Whether this process leads, or is the only one.
    pub(crate) fn leads(&self) -> bool {
        !self.topology.shares_ledger() || self.role.leads.load(Ordering::Relaxed)
    }

    /// Begins what an engine does that is one of several, and asks for the role.
    pub(crate) async fn begin_to_share(&self) -> Result<(), Error> {
        let number = self.ids.next(&[0], self.ledger.as_ref(), self.now()).await?;
        self.role.set_owner(&format!("{OF_ENGINE}engine-{}", number[0]));
        self.seek_role().await;
        self.advance_watermark();
        self.in_background("keep_role", |engine| async move { engine.keep_role().await });
        self.in_background("watch_broker", |engine| async move { engine.watch_broker().await });
        self.in_background("load_for_all", |engine| async move { engine.load_for_all().await });
        if let Some(inbox) = self.inbox.clone() {
            self.in_background("empty_inbox", |engine| async move { engine.empty_inbox(&inbox).await });
        }
        for _ in 0..RECORDERS {
            self.in_background("record_waiting", |engine| async move { engine.record_waiting().await });
        }
        Ok(())
    }

    async fn keep_role(&self) {
        loop {
            tokio::time::sleep(RENEW_EVERY).await;
            self.seek_role().await;
        }
    }

    /// Gets the role if it is free, or keeps it.
    async fn seek_role(&self) {
        let (name, owner) = (Arc::from(LEADER), self.role.owner());
        let acquire = Acquire { name, owner: owner.clone(), ttl_ms: LEADER_TTL_MS, waiting: false };
        let leads = matches!(self.locks.acquire(acquire).await, Ok(Acquired::Granted { .. }));
        if self.role.leads.swap(leads, Ordering::Relaxed) != leads {
            let now = if leads { "starts" } else { "stops" };
            tracing::info!(%owner, "this process {now} loading jobs for all servers");
        }
    }

    /// Gives the role up.
    pub(crate) async fn leave_role(&self) {
        if self.role.leads.swap(false, Ordering::Relaxed)
            && let Err(error) = self.locks.release_all(&self.role.owner()).await
        {
            tracing::debug!(%error, "the leader role could not be given up; it expires");
        }
    }

    /// If this engine leads, loads jobs as they enter the horizon, until the engine stops.
    pub(crate) async fn load_for_all(&self) {
        loop {
            tokio::time::sleep(LOAD_EVERY).await;
            let loaded = if self.leads() {
                match self.load_unloaded().await {
                    Ok(()) => self.reconcile_barred().await,
                    Err(error) => Err(error),
                }
            } else {
                // Jobs that this process pushes before the watermark, it puts itself.
                self.advance_watermark();
                self.reconcile().await
            };
            self.status.set(DegradedCode::Loading, loaded.err());
        }
    }

    /// Puts jobs that are due before the watermark and not marked as loaded, and marks them.
    async fn load_unloaded(&self) -> Result<(), Error> {
        // If the broker has just lost its memory this may be put too early, but is not marked as loaded.
        let Some(incarnation) = document(self.registry.as_ref(), ADOPTED).await? else { return Ok(()) };
        let watermark = self.advance().await?;
        let (mut after, mut progress) = (Some(END_OF_NEAR), LoadProgress::begin());
        while self.leads()
            && let Some(held) = self.load_page(watermark, &mut after).await?
        {
            progress.add(held.len());
            if !held.is_empty() {
                self.ledger.loaded(&held, &incarnation).await?;
            }
        }
        progress.end();
        self.reconcile().await
    }

    /// If this engine leads, restores the broker's memory; otherwise learns whether it is complete. Runs until the engine
    /// stops.
    pub(crate) async fn watch_broker(&self) {
        let mut audit = Audit::default();
        loop {
            self.status.set(DegradedCode::Comparing, self.look_at_broker(&mut audit).await.err());
            tokio::time::sleep(LOOK_AT_BROKER_EVERY).await;
        }
    }

    async fn look_at_broker(&self, audit: &mut Audit) -> Result<(), Error> {
        let documents = self.registry.documents(BROKER).await?;
        let of = |name| documents.iter().find(|document| document.name == name).map(|document| &document.body);
        let (adopted, loaded, compared) = (of(ADOPTED), of(LOADED), of(COMPARED));
        if !self.leads() {
            if let Some(told) = of(OVERFLOWING) {
                self.overflow.hear(told);
            }
            self.status.set_loaded(adopted.is_some() && adopted == loaded);
            *audit = Audit::default();
            return Ok(());
        }
        let told = self.overflow.told();
        if of(OVERFLOWING).map_or("{}", String::as_str) != told {
            set_document(self.registry.as_ref(), OVERFLOWING, &told).await?;
        }
        let incarnation = self.broker.incarnation().await?;
        // A former leader may have adopted an older incarnation again.
        if loaded != Some(&incarnation) || adopted != Some(&incarnation) {
            self.status.set_loaded(false);
            *audit = Audit::default();
            return self.reload(&incarnation).await;
        }
        self.status.set_loaded(true);
        if compared != Some(&incarnation) {
            return self.compare_again(audit, &incarnation).await;
        }
        self.audit(audit).await
    }

    /// The broker has another memory than the one in which all was loaded.
    async fn reload(&self, incarnation: &str) -> Result<(), Error> {
        set_document(self.registry.as_ref(), ADOPTED, incarnation).await?;
        self.load_settings().await?;
        self.advance().await?;
        self.compare().await?;
        let (mut after, mut progress) = (None, LoadProgress::begin());
        while let Some(held) = self.load_page(NEAR, &mut after).await? {
            progress.add(held.len());
            self.reconcile().await?;
            if !self.leads() {
                return Ok(());
            }
        }
        progress.end();
        if self.broker.incarnation().await? == incarnation {
            set_document(self.registry.as_ref(), LOADED, incarnation).await?;
            self.status.set_loaded(true);
        }
        Ok(())
    }

    /// Compares once more, once enough time has passed.
    async fn compare_again(&self, audit: &mut Audit, incarnation: &str) -> Result<(), Error> {
        let now = Instant::now();
        if now < *audit.compare_at.get_or_insert(now + COMPARE_AFTER) {
            return Ok(());
        }
        self.compare().await?;
        if self.leads() && self.broker.incarnation().await? == incarnation {
            set_document(self.registry.as_ref(), COMPARED, incarnation).await?;
        }
        Ok(())
    }

    /// Makes the broker drop jobs of which the ledger has a later version, such as a failover brings back.
    async fn compare(&self) -> Result<(), Error> {
        let mut queues = Some(Queues::first());
        while let Some(asked) = queues.take() {
            let counted = self.broker.counts(asked.clone()).await?;
            queues = asked.next(counted.iter().map(|(queue, ..)| queue)).filter(|_| self.leads());
            for (queue, counts, _) in counted {
                self.compare_queue(&queue, counts).await?;
            }
        }
        self.reconcile().await
    }

    async fn compare_queue(&self, queue: &Arc<str>, counts: Counts) -> Result<(), Error> {
        let Counts { scheduled, ready, running, .. } = counts;
        if scheduled + ready + running == 0 {
            return Ok(());
        }
        let mut states = vec![State::Scheduled, State::Ready];
        if running > 0 {
            states.push(State::Running);
        }
        let (window, limit) = (Window::ALL, STEP_JOBS_MAX);
        let mut listing = Listing { queue: queue.clone(), states, window, after: None, limit };
        loop {
            let jobs = self.broker.list(listing.clone()).await?;
            listing.after = jobs.last().map(|job| (job.due_at, job.id));
            let is_last = jobs.is_empty();
            self.compare_jobs(jobs).await?;
            if is_last || !self.leads() {
                return Ok(());
            }
        }
    }

    async fn compare_jobs(&self, mut jobs: Vec<Job>) -> Result<(), Error> {
        for _ in 0..COMPARE_TRIES {
            let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
            let rows = self.ledger.get(&ids).await?;
            let outdated = jobs.iter().zip(rows).filter_map(|(job, row)| outdated(job, row));
            let outdated: Vec<(JobId, u64)> = outdated.collect();
            if outdated.is_empty() {
                return Ok(());
            }
            tracing::warn!(
                jobs = outdated.len(),
                "the broker lost its newest changes; jobs are compared with the ledger"
            );
            let gone = self.broker.forget(&outdated, crate::Millis::MAX).await?;
            // Those that were changed in between are compared again.
            let left = outdated.iter().map(|&(id, _)| id).filter(|id| !gone.contains(id));
            let left: Vec<JobId> = left.collect();
            self.reconcile_later(gone.into_iter());
            jobs = self.broker.get(&left, Detail::Head).await?.into_iter().flatten().filter(Job::is_pending).collect();
        }
        Ok(())
    }

    /// Puts one page of loaded jobs again, now and then.
    async fn audit(&self, audit: &mut Audit) -> Result<(), Error> {
        let now = Instant::now();
        let next_at = *audit.next_at.get_or_insert(now + AUDIT_EVERY);
        if now < next_at {
            return Ok(());
        }
        let is_over = self.load_page(NEAR, &mut audit.after).await?.is_none();
        if is_over {
            audit.after = None;
        }
        audit.next_at = Some(now + if is_over { AUDIT_REST } else { AUDIT_EVERY });
        self.reconcile().await
    }
}

/// The version up to which the broker's copy of the job is invalid: the ledger has a later version, or the job has ended or
/// is gone there. An ended job does not become live again before the ledger knows.
pub(crate) fn outdated(job: &Job, row: Option<Job>) -> Option<(JobId, u64)> {
    match row {
        Some(row) if row.is_pending() => (row.version > job.version).then_some((row.id, row.version)),
        Some(row) => Some((job.id, row.version.max(job.version) + 1)),
        None => Some((job.id, job.version + 1)),
    }
}
