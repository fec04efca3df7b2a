//! The parts of an engine.

use super::background::{census, leader, load, overflow, record};
use super::{
    Options, Topology, asked, events, history, ids, locks, metrics, reports, schedules, settings, status, wait,
    waiters, workers,
};
use crate::keyed_mutex::KeyedMutex;
use crate::model::id::JobId;
use crate::ports::{Broker, EventBus, Inbox, Leases, Ledger, Locks, Registry, Reports};
use std::sync::{Arc, Mutex};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Public only so that an engine can lend its parts to its own modules.
pub struct Parts {
    pub(super) topology: Topology,
    pub(super) broker: Arc<dyn Broker>,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) reports: Arc<dyn Reports>,
    /// Present if the broker does not remember leases itself.
    pub(super) leases: Option<Arc<dyn Leases>>,
    pub(super) inbox: Option<Arc<dyn Inbox>>,
    pub(super) registry: Arc<dyn Registry>,
    pub(super) locks: Arc<dyn Locks>,
    /// Present if several processes share the broker.
    pub(super) bus: Option<Arc<dyn EventBus>>,
    pub(super) options: Options,
    pub(super) ids: ids::Ids,
    pub(super) watermark: load::Watermark,
    /// Jobs that the broker does not hold as they were put.
    pub(super) to_reconcile: Mutex<load::ToReconcile>,
    pub(super) finding: tokio::sync::Mutex<()>,
    /// One of the jobs that a shared broker did not take the last time.
    pub(super) left: Mutex<Option<JobId>>,
    /// Jobs that wait in the ledger for room.
    pub(super) overflow: overflow::Overflow,
    /// Jobs that are put together.
    pub(super) together: load::Together,
    /// Held while unfinished takes are ended.
    pub(super) ending_takes: tokio::sync::Mutex<()>,
    /// Entries that are recorded soon.
    pub(super) recorder: record::Recorder,
    /// Whether this process loads for all that share the broker.
    pub(super) role: leader::Role,
    pub(super) settings: settings::Settings,
    pub(super) asked: asked::Asked,
    pub(super) workers: workers::Workers,
    /// Job counts across many queues.
    pub(super) census: census::Census,
    pub(super) configuring: tokio::sync::Mutex<()>,
    pub(super) waiting: Arc<wait::Waiting>,
    /// The callers that wait for a lock.
    pub(super) lock_waiters: Arc<waiters::Waiters<locks::Claim>>,
    /// One question at a time by each owner for a lock.
    pub(super) asking: KeyedMutex<locks::Claim>,
    /// When schedules tick.
    pub(super) timer: schedules::Timer,
    pub(super) status: status::Status,
    pub(super) metrics: metrics::Metrics,
    pub(super) history: history::Record,
    /// Jobs by due time.
    pub(super) due: reports::Report<reports::Due>,
    /// The latest failed jobs.
    pub(super) failed: reports::Report<reports::Failed>,
    pub(super) subscribers: Arc<events::Subscribers>,
    pub(super) tasks: TaskTracker,
    /// Runs tasks in the background.
    pub(super) runtime: Handle,
    pub(super) stopping: CancellationToken,
}
