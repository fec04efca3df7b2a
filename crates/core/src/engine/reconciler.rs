//! Keeps the broker as the ledger says: loads jobs as they enter the horizon, frees those that an edit keeps back, and, if several
//! processes share the broker, restores its memory after a loss. Of these processes only the leader does it.
//!
//! The ledger marks the jobs that the broker holds as *loaded* (bucket 0), so that each job is loaded once. The marks are valid
//! for one *incarnation* of the broker, and a document of the registry names the one in which everything was loaded. Redis may
//! be emptied or restarted at any time, and after a failover a replica may serve that lacks the last changes. Then
//! the incarnation differs. Before the new memory begins, whoever needs it [compares](super::comparison) what it still holds with
//! the ledger, so nobody is handed a job that has ended since. The leader, who looks at the incarnation twice a second,
//!
//! 1. *adopts* the new one in the registry. From now on a former leader, which may only be slow, marks nothing more as loaded;
//! 2. sends the broker the watermark again, below which it drops nothing;
//! 3. puts all rows that are marked as loaded, page by page, while other work goes on;
//! 4. writes down that everything is loaded in this incarnation, if it is still the present one;
//! 5. compares once more after 6 s. A reading of a row from before the loss may be put for 5 s; afterwards none can be, so from
//!    then on the broker has nothing that is older than the ledger.
//!
//! Each step may be cut off, or made by two leaders at once: all of them may be made twice. If a former leader adopts an older
//! incarnation again, the next look sees it and begins anew.
//!
//! The *audit* repeats step 3 slowly and without end. It finds jobs whose push failed between the commit and the put, so that
//! a job that slipped through is late, but not lost.

use super::comparison::Comparison;
use super::consumers::waiting::LOOK_AGAIN;
use super::documents::{document, set_document};
use super::loader::{LoadProgress, NEAR, end_before};
use super::overflow::OVERFLOWING;
use crate::api::DegradedCode;
use crate::clock::Millis;
use crate::engine::base::Base;
use crate::engine::editor::Editor;
use crate::engine::leader::Leader;
use crate::engine::loader::Loader;
use crate::engine::overflow::Overflow;
use crate::engine::queues::Settings;
use crate::engine::status::Status;
use crate::error::Error;
use crate::ports::{ADOPTED, BROKER, Broker, COMPARED, Cursor, LOADED, Ledger, Registry};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

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
/// The end of the rows that are marked as loaded.
const END_OF_NEAR: Cursor = Cursor { bucket: 0, id: u64::MAX };

/// The progress of the audit.
#[derive(Debug, Default)]
struct Audit {
    compare_at: Option<Instant>,
    after: Option<Cursor>,
    next_at: Option<Instant>,
}

/// How long an edit may keep a job out of the broker that is due to be there, before it is given up. Such an edit takes
/// milliseconds, and one that is given up too soon is made again.
const BARRED_MAX: Duration = Duration::from_millis(500);

/// Keeps the broker as the ledger says.
pub(super) struct Reconciler {
    broker: Arc<dyn Broker>,
    ledger: Arc<dyn Ledger>,
    registry: Arc<dyn Registry>,
    loader: Arc<Loader>,
    overflow: Arc<Overflow>,
    comparison: Arc<Comparison>,
    editor: Arc<Editor>,
    settings: Arc<Settings>,
    leader: Arc<Leader>,
    status: Arc<Status>,
}

impl Reconciler {
    pub(super) fn new(
        base: &Base,
        loader: Arc<Loader>,
        (overflow, comparison): (Arc<Overflow>, Arc<Comparison>),
        editor: Arc<Editor>,
        settings: Arc<Settings>,
        leader: Arc<Leader>,
    ) -> Self {
        let Base { stores, status, .. } = base;
        Self {
            broker: stores.broker.clone(),
            ledger: stores.ledger.clone(),
            registry: stores.registry.clone(),
            loader,
            overflow,
            comparison,
            editor,
            settings,
            leader,
            status: status.clone(),
        }
    }

