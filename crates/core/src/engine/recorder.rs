//! Outcomes on their way from the broker's outbox to the ledger.

use crate::api::DegradedCode;
use crate::clock::Millis;
use crate::engine::admission::{Admission, Producer};
use crate::engine::base::Base;
use crate::engine::ids::Ids;
use crate::engine::loader::{Loader, outdated};
use crate::engine::metrics::Metrics;
use crate::engine::status::Status;
use crate::error::Error;
use crate::limits::STEP_JOBS_MAX;
use crate::model::id::JobId;
use crate::model::job::Job;
use crate::model::name::OF_ENGINE;
use crate::ports::{Broker, Detail, Ledger, OutboxEntry, Outcomes, Room, Trouble};
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

/// How often the outbox is searched for entries whose writer failed to have them recorded.
const DRAIN_EVERY: Duration = Duration::from_secs(1);
/// An entry younger than this is still on its way.
const DRAIN_AGE_MS: u64 = 1_000;
/// The same if other processes have entries on their way, too.
const DRAIN_AGE_SHARED_MS: u64 = 2_000;
/// Entries recorded in one go.
const SOON_STEP: usize = 4 * STEP_JOBS_MAX;

/// How often a copy gets another id, because imports have just taken its own; and how often a job is dropped that changes
/// meanwhile.
const TRIES: usize = 5;
/// Entries that wait to be recorded soon, at most.
const SOON_MAX: usize = 50_000;
/// The bytes of the unrecorded entries of this process, at most, by default.
const BYTES_MAX_DEFAULT: u64 = 128 << 20;
/// The same, as a part of the memory that live jobs may take.
const BYTES_PART: u64 = 4;

/// Entries that wait to be recorded soon.
struct Soon {
    added: mpsc::Sender<OutboxEntry>,
    left: tokio::sync::Mutex<mpsc::Receiver<OutboxEntry>>,
    /// The bytes of those that wait or are being recorded, and their bound.
    bytes: AtomicU64,
    bytes_max: u64,
}

impl Soon {
    fn new(bytes_max: u64) -> Self {
        let (added, left) = mpsc::channel(SOON_MAX);
        Self { added, left: left.into(), bytes: AtomicU64::new(0), bytes_max }
    }

    /// Adds all of these, or none if there is no room.
    fn add(&self, entries: Vec<OutboxEntry>) {
        let bytes = bytes(&entries);
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        match self.added.try_reserve_many(entries.len()) {
            Ok(room) if before == 0 || before + bytes <= self.bytes_max => {
                room.zip(entries).for_each(|(place, entry)| place.send(entry));
            }
            _ => self.free(bytes),
        }
    }

