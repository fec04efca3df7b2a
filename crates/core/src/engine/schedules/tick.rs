//! A tick: claimed, pushed under the claim's id, and done.
//!
//! One instant of a name has exactly one job, although any engine may tick, may die in between, and may read a schedule that is
//! being changed. Three steps, each of which leaves what the next engine needs:
//!
//! 1. **Claim**: a conditional put of the schedule's document with `pending`: the tick, and a newly allotted job id. Of several
//!    engines one succeeds. A tick that is skipped, because it is too late or overlaps, ends here, without a job.
//! 2. **Push**: the job is recorded under that id, as in any push. Whoever finds a claim that is older than [`CLAIM_MS`] pushes,
//!    too, under the same id: so it is one job.
//! 3. **Done**: a conditional put without `pending`, with the next tick. If it fails, another engine was faster, and the document
//!    is read again.
//!
//! Why the id is allotted by the claim: the step between two documents cannot be atomic with either. An id that is known before
//! makes it idempotent instead.
//!
//! Why a reading is acted on only within [`FRESH_FOR`]: an engine that stood still for longer might push a job that has ended
//! and was pruned meanwhile.
//!
//! Why ticks are pushed ahead (up to 2 s): so they are as punctual as any job. A tick that may be skipped for an overlap, or
//! whose job has a key, is pushed at its time: only then is it known which jobs are live.
//!
//! Why the document remembers the latest claimed instant: a schedule that is changed, paused or set again in those 2 s counts its
//! next tick anew. A tick that is not later than that instant first looks for its job by tag and due time, and a new schedule
//! begins with the latest instant that a deleted one of its name has pushed.

use super::entry::{Entry, EntryDocument, PUSHED_AHEAD_MS_MAX, Pending};
use super::{KIND, Schedules};
use crate::clock::Millis;
use crate::engine::admission::{Admitted, Producer};
use crate::engine::queues::Entry as QueueEntry;
use crate::error::Error;
use crate::json::Timestamp;
use crate::limits::{STEP_JOBS_MAX, TICK_AHEAD_MS_MAX};
use crate::model::id::JobId;
use crate::model::job::{Job, OnConflict, State};
use crate::model::name::OF_ENGINE;
use crate::ports::{Detail, Find, Outcomes, PutIf, Selector, Window};
use crate::request::{PushOutcome, Pushed};
use crate::schedule::{LastTick, Overlap, Schedule, TickOutcome, tag};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Engines that do not lead look this much later, and find nothing left to do.
const FOLLOWS_AFTER_MS: u64 = 1_000;
/// How long the claimer of a tick has until others complete it.
const CLAIM_MS: u64 = 500;
/// How old a reading of the document may be when it is acted on.
const FRESH_FOR: Duration = Duration::from_secs(5);
/// Ticks of a schedule that are pushed in one go; then other schedules have their turn.
const TICKS_AT_ONCE: usize = 100;

/// The next look at a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Then.
    At(Millis),
    /// At this time; a claim of another engine that still exists is then completed.
    Claimed(Millis, JobId),
    /// Not before it is changed.
    Never,
}

impl Schedules {
    /// Pushes the due ticks of a schedule. `seen` is a claim that stood at the last look.
    pub(super) async fn look_at_schedule(&self, name: &str, seen: Option<JobId>) -> Result<Look, Error> {
        for _ in 0..TICKS_AT_ONCE {
            let read_at = Instant::now();
            let Some(document) = self.registry.document(KIND, name).await? else { return Ok(Look::Never) };
            let stored = match EntryDocument::read(&document, self.broker.now()) {
                Ok(stored) => stored,
                Err(error) => {
                    tracing::warn!(%error, "a schedule pushes no jobs");
                    return Ok(Look::Never);
                }
            };
            let now = self.broker.now();
            match self.next_look(&stored.entry) {
                Look::Claimed(_, id) if seen != Some(id) => return Ok(Look::Claimed(now + CLAIM_MS, id)),
                Look::Claimed(..) => {
                    if read_at.elapsed() < FRESH_FOR {
                        self.finish_tick(&stored).await?;
                    }
                }
                Look::At(at) if at <= now => self.claim_tick(stored, now, read_at).await?,
                Look::At(_) if stored.is_ahead(now) => {
                    tracing::info!(name, "the clock was set back; the next run of a schedule is calculated again");
                    let next_at = stored.ticks.next(now);
                    self.put_entry(&stored.name, stored.document_version, &Entry { next_at, ..stored.entry }).await?;
                }
                later => return Ok(later),
            }
        }
        Ok(Look::At(self.broker.now()))
    }

