//! Schedules: kept in the registry, and pushed at their ticks.
//!
//! Any engine may tick, and any may die. A tick is first *claimed* in the schedule's document, with the id of its job. Then
//! the job is recorded under that id, and the document moves on to the next tick. An engine that finds a claim completes it,
//! and since all of them record the same id, there is one job (`tick`). Each engine has one timer for all schedules
//! (`timer`).

mod entry;
mod tick;
mod timer;

use super::{Engine, Expected, Pause, Pushed};
use crate::clock::Millis;
use crate::error::Error;
use crate::limits::{NEXT_RUNS_SHOWN, SCHEDULES_BYTES_MAX, SCHEDULES_MAX};
use crate::model::job::NewJob;
use crate::model::name;
use crate::ports::{PutIf, Registry};
use crate::schedule::{Overlap, Schedule, ScheduleStatus, Timing};
use entry::{Entry, Known};
use std::sync::Arc;

/// The registry's kind of document for a schedule.
const KIND: &str = "schedule";
/// The kind of the document that changes whenever a schedule is set or deleted, and its name.
const CHANGES: &str = "schedules";

impl Engine {
    /// All schedules, by name. Unreadable ones are omitted and logged.
    ///
    /// # Errors
    /// Of the registry.
    pub async fn schedules(&self) -> Result<Vec<ScheduleStatus>, Error> {
        read_schedules(self.registry.as_ref(), self.now()).await
    }

    /// One schedule.
    ///
    /// # Errors
    /// [`Error::NoSchedule`]; [`Error::Damaged`].
    pub async fn schedule(&self, name: &str) -> Result<ScheduleStatus, Error> {
        name::check_schedule(name)?;
        let known = self.known_schedule(name).await?.ok_or_else(|| Error::NoSchedule(Arc::from(name)))?;
        Ok(status(&known?))
    }

