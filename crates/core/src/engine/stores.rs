//! The stores of an engine. The broker states how they and processes are related.

use crate::clock::Clock;
use crate::memory::{Locks as MemoryLocks, Memory};
use crate::ports::{Broker, EventBus, Inbox, Leases, Ledger, Locks, Registry, Reports};
use std::sync::Arc;

/// The stores of the engine.
#[derive(Clone)]
pub struct Stores {
    /// Live jobs.
    pub broker: Arc<dyn Broker>,
    /// All jobs.
    pub ledger: Arc<dyn Ledger>,
    /// Readings of the ledger for people.
    pub reports: Arc<dyn Reports>,
    /// Leases of a broker in memory, beside it.
    pub leases: Option<Arc<dyn Leases>>,
    /// The inbox: of a ledger in an SQL server, or in a file of the application.
    pub inbox: Option<Arc<dyn Inbox>>,
    /// Queue settings and schedules.
    pub registry: Arc<dyn Registry>,
    /// Locks.
    pub locks: Arc<dyn Locks>,
    /// Events of other processes; `None` if there are none.
    pub events: Option<Arc<dyn EventBus>>,
}

impl Stores {
    /// The stores of one process: a broker and locks in memory, beside a ledger that is the registry, too.
    pub fn one_process<L: Ledger + Reports + Leases + Registry + 'static>(
        clock: Arc<dyn Clock>,
        ledger: Arc<L>,
    ) -> Self {
        Self {
            broker: Arc::new(Memory::new(clock.clone())),
            locks: Arc::new(MemoryLocks::new(clock, ledger.clone())),
            registry: ledger.clone(),
            reports: ledger.clone(),
            leases: Some(ledger.clone()),
            inbox: None,
            ledger,
            events: None,
        }
    }

    /// A broker that others share, its locks and its event bus, beside another ledger.
    #[must_use]
    pub fn beside<L: Ledger + Reports + Inbox + Registry + 'static>(self, ledger: Arc<L>) -> Self {
        let inbox = Some(ledger.clone() as Arc<dyn Inbox>);
        Self { inbox, registry: ledger.clone(), reports: ledger.clone(), ledger, ..self }
    }
}