    /// When to look at this schedule next.
    pub(super) fn next_look(&self, entry: &Entry) -> Look {
        if let Some(pending) = entry.pending {
            return Look::Claimed(self.broker.now(), pending.id);
        }
        let follows_after = if self.leader.leads() { 0 } else { FOLLOWS_AFTER_MS };
        let at = |next_at: Millis| next_at.saturating_sub(ahead_ms(&entry.schedule)).saturating_add(follows_after);
        entry.next_at.map_or(Look::Never, |next_at| Look::At(at(next_at)))
    }

    /// Claims the next tick and pushes it; or skips ticks that are too late, or overlap.
    async fn claim_tick(&self, stored: EntryDocument, now: Millis, read_at: Instant) -> Result<(), Error> {
        let EntryDocument { ref name, ref entry, ref ticks, document_version } = stored;
        let schedule = &entry.schedule;
        let Some(next_at) = entry.next_at else { return Ok(()) };
        let at = match ticks.due(next_at, now, schedule.missed) {
            Some(at) if at <= now.saturating_add(ahead_ms(schedule)) => at,
            later => {
                tracing::info!(%name, missed = next_at, "runs of a schedule were missed while no server was up, and are \
                 skipped");
                let passed = Entry { next_at: later, ..entry.clone() };
                return self.put_entry(name, document_version, &passed).await.map(drop);
            }
        };
        if entry.may_have_pushed(at)
            && let Some(job) = self.pushed_at(name, at).await?
        {
            let last = LastTick { at: Timestamp(at), outcome: TickOutcome::Pushed, job: Some(job) };
            let latest = entry.latest.max(Some(at));
            let passed = Entry { last: Some(last), latest, next_at: ticks.next(at), ..entry.clone() };
            return self.put_entry(name, document_version, &passed).await.map(drop);
        }
        if schedule.overlap == Overlap::Skip && self.has_live_job(name, entry.job, &schedule.job.queue).await? {
            let last = LastTick { at: Timestamp(at), outcome: TickOutcome::Overlap, job: entry.job };
            let passed = Entry { last: Some(last), next_at: ticks.next(at), ..entry.clone() };
            return self.put_entry(name, document_version, &passed).await.map(drop);
        }
        let latest = entry.latest.max(Some(at));
        let claimed = Entry { pending: Some(self.claim(schedule, at).await?), latest, ..entry.clone() };
        if read_at.elapsed() >= FRESH_FOR {
            return Ok(());
        }
        match self.put_entry(name, document_version, &claimed).await? {
            Some(document_version) if read_at.elapsed() < FRESH_FOR => {
                self.finish_tick(&EntryDocument { document_version, entry: claimed, ..stored }).await
            }
            _ => Ok(()),
        }
    }

    async fn claim(&self, schedule: &Schedule, at: Millis) -> Result<Pending, Error> {
        let (partition, created_at) = (self.broker.partition(&schedule.job.queue), self.broker.now());
        let ids = self.ids.next(&[partition], created_at).await?;
        Ok(Pending { at, id: ids[0], created_at })
    }

