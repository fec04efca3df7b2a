//! The engine itself: its clock, its health and its end.

use crate::api::{DegradedCode, Health};
use crate::clock::Millis;
use crate::engine::base::Base;
use crate::engine::leader::Leader;
use crate::engine::loader::Loader;
use crate::engine::metrics::Metrics;
use crate::engine::recorder::Recorder;
use crate::engine::status::{Fault, Status};
use crate::engine::supervisor::Supervisor;
use crate::error::Error;
use crate::json::about;
use crate::limits::SECOND_MS;
use crate::ports::{Broker, Ledger};
use std::sync::Arc;
use std::time::Duration;

/// How long a shared broker may be silent while an engine stops.
const SILENT_AT_STOP_MAX: Duration = Duration::from_secs(3);
/// How often a shared broker is asked while an engine stops.
const LOOK_AT_STOP_EVERY: Duration = Duration::from_millis(500);

/// How far the clocks of this machine and of the broker may be apart.
const CLOCK_APART_MS: u64 = 5 * SECOND_MS;

/// The state of the whole engine.
pub(super) struct Vitals {
    broker: Arc<dyn Broker>,
    ledger: Arc<dyn Ledger>,
    loader: Arc<Loader>,
    recorder: Arc<Recorder>,
    leader: Arc<Leader>,
    status: Arc<Status>,
    metrics: Arc<Metrics>,
    supervisor: Arc<Supervisor>,
    payload_bytes_max: usize,
}

impl Vitals {
    pub(super) fn new(base: &Base, loader: Arc<Loader>, recorder: Arc<Recorder>, leader: Arc<Leader>) -> Self {
        let Base { stores, options, metrics, status, supervisor, .. } = base;
        Self {
            broker: stores.broker.clone(),
            ledger: stores.ledger.clone(),
            loader,
            recorder,
            leader,
            status: status.clone(),
            metrics: metrics.clone(),
            supervisor: supervisor.clone(),
            payload_bytes_max: options.payload_bytes_max,
        }
    }

    pub(in crate::engine) fn now(&self) -> Millis {
        self.broker.now()
    }

    pub(in crate::engine) fn now_at_most(&self) -> Millis {
        self.broker.now_at_most()
    }

    pub(in crate::engine) fn payload_bytes_max(&self) -> usize {
        self.payload_bytes_max
    }

    pub(in crate::engine) fn is_shared(&self) -> bool {
        self.broker.is_shared()
    }

    pub(in crate::engine) fn has_ledger(&self) -> bool {
        !self.broker.is_ledger()
    }

    pub(in crate::engine) fn health(&self) -> Health {
        let is_writable = self.recorder.look_at_ledger();
        let apart_ms = Some(self.broker.apart_ms()).filter(|&ms| ms > CLOCK_APART_MS);
        self.status.set(DegradedCode::Clock, apart_ms.map(|ms| format!("they are {} apart", about(ms))));
        let (loaded, is_loaded) = self.status.progress();
        let backlog = self.broker.backlog();
        // Calls are repeated for a while, and the reaper would wait for its own.
        if let Some(error) = self.broker.unreached() {
            self.status.degrade(DegradedCode::BrokerUnavailable, &error);
        }
        let is_away = self.status.is(DegradedCode::BrokerUnavailable);
        let ready = !self.supervisor.is_stopping()
            && self.recorder.check_backlog().is_ok()
            && self.status.fault().is_none()
            && !is_away
            && is_writable;
        Health { ready, degraded: self.status.degraded(), loaded, is_loaded, backlog }
    }

    pub(in crate::engine) fn set_degraded(&self, part: DegradedCode, trouble: Option<impl std::fmt::Display>) {
        self.status.set(part, trouble);
    }

    pub(in crate::engine) async fn fault(&self) -> Fault {
        self.status.faulted().await
    }

    pub(in crate::engine) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(in crate::engine) async fn stop(&self) -> Result<(), Error> {
        self.supervisor.stop();
        let finished = async {
            self.supervisor.stopped().await;
            if self.broker.shares_ledger() {
                self.recorder.record_rest().await;
                if let Err(error) = self.loader.reconcile().await {
                    tracing::warn!(%error, "some jobs were not handed over to the loader; the audit will find them");
                }
                self.leader.leave().await;
            } else {
                self.recorder.drain_older(0).await;
            }
        };
        tokio::select! {
            biased;
            () = finished => {}
            () = self.broker_is_silent() => tracing::warn!("the broker does not answer; stopping without it"),
        }
        self.ledger.close().await
    }

    pub(in crate::engine) async fn broker_is_silent(&self) {
        if !self.broker.is_shared() {
            std::future::pending::<()>().await;
        }
        while let Ok(Ok(_)) = tokio::time::timeout(SILENT_AT_STOP_MAX, self.broker.incarnation()).await {
            tokio::time::sleep(LOOK_AT_STOP_EVERY).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::tests::{Fixture, job};
    use crate::request::{Options, Outcome};

    #[tokio::test(start_paused = true)]
    async fn a_process_is_ready_unless_it_stops_or_cannot_record() {
        let fixture = Fixture::with(Options { backlog_max: 1, ..Options::default() }).await;
        let health = || fixture.services.vitals.health();
        assert!(health().ready && health().degraded.is_empty());
        let running = fixture.running(job()).await;
        fixture.ledger.set_away(true);
        fixture.settle(running.receipt(), Outcome::complete(None)).await.unwrap_err();
        assert!(!health().ready && health().backlog == 1 && !health().degraded.is_empty());
        fixture.ledger.set_away(false);
        fixture.services.vitals.stop().await.unwrap();
        assert!(!health().ready && health().backlog == 0, "what was left is recorded before the end");
    }
}
