//! Schedules: recurring jobs.

use super::{Client, ask, forward};
use crate::error::Error;
use crate::push::Pushed;
use duetime_core::Schedule;
use duetime_core::engine::Pause;
use duetime_core::schedule::{Run, ScheduleStatus};
use std::sync::Arc;

impl Client {
    /// Returns all schedules, by name.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn schedules(&self) -> Result<Vec<ScheduleStatus>, Error> {
        ask!(self.schedules())
    }

    /// Returns a schedule, with its next ten runs and the result of the last one.
    ///
    /// # Errors
    /// [`NoSchedule`](duetime_core::Error::NoSchedule).
    pub async fn schedule(&self, name: &str) -> Result<ScheduleStatus, Error> {
        ask!(self.schedule(&name))
    }

    /// Creates or replaces a schedule. Each run pushes one job with the tag `schedule:NAME`, however many servers
    /// there are. If the timing changes, the next run is the first new time from now on.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # mod example {
    /// # use duetime::{Client, NewJob, Schedule, Timing};
    /// # #[tokio::main]
    /// # pub async fn run() -> Result<(), duetime::Error> {
    /// # let client = Client::memory().await?;
    /// let report = NewJob { queue: "reports".into(), kind: "nightly".into(), ..NewJob::new(*b"{}") };
    /// let nightly = Schedule::new(Timing::parse("0 3 * * *", Some("Europe/Berlin"))?, report);
    /// println!("runs next at {:?}", client.set_schedule("nightly", nightly).await?.next.first());
    /// # Ok(())
    /// # }
    /// # }
    /// # #[cfg(feature = "embedded")]
    /// # example::run()?;
    /// # Ok::<(), duetime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](duetime_core::Error::Invalid).
    pub async fn set_schedule(&self, name: &str, schedule: Schedule) -> Result<ScheduleStatus, Error> {
        ask!(self.set_schedule(&name, schedule))
    }

    /// Returns what [`set_schedule`](Self::set_schedule) would return, without changing anything.
    ///
    /// # Errors
    /// Same as [`set_schedule`](Self::set_schedule).
    pub async fn preview_schedule(&self, name: &str, schedule: Schedule) -> Result<ScheduleStatus, Error> {
        ask!(self.preview_schedule(&name, schedule))
    }

    /// Pauses a schedule: runs during the pause are skipped. A run that has begun may still push its job.
    ///
    /// # Errors
    /// [`NoSchedule`](duetime_core::Error::NoSchedule), and if the pause ends in the past or is too long.
    pub async fn pause_schedule(&self, name: &str, pause: Pause) -> Result<ScheduleStatus, Error> {
        forward!(self.pause_schedule(name, pause))
    }

    /// Resumes a paused schedule, from its next run.
    ///
    /// # Errors
    /// [`NoSchedule`](duetime_core::Error::NoSchedule).
    pub async fn resume_schedule(&self, name: &str) -> Result<ScheduleStatus, Error> {
        forward!(self.resume_schedule(name))
    }

    /// Pushes the job of a schedule once, now, even if the schedule is paused or an earlier job is live. The next run does
    /// not change. To repeat the call later, or from another process, give the job an origin.
    ///
    /// # Errors
    /// [`NoSchedule`](duetime_core::Error::NoSchedule); the errors of a push.
    pub async fn run_schedule(&self, name: &str, origin: Option<Arc<str>>) -> Result<Pushed, Error> {
        forward!(self.run_schedule(name, origin))
    }

    /// Returns the next 1 to 100 runs of a schedule, in local time of its time zone.
    ///
    /// # Errors
    /// [`NoSchedule`](duetime_core::Error::NoSchedule); if a limit is exceeded.
    pub async fn next_runs(&self, name: &str, limit: usize) -> Result<Vec<Run>, Error> {
        forward!(self.next_runs(name, limit))
    }

    /// Deletes a schedule. A run that has begun may still push its job, and jobs that it already pushed remain.
    ///
    /// # Errors
    /// [`NoSchedule`](duetime_core::Error::NoSchedule).
    pub async fn delete_schedule(&self, name: &str) -> Result<(), Error> {
        ask!(self.delete_schedule(&name))
    }
}