    /// Pushes the claimed tick, and moves on to the next one.
    pub(super) async fn finish_tick(&self, stored: &EntryDocument) -> Result<(), Error> {
        let EntryDocument { name, entry, ticks, document_version } = stored;
        let schedule = &entry.schedule;
        let Some(Pending { at, id, created_at }) = entry.pending else { return Ok(()) };
        let (outcome, job) = match schedule.job(name, id, at, created_at, self.options.payload_bytes_max) {
            Ok(job) => {
                let job = Job { origin: Some(origin(name, at)), ..job };
                self.push_tick(job, schedule.job.on_conflict).await?
            }
            Err(error) => {
                tracing::warn!(%name, %error, "the job of a schedule was rejected; correct the schedule");
                (TickOutcome::Refused, None)
            }
        };
        if outcome == TickOutcome::Full && entry.last.is_none_or(|last| last.outcome != TickOutcome::Full) {
            let queue = &schedule.job.queue;
            tracing::warn!(%name, %queue, "the queue of a schedule is full, so its runs push no jobs");
        }
        let last = Some(LastTick { at: Timestamp(at), outcome, job });
        let pushed = job.filter(|_| outcome == TickOutcome::Pushed);
        let next_at = ticks.next(at);
        let done = Entry { pending: None, last, next_at, job: pushed.or(entry.job), ..entry.clone() };
        self.put_entry(name, *document_version, &done).await.map(drop)
    }

    async fn push_tick(&self, job: Job, on_conflict: OnConflict) -> Result<(TickOutcome, Option<JobId>), Error> {
        let pushed = match self.intake.gate.enter(&job.queue).await? {
            QueueEntry::Full(limit) => self.intake.push_without_permit(job, on_conflict, limit).await,
            QueueEntry::Free | QueueEntry::Permitted(_) => {
                let (job, admitted) = self.admission.admit_one(job, Producer::Tick).await?;
                if matches!(admitted, Admitted::Created | Admitted::Repeated | Admitted::Removed) {
                    return Ok((TickOutcome::Pushed, Some(job.id)));
                }
                self.intake.push_refused(job, admitted, on_conflict).await
            }
        };
        match pushed {
            Err(Error::QueueFull { .. }) | Ok(Pushed { outcome: PushOutcome::Dropped, .. }) => {
                Ok((TickOutcome::Full, None))
            }
            Ok(pushed) => Ok((pushed.outcome.into(), Some(pushed.job.id))),
            Err(Error::KeyConflict { holder, .. } | Error::Running(holder)) => {
                Ok((TickOutcome::Conflict, Some(holder)))
            }
            Err(error) => Err(error),
        }
    }

    /// The job that was pushed for an instant, in whatever queue it is.
    async fn pushed_at(&self, name: &str, at: Millis) -> Result<Option<JobId>, Error> {
        let mut pushed = None;
        self.find_pushed(name, at, |instant, job| pushed = pushed.or((instant == at).then_some(job))).await?;
        Ok(pushed)
    }

    /// The latest instant for which a schedule of this name has pushed a job and that may come again; 0 if there is none.
    pub(super) async fn latest_pushed(&self, name: &str) -> Result<Millis, Error> {
        let mut latest = 0;
        self.find_pushed(name, self.broker.now(), |instant, _| latest = instant.max(latest)).await?;
        Ok(latest)
    }

    /// Visits the jobs of a schedule's ticks for this instant and later ones, and some for earlier ones.
    async fn find_pushed(
        &self,
        name: &str,
        from: Millis,
        mut visit: impl FnMut(Millis, JobId) + Send,
    ) -> Result<(), Error> {
        // They may have been tried and wait again, since by a clock that was set back.
        let due = Window { from: from.saturating_sub(PUSHED_AHEAD_MS_MAX), ..Window::ALL };
        let mut find = Find { due, ..Find::of(Selector::Tag(tag(name)), Vec::new(), STEP_JOBS_MAX) };
        loop {
            let found = self.ledger.find(find.clone()).await?;
            for job in &found.jobs {
                // Not one that was pushed by hand, nor one of another schedule that has this tag.
                if let Some(instant) = job.origin.as_deref().and_then(|origin| instant(origin, name)) {
                    visit(instant, job.id);
                }
            }
            find.after = found.next;
            if find.after.is_none() {
                return Ok(());
            }
        }
    }

