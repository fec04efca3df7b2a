//! Background tasks that panic.

use duetime_core::engine::{Options, Stores};
use duetime_core::memory::Locks;
use duetime_core::testing::mortal::{Life, MortalBroker, MortalLeases, MortalLedger, MortalLocks, MortalRegistry};
use duetime_core::testing::{ModelLedger, TokioClock};
use duetime_core::{Engine, Memory};
use std::sync::Arc;

/// An engine whose stores panic on demand.
async fn engine(life: &Arc<Life>) -> Engine {
    let (ledger, clock) = (ModelLedger::default(), Arc::new(TokioClock::new()));
    let locks = Arc::new(Locks::new(clock.clone(), Arc::new(ledger.clone())));
    let stores = Stores {
        broker: Arc::new(MortalBroker { broker: Arc::new(Memory::new(clock)), life: life.clone() }),
        ledger: Arc::new(MortalLedger { ledger: Arc::new(ledger.clone()), life: life.clone() }),
        reports: Arc::new(ledger.clone()),
        leases: Some(Arc::new(MortalLeases { leases: Arc::new(ledger.clone()), life: life.clone() })),
        inbox: None,
        registry: Arc::new(MortalRegistry { registry: Arc::new(ledger), life: life.clone() }),
        locks: Arc::new(MortalLocks { locks, life: life.clone() }),
        events: None,
    };
    Engine::start(stores, Options::default()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_background_task_that_panics_is_noticed() {
    for (verb, task) in
        [("expired", "reap"), ("outcomes", "drain"), ("prune", "prune"), ("sweep", "sweep_locks"), ("pending", "load")]
    {
        let life = Life::plain();
        let engine = engine(&life).await;
        assert!(engine.health().ready);
        if verb == "pending" {
            // The next bucket enters the horizon.
            tokio::time::advance(std::time::Duration::from_secs(3_600)).await;
        }
        life.panic_at(verb);
        let fault = engine.fault().await;
        assert!(fault.to_string().contains(&format!("`{task}`")), "{verb}: {fault}");
        let health = engine.health();
        assert!(!health.ready && health.degraded[0].to_string() == fault.to_string(), "{verb}: {health:?}");
        engine.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_stops_has_no_fault() {
    let engine = engine(&Life::plain()).await;
    engine.stop().await.unwrap();
    assert!(engine.health().degraded.is_empty());
}
