//! The end of a server: by a signal, or because one of its parts has failed.

use super::error::Error;
use crate::log;
use crate::signals::Signals;
use duetime_core::engine::Fault;
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Time limit for the engine to stop after a fault.
pub(super) const STOP_AFTER_FAULT_MAX: Duration = Duration::from_secs(10);

/// Works to the end. After a fault of the engine, or a panic, the remaining parts are stopped and finished first.
pub(super) async fn supervised(
    work: impl Future<Output = ()>,
    fault: impl Future<Output = Fault>,
    stop: &CancellationToken,
) -> Result<(), String> {
    let mut work = Box::pin(AssertUnwindSafe(work).catch_unwind());
    let why = tokio::select! {
        ended = &mut work => match ended {
            Ok(()) => return Ok(()),
            Err(_) => "the server panicked; see the log, then restart it".to_owned(),
        },
        fault = fault => {
            tracing::error!("ending this process: {fault}");
            stop.cancel();
            // It ends soon, within the limits of a stop.
            drop(work.await);
            fault.to_string()
        }
    };
    Err(why)
}

/// Is cancelled by SIGTERM, SIGINT and SIGHUP. A second SIGTERM or SIGINT ends the process at once. Nothing is read again on
/// SIGHUP: tokens, keys and certificates are reloaded when their files change.
pub(super) fn stop_signal() -> Result<CancellationToken, Error> {
    /// As a shell reports a process that a SIGINT ended.
    const EXIT_INTERRUPTED: i32 = 130;
    let mut signals = Signals::of_server()?;
    let token = CancellationToken::new();
    let stop = token.clone();
    tokio::spawn(async move {
        signals.next().await;
        tracing::info!("stopping: finishing running requests; a second signal exits at once");
        stop.cancel();
        signals.again().await;
        tracing::warn!("second signal: exiting at once");
        log::flush();
        std::process::exit(EXIT_INTERRUPTED);
    });
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[tokio::test]
    async fn a_fault_stops_what_still_works_and_is_told() {
        let stop = CancellationToken::new();
        let fault = async { Fault::of("reap") };
        let why = supervised(stop.cancelled(), fault, &stop).await.unwrap_err();
        assert!(why.contains("`reap` ended unexpectedly"), "{why}");
        let why = supervised(async { panic!("a panic that a test asked for") }, pending(), &stop).await.unwrap_err();
        assert!(why.contains("panicked"), "{why}");
        supervised(async {}, pending(), &stop).await.unwrap();
    }
}
