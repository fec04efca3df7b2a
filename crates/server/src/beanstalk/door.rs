//! The state that all connections share.

use super::counters::Counters;
use super::tubes::Tubes;
use crate::access::{Clock, Tokens};
use crate::account::Account;
use crate::http::{Audit, ListenerConfig, clock_of};
use duetime_core::Engine;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The state that all connections share.
pub(crate) struct Door {
    pub(super) engine: Engine,
    /// The clock by which tokens expire: the engine's.
    pub(super) clock: Clock,
    /// The tokens that are asked for; `None`: everybody may do everything.
    pub(super) tokens: Option<Arc<Tokens>>,
    pub(super) audit: Arc<Audit>,
    pub(super) job_bytes_max: u32,
    pub(super) counters: Counters,
    pub(super) tubes: Tubes,
    /// The memory of requests and replies.
    pub(super) account: Arc<Account>,
    /// Looks at all tubes, of which one is in memory at a time.
    pub(super) all_tubes: tokio::sync::Mutex<()>,
    pub(super) is_draining: AtomicBool,
    pub(super) started: Instant,
    /// Identifies this process among others in its statistics.
    pub(super) id: String,
    pub(super) stopping: CancellationToken,
}

impl Door {
    /// To this engine, for clients that the listener accepts.
    pub(crate) fn new(
        engine: Engine,
        config: &ListenerConfig,
        job_bytes_max: u32,
        stopping: CancellationToken,
    ) -> Arc<Self> {
        let mut id = [0; 8];
        // Without it only an id is missing from the statistics.
        let _ = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut id);
        Arc::new(Self {
            clock: clock_of(&engine),
            engine,
            tokens: config.tokens.clone(),
            audit: config.audit.clone(),
            job_bytes_max,
            counters: Counters::default(),
            tubes: Tubes::default(),
            account: config.account.clone(),
            all_tubes: tokio::sync::Mutex::default(),
            is_draining: AtomicBool::new(false),
            started: Instant::now(),
            id: crate::access::hex(&id),
            stopping,
        })
    }

    /// Takes no more jobs from now on.
    pub(crate) fn drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }
}
