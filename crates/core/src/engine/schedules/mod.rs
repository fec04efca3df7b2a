//! Schedules: kept in the registry, and pushed at their ticks.
//!
//! Any engine may tick, and any may die. A tick is first *claimed* in the schedule's document, with the id of its job. Then
//! the job is recorded under that id, and the document moves on to the next tick. An engine that finds a claim completes it,
//! and since all of them record the same id, there is one job (`tick`). Each engine has one timer for all schedules
//! (`timer`).

mod entry;
mod tick;
mod timer;

use crate::clock::Millis;
use crate::engine::admission::Admission;
use crate::engine::base::Base;
use crate::engine::ids::Ids;
use crate::engine::intake::{Intake, Needs};
use crate::engine::leader::Leader;
use crate::engine::precondition::Precondition;
use crate::engine::queues::end_of;
use crate::engine::status::Status;
use crate::engine::supervisor::Supervisor;
use crate::engine::timers::Timers;
use crate::error::Error;
use crate::json::Timestamp;
use crate::limits::{NEXT_RUNS_SHOWN, SCHEDULES_BYTES_MAX, SCHEDULES_MAX};
use crate::model::name;
use crate::ports::{Broker, Ledger, PutIf, Registry};
use crate::request::{Options, Pause, Pushed};
use crate::schedule::{Overlap, Schedule, ScheduleStatus, Timing};
use entry::{Entry, EntryDocument};
use std::sync::Arc;

/// The registry's kind of document for a schedule.
const KIND: &str = "schedule";
/// The kind of the document that changes whenever a schedule is set or deleted, and its name.
const CHANGES: &str = "schedules";

/// Pushes jobs at their ticks.
pub(in crate::engine) struct Schedules {
    registry: Arc<dyn Registry>,
    broker: Arc<dyn Broker>,
    ledger: Arc<dyn Ledger>,
    intake: Arc<Intake>,
    leader: Arc<Leader>,
    admission: Arc<Admission>,
    ids: Arc<Ids>,
    timer: timer::Changes,
    status: Arc<Status>,
    supervisor: Arc<Supervisor>,
    timers: Arc<Timers>,
    options: Options,
}

impl Schedules {
    pub(in crate::engine) fn new(
        base: &Base,
        intake: Arc<Intake>,
        leader: Arc<Leader>,
        admission: Arc<Admission>,
        ids: Arc<Ids>,
    ) -> Self {
        let Base { stores, options, status, supervisor, timers, .. } = base;
        Self {
            registry: stores.registry.clone(),
            broker: stores.broker.clone(),
            ledger: stores.ledger.clone(),
            intake,
            leader,
            admission,
            ids,
            timer: timer::Changes::default(),
            status: status.clone(),
            supervisor: supervisor.clone(),
            timers: timers.clone(),
            options: *options,
        }
    }

    pub(in crate::engine) async fn schedules(&self) -> Result<Vec<ScheduleStatus>, Error> {
        read_schedules(self.registry.as_ref(), self.broker.now()).await
    }

    pub(in crate::engine) async fn schedule(&self, name: &str) -> Result<ScheduleStatus, Error> {
        name::check_schedule(name)?;
        let stored = self.read_schedule(name).await?.ok_or_else(|| Error::NoSchedule(Arc::from(name)))?;
        Ok(status(&stored?))
    }

    pub(in crate::engine) async fn preview_schedule(
        &self,
        name: &str,
        schedule: Schedule,
    ) -> Result<ScheduleStatus, Error> {
        self.preview_schedule_if(name, schedule, Precondition::Anything).await
    }

    pub(in crate::engine) async fn preview_schedule_if(
        &self,
        name: &str,
        schedule: Schedule,
        expected: Precondition,
    ) -> Result<ScheduleStatus, Error> {
        let schedule = self.accept_schedule(name, schedule)?;
        let stored = self.read_schedule(name).await?.and_then(Result::ok);
        check(expected, name, stored.as_ref())?;
        let entry = Entry::set(name, stored.as_ref(), &schedule, self.broker.now_at_most())?;
        Ok(status(&self::stored(name, 0, entry)?))
    }

