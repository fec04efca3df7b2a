//! Waiting for the end of a job: by events, with a look at the job after each subscription.
//!
//! Events can be lost. If some were missed, or the stream breaks, the client subscribes again and reads the job again. If a
//! process dies after it ended a job and before it published that, there is no event. So the job is also read every 30 seconds.

use super::Jobs;
use crate::error::{Cause, Error};
use crate::worker::backoff::Backoff;
use duetime_core::engine::events::{Event, Filter, What};
use duetime_core::{Error as CoreError, Job, JobId};
use std::pin::pin;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// How often the job is read while no event of it arrives.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Events after which a job has ended, or is no longer stored.
const ENDS: [What; 6] = [What::Succeeded, What::Taken, What::Failed, What::Expired, What::Cancelled, What::Deleted];

impl Jobs<'_> {
    /// Waits until a job has ended, and returns it: it has succeeded, failed or been cancelled.
    ///
    /// The client subscribes to the queue's events for that, once for each wait; a token can have 1024 such streams of a
    /// server. If a stream breaks, or the server restarts, the client subscribes again. Where several servers or processes
    /// share the jobs, a subscription takes up to a second; meanwhile the job is looked at.
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
        if let Ok(ended) = timeout(time_limit, self.end(id)).await {
            return ended;
        }
        let job = self.get(id).await?;
        if job.is_pending() { Err(Cause::NotEnded { id, kind: job.kind, time_limit }.into()) } else { Ok(job) }
    }

    async fn end(self, id: JobId) -> Result<Job, Error> {
        let job = self.get(id).await?;
        if !job.is_pending() {
            return Ok(job);
        }
        let filter = Filter { queues: vec![job.queue], what: ENDS.to_vec() };
        let mut breaks = Backoff::default();
        loop {
            match self.end_by_events(id, &filter, &mut breaks).await {
                Ok(Some(job)) => return Ok(job),
                Ok(None) => {}
                Err(error) if self.client.passes(&error) => {}
                Err(error) => return Err(error),
            }
            sleep(breaks.next()).await;
        }
    }

    /// `None` if events were missed.
    async fn end_by_events(self, id: JobId, filter: &Filter, breaks: &mut Backoff) -> Result<Option<Job>, Error> {
        let mut subscription = pin!(self.client.events(filter.clone()));
        let mut looks = Backoff::default();
        let mut events = loop {
            tokio::select! {
                events = &mut subscription => break events?,
                () = sleep(looks.next()) => {
                    let job = self.get(id).await?;
                    if !job.is_pending() {
                        return Ok(Some(job));
                    }
                }
            }
        };
        loop {
            let job = self.get(id).await?;
            if !job.is_pending() {
                return Ok(Some(job));
            }
            breaks.reset();
            let mut look = pin!(sleep(LOOK_EVERY));
            loop {
                let event = tokio::select! {
                    event = events.next() => event?,
                    () = &mut look => break,
                };
                match event {
                    Some(Event::Transition(told)) if told.id != id => {}
                    Some(Event::Transition(_)) => break,
                    Some(Event::Missed) => return Ok(None),
                    None => return Err(CoreError::Stopping.into()),
                }
            }
        }
    }
}
