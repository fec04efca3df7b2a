//! Jobs that were pushed: finding, changing and ending them.

use super::{Client, ask, forward};
use crate::error::Error;
use duetime_core::api::Why;
use duetime_core::engine::{BulkAction, BulkCounts, CancelOutcome, JobRef, Listed, Patch, Query};
use duetime_core::limits::PAGE_JOBS_MAX;
use duetime_core::{Due, Job, JobId, State, States};
use futures_util::stream::{self, Stream, StreamExt};
use std::sync::Arc;
use std::vec;

/// The jobs that were pushed: see [`Client::jobs`].
#[derive(Clone, Copy, Debug)]
pub struct Jobs<'c> {
    pub(super) client: &'c Client,
}

impl Client {
    /// Finds, changes and ends jobs that were pushed before.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # mod example {
    /// # use duetime::Client;
    /// use duetime::job::Query;
    ///
    /// # #[tokio::main]
    /// # pub async fn run() -> duetime::Result<()> {
    /// # let client = Client::memory().await?;
    /// # let id = client.push_raw("remind", *b"7").queue("mail").tag("user:7").await?.id;
    /// println!("{:?}", client.jobs().get(id).await?.errors);
    /// client.jobs().cancel(id).await?;
    /// let mut cancelled = client.jobs().find(Query::default().tag("user:7"));
    /// while let Some(job) = cancelled.next().await? {
    ///     assert_eq!(job.id, id);
    /// }
    /// # Ok(())
    /// # }
    /// # }
    /// # #[cfg(feature = "embedded")]
    /// # example::run()?;
    /// # Ok::<(), duetime::Error>(())
    /// ```
    pub fn jobs(&self) -> Jobs<'_> {
        Jobs { client: self }
    }
}

impl Jobs<'_> {
    /// Returns a job.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) if there is no such job, or no longer: [`Error::is_not_found`] tells. It is
    /// an error, as in all calls that name a job, because whoever has an id expects the job, and so `?` says which is missing.
    pub async fn get(self, id: JobId) -> Result<Job, Error> {
        ask!(self.client => job(id))
    }

    /// Explains why a job does not run, as this process or the server sees it now.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound).
    pub async fn why(self, id: JobId) -> Result<Why, Error> {
        ask!(self.client => why(id))
    }

    /// Returns the live job that holds this key in a queue; `None` if none does. A job that has ended no longer holds its key: look for
    /// it with [`find`](Self::find) and [`Query::key`].
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # mod example {
    /// # #[tokio::main]
    /// # pub async fn run() -> duetime::Result<()> {
    /// # let client = duetime::Client::memory().await?;
    /// client.push_raw("order.cancel", *b"7").queue("orders").key("order-7").await?;
    /// let job = client.jobs().find_key("orders", "order-7").await?.expect("it waits");
    /// println!("order {} is cancelled at {}", job.payload_as::<u64>()?, job.due_at);
    /// # Ok(())
    /// # }
    /// # }
    /// # #[cfg(feature = "embedded")]
    /// # example::run()?;
    /// # Ok::<(), duetime::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the queue's name or the key is malformed, or the jobs cannot be read.
    pub async fn find_key(self, queue: impl Into<Arc<str>>, key: impl Into<Arc<str>>) -> Result<Option<Job>, Error> {
        let live = States { states: State::ALL.into_iter().filter(|state| state.is_live()).collect(), retrying: false };
        let mut found = self.find(Query::default().queue(queue).key(key).state(live));
        while let Some(job) = found.next().await? {
            if job.live_key().is_some() {
                return Ok(Some(job));
            }
        }
        Ok(None)
    }

    /// Finds the jobs that match a query: the waiting jobs of one queue in due order, and jobs that have ended with the newest
    /// end first. Live and ended jobs of a queue come with the live ones first, by id. Jobs with a key or a tag, and jobs of all
    /// queues and states, come in the order of ids. Nothing is sent before the first [`next`](Found::next).
    pub fn find(self, query: Query) -> Found {
        Found { client: self.client.clone(), query, rest: Rest::All, read: Vec::new().into_iter() }
    }

    /// Returns a page of 1 to 1000 jobs, for programs that hand the cursor on, such as pages of a web site.
    /// [`find`](Self::find) reads page by page by itself. `cursor` comes from the page before.
    ///
    /// # Errors
    /// If a limit is exceeded, or the cursor comes from another query.
    pub async fn page(self, query: &Query, cursor: Option<&str>, limit: usize) -> Result<Listed, Error> {
        ask!(self.client => find(&query, ?cursor, limit))
    }

    /// Cancels a job. If the [`JobRef`] names a version, the job is cancelled only if it still has that version.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound), [`Conflict`](crate::ErrorKind::Conflict) (`version_mismatch`).
    pub async fn cancel(self, target: impl Into<JobRef>) -> Result<CancelOutcome, Error> {
        forward!(self.client => cancel(target.into()))
    }

    /// Cancels every live job with this tag, in all queues. Returns how many jobs had which outcome.
    ///
    /// # Errors
    /// If the tag is malformed.
    pub async fn cancel_by_tag(self, tag: impl Into<Arc<str>>) -> Result<BulkCounts, Error> {
        let query = Query::default().tag(tag);
        self.bulk(&query, BulkAction::Cancel).await
    }

    /// Changes a waiting job. If the token has no right to read, the server returns the job without its content: the payload
    /// is empty.
    ///
    /// # Errors
    /// Same as [`cancel`](Self::cancel); [`Conflict`](crate::ErrorKind::Conflict) (`job_running`,
    /// `already_finished`).
    pub async fn update(self, target: impl Into<JobRef>, patch: Patch) -> Result<Job, Error> {
        let target = target.into();
        ask!(self.client => update(target, patch))
    }

    /// Changes the due time of a waiting job.
    ///
    /// # Errors
    /// Same as [`update`](Self::update).
    pub async fn reschedule(self, target: impl Into<JobRef>, due: Due) -> Result<Job, Error> {
        self.update(target, Patch::default().due(due)).await
    }

    /// Makes a waiting job due now.
    ///
    /// # Errors
    /// Same as [`update`](Self::update).
    pub async fn run(self, target: impl Into<JobRef>) -> Result<Job, Error> {
        let target = target.into();
        ask!(self.client => run(target))
    }

    /// Retries a finished job from attempt 0.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) (`job_live`, `key_conflict`), and as
    /// [`cancel`](Self::cancel).
    pub async fn retry(self, target: impl Into<JobRef>) -> Result<Job, Error> {
        forward!(self.client => retry(target.into()))
    }

    /// Deletes a job and its record. Running jobs are refused.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) (`job_running`), and as [`cancel`](Self::cancel).
    pub async fn delete(self, target: impl Into<JobRef>) -> Result<(), Error> {
        forward!(self.client => delete(target.into()))
    }

    /// Cancels, retries, reschedules or deletes every job that matches the query. Returns how many jobs had which outcome. A
    /// delay begins with the call: if you repeat the call after a lost answer, the jobs are postponed again.
    ///
    /// # Errors
    /// If the query is empty.
    pub async fn bulk(self, query: &Query, action: BulkAction) -> Result<BulkCounts, Error> {
        ask!(self.client => bulk(&query, action))
    }
}

