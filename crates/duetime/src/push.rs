//! The builder of a push.

use crate::client::Client;
use crate::error::Error;
use crate::job_type::JobType;
use duetime_core::Error as CoreError;
pub use duetime_core::api::Pushed;
use duetime_core::api::{Span, Timestamp};
use duetime_core::engine::{self, PushOutcome};
use duetime_core::{
    Backoff, Clock as _, Debounce, Due, FollowUp, FollowUps, JobOptions, KeyUntil, NewJob, OnConflict, Payload, Retry,
    SystemClock, Target, WhenExhausted,
};
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A push that is being built. Await it to send it; values beyond a limit are refused then.
///
/// One that was begun with [`Push::of`] has no client, and goes into a transaction of the application: see [`inbox`](crate::inbox).
#[derive(Clone, Debug)]
#[must_use = "a push does nothing until it is awaited"]
pub struct Push<To = Client> {
    to: To,
    job: Result<NewJob, Error>,
    /// Whether its origin is that of a handler's push, which may push something else when it runs again.
    is_of_handler: bool,
}

impl<To> Push<To> {
    pub(crate) fn new(to: To, job: Result<NewJob, Error>) -> Self {
        Self { to, job, is_of_handler: false }
    }

    fn set(mut self, set: impl FnOnce(&mut NewJob)) -> Self {
        if let Ok(job) = &mut self.job {
            set(job);
        }
        self
    }

    /// Sets the queue; by default that of the payload's type, else `default`.
    pub fn queue(self, queue: impl Into<Arc<str>>) -> Self {
        self.set(|job| job.queue = queue.into())
    }

    /// Makes the job due this long after the push reaches the engine: 0 to 10 years, rounded up to milliseconds. By default
    /// the job is due at once.
    pub fn after(self, delay: Duration) -> Self {
        self.set(|job| job.due = Due::after(delay))
    }

    /// Makes the job due at this instant, a `SystemTime` or a [`Timestamp`], by the engine's clock. An instant in the past means now.
    pub fn at(self, at: impl Into<Timestamp>) -> Self {
        self.set(|job| job.due = Due::at(at))
    }

    /// Sets the priority among the due jobs of its queue; 0 is the most urgent, 1024 the default.
    pub fn priority(self, priority: u32) -> Self {
        self.set(|job| job.priority = priority)
    }

    /// Sets the key, 1 to 255 bytes. It makes the job unique in its queue while the job is live.
    pub fn key(self, key: impl Into<Arc<str>>) -> Self {
        self.set(|job| job.key = Some(key.into()))
    }

    /// Sets the action if another live job has the key; by default that job is kept and returned.
    pub fn on_conflict(self, on_conflict: OnConflict) -> Self {
        self.set(|job| job.on_conflict = on_conflict)
    }

    /// Makes one job of many pushes with this key, which runs once they have stopped for a while. What is pushed while it runs is
    /// another job: the key is free [once it has started](KeyUntil::Started). Such a push has no delay and no due time.
    ///
    /// ```
    /// # use duetime::{job::Debounce, prelude::*};
    /// # use std::time::Duration;
    /// # #[derive(Serialize, Deserialize, Job)]
    /// # #[job(kind = "index")]
    /// # struct Index { page: u64 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duetime::Result<()> {
    /// # let client = Client::memory().await?;
    /// let quiet = Debounce::new(Duration::from_secs(10)).at_latest(Duration::from_secs(120));
    /// client.push(Index { page: 7 }).key("page-7").debounce(quiet).await?;
    /// # client.close().await
    /// # }
    /// ```
    pub fn debounce(self, debounce: Debounce) -> Self {
        let on_conflict = OnConflict::Debounce(debounce);
        self.set(|job| (job.on_conflict, job.key_until) = (on_conflict, on_conflict.key_until()))
    }

    /// Sets when the key becomes free; by default once the job has finished.
    pub fn key_until(self, key_until: KeyUntil) -> Self {
        self.set(|job| job.key_until = key_until)
    }

    /// Sets the origin, 1 to 255 bytes, which makes the push idempotent. If the queue has a job with this origin, in any
    /// state, that job is returned and no other is created. This holds as long as the record of that job is kept. If that job
    /// was pushed with other content, the push fails with the code `origin_reused`.
    pub fn origin(self, origin: impl Into<Arc<str>>) -> Self {
        Self { is_of_handler: false, ..self.set(|job| job.origin = Some(origin.into())) }
    }

    /// Sets the origin of a handler's push: the first one stands, whatever the handler pushes when it runs again.
    pub(crate) fn of_handler(self, origin: String) -> Self {
        Self { is_of_handler: true, ..self.origin(origin) }
    }

