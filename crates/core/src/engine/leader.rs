//! The role of the leader. If several processes share a broker and a ledger, one of them leads: it loads, drains the outbox and prunes.
//! The role is a lock that its holder renews, so it moves when that process dies. Two leaders for a moment do no harm:
//! everything that a leader does may be done twice.

use crate::model::id::JobId;
use crate::model::name::OF_ENGINE;
use crate::ports::{Acquire, Acquired, Broker, Locks};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The lock of who leads: one of [`OF_ENGINE`].
const LEADER: &str = "duetime:leader";
/// How long the role stays with a leader that has died.
const LEADER_TTL_MS: u64 = 3_000;
/// How often the leader renews its role, and others try to get it.
const RENEW_EVERY: Duration = Duration::from_millis(500);

/// Whether this process leads, and under which name.
pub(super) struct Leader {
    /// Whether others may lead.
    is_one_of_many: bool,
    locks: Arc<dyn Locks>,
    leads: AtomicBool,
    owner: OnceLock<Arc<str>>,
}

impl Leader {
    pub(super) fn new(broker: &dyn Broker, locks: Arc<dyn Locks>) -> Self {
        Self { is_one_of_many: broker.shares_ledger(), locks, leads: AtomicBool::default(), owner: OnceLock::default() }
    }

    /// Whether this process leads, or is the only one.
    pub(super) fn leads(&self) -> bool {
        !self.is_one_of_many || self.leads.load(Ordering::Relaxed)
    }

    /// Asks for the role under a name that no other process has.
    pub(super) async fn begin(&self, unique: JobId) {
        let owner = Arc::from(format!("{OF_ENGINE}engine-{unique}"));
        assert!(self.owner.set(owner).is_ok(), "an engine starts once");
        self.seek().await;
    }

    /// Keeps the role, or asks for it, until the engine stops.
    pub(super) async fn keep(&self) {
        loop {
            tokio::time::sleep(RENEW_EVERY).await;
            self.seek().await;
        }
    }

    /// Gets the role if it is free, or keeps it.
    async fn seek(&self) {
        let (name, owner) = (Arc::from(LEADER), self.owner());
        let acquire = Acquire { name, owner: owner.clone(), ttl_ms: LEADER_TTL_MS, waiting: false };
        let leads = matches!(self.locks.acquire(acquire).await, Ok(Acquired::Granted { .. }));
        if self.leads.swap(leads, Ordering::Relaxed) != leads {
            let now = if leads { "starts" } else { "stops" };
            tracing::info!(%owner, "this process {now} loading jobs for all servers");
        }
    }

    /// Gives the role up.
    pub(super) async fn leave(&self) {
        if self.leads.swap(false, Ordering::Relaxed)
            && let Err(error) = self.locks.release_all(&self.owner()).await
        {
            tracing::debug!(%error, "the leader role could not be given up; it expires");
        }
    }

    fn owner(&self) -> Arc<str> {
        self.owner.get().cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{Fixture, pass};
    use crate::testing::fixtures::id;
    use crate::testing::{ModelLedger, Shared, TokioClock};

    #[tokio::test(start_paused = true)]
    async fn one_leads_and_another_takes_over_once_it_is_silent_or_leaves() {
        let (broker, ledger) = (Shared::new(Arc::new(TokioClock::new())), ModelLedger::default());
        let (one, other) = (Fixture::sharing(&broker, &ledger).await, Fixture::sharing(&broker, &ledger).await);
        let (one, other) = (&one.loops.leader, &other.loops.leader);
        one.begin(id(1)).await;
        other.begin(id(2)).await;
        assert!(one.leads() && !other.leads());
        pass(RENEW_EVERY).await;
        one.seek().await;
        pass(Duration::from_millis(LEADER_TTL_MS - 1)).await;
        other.seek().await;
        assert!(!other.leads(), "the role was renewed");
        pass(Duration::from_millis(1)).await;
        other.seek().await;
        one.seek().await;
        assert!(other.leads() && !one.leads());
        other.leave().await;
        one.seek().await;
        assert!(one.leads() && !other.leads());
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_shares_nothing_leads() {
        assert!(Fixture::new().await.loops.leader.leads());
    }
}
