//! The parts of an engine: what it remembers beside its stores. They do nothing by themselves; the engine's verbs, in the
//! folder above, use them.

pub(crate) mod asked;
pub(crate) mod census;
mod history;
mod ids;
pub(crate) mod loading;
pub mod metrics;
mod names;
pub(crate) mod observed;
pub(crate) mod overflow;
mod recorder;
pub(crate) mod report;
mod role;
pub(crate) mod settings;
pub(crate) mod status;
pub(crate) mod subscribers;
mod timer;
pub(crate) mod unrecorded;
pub(crate) mod waiters;
pub(crate) mod waiting;
mod workers;

use super::stores::{Stores, Topology};
use crate::keyed_mutex::KeyedMutex;
use crate::model::id::JobId;
use crate::ports::{Broker, EventBus, Inbox, Leases, Ledger, Locks, Registry, Reports};
use crate::request::Options;
use asked::Asked;
use census::Census;
use history::Record;
use ids::Ids;
use loading::{ToReconcile, Together, Watermark};
use metrics::Metrics;
use names::Names;
use overflow::Overflow;
use recorder::Recorder;
use report::{Due, Failed, Report};
use role::Role;
use settings::Settings;
use status::Status;
use std::sync::{Arc, Mutex};
use subscribers::Subscribers;
use timer::Timer;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use unrecorded::Unrecorded;
use waiters::Waiters;
use waiting::Waiting;
use workers::Workers;

/// An owner, and the lock that it claims.
pub(crate) type Claim = (Arc<str>, Arc<str>);

/// Public only so that an engine can lend its parts to its own modules.
pub struct Parts {
    pub(crate) topology: Topology,
    pub(crate) broker: Arc<dyn Broker>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) reports: Arc<dyn Reports>,
    /// Present if the broker does not remember leases itself.
    pub(crate) leases: Option<Arc<dyn Leases>>,
    pub(crate) inbox: Option<Arc<dyn Inbox>>,
    pub(crate) registry: Arc<dyn Registry>,
    pub(crate) locks: Arc<dyn Locks>,
    /// Present if several processes share the broker.
    pub(crate) bus: Option<Arc<dyn EventBus>>,
    pub(crate) options: Options,
    pub(crate) ids: Ids,
    pub(crate) watermark: Watermark,
    /// Jobs that the broker does not hold as they were put.
    pub(crate) to_reconcile: Mutex<ToReconcile>,
    pub(crate) finding: tokio::sync::Mutex<()>,
    /// One of the jobs that a shared broker did not take the last time.
    pub(crate) left: Mutex<Option<JobId>>,
    /// Jobs that wait in the ledger for room.
    pub(crate) overflow: Overflow,
    /// Jobs that are put together.
    pub(crate) together: Together,
    /// Held while unfinished takes are ended.
    pub(crate) ending_takes: tokio::sync::Mutex<()>,
    /// Entries that are recorded soon.
    pub(crate) recorder: Recorder,
    /// Ends of leases that could not be recorded.
    pub(crate) unrecorded: Unrecorded,
    /// Whether this process loads for all that share the broker.
    pub(crate) role: Role,
    pub(crate) settings: Settings,
    /// The names of queues that there are.
    pub(crate) names: Names,
    pub(crate) asked: Asked,
    pub(crate) workers: Workers,
    /// Job counts across many queues.
    pub(crate) census: Census,
    pub(crate) configuring: tokio::sync::Mutex<()>,
    pub(crate) waiting: Arc<Waiting>,
    /// The callers that wait for a lock.
    pub(crate) lock_waiters: Arc<Waiters<Claim>>,
    /// One question at a time by each owner for a lock.
    pub(crate) asking: KeyedMutex<Claim>,
    /// When schedules tick.
    pub(crate) timer: Timer,
    pub(crate) status: Status,
    pub(crate) metrics: Metrics,
    pub(crate) history: Record,
    /// Jobs by due time.
    pub(crate) due: Report<Due>,
    /// The latest failed jobs.
    pub(crate) failed: Report<Failed>,
    pub(crate) subscribers: Arc<Subscribers>,
    pub(crate) tasks: TaskTracker,
    /// Runs tasks in the background.
    pub(crate) runtime: Handle,
    pub(crate) stopping: CancellationToken,
}

impl Parts {
    /// The parts of an engine that starts in this runtime.
    pub(crate) fn new(stores: Stores, options: Options) -> Self {
        let Stores { topology, broker, ledger, reports, leases, inbox, registry, locks, events: bus } = stores;
        let names = Names::new(options.memory_max);
        Self {
            topology,
            broker,
            ledger,
            reports,
            leases,
            inbox,
            registry,
            locks,
            bus,
            options,
            ids: Ids::default(),
            watermark: Watermark::default(),
            to_reconcile: Mutex::default(),
            finding: tokio::sync::Mutex::default(),
            left: Mutex::default(),
            overflow: Overflow::default(),
            together: Together::default(),
            ending_takes: tokio::sync::Mutex::default(),
            recorder: Recorder::default(),
            unrecorded: Unrecorded::default(),
            role: Role::default(),
            settings: Settings::default(),
            names,
            asked: Asked::default(),
            workers: Workers::default(),
            census: Census::default(),
            configuring: tokio::sync::Mutex::default(),
            waiting: Arc::default(),
            lock_waiters: Arc::default(),
            asking: KeyedMutex::default(),
            timer: Timer::default(),
            status: Status::default(),
            metrics: Metrics::default(),
            history: Record::default(),
            due: Report::default(),
            failed: Report::default(),
            subscribers: Arc::default(),
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
            stopping: CancellationToken::new(),
        }
    }
}
