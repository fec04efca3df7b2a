//! For tests of programs that use this library: a client in memory whose clock the test moves, and checks of what was pushed.
//!
//! ```
//! # #[cfg(feature = "derive")]
//! # mod example {
//! use duetime::{assert_pushed, prelude::*, testing};
//!
//! #[derive(Serialize, Deserialize, Job)]
//! #[job(kind = "order.cancel")]
//! struct CancelOrder { order: u64 }
//!
//! async fn cancel(job: CancelOrder) -> Result<String, JobError> {
//!     Ok(format!("order {} is cancelled", job.order))
//! }
//!
//! # #[tokio::main]
//! # pub async fn run() -> duetime::Result<()> {
//! let (client, clock) = testing::client().await;
//! client.push(CancelOrder { order: 7 }).after(Duration::from_secs(30 * 60)).await?;
//! assert_pushed!(client, CancelOrder { order: 7, .. }, after = 30m);
//!
//! let worker = Worker::new(&client).handle(cancel);
//! assert!(worker.run_one().await?.is_none(), "it is not due yet");
//! clock.advance(Duration::from_secs(30 * 60)).await;
//! assert_eq!(worker.run_one().await?.unwrap().result_as::<String>()?, "order 7 is cancelled");
//! # Ok(()) }
//! # }
//! # #[cfg(feature = "derive")]
//! # example::run()?;
//! # Ok::<(), duetime::Error>(())
//! ```
//!
//! [`Worker::drain`](crate::Worker::drain) runs everything that is due, with what handlers push meanwhile. [`attempt`] calls a single handler.

use crate::client::Client;
use crate::job_type::JobType;
use crate::push::new_job;
use crate::worker::{Context, Handler, JobError};
use duetime_core::engine::{ReserveRequest, Source};
use duetime_core::{Clock as _, Engine, Job, JobId, MovableClock};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns a client of an empty store in memory, and its clock, which stands still until the test moves it.
///
/// # Panics
/// If the system cannot start a thread.
pub async fn client() -> (Client, Clock) {
    let clock = Arc::new(MovableClock::stopped());
    let client = Client::memory_on(clock.clone()).await.expect("a new store starts");
    (client.clone(), Clock { client, clock })
}

/// The clock of a [`client`] for tests.
#[derive(Clone)]
pub struct Clock {
    client: Client,
    clock: Arc<MovableClock>,
}

impl Clock {
    /// Lets this much time pass, and everything happen that happens meanwhile: jobs become due, schedules push, leases and
    /// pauses end, each at its time. Handlers do not run: a [worker](crate::Worker) runs them afterwards. It goes from instant to
    /// instant, so a month takes no longer than what happens in it.
    ///
    /// # Panics
    /// If the client was closed.
    pub async fn advance(&self, time: Duration) {
        let (here, clock) = (self.client.here().expect("a client for tests"), self.clock.clone());
        let pass = |engine: Engine| async move { engine.advance(&clock, time.into()).await };
        here.call(pass).await.expect("the client is not closed");
    }

    /// What the clock reads.
    pub fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.clock.wall())
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clock").field("now", &self.now()).finish_non_exhaustive()
    }
}

/// Asserts that a job was pushed, whatever has become of it, and returns it. The pattern is that of the payload. `after` is
/// its delay: a length such as `30m`, or a [`Duration`] in parentheses or in a variable. Use it in an async function.
///
/// ```
/// # #[cfg(feature = "derive")]
/// # mod example {
/// use duetime::{assert_pushed, prelude::*, testing};
///
/// # #[derive(Serialize, Deserialize, Job)]
/// # #[job(kind = "remind", queue = "mail")]
/// # struct Remind { user: u64, text: String }
/// # #[tokio::main]
/// # pub async fn run() -> duetime::Result<()> {
/// # let (client, _clock) = testing::client().await;
/// client.push(Remind { user: 7, text: "hello".into() }).after(Duration::from_secs(90)).await?;
/// let job = assert_pushed!(client, Remind { user: 7, .. }, after = 90s);
/// assert_eq!(&*job.queue, "mail");
/// # Ok(()) }
/// # }
/// # #[cfg(feature = "derive")]
/// # example::run()?;
/// # Ok::<(), duetime::Error>(())
/// ```
#[macro_export]
macro_rules! assert_pushed {
    (@after) => { ::core::option::Option::None };
    (@after $after:literal) => { ::core::option::Option::Some($crate::__private::length(::core::stringify!($after))) };
    (@after $after:tt) => { ::core::option::Option::Some($after) };
    ($client:expr, $($job:ident)::+ $({ $($fields:tt)* })? $(( $($places:tt)* ))? $(, after = $after:tt)? $(,)?) => {
        $crate::__private::pushed::<$($job)::+>(
            &$client,
            |job| ::core::matches!(job, $($job)::+ $({ $($fields)* })? $(( $($places)* ))?),
            ::core::stringify!($($job)::+ $({ $($fields)* })? $(( $($places)* ))?),
            $crate::assert_pushed!(@after $($after)?),
        )
        .await
    };
}

