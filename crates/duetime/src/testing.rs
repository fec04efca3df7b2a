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
use duetime_core::engine::{Options, ReserveRequest, Source, Stores};
use duetime_core::testing::{ModelLedger, TokioClock};
use duetime_core::{Clock as _, Engine, Job, JobId, Millis};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Mutex, oneshot};
use tokio::time::sleep;

/// Returns a client of an empty store in memory, and its clock, which stands still until the test moves it.
///
/// # Panics
/// If the system cannot start a thread.
pub async fn client() -> (Client, Clock) {
    let (stop, stopped) = oneshot::channel::<()>();
    let (started, start) = oneshot::channel();
    let run = move || {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
        let runtime = runtime.expect("a runtime starts");
        runtime.block_on(async {
            let (frozen, clock) = (freeze(), Arc::new(EngineClock::new()));
            let stores = Stores::one_process(clock.clone(), Arc::new(ModelLedger::default()));
            let engine = Engine::start(stores, Options::default()).await.expect("a new store starts");
            let time = Arc::new(Time { frozen: Mutex::new(Some(frozen)), _stop: stop });
            let client = Client::kept_by(engine.clone(), time.clone());
            // The test may be over.
            let _ = started.send((client.clone(), Clock { client, clock, time }));
            let _ = stopped.await;
            // The store is in memory, so nothing is lost.
            let _ = engine.stop().await;
        });
    };
    std::thread::Builder::new().name("duetime-testing".to_owned()).spawn(run).expect("a thread starts");
    start.await.expect("the engine starts")
}

/// The paused clock of a runtime, read from whatever thread.
#[derive(Debug)]
struct EngineClock {
    runtime: Handle,
    clock: TokioClock,
}

impl EngineClock {
    fn new() -> Self {
        Self { runtime: Handle::current(), clock: TokioClock::new() }
    }
}

impl duetime_core::Clock for EngineClock {
    fn wall(&self) -> Millis {
        let _here = self.runtime.enter();
        self.clock.wall()
    }

    fn mono(&self) -> Millis {
        let _here = self.runtime.enter();
        self.clock.mono()
    }
}

/// The time of an engine; without it, the engine stops.
struct Time {
    frozen: Mutex<Option<mpsc::Sender<()>>>,
    _stop: oneshot::Sender<()>,
}

/// Stops the paused time of this runtime, which otherwise leaps to the next timer whenever there is nothing to do. It goes on
/// once the sender is dropped.
fn freeze() -> mpsc::Sender<()> {
    let (frozen, thaw) = mpsc::channel();
    tokio::task::spawn_blocking(move || thaw.recv());
    frozen
}

/// The clock of a [`client`] for tests.
#[derive(Clone)]
pub struct Clock {
    client: Client,
    clock: Arc<EngineClock>,
    time: Arc<Time>,
}

impl Clock {
    /// Lets this much time pass, and everything happen that happens meanwhile: jobs become due, schedules push, leases and
    /// pauses end, each at its time. Handlers do not run: a [worker](crate::Worker) runs them afterwards. The engine goes
    /// through all of this time, so a day of it takes some seconds.
    ///
    /// # Panics
    /// If the client was closed.
    pub async fn advance(&self, time: Duration) {
        let here = self.client.here().expect("a client for tests has its engine here");
        let kept = self.time.clone();
        let pass = async move {
            let mut frozen = kept.frozen.lock().await;
            drop(frozen.take());
            sleep(time).await;
            // Time passes again only after everything is done that was due.
            sleep(Duration::from_millis(1)).await;
            *frozen = Some(freeze());
        };
        here.call(|_| pass).await.expect("the client is not closed");
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
/// # use duetime::{assert_pushed, prelude::*, testing};
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

    /// Calls a handler, and returns the job with its result, or the error. The job has a lease, so that the handler can report
    /// its progress; its record is deleted afterwards.
    ///
    /// ```
    /// # #[cfg(feature = "derive")]
    /// # mod example {
    /// # use duetime::{prelude::*, testing};
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
        handled.map(|()| Job { result: context.take_result(), ..leased })
    }

    async fn lease(&self) -> Job {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let id = JobId::from_sequence(COUNT.fetch_add(1, Ordering::Relaxed));
        let now = self.client.here().expect("a client for tests").now();
        let new = new_job(&self.job).and_then(|new| Ok(new.accept(id, now, usize::MAX)?)).expect("a job within limits");
        let made_up = Job { attempt: self.number.saturating_sub(1), key: None, ..new };
        let id = self.client.jobs().import(vec![made_up]).await.expect("the job is new").remove(0).expect("it fits").id;
        let from = Source::Jobs(vec![id.into()]);
        let request = ReserveRequest::new(from).limit(1);
        self.client.leases().reserve(request).await.expect("the job is due").leases.remove(0).job
    }
}
