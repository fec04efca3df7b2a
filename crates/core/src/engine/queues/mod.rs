//! Queues: their settings, kept in the registry, and the counts of their jobs.

mod changes;
mod counter;
mod documents;
mod gate;
mod index;
mod lookup;
mod names;
mod removal;
mod settings;

use super::base::Base;
use super::metrics::Metrics;
use super::supervisor::Supervisor;
use super::timers::Timers;
use crate::ports::{Broker, QueueLeases, Registry};
use crate::request::Options;
pub(super) use counter::QueueCounter;
pub(super) use documents::read_settings;
pub(super) use gate::{Entry, Gate};
use index::Index;
pub(super) use index::WaitingLimit;
use names::Names;
pub(super) use settings::end_of;
use std::sync::{Arc, RwLock};
use std::time::Duration;
use tokio::sync::Notify;

/// How often changes by other processes are read.
const REFRESH_EVERY: Duration = Duration::from_millis(900);

/// The settings of queues: set here, and taken over from other processes.
pub(super) struct Settings {
    broker: Arc<dyn Broker>,
    registry: Arc<dyn Registry>,
    supervisor: Arc<Supervisor>,
    timers: Arc<Timers>,
    /// Held while settings are changed.
    configuring: tokio::sync::Mutex<()>,
    index: RwLock<Index>,
    leases: Arc<QueueLeases>,
    options: Options,
    metrics: Arc<Metrics>,
    /// Something may have been set.
    changed: Notify,
    /// The names of queues that there are.
    pub(super) names: Names,
}

impl Settings {
    pub(super) fn new(base: &Base) -> Self {
        Self {
            broker: base.stores.broker.clone(),
            registry: base.stores.registry.clone(),
            supervisor: base.supervisor.clone(),
            timers: base.timers.clone(),
            configuring: tokio::sync::Mutex::default(),
            index: RwLock::default(),
            leases: Arc::default(),
            options: base.options,
            metrics: base.metrics.clone(),
            changed: Notify::default(),
            names: Names::new(base.options.memory_max),
        }
    }
}