    fn free(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

fn bytes(entries: &[OutboxEntry]) -> u64 {
    entries.iter().map(OutboxEntry::held_bytes).sum()
}

/// Records what the outbox of the broker has, at once or soon.
pub(super) struct Recorder {
    broker: Arc<dyn Broker>,
    ledger: Arc<dyn Ledger>,
    loader: Arc<Loader>,
    admission: Arc<Admission>,
    ids: Arc<Ids>,
    status: Arc<Status>,
    metrics: Arc<Metrics>,
    soon: Soon,
    settles_recorded: bool,
    backlog_max: usize,
    bytes_max: u64,
}

impl Recorder {
    pub(super) fn new(base: &Base, loader: Arc<Loader>, admission: Arc<Admission>, ids: Arc<Ids>) -> Self {
        let Base { stores, options, metrics, status, .. } = base;
        let bytes_max = options.memory_max.map_or(BYTES_MAX_DEFAULT, |bytes| bytes / BYTES_PART);
        Self {
            broker: stores.broker.clone(),
            ledger: stores.ledger.clone(),
            loader,
            admission,
            ids,
            status: status.clone(),
            metrics: metrics.clone(),
            soon: Soon::new(bytes_max),
            settles_recorded: options.settles_recorded,
            backlog_max: options.backlog_max,
            bytes_max,
        }
    }

    /// Records entries, and returns whether that succeeded. Otherwise they stay in the outbox until it does.
    pub(super) async fn record(&self, entries: Vec<OutboxEntry>) -> bool {
        self.try_record(entries).await.is_ok()
    }

    /// Like [`record`](Self::record), with the reason.
    pub(super) async fn try_record(&self, mut entries: Vec<OutboxEntry>) -> Result<(), Error> {
        if entries.is_empty() {
            return Ok(());
        }
        if self.broker.shares_ledger() {
            // Such a lease ends with the broker's memory; the row must be loaded again then.
            entries.iter_mut().for_each(|entry| entry.job_mut().lease_until = None);
        }
        let mut noted: Vec<(JobId, u64)> = Vec::with_capacity(entries.len());
        let (mut waiting, mut joining) = (Vec::new(), Vec::new());
        let now = self.broker.now();
        let mut latest_due = 0;
        for entry in &entries {
            let job = entry.job();
            noted.push((job.id, job.version));
            if job.is_pending() {
                latest_due = latest_due.max(job.due_at.0);
                let list = if self.loader.joins_overflow(job, now) { &mut joining } else { &mut waiting };
                list.push((job.id, job.version));
            }
        }
        let mut successors = match self.apply(entries).await {
            Ok(successors) => successors,
            Err(error) => {
                self.status.degrade(DegradedCode::Recording, &error);
                return Err(error);
            }
        };
        self.status.mend(DegradedCode::Recording);
        // While the entry exists, a crash before the new jobs are put makes the next process put them again.
        self.admission.admit(&mut successors, Producer::End).await?;
        let watermark = self.loader.watermark();
        let watermark = if latest_due < watermark { Millis::MAX } else { watermark };
        let outdated = self.broker.forget(&noted, watermark).await?;
        // Those that wait again overtake no older ones in the overflow either.
        for (jobs, room) in [(waiting, self.loader.room()), (joining, Room::Within(Some(0)))] {
            if !jobs.is_empty() {
                self.loader.leave_in_ledger(self.broker.crowded_out(&jobs, room).await?).await;
            }
        }
        self.load_again(outdated).await
    }

    /// Has the broker drop older copies of jobs that the ledger has in these versions, and ended jobs in any version.
    pub(super) async fn drop_outdated(&self, recorded: &[(JobId, u64)]) -> Result<(), Error> {
        if recorded.is_empty() || !self.broker.shares_ledger() {
            return Ok(());
        }
        let dropped = self.broker.forget(recorded, Millis::MAX).await?;
        self.load_again(dropped).await?;
        self.let_go(&recorded.iter().map(|(id, _)| *id).collect::<Vec<_>>()).await
    }

    /// Has a shared broker drop those of these jobs that have ended in the ledger. It may hold such a job, or have handed it out
    /// again, if it lost its memory before it knew of the end, and the row was loaded as it was before. The versions of the new
    /// memory are later.
    ///
    /// # Errors
    /// It may still hold some of them.
    pub(super) async fn let_go(&self, ids: &[JobId]) -> Result<(), Error> {
        if ids.is_empty() || !self.broker.shares_ledger() {
            return Ok(());
        }
        for _ in 0..TRIES {
            // The broker first: an ended job does not become live again before the ledger knows.
            let held = self.broker.get(ids, Detail::Head).await?.into_iter().flatten();
            let held: Vec<Job> = held.filter(Job::is_pending).collect();
            if held.is_empty() {
                return Ok(());
            }
            if self.drop_older(&held).await?.is_empty() {
                return Ok(());
            }
        }
        Err(Error::Unavailable("a job that has ended is handed out again all the time".into()))
    }

    /// Has the broker drop those of these jobs of which the ledger has a later state; returns these.
    pub(super) async fn drop_older(&self, jobs: &[Job]) -> Result<Vec<JobId>, Error> {
        let rows = self.ledger.versions(&jobs.iter().map(|job| job.id).collect::<Vec<_>>()).await?;
        let outdated: Vec<_> = jobs.iter().zip(rows).filter_map(|(job, row)| outdated(job, row)).collect();
        if !outdated.is_empty() {
            let dropped = self.broker.forget(&outdated, Millis::MAX).await?;
            self.load_again(dropped).await?;
        }
        Ok(outdated.into_iter().map(|(id, _)| id).collect())
    }

    /// Loads jobs that the broker had in older versions.
    async fn load_again(&self, outdated: Vec<JobId>) -> Result<(), Error> {
        if outdated.is_empty() {
            return Ok(());
        }
        tracing::warn!(
            jobs = outdated.len(),
            "the broker had older versions of jobs; they are loaded again from the ledger"
        );
        self.loader.reconcile_later(outdated.into_iter());
        self.loader.reconcile().await
    }

    /// Has the ledger apply entries; returns the new jobs that begin with them. Those whose ids imported jobs have got others:
    /// together with the ends that they begin with, so whoever applies such an entry once more changes nothing.
    pub(super) async fn apply(&self, mut entries: Vec<OutboxEntry>) -> Result<Vec<Job>, Error> {
        let mut followed: Vec<OutboxEntry> =
            entries.iter().filter(|entry| !entry.successors().is_empty()).cloned().collect();
        let mut successors: Vec<Job> = followed.iter().flat_map(OutboxEntry::successors).cloned().collect();
        for _ in 0..TRIES {
            let apply = self.ledger.apply(entries, self.loader.watermark());
            let taken = self.metrics.stores.apply.time(apply).await?;
            if taken.is_empty() {
                return Ok(successors);
            }
            self.ids.skip().await;
            followed.retain(|entry| entry.successors().iter().any(|job| taken.contains(&job.id)));
            for entry in &mut followed {
                let OutboxEntry::Followed(_, new) = entry else { continue };
                for job in new.iter_mut().filter(|job| taken.contains(&job.id)) {
                    let ids = self.ids.next(&[job.id.partition()], self.broker.now()).await?;
                    let old = successors.iter_mut().find(|old| old.id == job.id).expect("one of these entries");
                    // A broker that is its own ledger knows one that was put already by its origin.
                    job.origin.get_or_insert_with(|| Arc::from(format!("{OF_ENGINE}after-{}", job.id)));
                    job.id = ids[0];
                    *old = job.clone();
                }
            }
            entries = followed.clone();
        }
        Err(Error::Unavailable("imports take the ids of new jobs; they are recorded later".into()))
    }

    /// Records entries, or has them recorded soon: if a shared broker keeps the outbox, a bounded number of them and of their
    /// bytes waits here, and the rest is left to the process that drains it. Returns whether they are recorded.
    pub(super) async fn record_soon(&self, entries: Vec<OutboxEntry>) -> Result<bool, Error> {
        if !self.broker.shares_ledger() || self.settles_recorded {
            return self.try_record(entries).await.map(|()| true);
        }
        let is_empty = entries.is_empty();
        self.soon.add(entries);
        Ok(is_empty)
    }

    /// Whether an outcome that cannot be recorded may be left in the outbox: a process that dies does not take that along, and
    /// no caller wants to wait for the record.
    pub(super) fn may_leave(&self) -> bool {
        self.broker.is_shared() && !self.settles_recorded
    }

    /// Records waiting entries as they come, until the engine stops.
    pub(super) async fn record_waiting(&self) {
        let mut waiting = self.soon.left.lock().await;
        loop {
            let mut entries = Vec::new();
            waiting.recv_many(&mut entries, SOON_STEP).await;
            let bytes = bytes(&entries);
            let is_recorded = self.record(entries).await;
            self.soon.free(bytes);
            if !is_recorded {
                // They are still in the outbox. A ledger that has just failed is not asked again at once.
                while let Ok(entry) = waiting.try_recv() {
                    self.soon.free(entry.held_bytes());
                }
                tokio::time::sleep(DRAIN_EVERY).await;
            }
        }
    }

    /// Records the waiting entries, once.
    pub(super) async fn record_rest(&self) {
        let mut waiting = self.soon.left.lock().await;
        loop {
            let entries: Vec<_> = iter::from_fn(|| waiting.try_recv().ok()).take(SOON_STEP).collect();
            self.soon.free(bytes(&entries));
            if entries.is_empty() || !self.record(entries).await {
                return;
            }
        }
    }

    /// Records entries that were left in the outbox, until the engine stops. The leader does it if several processes share
    /// the outbox. It looks once a second because an entry whose process has died causes no wake.
    pub(super) async fn drain(&self) {
        let age_ms = if self.broker.shares_ledger() { DRAIN_AGE_SHARED_MS } else { DRAIN_AGE_MS };
        loop {
            tokio::time::sleep(DRAIN_EVERY).await;
            self.look_at_ledger();
            self.loader.try_left().await;
            if self.broker.backlog() == 0 {
                // Entries that could not be recorded have been recorded by another process, or are gone.
                self.status.mend(DegradedCode::Recording);
            }
            if self.loader.leads() {
                self.drain_older(age_ms).await;
            }
        }
    }

    /// Records all entries that are at least this old, until the ledger refuses one.
    pub(super) async fn drain_older(&self, age_ms: u64) {
        loop {
            let oldest = Outcomes::Oldest { limit: STEP_JOBS_MAX, age_ms };
            let entries = self.broker.outcomes(oldest).await.unwrap_or_default();
            // Of large ones it returns few at a time.
            if entries.is_empty() || !self.record(entries).await {
                return;
            }
        }
    }

    /// Whether enough could be recorded that more may be handed out.
    pub(super) fn check_backlog(&self) -> Result<(), Error> {
        self.check_bytes()?;
        if !self.is_refused() {
            return Ok(());
        }
        let backlog = self.broker.backlog();
        if backlog < self.backlog_max { Ok(()) } else { Err(Error::Backlog(backlog)) }
    }

    /// Whether enough could be recorded that this process may keep more entries until they are.
    pub(super) fn check_bytes(&self) -> Result<(), Error> {
        if self.is_refused() && self.broker.backlog_bytes() >= self.bytes_max {
            return Err(Error::Backlog(self.broker.backlog()));
        }
        Ok(())
    }

    /// Whether the ledger refuses entries. If it does not, those that are there are about to be recorded.
    fn is_refused(&self) -> bool {
        self.status.is(DegradedCode::Recording)
    }

    /// Reads the troubles that the ledger has noticed. Returns whether none of them makes it refuse changes.
    pub(super) fn look_at_ledger(&self) -> bool {
        let troubles = self.ledger.troubles();
        for trouble in Trouble::ALL {
            let code = match trouble {
                Trouble::Full => DegradedCode::StoreFull,
                Trouble::Moved => DegradedCode::StoreMoved,
                Trouble::Unwritable => DegradedCode::StoreUnwritable,
                Trouble::Damaged => DegradedCode::StoreDamaged,
                Trouble::DropsRecords => DegradedCode::RecordsDroppedEarly,
                Trouble::Evicts => DegradedCode::StoreEvicts,
            };
            self.status.set(code, troubles.iter().find(|(found, _)| *found == trouble).map(|(_, why)| why));
        }
        troubles.iter().all(|(trouble, _)| !trouble.refuses())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{Fixture, job};
    use crate::model::job::NewJob;
    use crate::model::retry::{Retry, WhenExhausted};
    use crate::request::{Options, Outcome};
    use crate::rules::Failure;

    const DONE: Outcome = Outcome::complete(None);

    #[tokio::test(start_paused = true)]
    async fn nothing_is_handed_out_while_too_much_cannot_be_recorded() {
        let fixture = Fixture::with(Options { backlog_max: 2, ..Options::default() }).await;
        let recorder = &fixture.loops.recorder;
        let mut running = Vec::new();
        for _ in 0..3 {
            running.push(fixture.running(job()).await.receipt());
        }
        fixture.ledger.set_away(true);
        fixture.settle(running[0], DONE).await.unwrap_err();
        assert_eq!(recorder.check_backlog(), Ok(()), "one of two");
        fixture.settle(running[1], DONE).await.unwrap_err();
        assert_eq!(recorder.check_backlog(), Err(Error::Backlog(2)));
        fixture.settle(running[2], DONE).await.unwrap_err();
        fixture.ledger.set_away(false);
        recorder.drain_older(0).await;
        assert_eq!((recorder.check_backlog(), fixture.base.stores.broker.backlog()), (Ok(()), 0));
        assert!(running.iter().all(|receipt| !fixture.row(receipt.id).unwrap().is_pending()));
    }

    #[test]
    fn entries_that_wait_are_bounded_in_bytes() {
        let soon = Soon::new(10);
        let entries = |count: usize, bytes: usize| -> Vec<OutboxEntry> {
            let payload: Arc<[u8]> = vec![0; bytes].into();
            let job = |n: usize| Job { payload: payload.clone(), ..crate::testing::fixtures::job(n as u64) };
            (1..=count).map(|n| OutboxEntry::Changed(job(n))).collect()
        };
        let waiting = || SOON_MAX - soon.added.capacity();
        soon.add(entries(2, 4));
        soon.add(entries(1, 3));
        assert_eq!(waiting(), 2, "the third found no room");
        soon.add(entries(1, 2));
        assert_eq!(waiting(), 3);
        soon.free(10);
        // Alone it finds room, however large.
        soon.add(entries(1, 11));
        assert_eq!(waiting(), 4);
        soon.free(11);
        soon.add(entries(SOON_MAX, 1));
        soon.add(entries(1, 10));
        assert_eq!(waiting(), 5, "what found no place took no bytes");
    }

    /// The next ids of the block may be taken as well, and there are only a few tries.
    #[tokio::test(start_paused = true)]
    async fn a_copy_whose_id_is_taken_gets_one_of_another_block() {
        let fixture = Fixture::new().await;
        let rule = Retry {
            max_attempts: Some(1),
            when_exhausted: Some(WhenExhausted::Move("next".into())),
            ..Retry::default()
        };
        let moves = fixture.running(NewJob { options: rule.into(), ..job() }).await;
        fixture.take_ids_after(&moves).await;
        let applied = fixture.life.calls("apply");
        fixture.settle(moves.receipt(), Outcome::Fail(Failure::default())).await.unwrap();
        assert_eq!(fixture.life.calls("apply"), applied + 2);
        let copies: Vec<Job> = fixture.ledger.jobs().into_iter().filter(|job| &*job.queue == "next").collect();
        assert!(copies.len() == 1 && copies[0].id.sequence() > moves.id.sequence() + 9, "{copies:?}");
        assert_eq!(fixture.held(copies[0].id).await.as_ref(), Some(&copies[0]));
    }

    /// They are about to be recorded; a bound on them would only slow everybody down.
    #[tokio::test(start_paused = true)]
    async fn outcomes_on_their_way_to_a_ledger_that_takes_them_are_no_backlog() {
        let fixture = Fixture::with(Options { backlog_max: 0, ..Options::default() }).await;
        assert_eq!(fixture.loops.recorder.check_backlog(), Ok(()));
    }
}
