//! The start of an engine.

use super::base::Base;
use super::services::{Loops, Services, begin, compose};
use super::stores::Stores;
use crate::engine::Engine;
use crate::error::Error;
use crate::request::Options;

/// Tasks that record outcomes: while one removes recorded entries from the outbox, the other records.
const RECORDERS: usize = 2;

impl Engine {
    /// Restores leases, begins to load jobs within the horizon, and serves. Must be called in a tokio runtime with time,
    /// which runs the engine's tasks.
    ///
    /// # Errors
    /// If the ledger or the registry cannot be read.
    pub async fn start(stores: Stores, options: Options) -> Result<Self, Error> {
        let base = Base::new(stores, options);
        let (services, loops) = compose(&base);
        base.publisher.listen();
        begin(&base, &services, &loops).await?;
        let (broker, supervisor) = (&base.stores.broker, &base.supervisor);
        if broker.shares_ledger() {
            begin_to_share(&base, &loops).await?;
        } else if !broker.is_ledger() {
            services.handout.restore_leases().await?;
            loops.loader.learn_overflow().await?;
            loops.loader.advance().await?;
            supervisor.keep("load", &loops.reconciler, |reconciler| async move { reconciler.load().await });
            keep_inbox(&base, &loops);
        } else {
            base.status.set_loaded(true);
        }
        keep_all(&base, &services, &loops);
        Ok(Self::of(services))
    }
}

/// Begins what an engine does that is one of several, and asks for the role of the leader.
async fn begin_to_share(base: &Base, loops: &Loops) -> Result<(), Error> {
    let supervisor = &base.supervisor;
    let unique = loops.ids.next(&[0], base.stores.broker.now()).await?;
    loops.leader.begin(unique[0]).await;
    loops.loader.advance_watermark();
    supervisor.keep("keep_role", &loops.leader, |leader| async move { leader.keep().await });
    supervisor.keep("watch_broker", &loops.reconciler, |reconciler| async move { reconciler.watch_broker().await });
    supervisor.keep("load_for_all", &loops.reconciler, |reconciler| async move { reconciler.load_for_all().await });
    keep_inbox(base, loops);
    for _ in 0..RECORDERS {
        supervisor.keep("record_waiting", &loops.recorder, |recorder| async move { recorder.record_waiting().await });
    }
    Ok(())
}

/// Starts to move rows of the inbox, if there is one.
fn keep_inbox(base: &Base, loops: &Loops) {
    if let Some(mover) = &loops.mover {
        base.supervisor.keep("empty_inbox", mover, |mover| async move { mover.empty().await });
    }
}

/// Starts the loops that every engine has.
fn keep_all(base: &Base, services: &Services, loops: &Loops) {
    let (broker, supervisor) = (&base.stores.broker, &base.supervisor);
    if !broker.is_ledger() {
        supervisor.keep("load_overflow", &loops.loader, |loader| async move { loader.load_overflow().await });
    }
    supervisor.keep("reap", &loops.reaper, |reaper| async move { reaper.reap().await });
    supervisor.keep("drain", &loops.recorder, |recorder| async move { recorder.drain().await });
    supervisor.keep("prune", &loops.pruner, |pruner| async move { pruner.prune().await });
    supervisor.keep("sweep_locks", &services.locks, |locks| async move { locks.sweep().await });
    supervisor.keep("tick_schedules", &services.schedules, |schedules| async move { schedules.tick_schedules().await });
    if broker.is_shared() {
        let (publisher, status) = (base.publisher.clone(), base.status.clone());
        supervisor.keep("refresh_settings", &services.queues.settings, |settings| async move {
            settings.refresh(&publisher, &status).await;
        });
    }
    let observatory = &services.observatory;
    supervisor.keep("count_others", &observatory.census, |census| async move { census.count_others().await });
    supervisor.keep("count_names", &observatory.census, |census| async move { census.count_names().await });
    supervisor.keep("record_history", &observatory.history, |history| async move { history.record().await });
    supervisor.keep("end_pauses", &services.queues.settings, |settings| async move { settings.end_pauses().await });
    supervisor.keep("alarm", &loops.consumers, |consumers| async move { consumers.keep_alarm().await });
}
