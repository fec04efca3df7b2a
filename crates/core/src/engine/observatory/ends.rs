//! Waiting for the end of a job: by events, with a look at the job after each of them.
//!
//! Events between processes can be lost, and a process may die after it ended a job and before it published that. So the
//! job is also read every 30 seconds.

use crate::engine::base::Base;
use crate::engine::events::{EndWatch, Publisher};
use crate::engine::search::Search;
use crate::error::Error;
use crate::json::Span;
use crate::limits::WAIT_MS_MAX;
use crate::model::id::JobId;
use crate::model::job::Job;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// How often the job is read while no event of it arrives.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// How often it is read during a subscription, which takes a second where processes share jobs.
const LOOK_FIRST: Duration = Duration::from_millis(100);

/// Waits for the ends of jobs.
pub(in crate::engine) struct Ends {
    publisher: Arc<Publisher>,
    search: Arc<Search>,
}

impl Ends {
    pub(super) fn new(base: &Base, search: Arc<Search>) -> Self {
        Self { publisher: base.publisher.clone(), search }
    }

    pub(in crate::engine) async fn ended(&self, id: JobId, wait: Span) -> Result<Job, Error> {
        wait.check("wait", 0, WAIT_MS_MAX)?;
        match timeout(wait.into(), self.end(id)).await {
            Ok(ended) => ended,
            Err(_) => self.search.job(id).await,
        }
    }

    async fn end(&self, id: JobId) -> Result<Job, Error> {
        let mut begins = pin!(self.publisher.watch_end(id));
        let mut watch: Option<EndWatch> = None;
        loop {
            if let Some(job) = self.look(id).await? {
                return Ok(job);
            }
            match &mut watch {
                None => tokio::select! {
                    biased;
                    begun = &mut begins => watch = Some(begun?),
                    () = sleep(LOOK_FIRST) => {}
                },
                Some(watch) => {
                    if timeout(LOOK_EVERY, watch.next()).await == Ok(false) {
                        return Err(Error::Stopping);
                    }
                }
            }
        }
    }

    /// The job if it has ended.
    async fn look(&self, id: JobId) -> Result<Option<Job>, Error> {
        Ok(Some(self.search.job(id).await?).filter(|job| !job.is_pending()))
    }
}