    /// Loads jobs as they enter the horizon, until the engine stops.
    pub(super) async fn load(&self) {
        let mut after = None;
        let mut loaded_until = 0;
        loop {
            self.status.set(DegradedCode::Loading, self.load_entering(&mut loaded_until, &mut after).await.err());
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn load_entering(&self, loaded_until: &mut Millis, after: &mut Option<Cursor>) -> Result<(), Error> {
        let watermark = self.loader.advance().await?;
        if *loaded_until < watermark {
            let mut progress = LoadProgress::begin();
            while let Some(held) = self.loader.load_page(watermark, after).await? {
                progress.add(held.len());
            }
            progress.end();
            (*loaded_until, *after) = (watermark, Some(end_before(watermark)));
            self.status.set_loaded(true);
        }
        self.loader.reconcile().await?;
        self.free_barred().await
    }

    /// Frees jobs that were refused for a while as the ledger has them.
    async fn free_barred(&self) -> Result<(), Error> {
        if !self.leader.leads() {
            self.loader.leave_barred();
        }
        let late = self.loader.barred_for(BARRED_MAX);
        if late.is_empty() {
            return Ok(());
        }
        self.editor.free_barred(&late).await?;
        self.loader.freed(&late);
        Ok(())
    }

    /// If this engine leads, loads jobs as they enter the horizon, until the engine stops.
    pub(super) async fn load_for_all(&self) {
        loop {
            tokio::time::sleep(LOAD_EVERY).await;
            let loaded = if self.leader.leads() {
                match self.load_unloaded().await {
                    Ok(()) => self.free_barred().await,
                    Err(error) => Err(error),
                }
            } else {
                // Jobs that this process pushes before the watermark, it puts itself.
                self.loader.advance_watermark();
                self.loader.reconcile().await
            };
            self.status.set(DegradedCode::Loading, loaded.err());
        }
    }

    /// Puts jobs that are due before the watermark and not marked as loaded, and marks them.
    async fn load_unloaded(&self) -> Result<(), Error> {
        // If the broker has just lost its memory this may be put too early, but is not marked as loaded.
        let Some(incarnation) = document(self.registry.as_ref(), ADOPTED).await? else { return Ok(()) };
        let watermark = self.loader.advance().await?;
        let (mut after, mut progress) = (Some(END_OF_NEAR), LoadProgress::begin());
        while self.leader.leads()
            && let Some(held) = self.loader.load_page(watermark, &mut after).await?
        {
            progress.add(held.len());
            if !held.is_empty() {
                self.ledger.loaded(&held, &incarnation).await?;
            }
        }
        progress.end();
        self.loader.reconcile().await
    }

    /// If this engine leads, restores the broker's memory; otherwise learns whether it is complete. Runs until the engine
    /// stops.
    pub(super) async fn watch_broker(&self) {
        let mut audit = Audit::default();
        loop {
            let looked = self.look_at_broker(&mut audit).await;
            self.status.set(DegradedCode::Comparing, looked.err().or_else(|| self.comparison.trouble()));
            tokio::time::sleep(LOOK_AT_BROKER_EVERY).await;
        }
    }

    async fn look_at_broker(&self, audit: &mut Audit) -> Result<(), Error> {
        let documents = self.registry.documents(BROKER).await?;
        let of = |name| documents.iter().find(|document| document.name == name).map(|document| &document.body);
        let (adopted, loaded, compared) = (of(ADOPTED), of(LOADED), of(COMPARED));
        if !self.leader.leads() {
            if let Some(told) = of(OVERFLOWING) {
                self.overflow.learn(told);
            }
            self.status.set_loaded(adopted.is_some() && adopted == loaded);
            *audit = Audit::default();
            return Ok(());
        }
        let told = self.overflow.to_publish();
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
        self.settings.load().await?;
        self.loader.advance().await?;
        let (mut after, mut progress) = (None, LoadProgress::begin());
        while let Some(held) = self.loader.load_page(NEAR, &mut after).await? {
            progress.add(held.len());
            self.loader.reconcile().await?;
            if !self.leader.leads() {
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
        self.comparison.repeat().await?;
        if self.leader.leads() && self.broker.incarnation().await? == incarnation {
            set_document(self.registry.as_ref(), COMPARED, incarnation).await?;
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
        let is_over = self.loader.load_page(NEAR, &mut audit.after).await?.is_none();
        if is_over {
            audit.after = None;
        }
        audit.next_at = Some(now + if is_over { AUDIT_REST } else { AUDIT_EVERY });
        self.loader.reconcile().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{Fixture, due_in, far, job};
    use crate::json::Timestamp;
    use crate::model::job::{Job, Stage};
    use crate::ports::OutboxEntry;
    use crate::testing::fixtures::id;
    use crate::testing::{ModelLedger, Shared, TokioClock};

    #[tokio::test(start_paused = true)]
    async fn a_comparison_drops_what_the_ledger_has_in_a_later_state() {
        let fixture = Fixture::new().await;
        let ended = fixture.push(job()).await;
        let moved = fixture.push(job()).await;
        let same = fixture.push(job()).await;
        let end = Job { stage: Stage::Cancelled, version: ended.version + 2, ..ended.clone() };
        let later = Job { due_at: Timestamp(moved.due_at.0 + 1), version: moved.version + 2, ..moved.clone() };
        let entries = [end, later.clone()].map(OutboxEntry::Changed).to_vec();
        fixture.ledger.apply(entries, Millis::MAX).await.unwrap();
        fixture.loops.comparison.repeat().await.unwrap();
        assert_eq!((fixture.held(ended.id).await, fixture.held(same.id).await), (None, Some(same)));
        assert_eq!(fixture.held(moved.id).await, Some(later), "it is loaded again");
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_leader_restores_a_memory_and_says_what_it_did() {
        let (broker, ledger) = (Shared::new(Arc::new(TokioClock::new())), ModelLedger::default());
        let leader = Fixture::sharing(&broker, &ledger).await;
        let other = Fixture::sharing(&broker, &ledger).await;
        leader.loops.leader.begin(id(1)).await;
        other.loops.leader.begin(id(2)).await;
        let pushed = other.push(due_in(Duration::from_secs(5))).await;
        broker.flush();
        let adopted = || document(&ledger, ADOPTED);
        other.loops.reconciler.look_at_broker(&mut Audit::default()).await.unwrap();
        assert_eq!((adopted().await.unwrap(), leader.held(pushed.id).await), (None, None));
        leader.loops.reconciler.look_at_broker(&mut Audit::default()).await.unwrap();
        assert_eq!(adopted().await.unwrap(), Some(broker.incarnation_now()));
    }

    /// Such a job is missing in the broker, and nobody but its reader knows.
    #[tokio::test(start_paused = true)]
    async fn jobs_that_come_near_are_loaded_once() {
        let fixture = Fixture::new().await;
        let far = fixture.push(far()).await;
        let reconciler = &fixture.loops.reconciler;
        let (mut loaded_until, mut after) = (0, None);
        reconciler.load_entering(&mut loaded_until, &mut after).await.unwrap();
        assert_eq!(fixture.held(far.id).await, None);
        tokio::time::advance(Duration::from_secs(3_600)).await;
        reconciler.load_entering(&mut loaded_until, &mut after).await.unwrap();
        assert_eq!(fixture.held(far.id).await, Some(far));
        let looks = fixture.life.calls("pending");
        reconciler.load_entering(&mut loaded_until, &mut after).await.unwrap();
        assert_eq!(fixture.life.calls("pending"), looks, "nothing has come nearer");
    }
}
