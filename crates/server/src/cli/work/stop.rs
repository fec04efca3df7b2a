//! When a worker stops: on a signal, after a time, or because its command cannot be run.

use crate::cli::exit::{Failure, Result};
use crate::signals::Signals;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Shared by the worker and its handlers.
#[derive(Clone)]
pub(super) struct Stop {
    /// Reserve nothing more; let commands finish.
    asked: CancellationToken,
    /// End the commands.
    forced: CancellationToken,
    fault: Arc<Mutex<Option<Failure>>>,
}

impl Stop {
    /// Stops on the first SIGTERM, SIGINT or SIGHUP, and ends commands on the second SIGTERM or SIGINT.
    pub(super) fn on_signals() -> Result<Self> {
        let stop = Self { asked: CancellationToken::new(), forced: CancellationToken::new(), fault: Arc::default() };
        let mut signals = Signals::to_stop()?;
        let told = stop.clone();
        tokio::spawn(async move {
            signals.next().await;
            told.asked.cancel();
            signals.again().await;
            told.forced.cancel();
        });
        Ok(stop)
    }

    /// Ready when the worker is to stop, after this time at the latest.
    pub(super) async fn asked_within(&self, limit: Option<Duration>) {
        match limit {
            Some(limit) => drop(tokio::time::timeout(limit, self.asked.cancelled()).await),
            None => self.asked.cancelled().await,
        }
    }

    /// Cancelled when commands are to end.
    pub(super) fn forced(&self) -> &CancellationToken {
        &self.forced
    }

    /// Stops since no job can be run.
    pub(super) fn fail(&self, failure: Failure) {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
        self.asked.cancel();
    }

    /// Why no job can be run.
    pub(super) fn fault(&self) -> Option<Failure> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