    /// Stores an entry if its document has this version; returns the new one.
    async fn put_entry(&self, name: &Arc<str>, version: u64, entry: &Entry) -> Result<Option<u64>, Error> {
        match self.registry.put_if(KIND, name, &entry.body(), version).await? {
            PutIf::Stored(version) => Ok(Some(version)),
            // Somebody else did it, or it was changed.
            PutIf::Mismatch(_) => Ok(None),
        }
    }

    /// Whether a job of the schedule has not ended. A schedule that was just set, imported or run by hand does not know
    /// all jobs that may be live: they are found by their tag.
    async fn has_live_job(&self, name: &str, last: Option<JobId>, queue: &Arc<str>) -> Result<bool, Error> {
        if let Some(last) = last {
            return self.is_live(last).await;
        }
        let live = vec![State::Scheduled, State::Ready, State::Running];
        let mut find = Find { queue: Some(queue.clone()), ..Find::of(Selector::Tag(tag(name)), live, STEP_JOBS_MAX) };
        loop {
            let found = self.ledger.find(find.clone()).await?;
            for job in found.jobs {
                if self.is_live(job.id).await? {
                    return Ok(true);
                }
            }
            find.after = found.next;
            if find.after.is_none() {
                return Ok(false);
            }
        }
    }

    /// Whether the job waits or runs; also if its end is not recorded yet.
    async fn is_live(&self, id: JobId) -> Result<bool, Error> {
        if let Some(job) = self.broker.get(&[id], Detail::Head).await?.pop().flatten() {
            return Ok(job.is_pending());
        }
        let entries = self.broker.outcomes(Outcomes::Of(id)).await?;
        if let Some(entry) = entries.last() {
            return Ok(entry.job().is_pending() && !entry.removes());
        }
        let row = self.ledger.get(&[id]).await?.pop().flatten();
        Ok(row.is_some_and(|row| row.is_pending()))
    }
}

/// The origin of the job of a tick: one name and one instant have one job, whoever pushes it and whatever became of the
/// schedule's document. No caller may choose such an origin.
fn origin(name: &str, at: Millis) -> Arc<str> {
    Arc::from(format!("{OF_ENGINE}tick-{at}-{name}"))
}

/// The instant whose tick of this schedule has this origin.
fn instant(origin: &str, name: &str) -> Option<Millis> {
    let (at, of) = origin.strip_prefix(OF_ENGINE)?.strip_prefix("tick-")?.split_once('-')?;
    at.parse().ok().filter(|_| of == name)
}

/// How far ahead of its time a tick is pushed. A schedule that may skip the tick, or whose job has a key, is not pushed
/// ahead.
fn ahead_ms(schedule: &Schedule) -> u64 {
    let waits = schedule.overlap == Overlap::Skip || schedule.job.key.is_some();
    if waits { 0 } else { TICK_AHEAD_MS_MAX }
}

