//! What services are made from.

use super::events::Publisher;
use super::metrics::Metrics;
use super::status::Status;
use super::stores::Stores;
use super::supervisor::Supervisor;
use super::timers::Timers;
use crate::request::Options;
use std::sync::Arc;

/// The stores, the options, and what all services share.
pub(super) struct Base {
    pub(super) stores: Stores,
    pub(super) options: Options,
    pub(super) status: Arc<Status>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) supervisor: Arc<Supervisor>,
    pub(super) publisher: Arc<Publisher>,
    pub(super) timers: Arc<Timers>,
}

impl Base {
    pub(super) fn new(stores: Stores, options: Options) -> Self {
        let (status, metrics) = (Arc::<Status>::default(), Arc::<Metrics>::default());
        let supervisor = Arc::new(Supervisor::new(status.clone()));
        let publisher = Arc::new(Publisher::new(&stores, metrics.clone(), supervisor.clone()));
        let timers = Arc::new(Timers::new(stores.broker.clone()));
        Self { stores, options, status, metrics, supervisor, publisher, timers }
    }
}