    /// Adds a tag: 1 to 255 bytes, at most 16 of them.
    pub fn tag(self, tag: impl Into<Arc<str>>) -> Self {
        self.set(|job| job.tags.push(tag.into()))
    }

    /// Adds tags.
    pub fn tags<T: Into<Arc<str>>>(self, tags: impl IntoIterator<Item = T>) -> Self {
        self.set(|job| job.tags.extend(tags.into_iter().map(Into::into)))
    }

    /// Sets the whole retry rule. Unset values come from the queue's settings, then from the defaults.
    pub fn retry(self, retry: Retry) -> Self {
        self.set(|job| job.options.retry = retry)
    }

    /// Sets the waits between attempts in the retry rule.
    pub fn backoff(self, backoff: Backoff) -> Self {
        self.set(|job| job.options.retry.backoff = Some(backoff))
    }

    /// Sets the maximum number of attempts in the retry rule; 0 for no limit.
    pub fn max_attempts(self, max_attempts: u32) -> Self {
        self.set(|job| job.options.retry.max_attempts = Some(max_attempts))
    }

    /// Sets how long after its first due time an attempt may begin, in the retry rule.
    pub fn max_age(self, max_age: Duration) -> Self {
        self.set(|job| job.options.retry.max_age = Some(max_age.into()))
    }

    /// Sets by what part of it each wait is longer at most, from 0 to 1, in the retry rule; by default 0.1. So jobs that failed together do
    /// not come back together.
    pub fn jitter(self, jitter: f64) -> Self {
        self.set(|job| job.options.retry.jitter = Some(jitter))
    }

    /// Sets how many leases may expire, in the retry rule; by default 5.
    pub fn max_crashes(self, max_crashes: u32) -> Self {
        self.set(|job| job.options.retry.max_crashes = Some(max_crashes))
    }

    /// Sets what becomes of the job after its last attempt, in the retry rule; by default it is kept, failed.
    pub fn when_exhausted(self, when_exhausted: WhenExhausted) -> Self {
        self.set(|job| job.options.retry.when_exhausted = Some(when_exhausted))
    }

    /// Sets the lease, 1 s to 12 h; by default the worker's, else the queue's, else 60 s.
    pub fn lease(self, lease: Duration) -> Self {
        self.set(|job| job.lease = Some(lease.into()))
    }

    /// Sets how long after its due time the job must start; otherwise it fails. By default there is no limit.
    pub fn expires(self, expires: Duration) -> Self {
        self.set(|job| job.expires = Some(expires.into()))
    }

    /// Sets the target of this job, which overrides that of its queue. The queue must have one in its settings.
    pub fn target(self, target: Target) -> Self {
        self.set(|job| job.options.target = Some(Arc::new(target)))
    }

    /// Sets the W3C `traceparent` of the trace that the job belongs to, such as
    /// `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`.
    pub fn trace(self, trace: impl Into<Arc<str>>) -> Self {
        self.set(|job| job.options.trace = Some(trace.into()))
    }

    /// Sets a value of the job's metadata, such as a tenant or a user. Handlers, webhooks and the dashboard get it with the
    /// job. A value that the name had is replaced. [`Meta`](crate::job::Meta) has the limits. Metadata is not searched: to
    /// find jobs, give them a [tag](Self::tag).
    ///
    /// ```
    /// # use duetime::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duetime::Result<()> {
    /// # let client = Client::memory().await?;
    /// let id = client.push_raw("invoice.send", *b"{}").meta("tenant", "7").await?.id;
    /// assert_eq!(client.jobs().get(id).await?.meta().get("tenant"), Some("7"));
    /// # client.close().await
    /// # }
    /// ```
    pub fn meta(self, name: impl Into<Arc<str>>, value: impl Into<Arc<str>>) -> Self {
        self.set(|job| job.options.set_meta(name, value))
    }

    /// Sets several values of the metadata, such as all those of the job that pushes this one: `.meta_all(context.meta().iter())`.
    pub fn meta_all<N: Into<Arc<str>>, V: Into<Arc<str>>>(self, entries: impl IntoIterator<Item = (N, V)>) -> Self {
        entries.into_iter().fold(self, |push, (name, value)| push.meta(name, value))
    }