impl From<PushOutcome> for TickOutcome {
    fn from(outcome: PushOutcome) -> Self {
        match outcome {
            // A repeat has the origin of the tick.
            PushOutcome::Created | PushOutcome::Repeated => Self::Pushed,
            PushOutcome::Kept => Self::Kept,
            PushOutcome::Replaced => Self::Replaced,
            PushOutcome::Dropped => Self::Full,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{Fixture, job, pass};
    use crate::json::Span;
    use crate::request::Outcome;
    use crate::schedule::Timing;

    const EVERY: Duration = Duration::from_secs(60);

    /// A schedule of every minute, with its first tick now.
    async fn due(overlap: Overlap) -> Fixture {
        let fixture = Fixture::new().await;
        let schedule = Schedule { overlap, ..Schedule::new(Timing::Every(Span(60_000)), job()) };
        fixture.services.schedules.set_schedule("s", schedule).await.unwrap();
        pass(EVERY).await;
        fixture
    }

    impl Fixture {
        async fn look(&self, seen: Option<JobId>) -> Look {
            self.services.schedules.look_at_schedule("s", seen).await.unwrap()
        }

        async fn last(&self) -> Option<TickOutcome> {
            self.services.schedules.schedule("s").await.unwrap().last.map(|last| last.outcome)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_tick_is_skipped_while_the_job_of_an_earlier_one_has_not_ended() {
        let fixture = due(Overlap::Skip).await;
        fixture.look(None).await;
        let job = fixture.lease(2).await.remove(0);
        pass(EVERY).await;
        fixture.look(None).await;
        assert_eq!((fixture.last().await, fixture.ledger.jobs().len()), (Some(TickOutcome::Overlap), 1));
        fixture.settle(job.receipt(), Outcome::complete(None)).await.unwrap();
        pass(EVERY).await;
        fixture.look(None).await;
        assert_eq!((fixture.last().await, fixture.ledger.jobs().len()), (Some(TickOutcome::Pushed), 2));
    }

    /// Its engine has died, or is only slow: it has its time first. Whoever completes it pushes the same job.
    #[tokio::test(start_paused = true)]
    async fn a_claim_of_another_is_completed_if_it_still_stands_at_the_next_look() {
        let fixture = due(Overlap::Allow).await;
        let schedules = &fixture.services.schedules;
        let stored = schedules.read_schedule("s").await.unwrap().unwrap().unwrap();
        let at = stored.entry.next_at.unwrap();
        let pending = schedules.claim(&stored.entry.schedule, at).await.unwrap();
        let claimed = Entry { pending: Some(pending), ..stored.entry };
        schedules.put_entry(&stored.name, stored.document_version, &claimed).await.unwrap().unwrap();
        let seen = fixture.look(None).await;
        assert_eq!((seen, fixture.ledger.jobs().len()), (Look::Claimed(fixture.now() + CLAIM_MS, pending.id), 0));
        fixture.look(Some(crate::testing::fixtures::id(1))).await;
        assert!(fixture.ledger.jobs().is_empty(), "another claim stood at the last look");
        fixture.look(Some(pending.id)).await;
        let pushed: Vec<JobId> = fixture.ledger.jobs().iter().map(|job| job.id).collect();
        assert_eq!((pushed, fixture.last().await), (vec![pending.id], Some(TickOutcome::Pushed)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_tick_that_may_be_skipped_is_not_pushed_ahead_and_one_who_follows_looks_later() {
        let fixture = due(Overlap::Allow).await;
        let schedules = &fixture.services.schedules;
        let stored = schedules.read_schedule("s").await.unwrap().unwrap().unwrap();
        let next_at = stored.entry.next_at.unwrap();
        let ahead = |schedule: Schedule| schedules.next_look(&Entry { schedule, ..stored.entry.clone() });
        let plain = stored.entry.schedule.clone();
        let mut keyed = plain.clone();
        keyed.job.key = Some("k".into());
        assert_eq!(ahead(plain.clone()), Look::At(next_at - TICK_AHEAD_MS_MAX));
        assert_eq!(ahead(Schedule { overlap: Overlap::Skip, ..plain }), Look::At(next_at));
        assert_eq!(ahead(keyed), Look::At(next_at));
    }

    #[test]
    fn an_origin_names_one_tick_of_one_schedule() {
        let tick = origin("a-1", 5);
        assert_eq!(instant(&tick, "a-1"), Some(5));
        assert_eq!((instant(&tick, "1"), instant(&tick, "a"), instant("tick-5-a-1", "a-1")), (None, None, None));
    }
}
