//! The beanstalkd protocol: a second interface to the engine, for existing clients.
//!
//! Tubes are queues, a reserved job is leased, and a buried job has failed. A connection's reserved jobs are released when
//! it closes. `docs/beanstalk.md` lists the differences from beanstalkd, `docs/internals/beanstalk.md` describes the
//! design.
//!
//! The parser ([`command`], [`input`]) is pure. Each connection has its own task, which carries out one command after the
//! other; pipelined commands of one kind are carried out together.

mod args;
mod command;
mod connection;
mod counters;
mod ends;
mod held;
mod input;
mod kicks;
mod listener;
mod looks;
#[cfg(test)]
mod piped;
mod puts;
mod reply;
mod reserves;
mod rights;
mod run;
mod stats;
#[cfg(test)]
mod tests;
mod tubes;

pub(crate) use args::{Address, Args};
pub(crate) use listener::{Listener, serve};
pub(crate) use puts::new_job;

use crate::access::Tokens;
use crate::http::{Audit, Budget, ListenerConfig};
use counters::Counters;
use duetime_core::Engine;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tubes::Tubes;

/// Default limit of a job's body, in bytes: the same as beanstalkd's.
pub(crate) const JOB_BYTES_DEFAULT: u32 = 65_535;
/// Bytes of input that a connection holds without a share of the budget.
const INPUT_BYTES: usize = 64 << 10;
/// Bytes of bodies beyond that, of all connections together.
const BODIES_BYTES_MAX: usize = 192 << 20;
/// Bytes of replies after which a connection sends them before it continues.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// A connection is closed if its client reads nothing for this long.
const SEND_TIME_MAX: Duration = Duration::from_secs(60);
/// If the server requires tokens, a client that has shown no valid one this long after it connected is disconnected.
const AUTH_TIME_MAX: Duration = Duration::from_secs(10);
/// Most tubes that a connection watches.
const WATCHED_MAX: usize = duetime_core::limits::RESERVE_QUEUES_MAX;

/// The state that all connections share.
pub(crate) struct Door {
    engine: Engine,
    /// The tokens that are asked for; `None`: everybody may do everything.
    tokens: Option<Arc<Tokens>>,
    audit: Arc<Audit>,
    job_bytes_max: u32,
    counters: Counters,
    tubes: Tubes,
    /// The budget for incomplete bodies.
    bodies: Arc<Budget>,
    is_draining: AtomicBool,
    started: Instant,
    /// Identifies this process among others in its statistics.
    id: String,
    stopping: CancellationToken,
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
            engine,
            tokens: config.tokens.clone(),
            audit: config.audit.clone(),
            job_bytes_max,
            counters: Counters::default(),
            tubes: Tubes::default(),
            bodies: Arc::new(Budget::new(BODIES_BYTES_MAX)),
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

    fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }
}
