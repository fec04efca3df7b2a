//! Schedules: recurring jobs.

use super::{Client, forward};
use crate::error::Error;
use duetime_core::Schedule;
use duetime_core::schedule::ScheduleStatus;

impl Client {
    /// All schedules, by name.
    ///
    /// # Errors
    /// Where the store cannot be read.
    pub async fn schedules(&self) -> Result<Vec<ScheduleStatus>, Error> {
        forward!(self.schedules())
    }

    /// One schedule, with its next ten runs and what came of the last one.
    ///
    /// # Errors
    /// [`NoSchedule`](duetime_core::Error::NoSchedule).
    pub async fn schedule(&self, name: &str) -> Result<ScheduleStatus, Error> {
        forward!(self.schedule(name))
    }

    /// Sets a schedule, or makes it. Each of its ticks pushes one job with the tag `schedule:NAME`, however many servers
    /// there are. Where it ticks at other times than before, the next tick is the first from now on.
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
        forward!(self.set_schedule(name, schedule, false))
    }

    /// What [`set_schedule`](Self::set_schedule) would answer, with nothing changed.
    ///
    /// # Errors
    /// As [`set_schedule`](Self::set_schedule).
    pub async fn preview_schedule(&self, name: &str, schedule: Schedule) -> Result<ScheduleStatus, Error> {
        forward!(self.set_schedule(name, schedule, true))
    }

    /// Deletes a schedule. A tick that was begun may still be pushed, and what was pushed stays.
    ///
    /// # Errors
    /// [`NoSchedule`](duetime_core::Error::NoSchedule).
    pub async fn delete_schedule(&self, name: &str) -> Result<(), Error> {
        forward!(self.delete_schedule(name))
    }
}