    /// Adds a job that is pushed when this one succeeds, in the same step: at most 16. Its delay begins then. It may have
    /// jobs that follow it in turn, but no key and no origin. Its handler gets the result of this one with
    /// [`Previous`](crate::worker::Previous).
    ///
    /// ```
    /// # use duetime::prelude::*;
    /// # #[derive(Serialize, Deserialize, Job)]
    /// # #[job(kind = "order.charge")]
    /// # struct Charge { order: u64 }
    /// # #[derive(Serialize, Deserialize, Job)]
    /// # #[job(kind = "order.ship")]
    /// # struct Ship { order: u64 }
    /// # #[derive(Serialize, Deserialize, Job)]
    /// # #[job(kind = "order.cancel")]
    /// # struct CancelOrder { order: u64 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duetime::Result<()> {
    /// # let client = Client::memory().await?;
    /// client.push(Charge { order: 7 }).then(Ship { order: 7 }).otherwise(CancelOrder { order: 7 }).await?;
    /// # client.close().await
    /// # }
    /// ```
    pub fn then(self, next: impl IntoNewJob) -> Self {
        self.follow(next, |options| &mut options.then)
    }

    /// Adds a job that is pushed when this one has failed for good, was cancelled, or has expired, in the same step: at most 16.
    /// See [`then`](Self::then).
    pub fn otherwise(self, next: impl IntoNewJob) -> Self {
        self.follow(next, |options| &mut options.otherwise)
    }

    fn follow(self, next: impl IntoNewJob, list: fn(&mut JobOptions) -> &mut FollowUps) -> Self {
        let job = self.job.and_then(|mut job| {
            let next = FollowUp::from(&next.into_new_job()?);
            let list = list(&mut job.options);
            *list = Some(list.iter().flat_map(|list| list.iter()).cloned().chain([next]).collect());
            Ok(job)
        });
        Self { job, ..self }
    }

    /// Returns the job without pushing it, for [`Client::push_many`].
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) if the payload cannot be serialized as JSON.
    pub fn build(self) -> Result<NewJob, Error> {
        self.job
    }
}

impl Client {
    /// Pushes a typed job, by default due at once. Await the returned builder to send it. Once the await returns, the job is
    /// recorded.
    ///
    /// If the connection to a server is lost, the client repeats the push without making a second job: it sends an
    /// `Idempotency-Key` header with each push. To repeat a push later, or from another process, give it an
    /// [origin](Push::origin).
    #[expect(clippy::needless_pass_by_value, reason = "a push reads like a call of the handler")]
    pub fn push<J: JobType>(&self, job: J) -> Push {
        Push::new(self.clone(), new_job(&job))
    }

    /// Pushes a job with a payload of bytes, for handlers of this kind.
    pub fn push_raw(&self, kind: impl Into<Arc<str>>, payload: impl Into<Payload>) -> Push {
        let mut job = NewJob::new(payload);
        job.kind = kind.into();
        Push::new(self.clone(), Ok(job))
    }
}

impl IntoFuture for Push {
    type Output = Result<Pushed, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let pushed = self.to.push_one(self.job?).await;
            let first = match pushed.as_ref().err().and_then(|error| error.core()) {
                Some(CoreError::OriginReused { first, .. }) if self.is_of_handler => *first,
                _ => return pushed,
            };
            let first = engine::Pushed { job: self.to.jobs().get(first).await?, outcome: PushOutcome::Repeated };
            Ok(Pushed::new(&first, SystemClock::new().wall()))
        })
    }
}

/// A job that can be pushed: a value of a [`JobType`], a [`Push`] with its options, or a [`NewJob`].
pub trait IntoNewJob {
    /// The job.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) if the payload cannot be serialized as JSON.
    fn into_new_job(self) -> Result<NewJob, Error>;
}

impl<J: JobType> IntoNewJob for J {
    fn into_new_job(self) -> Result<NewJob, Error> {
        new_job(&self)
    }
}

impl<To> IntoNewJob for Push<To> {
    fn into_new_job(self) -> Result<NewJob, Error> {
        self.build()
    }
}

impl IntoNewJob for NewJob {
    fn into_new_job(self) -> Result<NewJob, Error> {
        Ok(self)
    }
}

/// Returns a typed job, due now, for [`Client::push_many`].
///
/// # Errors
/// [`Invalid`](crate::ErrorKind::Invalid) if the payload cannot be serialized as JSON.
pub fn new_job<J: JobType>(job: &J) -> Result<NewJob, Error> {
    let payload = serde_json::to_vec(job).map_err(Error::payload)?;
    let mut new = NewJob::new(payload);
    new.queue = J::QUEUE.into();
    new.kind = J::KIND.into();
    new.priority = J::PRIORITY;
    new.key = job.key().map(Into::into);
    new.tags = job.tags().into_iter().map(Into::into).collect();
    new.lease = J::LEASE.map(Span::from);
    new.expires = J::EXPIRES.map(Span::from);
    new.options = J::retry().into();
    Ok(new)
}