    pub(in crate::engine) async fn set_schedule(
        self: &Arc<Self>,
        name: &str,
        schedule: Schedule,
    ) -> Result<ScheduleStatus, Error> {
        self.set_schedule_if(name, schedule, Precondition::Anything).await
    }

    pub(in crate::engine) async fn set_schedule_if(
        self: &Arc<Self>,
        name: &str,
        schedule: Schedule,
        expected: Precondition,
    ) -> Result<ScheduleStatus, Error> {
        self.supervisor.check_open()?;
        let schedule = self.accept_schedule(name, schedule)?;
        let name = Arc::from(name);
        self.supervisor
            .complete(self, |schedules| async move {
                let now = schedules.broker.now_at_most();
                let set = |stored: Option<&EntryDocument>| Entry::set(&name, stored, &schedule, now);
                Ok(status(&schedules.store_entry(&name, expected, set).await?))
            })
            .await
    }

    pub(in crate::engine) async fn pause_schedule(
        self: &Arc<Self>,
        name: &str,
        pause: Pause,
        expected: Precondition,
    ) -> Result<ScheduleStatus, Error> {
        let end = end_of(pause, self.broker.as_ref())?;
        self.set_pause(name, Some(end.unwrap_or(Millis::MAX)), expected).await
    }

    pub(in crate::engine) async fn resume_schedule(
        self: &Arc<Self>,
        name: &str,
        expected: Precondition,
    ) -> Result<ScheduleStatus, Error> {
        self.set_pause(name, None, expected).await
    }

    async fn set_pause(
        self: &Arc<Self>,
        name: &str,
        end: Option<Millis>,
        expected: Precondition,
    ) -> Result<ScheduleStatus, Error> {
        self.supervisor.check_open()?;
        name::check_schedule(name)?;
        let name: Arc<str> = Arc::from(name);
        self.supervisor
            .complete(self, |schedules| async move {
                let now = schedules.broker.now_at_most();
                let set = |stored: Option<&EntryDocument>| {
                    let stored = stored.ok_or_else(|| Error::NoSchedule(name.clone()))?;
                    Entry::set(&name, Some(stored), &stored.entry.schedule.clone().with_pause(end), now)
                };
                Ok(status(&schedules.store_entry(&name, expected, set).await?))
            })
            .await
    }

    pub(in crate::engine) async fn run_schedule(
        self: &Arc<Self>,
        name: &str,
        origin: Option<Arc<str>>,
        expected: Precondition,
    ) -> Result<Pushed, Error> {
        self.supervisor.check_open()?;
        name::check_schedule(name)?;
        if let Some(origin) = &origin {
            name::check_origin(origin)?;
            name::check_free("origin", origin)?;
        }
        let name: Arc<str> = Arc::from(name);
        self.supervisor
            .complete(self, |schedules| async move {
                let mut stored =
                    schedules.read_schedule(&name).await?.ok_or_else(|| Error::NoSchedule(name.clone()))??;
                check(expected, &name, Some(&stored))?;
                if stored.entry.schedule.overlap == Overlap::Skip {
                    // From now on jobs other than the last one may be live: ticks look for all.
                    let forget = |stored: Option<&EntryDocument>| {
                        let stored = stored.ok_or_else(|| Error::NoSchedule(name.clone()))?;
                        Ok(Entry { job: None, ..stored.entry.clone() })
                    };
                    stored = schedules.store_entry(&name, expected, forget).await?;
                }
                let job = stored.entry.schedule.tagged_job(&name);
                let pushed = schedules.intake.push_batch(vec![job], origin, Needs::Permit).await?.pop();
                pushed.expect("an answer for each job")
            })
            .await
    }

    pub(in crate::engine) async fn delete_schedule(self: &Arc<Self>, name: &str) -> Result<(), Error> {
        self.delete_schedule_if(name, Precondition::Anything).await
    }

