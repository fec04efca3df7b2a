//! The stores of an engine, and how stores and processes are related.

use crate::clock::Clock;
use crate::memory::{Locks as MemoryLocks, Memory};
use crate::ports::{Broker, EventBus, Inbox, Leases, Ledger, Locks, Registry, Reports};
use std::sync::Arc;

/// The stores, and who shares them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// A broker in the memory of one process, and a ledger that nobody else uses. The broker's state ends with the process,
    /// so leases are noted in the ledger and restored at the next start.
    OneProcess,
    /// Redis is broker and ledger in one, for many processes. Recording a job puts it into the broker, which holds all
    /// pending jobs, and adds nothing to the outbox but copies that go to other queues.
    RedisAlone,
    /// Redis beside a ledger in an SQL server, both for many processes. One process leads: it loads, drains the outbox and
    /// prunes for all.
    RedisBesideLedger,
}

impl Topology {
    /// Whether other processes may use the same broker. It outlives this process then, and remembers leases itself.
    pub fn is_shared(self) -> bool {
        match self {
            Self::OneProcess => false,
            Self::RedisAlone | Self::RedisBesideLedger => true,
        }
    }

    /// Whether the ledger and the broker are different stores, so that a job is recorded in one and put into the other.
    pub fn has_ledger(self) -> bool {
        match self {
            Self::RedisAlone => false,
            Self::OneProcess | Self::RedisBesideLedger => true,
        }
    }

    /// Whether several processes share both a broker and the ledger beside it, so that one of them leads.
    pub fn shares_ledger(self) -> bool {
        self == Self::RedisBesideLedger
    }
}

/// The stores of the engine.
#[derive(Clone)]
pub struct Stores {
    /// Their topology.
    pub topology: Topology,
    /// Live jobs.
    pub broker: Arc<dyn Broker>,
    /// All jobs.
    pub ledger: Arc<dyn Ledger>,
    /// Readings of the ledger for people.
    pub reports: Arc<dyn Reports>,
    /// Leases of a broker in memory, beside it.
    pub leases: Option<Arc<dyn Leases>>,
    /// The inbox of a ledger in an SQL server.
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
            topology: Topology::OneProcess,
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
        let (topology, inbox) = (Topology::RedisBesideLedger, Some(ledger.clone() as Arc<dyn Inbox>));
        Self { topology, inbox, registry: ledger.clone(), reports: ledger.clone(), ledger, ..self }
    }
}
