//! `duetime serve`: opens the store, serves it, and stops in good order.

mod args;
mod banner;
mod instance;
mod line;
mod log;
mod size;
mod store;

pub(crate) use args::{Args, Place};
pub(crate) use store::{own, shared};

use crate::deliver;
use crate::http::{self, App, Edge};
use duetime_core::Error as CoreError;
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Why the server cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// The server cannot be reached as it is asked.
    #[error(transparent)]
    Http(#[from] http::Error),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {error}; is another server running there?")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        error: std::io::Error,
    },
    /// The log cannot be set up.
    #[error("expected --log-level to be error, warn, info, debug, trace or a filter such as info,hyper=debug: {0}")]
    LogLevel(String),
    /// Nothing can be delivered to targets.
    #[error(transparent)]
    Deliver(#[from] deliver::Error),
    /// Signals cannot be heard, or nothing can be printed.
    #[error("the system refuses: {0}")]
    System(#[from] std::io::Error),
    /// The store cannot be opened or closed.
    #[error(transparent)]
    Store(#[from] CoreError),
}

/// All that is wrong with the options, each right by itself. Nothing is made, and nothing opened but files that they name.
/// Must be called in a tokio runtime.
pub(crate) fn refusals(args: &Args) -> Vec<Error> {
    let level = log::filter(args).err();
    let deliver = deliver::Setup::new(&args.deliver).err().map(Error::from);
    let of_http = Edge::refusals(&args.http, args.listen).into_iter().map(Error::from);
    level.into_iter().chain(of_http).chain(deliver).collect()
}

/// Serves until the process is told to stop. What was given and does not count is told in the log.
pub(crate) async fn run(args: Args, put_aside: &[String]) -> Result<(), Error> {
    log::start(&args)?;
    put_aside.iter().for_each(|what| tracing::warn!("{what}"));
    let edge = Edge::new(&args.http, args.listen)?;
    // Before the store is opened, so that an address in use leaves it alone.
    let address = args.listen;
    let listener = TcpListener::bind(address).await.map_err(|error| Error::Listen { address, error })?;
    let stop = stop_signal()?;
    let deliver = deliver::Setup::new(&args.deliver)?;
    let opened = store::open(&args).await?;
    banner::print(listener.local_addr()?, &edge, &opened);
    let engine = opened.engine;
    let app = App::new(engine.clone(), edge, deliver.policy(), deliver.observed());
    let delivering = tokio::spawn(deliver.run(engine.clone(), stop.clone()));
    http::serve(listener, app, stop).await;
    if let Err(error) = delivering.await {
        tracing::error!(%error, "deliveries ended early");
    }
    engine.stop().await?;
    tracing::info!("stopped");
    Ok(())
}

/// Is cancelled by SIGTERM and SIGINT. A second one ends the process at once.
fn stop_signal() -> Result<CancellationToken, Error> {
    /// As a shell reports a process that a SIGINT ended.
    const EXIT_INTERRUPTED: i32 = 130;
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let token = CancellationToken::new();
    let stop = token.clone();
    tokio::spawn(async move {
        let mut signalled = async || tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} };
        signalled().await;
        tracing::info!("stopping: running requests are finished first; a second signal ends at once");
        stop.cancel();
        signalled().await;
        tracing::warn!("told to stop again: ending at once");
        std::process::exit(EXIT_INTERRUPTED);
    });
    Ok(token)
}