    pub(in crate::engine) async fn delete_schedule_if(
        self: &Arc<Self>,
        name: &str,
        expected: Precondition,
    ) -> Result<(), Error> {
        self.supervisor.check_open()?;
        name::check_schedule(name)?;
        let name: Arc<str> = Arc::from(name);
        self.supervisor
            .complete(self, |schedules| async move {
                loop {
                    let document = schedules.registry.document(KIND, &name).await?;
                    let document = document.ok_or_else(|| Error::NoSchedule(name.clone()))?;
                    let stored = EntryDocument::read(&document, schedules.broker.now()).ok();
                    check(expected, &name, stored.as_ref())?;
                    // Who sets the schedule again must find the job of a tick that has begun.
                    if let Some(begun) = stored.as_ref().filter(|stored| stored.entry.pending.is_some()) {
                        schedules.finish_tick(begun).await?;
                    } else if schedules.registry.remove(KIND, &name, Some(document.version)).await? {
                        return schedules.tell_of(name).await;
                    }
                }
            })
            .await
    }

    /// The schedule, its time zone spelled as the database does, if it keeps all limits.
    fn accept_schedule(&self, name: &str, mut schedule: Schedule) -> Result<Schedule, Error> {
        let now = self.broker.now();
        schedule.check(name, now, self.options.payload_bytes_max)?;
        self.options.check_target(schedule.job.options.target.as_deref())?;
        let spelled: Option<Arc<str>> = schedule.ticks(now)?.time_zone().map(Arc::from);
        if let (Timing::Cron { time_zone, .. }, Some(spelled)) = (&mut schedule.timing, spelled) {
            *time_zone = spelled;
        }
        Ok(schedule)
    }

    /// Applies a function to a schedule that is as expected, and stores the result.
    async fn store_entry(
        &self,
        name: &Arc<str>,
        expected: Precondition,
        change: impl Fn(Option<&EntryDocument>) -> Result<Entry, Error>,
    ) -> Result<EntryDocument, Error> {
        loop {
            let document = self.registry.document(KIND, name).await?;
            let version = document.as_ref().map_or(0, |document| document.version);
            // An unreadable document counts as none.
            let stored = document.and_then(|document| EntryDocument::read(&document, self.broker.now()).ok());
            check(expected, name, stored.as_ref())?;
            if let Some(begun) = stored.as_ref().filter(|stored| stored.entry.pending.is_some()) {
                self.finish_tick(begun).await?;
                continue;
            }
            let mut entry = change(stored.as_ref())?;
            if stored.is_none() {
                // A deleted schedule of this name may have pushed.
                entry.latest = Some(self.latest_pushed(name).await?);
            }
            let body = entry.body();
            let payload_bytes = |entry: &Entry| entry.schedule.job.payload.len();
            let grows = stored.as_ref().is_none_or(|stored| payload_bytes(&entry) > payload_bytes(&stored.entry));
            if grows {
                self.check_room(name, body.len()).await?;
            }
            if let PutIf::Stored(version) = self.registry.put_if(KIND, name, &body, version).await? {
                self.tell_of(name.clone()).await?;
                return self::stored(name, version, entry);
            }
        }
    }

    /// Whether there is room for a schedule that is stored in this many bytes.
    async fn check_room(&self, name: &str, bytes: usize) -> Result<(), Error> {
        let mut others = self.registry.documents(KIND).await?;
        others.retain(|document| *document.name != *name);
        if others.len() >= SCHEDULES_MAX {
            let expected = format!("one of at most {SCHEDULES_MAX} schedules");
            return Err(Error::invalid("schedule", expected, format!("number {}", others.len() + 1)));
        }
        let all = others.iter().map(|document| document.body.len()).sum::<usize>() + bytes;
        if all > SCHEDULES_BYTES_MAX {
            let expected = format!("smaller: all schedules together take at most {SCHEDULES_BYTES_MAX} bytes");
            return Err(Error::invalid("schedule", expected, format!("{all} with this one of {bytes}")));
        }
        Ok(())
    }

    async fn read_schedule(&self, name: &str) -> Result<Option<Result<EntryDocument, Error>>, Error> {
        Ok(self.registry.document(KIND, name).await?.map(|document| EntryDocument::read(&document, self.broker.now())))
    }

    /// Makes every engine read this schedule again: this one at once, others within a second.
    async fn tell_of(&self, name: Arc<str>) -> Result<(), Error> {
        self.timer.touch(name);
        if !self.broker.is_shared() {
            return Ok(());
        }
        loop {
            let version = self.registry.document(CHANGES, CHANGES).await?.map_or(0, |document| document.version);
            if let PutIf::Stored(_) = self.registry.put_if(CHANGES, CHANGES, "{}", version).await? {
                return Ok(());
            }
        }
    }
}