    /// The answer of [`set_schedule`](Self::set_schedule), without a change.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub async fn preview_schedule(&self, name: &str, schedule: Schedule) -> Result<ScheduleStatus, Error> {
        self.preview_schedule_if(name, schedule, Expected::Anything).await
    }

    /// The answer of [`set_schedule_if`](Self::set_schedule_if), without a change.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::Changed`].
    pub async fn preview_schedule_if(
        &self,
        name: &str,
        schedule: Schedule,
        expected: Expected,
    ) -> Result<ScheduleStatus, Error> {
        let schedule = self.accept_schedule(name, schedule)?;
        let known = self.known_schedule(name).await?.and_then(Result::ok);
        check(expected, name, known.as_ref())?;
        let entry = Entry::set(known.as_ref(), &schedule, self.now_at_most())?;
        Ok(status(&self::known(name, 0, entry)?))
    }

    /// Creates or replaces a schedule; see [`set_schedule_if`](Self::set_schedule_if).
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub async fn set_schedule(&self, name: &str, schedule: Schedule) -> Result<ScheduleStatus, Error> {
        self.set_schedule_if(name, schedule, Expected::Anything).await
    }

    /// Creates or replaces a schedule if the current one is as expected. If it ticks at other times than before, the next
    /// tick is the first from now on. Else it stays, and a tick that has begun is pushed with the old settings.
    ///
    /// # Errors
    /// [`Error::Invalid`], also if there are too many (counted only here: concurrent calls may exceed the limit slightly);
    /// [`Error::Changed`] if the current one is not as expected.
    pub async fn set_schedule_if(
        &self,
        name: &str,
        schedule: Schedule,
        expected: Expected,
    ) -> Result<ScheduleStatus, Error> {
        self.check_open()?;
        let schedule = self.accept_schedule(name, schedule)?;
        let name = Arc::from(name);
        self.run_to_completion(|engine| async move {
            let now = engine.now_at_most();
            let set = |known: Option<&Known>| Entry::set(known, &schedule, now);
            Ok(status(&engine.store_entry(&name, expected, set).await?))
        })
        .await
    }

    /// Stops pushing the jobs of a schedule. A tick that has begun may still push its job.
    /// Ticks during the pause are skipped.
    ///
    /// # Errors
    /// [`Error::NoSchedule`]; [`Error::Changed`]; [`Error::Invalid`].
    pub async fn pause_schedule(&self, name: &str, pause: Pause, expected: Expected) -> Result<ScheduleStatus, Error> {
        let end = self.end_of(pause)?;
        self.set_pause(name, Some(end.unwrap_or(Millis::MAX)), expected).await
    }

    /// Pushes the jobs of a schedule again, from its first tick after now.
    ///
    /// # Errors
    /// [`Error::NoSchedule`]; [`Error::Changed`].
    pub async fn resume_schedule(&self, name: &str, expected: Expected) -> Result<ScheduleStatus, Error> {
        self.set_pause(name, None, expected).await
    }

    async fn set_pause(&self, name: &str, end: Option<Millis>, expected: Expected) -> Result<ScheduleStatus, Error> {
        self.check_open()?;
        name::check_schedule(name)?;
        let name: Arc<str> = Arc::from(name);
        self.run_to_completion(|engine| async move {
            let now = engine.now_at_most();
            let set = |known: Option<&Known>| {
                let known = known.ok_or_else(|| Error::NoSchedule(name.clone()))?;
                Entry::set(Some(known), &known.entry.schedule.clone().with_pause(end), now)
            };
            Ok(status(&engine.store_entry(&name, expected, set).await?))
        })
        .await
    }

    /// Pushes the job of a schedule now, also if the schedule is paused or a job of it is live. Its ticks stay as they are.
    /// The call may be repeated if it has an origin.
    ///
    /// # Errors
    /// [`Error::NoSchedule`]; [`Error::Changed`]; and as [`push`](Self::push).
    pub async fn run_schedule(
        &self,
        name: &str,
        origin: Option<Arc<str>>,
        expected: Expected,
    ) -> Result<Pushed, Error> {
        self.check_open()?;
        name::check_schedule(name)?;
        let name: Arc<str> = Arc::from(name);
        self.run_to_completion(|engine| async move {
            let mut known = engine.known_schedule(&name).await?.ok_or_else(|| Error::NoSchedule(name.clone()))??;
            check(expected, &name, Some(&known))?;
            if known.entry.schedule.overlap == Overlap::Skip {
                // From now on jobs other than the last one may be live: ticks look for all.
                let forget = |known: Option<&Known>| {
                    let known = known.ok_or_else(|| Error::NoSchedule(name.clone()))?;
                    Ok(Entry { job: None, ..known.entry.clone() })
                };
                known = engine.store_entry(&name, expected, forget).await?;
            }
            let job = NewJob { origin, ..known.entry.schedule.tagged_job(&name) };
            let pushed = engine.push_batch(vec![job], None).await?.pop();
            pushed.expect("an answer for each job")
        })
        .await
    }

    /// Deletes a schedule. A tick that has begun is pushed, and pushed jobs stay.
    ///
    /// # Errors
    /// [`Error::NoSchedule`].
    pub async fn delete_schedule(&self, name: &str) -> Result<(), Error> {
        self.delete_schedule_if(name, Expected::Anything).await
    }

    /// Deletes a schedule that is as expected.
    ///
    /// # Errors
    /// [`Error::NoSchedule`]; [`Error::Changed`].
    pub async fn delete_schedule_if(&self, name: &str, expected: Expected) -> Result<(), Error> {
        self.check_open()?;
        name::check_schedule(name)?;
        let name: Arc<str> = Arc::from(name);
        self.run_to_completion(|engine| async move {
            loop {
                let document = engine.registry.document(KIND, &name).await?;
                let document = document.ok_or_else(|| Error::NoSchedule(name.clone()))?;
                let known = Known::read(&document, engine.now()).ok();
                check(expected, &name, known.as_ref())?;
                // Who sets the schedule again must find the job of a tick that has begun.
                if let Some(begun) = known.as_ref().filter(|known| known.entry.pending.is_some()) {
                    engine.finish_tick(begun).await?;
                } else if engine.registry.remove(KIND, &name, Some(document.version)).await? {
                    return engine.tell_of(name).await;
                }
            }
        })
        .await
    }

    /// The schedule, its time zone spelled as the database does, if it keeps all limits.
    fn accept_schedule(&self, name: &str, mut schedule: Schedule) -> Result<Schedule, Error> {
        let now = self.now();
        schedule.check(name, now, self.options.payload_bytes_max)?;
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
        expected: Expected,
        change: impl Fn(Option<&Known>) -> Result<Entry, Error>,
    ) -> Result<Known, Error> {
        loop {
            let document = self.registry.document(KIND, name).await?;
            let version = document.as_ref().map_or(0, |document| document.version);
            // An unreadable document counts as none.
            let known = document.and_then(|document| Known::read(&document, self.now()).ok());
            check(expected, name, known.as_ref())?;
            if let Some(begun) = known.as_ref().filter(|known| known.entry.pending.is_some()) {
                self.finish_tick(begun).await?;
                continue;
            }
            let entry = change(known.as_ref())?;
            let body = entry.body();
            let payload_bytes = |entry: &Entry| entry.schedule.job.payload.len();
            let grows = known.as_ref().is_none_or(|known| payload_bytes(&entry) > payload_bytes(&known.entry));
            if grows {
                self.check_room(name, body.len()).await?;
            }
            if let PutIf::Stored(version) = self.registry.put_if(KIND, name, &body, version).await? {
                self.tell_of(name.clone()).await?;
                return self::known(name, version, entry);
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

    async fn known_schedule(&self, name: &str) -> Result<Option<Result<Known, Error>>, Error> {
        Ok(self.registry.document(KIND, name).await?.map(|document| Known::read(&document, self.now())))
    }

    /// Makes every engine read this schedule again: this one at once, others within a second.
    async fn tell_of(&self, name: Arc<str>) -> Result<(), Error> {
        self.timer.touch(name);
        if !self.topology.is_shared() {
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
        Known::read(document, now)
            .inspect_err(|error| {
                tracing::warn!(%error, "a schedule cannot be read and does not run; \
         correct or delete it");
            })
            .ok()
    });
    Ok(read.map(|known| status(&known)).collect())
}

/// The version is that of the settings, not of the document, which ticks change too.
fn check(expected: Expected, name: &str, known: Option<&Known>) -> Result<(), Error> {
    expected.check("schedule", name, known.map_or(0, |known| known.entry.version))
}

fn known(name: &str, document_version: u64, entry: Entry) -> Result<Known, Error> {
    let ticks = entry.schedule.ticks(entry.anchor)?;
    Ok(Known { name: Arc::from(name), document_version, entry, ticks })
}

fn status(known: &Known) -> ScheduleStatus {
    let Known { name, entry, ticks, .. } = known;
    ScheduleStatus {
        name: name.clone(),
        version: entry.version,
        schedule: entry.schedule.clone(),
        next: ticks.from(entry.next_at, NEXT_RUNS_SHOWN),
        last: entry.last,
    }
}
