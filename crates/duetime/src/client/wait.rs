//! Waiting for the end of a job: the engine, or the server, waits. A long wait is made of several.

use super::{Jobs, forward};
use crate::error::{Cause, Error};
use crate::worker::backoff::Backoff;
use duetime_core::limits::WAIT_MS_MAX;
use duetime_core::{Job, JobId};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The longest wait of one call.
const WAIT_MAX: Duration = Duration::from_millis(WAIT_MS_MAX);

impl Jobs<'_> {
    /// Waits until a job has ended, and returns it: it has succeeded, failed or been cancelled.
    ///
    /// A wait on a server is a request of up to 60 s, repeated until the time limit. If the connection breaks, or the server
    /// restarts, the client asks again.
    ///
    /// ```
    /// # #[cfg(all(feature = "embedded", feature = "derive"))]
    /// # mod example {
    /// # use duetime::prelude::*;
    /// # #[derive(Serialize, Deserialize, Job)]
    /// # #[job(kind = "add")]
    /// # struct Add(u64, u64);
    /// # #[tokio::main]
    /// # pub async fn run() -> duetime::Result<()> {
    /// # let client = Client::memory().await?;
    /// # let worker = Worker::new(&client).handle(async |add: Add| Ok::<_, JobError>(add.0 + add.1));
    /// # tokio::spawn(worker.run());
    /// let id = client.push(Add(2, 3)).await?.id;
    /// let job = client.jobs().wait(id, Duration::from_secs(10)).await?;
    /// assert_eq!(job.result_as::<u64>()?, 5);
    /// # Ok(())
    /// # }
    /// # }
    /// # #[cfg(all(feature = "embedded", feature = "derive"))]
    /// # example::run()?;
    /// # Ok::<(), duetime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`TimedOut`](crate::ErrorKind::TimedOut) if the job has not ended within the time limit; [`NotFound`](crate::ErrorKind::NotFound) if its record is
    /// gone; if the jobs cannot be reached at first, or at the time limit.
    pub async fn wait(self, id: JobId, time_limit: Duration) -> Result<Job, Error> {
        let begin = Instant::now();
        let mut breaks: Option<Backoff> = None;
        loop {
            let left = time_limit.saturating_sub(begin.elapsed());
            match forward!(self.client => ended(id, left.min(WAIT_MAX))) {
                Ok(job) if !job.is_pending() => return Ok(job),
                Ok(job) if begin.elapsed() >= time_limit => {
                    return Err(Cause::NotEnded { id, kind: job.kind, time_limit }.into());
                }
                Ok(_) => breaks = Some(Backoff::default()),
                Err(error) => match &mut breaks {
                    Some(breaks) if self.client.passes(&error) && !left.is_zero() => {
                        sleep(breaks.next().min(left)).await;
                    }
                    _ => return Err(error),
                },
            }
        }
    }
}