/// All schedules that read back, by name.
pub(super) async fn read_schedules(registry: &dyn Registry, now: Millis) -> Result<Vec<ScheduleStatus>, Error> {
    let documents = registry.documents(KIND).await?;
    let read = documents.iter().filter_map(|document| {
        EntryDocument::read(document, now)
            .inspect_err(|error| {
                tracing::warn!(%error, "a schedule cannot be read and does not run; \
         correct or delete it");
            })
            .ok()
    });
    Ok(read.map(|stored| status(&stored)).collect())
}

/// The version is that of the settings, not of the document, which ticks change too.
fn check(expected: Precondition, name: &str, stored: Option<&EntryDocument>) -> Result<(), Error> {
    expected.check("schedule", name, stored.map_or(0, |stored| stored.entry.version))
}

fn stored(name: &str, document_version: u64, entry: Entry) -> Result<EntryDocument, Error> {
    let ticks = entry.schedule.ticks_of(name, entry.anchor)?;
    Ok(EntryDocument { name: Arc::from(name), document_version, entry, ticks })
}

fn status(stored: &EntryDocument) -> ScheduleStatus {
    let EntryDocument { name, entry, ticks, .. } = stored;
    ScheduleStatus {
        name: name.clone(),
        version: entry.version,
        schedule: entry.schedule.clone(),
        next: ticks.from(entry.next_at, NEXT_RUNS_SHOWN).into_iter().map(Timestamp).collect(),
        last: entry.last,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{Fixture, job, pass};
    use crate::json::Span;
    use std::time::Duration;

    fn every(minutes: u64) -> Schedule {
        Schedule::new(Timing::Every(Span(minutes * 60_000)), job())
    }

    #[tokio::test(start_paused = true)]
    async fn a_schedule_changes_only_if_it_is_as_expected_and_ticks_are_no_change() {
        let fixture = Fixture::new().await;
        let schedules = &fixture.services.schedules;
        let first = schedules.set_schedule_if("s", every(1), Precondition::Nothing).await.unwrap();
        pass(Duration::from_secs(60)).await;
        schedules.look_at_schedule("s", None).await.unwrap();
        assert_eq!(fixture.ledger.jobs().len(), 1);
        let set = async |minutes, version| {
            let set = schedules.set_schedule_if("s", every(minutes), Precondition::Version(version)).await;
            set.map(|status| status.version).map_err(|error| error.code())
        };
        assert_eq!(set(1, first.version).await, Ok(first.version), "nothing is new");
        let second = set(2, first.version).await.unwrap();
        assert!(second > first.version);
        assert_eq!(set(3, first.version).await, Err("version_mismatch"));
    }

    /// Whoever sets it again must find that job, or the tick would have two.
    #[tokio::test(start_paused = true)]
    async fn a_tick_that_has_begun_is_finished_before_its_schedule_is_deleted_or_set() {
        for deletes in [true, false] {
            let fixture = Fixture::new().await;
            let schedules = &fixture.services.schedules;
            schedules.set_schedule("s", every(1)).await.unwrap();
            let stored = schedules.read_schedule("s").await.unwrap().unwrap().unwrap();
            let pending = entry::Pending {
                at: stored.entry.next_at.unwrap(),
                id: fixture.loops.ids.next(&[0], fixture.now()).await.unwrap()[0],
                created_at: fixture.now(),
            };
            let claimed = Entry { pending: Some(pending), ..stored.entry }.body();
            let registry = &fixture.base.stores.registry;
            registry.put_if(KIND, "s", &claimed, stored.document_version).await.unwrap();
            if deletes {
                schedules.delete_schedule("s").await.unwrap();
            } else {
                schedules.set_schedule("s", every(5)).await.unwrap();
            }
            assert_eq!(
                fixture.row(pending.id).map(|job| job.due_at),
                Some(Timestamp(pending.at)),
                "deletes: {deletes}"
            );
        }
    }
}
