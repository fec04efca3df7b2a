//! The stores of an engine, and how stores and processes are related.

use crate::clock::Clock;
use crate::memory::{Locks as MemoryLocks, Memory};
use crate::ports::{Broker, EventBus, Inbox, Leases, Ledger, Locks, Registry, Reports};
use std::sync::Arc;

/// How the stores and processes are related, as the broker states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    is_shared: bool,
    has_ledger: bool,
}

impl Topology {
    /// Whether other processes may use the same broker. It outlives this process then, and remembers leases itself.
    /// Otherwise its state ends with the process, so leases are noted in the ledger and restored at the next start.
    pub fn is_shared(self) -> bool {
        self.is_shared
    }

    /// Whether the ledger and the broker are different stores, so that a job is recorded in one and put into the other.
    pub fn has_ledger(self) -> bool {
        self.has_ledger
    }

    /// Whether several processes share both a broker and the ledger beside it. One of them leads: it loads, drains the outbox
    /// and prunes for all.
    pub fn shares_ledger(self) -> bool {
        self.is_shared && self.has_ledger
    }
}

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
    /// How they are related.
    pub fn topology(&self) -> Topology {
        Topology { is_shared: self.broker.is_shared(), has_ledger: !self.broker.is_ledger() }
    }

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
