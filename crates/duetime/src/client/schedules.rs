//! Schedules: recurring jobs.

use super::{Client, ask, forward};
use crate::error::Error;
use crate::push::Pushed;
use crate::recurring::IntoSchedule;
use duetime_core::engine::Pause;
use duetime_core::schedule::{Run, ScheduleStatus};
use std::sync::Arc;

/// The schedules: see [`Client::schedules`].
#[derive(Clone, Copy, Debug)]
pub struct Schedules<'c> {
    client: &'c Client,
}

impl Client {
    /// Sets, shows, pauses and deletes schedules. A schedule pushes a job again and again.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # mod example {
    /// use duetime::{prelude::*, schedule::Overlap};
    ///
    /// # #[tokio::main]
    /// # pub async fn run() -> duetime::Result<()> {
    /// # let client = Client::memory().await?;
    /// let report = client.push_raw("nightly", *b"{}").queue("reports"); // or a value of a job type
    /// let nightly = Cron::new("0 3 * * *").zone("Europe/Berlin").job(report)?.overlap(Overlap::Skip);
    /// println!("runs next at {:?}", client.schedules().set("nightly", nightly).await?.next.first());
    /// client.schedules().delete("nightly").await?;
    /// # Ok(())
    /// # }
    /// # }
    /// # #[cfg(feature = "embedded")]
    /// # example::run()?;
    /// # Ok::<(), duetime::Error>(())
    /// ```
    pub fn schedules(&self) -> Schedules<'_> {
        Schedules { client: self }
    }
}

impl Schedules<'_> {
    /// Creates or replaces a schedule. Each run pushes one job with the tag `schedule:NAME`, however many servers
    /// there are. If the timing changes, the next run is the first new time from now on.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid).
    pub async fn set(self, name: &str, schedule: impl IntoSchedule) -> Result<ScheduleStatus, Error> {
        let schedule = schedule.into_schedule()?;
        ask!(self.client => set_schedule(&name, schedule))
    }

    /// Returns what [`set`](Self::set) would return, without changing anything.
    ///
    /// # Errors
    /// Same as [`set`](Self::set).
    pub async fn preview(self, name: &str, schedule: impl IntoSchedule) -> Result<ScheduleStatus, Error> {
        let schedule = schedule.into_schedule()?;
        ask!(self.client => preview_schedule(&name, schedule))
    }

    /// Returns all schedules, by name.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn list(self) -> Result<Vec<ScheduleStatus>, Error> {
        ask!(self.client => schedules())
    }

    /// Returns a schedule, with its next ten runs and the result of the last one.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound).
    pub async fn get(self, name: &str) -> Result<ScheduleStatus, Error> {
        ask!(self.client => schedule(&name))
    }

    /// Pauses a schedule: runs during the pause are skipped. A run that has begun may still push its job.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound), and if the pause ends in the past or is too long.
    pub async fn pause(self, name: &str, pause: Pause) -> Result<ScheduleStatus, Error> {
        forward!(self.client => pause_schedule(name, pause))
    }

    /// Resumes a paused schedule, from its next run.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound).
    pub async fn resume(self, name: &str) -> Result<ScheduleStatus, Error> {
        forward!(self.client => resume_schedule(name))
    }

    /// Pushes the job of a schedule once, now, even if the schedule is paused or an earlier job is live. The next run does
    /// not change. To repeat the call later, or from another process, give the job an origin.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound); the errors of a push.
    pub async fn run(self, name: &str, origin: Option<Arc<str>>) -> Result<Pushed, Error> {
        forward!(self.client => run_schedule(name, origin))
    }

    /// Returns the next 1 to 100 runs of a schedule, in local time of its time zone.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound); if a limit is exceeded.
    pub async fn next_runs(self, name: &str, limit: usize) -> Result<Vec<Run>, Error> {
        forward!(self.client => next_runs(name, limit))
    }

    /// Deletes a schedule. A run that has begun may still push its job, and jobs that it already pushed remain.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound).
    pub async fn delete(self, name: &str) -> Result<(), Error> {
        ask!(self.client => delete_schedule(&name))
    }
}
