//! The state that every request handler shares.

use super::limits::{ACTIVITY_EVERY, EVENT_STREAMS_MAX};
use super::listener_config::ListenerConfig;
use crate::access::{Clock, Tokens};
use crate::account::Account;
use crate::dashboard::paths::is_page;
use crate::deliver::{DeliveryStats, Policy};
use duetime_core::{Engine, Millis, MovableClock};
use std::sync::Arc;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The state that every request handler shares; cheap to clone.
#[derive(Clone)]
pub(crate) struct App {
    /// Does what is asked.
    pub(crate) engine: Engine,
    /// The clock by which tokens expire: the engine's.
    pub(crate) clock: Clock,
    /// Cancelled when the server begins to stop: requests that wait for jobs are then released.
    pub(crate) stopping: CancellationToken,
    /// Calls that continue without their caller.
    pub(super) calls: TaskTracker,
    /// The memory of requests and answers.
    pub(super) account: Arc<Account>,
    /// One for each stream of events.
    pub(super) event_streams: Arc<Semaphore>,
    /// The earliest instant of the next `activity` event.
    pub(super) next_turn: Arc<Mutex<Instant>>,
    /// The rules for reaching the server.
    pub(super) listener_config: ListenerConfig,
    /// The targets that are allowed.
    pub(super) targets: Policy,
    /// The counts of deliveries.
    pub(super) deliveries: Arc<DeliveryStats>,
    /// The engine's clock if requests may move it: that of a server for tests.
    pub(super) moves: Option<Arc<MovableClock>>,
}

impl App {
    /// The tokens that are asked for; `None`: everybody may do everything.
    pub(crate) fn tokens(&self) -> Option<&Arc<Tokens>> {
        self.listener_config.tokens.as_ref()
    }

    /// Whether a path is a page of the dashboard, and that is served.
    pub(crate) fn is_page(&self, path: &str) -> bool {
        self.listener_config.has_dashboard && is_page(path)
    }

    /// Whether the dashboard is served.
    pub(crate) fn has_dashboard(&self) -> bool {
        self.listener_config.has_dashboard
    }

    /// Whether it is reached at `https://` addresses.
    pub(crate) fn is_https(&self) -> bool {
        self.listener_config.is_https
    }

    /// Nothing of a queue is delivered until then, because of its target.
    pub(super) fn target_held_until(&self, queue: &str) -> Option<Millis> {
        let left_ms = u64::try_from(self.deliveries.held_for(queue)?.as_millis()).unwrap_or(u64::MAX);
        Some(self.engine.now().saturating_add(left_ms))
    }

    /// Waits until it is a reader's turn to learn that something happened. A reader that goes leaves the line.
    pub(super) fn turn(&self) -> impl Future<Output = ()> + Send + use<> {
        let next_turn = self.next_turn.clone();
        async move {
            let mut next = next_turn.lock().await;
            tokio::time::sleep_until(*next).await;
            *next = Instant::now() + ACTIVITY_EVERY;
        }
    }

    /// The same, and requests may move this clock, which is the engine's.
    pub(crate) fn with_clock(self, moves: Option<Arc<MovableClock>>) -> Self {
        Self { moves, ..self }
    }

    /// Handles requests with this engine.
    pub(crate) fn new(
        engine: Engine,
        listener_config: ListenerConfig,
        targets: Policy,
        deliveries: Arc<DeliveryStats>,
    ) -> Self {
        let event_streams = Arc::new(Semaphore::new(EVENT_STREAMS_MAX));
        let next_turn = Arc::new(Mutex::new(Instant::now()));
        let stopping = CancellationToken::new();
        let (calls, account) = (TaskTracker::new(), listener_config.account.clone());
        let clock = clock_of(&engine);
        Self {
            engine,
            clock,
            stopping,
            calls,
            account,
            event_streams,
            next_turn,
            listener_config,
            targets,
            deliveries,
            moves: None,
        }
    }
}

/// The clock of an engine, by which tokens expire.
pub(crate) fn clock_of(engine: &Engine) -> Clock {
    let engine = engine.clone();
    Arc::new(move || engine.now())
}