/// The queue of made-up attempts.
const ATTEMPTS: &str = "duetime.attempts";

/// A made-up attempt at this job, with which a handler can be called without a push: see [`Attempt::run`].
pub fn attempt<J: JobType>(client: &Client, job: J) -> Attempt<J> {
    Attempt { client: client.clone(), job, number: 1, state: () }
}

/// A made-up attempt: see [`attempt`].
#[derive(Debug)]
#[must_use = "no handler is called yet"]
pub struct Attempt<J, S = ()> {
    client: Client,
    job: J,
    number: u32,
    state: S,
}

impl<J: JobType, S> Attempt<J, S> {
    /// Sets the number of the attempt; by default it is the first one.
    pub fn number(self, number: u32) -> Self {
        Self { number, ..self }
    }

    /// Sets the state of the worker that the handler asks for.
    pub fn state<T>(self, state: T) -> Attempt<J, T> {
        let Self { client, job, number, state: _ } = self;
        Attempt { client, job, number, state }
    }

    /// Calls a handler, and returns the job with its result and the jobs that it [added](Context::follow_with) to its `then`, or the
    /// error. The job has a lease, so that the handler can report its progress; its record is deleted afterwards. A pause and the
    /// limits of its queue do not hold it up.
    ///
    /// ```
    /// # #[cfg(feature = "derive")]
    /// # mod example {
    /// use duetime::{prelude::*, testing};
    ///
    /// # #[derive(Serialize, Deserialize, Job)]
    /// # #[job(kind = "remind")]
    /// # struct Remind { user: u64 }
    /// async fn remind(_: Remind, Attempt(attempt): Attempt) -> Result<(), JobError> {
    ///     if attempt < 3 { Err("no answer".into()) } else { Err(JobError::fatal("no answer for the third time")) }
    /// }
    /// # #[tokio::main]
    /// # pub async fn run() -> duetime::Result<()> {
    /// # let (client, _clock) = testing::client().await;
    /// let failed = testing::attempt(&client, Remind { user: 7 }).number(3).run(remind).await;
    /// assert!(failed.unwrap_err().is_final());
    /// # Ok(()) }
    /// # }
    /// # #[cfg(feature = "derive")]
    /// # example::run()?;
    /// # Ok::<(), duetime::Error>(())
    /// ```
    ///
    /// # Errors
    /// What the handler returned.
    ///
    /// # Panics
    /// If the handler panics, or if the client is not one [for tests](client).
    pub async fn run<M, H: Handler<M, S, Job = J>>(self, handler: H) -> Result<Job, JobError> {
        let leased = self.lease().await;
        let context = Context::new(self.client.clone(), leased.clone());
        let handled = handler.call(context.clone(), &self.state).await;
        let jobs = self.client.jobs();
        self.client.leases().complete(leased.receipt(), None).await.expect("the lease lasts");
        jobs.delete(leased.id).await.expect("the job has ended");
        let added = context.take_added();
        let mut options = leased.options().clone();
        if let Some(added) = added {
            options.then = Some(options.then.iter().flat_map(|own| own.iter()).chain(&*added).cloned().collect());
        }
        handled.map(|()| Job { result: context.take_result(), options: options.shared(), ..leased })
    }

    async fn lease(&self) -> Job {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let id = JobId::from_sequence(COUNT.fetch_add(1, Ordering::Relaxed));
        let now = self.client.here().expect("a client for tests").now();
        let new = new_job(&self.job).and_then(|new| Ok(new.accept(id, now, usize::MAX)?)).expect("a job within limits");
        let queue = new.queue.clone();
        // In a queue without settings.
        let made_up = Job { attempt: self.number.saturating_sub(1), key: None, queue: Arc::from(ATTEMPTS), ..new };
        let store = self.client.embedded().expect("a client for tests");
        let id = store.import(vec![made_up]).await.expect("the job is new").remove(0).expect("it fits").id;
        let from = Source::Jobs(vec![id.into()]);
        let request = ReserveRequest::new(from).limit(1);
        let leased = self.client.leases().reserve(request).await.expect("the job is due").leases.remove(0).job;
        Job { queue, ..leased }
    }
}