/// The jobs that match a query, read page by page: see [`Jobs::find`].
///
/// A page is read when it is asked for: one call for every 1000 jobs, or for every 16 MiB of them, and that much memory. What
/// changes meanwhile may be seen or not: a job that is pushed, or that leaves or enters the states of the query.
#[derive(Debug)]
#[must_use = "nothing is read until `next` is called"]
pub struct Found {
    client: Client,
    query: Query,
    rest: Rest,
    read: vec::IntoIter<Job>,
}

/// What has not been read yet.
#[derive(Debug)]
enum Rest {
    All,
    After(String),
    Nothing,
}

impl Found {
    /// Returns the next job, or `None` after the last one.
    ///
    /// # Errors
    /// If the query is malformed, or the jobs cannot be read. You can call it again: it reads the same page.
    pub async fn next(&mut self) -> Result<Option<Job>, Error> {
        self.next_of(PAGE_JOBS_MAX).await
    }

    /// Returns the next jobs: this many, or fewer at the end. It reads no more than that.
    ///
    /// # Errors
    /// Same as [`next`](Self::next).
    pub async fn take(&mut self, limit: usize) -> Result<Vec<Job>, Error> {
        let mut jobs = Vec::new();
        while jobs.len() < limit {
            let Some(job) = self.next_of((limit - jobs.len()).min(PAGE_JOBS_MAX)).await? else { break };
            jobs.push(job);
        }
        Ok(jobs)
    }

    /// Returns the jobs as a stream. It ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Job, Error>> + Send + Unpin + 'static {
        stream::try_unfold(self, |mut found| async move { Ok(found.next().await?.map(|job| (job, found))) }).boxed()
    }

    async fn next_of(&mut self, limit: usize) -> Result<Option<Job>, Error> {
        loop {
            if let Some(job) = self.read.next() {
                return Ok(Some(job));
            }
            let cursor = match &self.rest {
                Rest::All => None,
                Rest::After(cursor) => Some(&**cursor),
                Rest::Nothing => return Ok(None),
            };
            let page = self.client.jobs().page(&self.query, cursor, limit).await?;
            self.read = page.jobs.into_iter();
            self.rest = page.next_cursor.map_or(Rest::Nothing, Rest::After);
        }
    }
}
