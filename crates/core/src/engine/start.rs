//! The start and the end of an engine.

use super::Engine;
use super::parts::Parts;
use super::stores::{Stores, Topology};
use crate::error::Error;
use crate::request::Options;
use std::sync::Arc;
use std::time::Duration;

/// How often ended locks, and ended places in line for them, are removed.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// How long a shared broker may be silent while an engine stops.
const SILENT_AT_STOP_MAX: Duration = Duration::from_secs(3);
/// How often a shared broker is asked while an engine stops.
const LOOK_AT_STOP_EVERY: Duration = Duration::from_millis(500);

impl Engine {
    /// Restores leases, begins to load jobs within the horizon, and serves. Must be called in a tokio runtime with time,
    /// which runs the engine's tasks.
    ///
    /// # Errors
    /// If the ledger or the registry cannot be read.
    pub async fn start(stores: Stores, options: Options) -> Result<Self, Error> {
        let topology = stores.topology;
        let engine = Self::of(Parts::new(stores, options));
        if let Some(bus) = &engine.bus {
            let subscribers = engine.subscribers.clone();
            bus.subscribe(Arc::new(move |event| subscribers.deliver(event)));
        }
        let waiters = engine.lock_waiters.clone();
        engine.broker.begin(engine.host()).await?;
        engine.asked.begin(engine.now());
        engine.workers.begin(engine.now());
        engine.locks.start(Arc::new(move |name, owner| waiters.wake_all(&(owner.clone(), name.clone())))).await?;
        engine.load_settings().await?;
        match topology {
            Topology::OneProcess => {
                engine.restore_leases().await?;
                engine.learn_overflow().await?;
                engine.advance().await?;
                engine.in_background("load", |engine| async move { engine.load().await });
            }
            Topology::RedisAlone => engine.status.set_loaded(true),
            Topology::RedisBesideLedger => engine.begin_to_share().await?,
        }
        if topology.has_ledger() {
            engine.in_background("load_overflow", |engine| async move { engine.load_overflow().await });
        }
        engine.in_background("reap", |engine| async move { engine.reap().await });
        engine.in_background("drain", |engine| async move { engine.drain().await });
        engine.in_background("prune", |engine| async move { engine.prune().await });
        engine.in_background("sweep_locks", |engine| async move { engine.sweep_locks().await });
        engine.in_background("tick_schedules", |engine| async move { engine.tick_schedules().await });
        if topology.is_shared() {
            engine.in_background("refresh_settings", |engine| async move { engine.refresh_settings().await });
        }
        engine.in_background("count_others", |engine| async move { engine.count_others().await });
        engine.in_background("count_names", |engine| async move { engine.count_names().await });
        engine.in_background("record_history", |engine| async move { engine.record_history().await });
        engine.in_background("end_pauses", |engine| async move { engine.end_pauses().await });
        engine.in_background("alarm", |engine| async move { engine.waiting.keep(engine.broker.as_ref()).await });
        Ok(engine)
    }

    /// Refuses new requests, ends waiting ones, records outcomes under way, and closes the ledger.
    ///
    /// # Errors
    /// If something could not be recorded.
    pub async fn stop(&self) -> Result<(), Error> {
        self.stopping.cancel();
        self.tasks.close();
        let finished = async {
            self.tasks.wait().await;
            if self.topology.shares_ledger() {
                self.record_rest().await;
                if let Err(error) = self.reconcile().await {
                    tracing::warn!(%error, "some jobs were not handed over to the loader; the audit will find them");
                }
                self.leave_role().await;
            } else {
                self.drain_older(0).await;
            }
        };
        tokio::select! {
            () = finished => {}
            () = self.broker_is_silent() => tracing::warn!("the broker does not answer; stopping without it"),
        }
        self.ledger.close().await
    }

    /// Waits until a broker that is shared with other processes has not answered for 3 s. A stop waits no longer for what needs
    /// the broker: that fails, and whatever was acknowledged is in the broker, where other processes find it.
    pub async fn broker_is_silent(&self) {
        if !self.topology.is_shared() {
            std::future::pending::<()>().await;
        }
        while let Ok(Ok(_)) = tokio::time::timeout(SILENT_AT_STOP_MAX, self.broker.incarnation()).await {
            tokio::time::sleep(LOOK_AT_STOP_EVERY).await;
        }
    }

    /// Removes locks that have ended, until the process stops.
    async fn sweep_locks(&self) {
        loop {
            tokio::time::sleep(SWEEP_EVERY).await;
            if let Err(error) = self.locks.sweep().await {
                tracing::warn!(%error, "could not remove expired locks; trying again");
            }
        }
    }
}
