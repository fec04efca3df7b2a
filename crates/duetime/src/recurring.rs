//! Schedules in two steps: when, and which job.

use crate::error::Error;
use crate::push::IntoNewJob;
use duetime_core::Schedule;
use duetime_core::api::Span;

/// The times of a cron expression in a time zone. With a [job](Self::job) it is a [`Schedule`].
///
/// ```
/// # #[cfg(all(feature = "embedded", feature = "derive"))]
/// # mod example {
/// use duetime::{prelude::*, schedule::Overlap};
///
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(kind = "digest")]
/// struct Digest;
///
/// # #[tokio::main]
/// # pub async fn run() -> duetime::Result<()> {
/// # let client = Client::memory().await?;
/// client.schedules().set("digest", Cron::new("0 7 * * *").zone("Europe/Berlin").job(Digest)).await?;
/// let often = Every::new(Duration::from_secs(90)).job(client.push(Digest).tag("often"))?;
/// client.schedules().set("often", often.overlap(Overlap::Skip)).await?;
/// # Ok(())
/// # }
/// # }
/// # #[cfg(all(feature = "embedded", feature = "derive"))]
/// # example::run()?;
/// # Ok::<(), duetime::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "times alone are no schedule: give them a job"]
pub struct Cron {
    expression: String,
    zone: String,
}

impl Cron {
    /// The times at which a clock matches the expression: 5 fields, or 6 with seconds first, or `@hourly` and the like. It is checked when
    /// the schedule is set.
    pub fn new(expression: impl Into<String>) -> Self {
        Self { expression: expression.into(), zone: duetime_core::schedule::TIME_ZONE_DEFAULT.to_owned() }
    }

    /// Sets the time zone of the clock, a name such as `Europe/Berlin`; by default `UTC`.
    pub fn zone(self, name: impl Into<String>) -> Self {
        Self { zone: name.into(), ..self }
    }

    /// The schedule that pushes this job at each of these times.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) if the payload cannot be serialized as JSON.
    pub fn job(self, job: impl IntoNewJob) -> Result<Schedule, Error> {
        Ok(Schedule::cron(&self.expression, &self.zone, job.into_new_job()?))
    }
}

/// Times at equal intervals. With a [job](Self::job) it is a [`Schedule`]. See [`Cron`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "times alone are no schedule: give them a job"]
pub struct Every {
    interval: Span,
}

impl Every {
    /// Intervals of this length, 1 s to 10 years, counted from [`start`](Schedule::start), or from when the schedule is first saved.
    pub fn new(interval: impl Into<Span>) -> Self {
        Self { interval: interval.into() }
    }

    /// The schedule that pushes this job at each of these times.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) if the payload cannot be serialized as JSON.
    pub fn job(self, job: impl IntoNewJob) -> Result<Schedule, Error> {
        Ok(Schedule::every(self.interval, job.into_new_job()?))
    }
}

/// What [`Schedules::set`](crate::client::Schedules::set) takes: a [`Schedule`], or what [`Cron::job`] and [`Every::job`] return.
pub trait IntoSchedule {
    /// The schedule.
    ///
    /// # Errors
    /// If there is none.
    fn into_schedule(self) -> Result<Schedule, Error>;
}

impl IntoSchedule for Schedule {
    fn into_schedule(self) -> Result<Schedule, Error> {
        Ok(self)
    }
}

impl IntoSchedule for Result<Schedule, Error> {
    fn into_schedule(self) -> Result<Schedule, Error> {
        self
    }
}
