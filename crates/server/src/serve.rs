//! `duetime serve`: opens the store, serves it, and stops in good order.

mod args;
mod banner;
pub(crate) mod beanstalk;
mod instance;
mod size;
mod store;

pub(crate) use args::{Args, address, port_bound};

use crate::http::{self, App, ListenerConfig};
use crate::signals::Signals;
use crate::{deliver, log};
use duetime_core::Error as CoreError;
use duetime_core::engine::Fault;
use futures_util::FutureExt;
use instance::Instance;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// Time limit for the engine to stop after a fault.
const STOP_AFTER_FAULT_MAX: Duration = Duration::from_secs(10);

/// Why the server cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// The server cannot listen as requested.
    #[error(transparent)]
    Http(#[from] http::Error),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {}", listen_failure(error))]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        error: std::io::Error,
    },
    /// The address of the beanstalkd protocol cannot be listened on.
    #[error("cannot listen on {address}: {}", listen_failure(error))]
    ListenBeanstalk {
        /// Which.
        address: crate::beanstalk::Address,
        /// Why.
        error: std::io::Error,
    },
    /// An option contradicts another one.
    #[error("{0}")]
    Options(String),
    /// The log cannot be set up.
    #[error("--log-level must be error, warn, info, debug, trace or a filter such as info,hyper=debug, got {0}")]
    LogLevel(String),
    /// Nothing can be delivered to targets.
    #[error(transparent)]
    Deliver(#[from] deliver::Error),
    /// A background task that the server lives by has ended.
    #[error("{0}")]
    Fault(String),
    /// Signals cannot be heard, or nothing can be printed.
    #[error("the system refused: {0}")]
    System(#[from] std::io::Error),
    /// The store cannot be opened or closed.
    #[error(transparent)]
    Store(#[from] CoreError),
}

fn listen_failure(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            "the address is in use; stop the other server, or choose another port".to_owned()
        }
        _ => error.to_string(),
    }
}

/// Everything that is wrong with the options, even if each is valid by itself. Nothing is created, and only files that they
/// name are opened. Must be called in a tokio runtime.
pub(crate) fn refusals(args: &Args) -> Vec<Error> {
    let level = filter(args).err();
    let deliver = deliver::Setup::new(&args.deliver).err().map(Error::from);
    let of_http = ListenerConfig::refusals(&args.http, args.listen).into_iter().map(Error::from);
    let of_beanstalk = beanstalk::check(args).err();
    let of_store = args.store().check().err().map(Error::Store);
    level.into_iter().chain(of_store).chain(of_http).chain(deliver).chain(of_beanstalk).collect()
}

/// Runs the server until the process gets a signal to stop, or an essential background task has ended. Given options
/// without effect are logged.
pub(crate) async fn run(args: Args, put_aside: &[String]) -> Result<(), Error> {
    let instance = args.instance.clone().unwrap_or_else(Instance::of_process);
    log::of_server(filter(&args)?, args.log_format, instance.name());
    put_aside.iter().for_each(|what| tracing::warn!("{what}"));
    let listener_config = ListenerConfig::new(&args.http, args.listen)?;
    // Before the store is opened, so that an address in use does not touch it.
    let address = args.listen;
    let listener = TcpListener::bind(address).await.map_err(|error| Error::Listen { address, error })?;
    let beanstalk = beanstalk::Setup::new(&args).await?;
    let stop = stop_signal()?;
    let deliver = deliver::Setup::new(&args.deliver)?;
    let (engine, opened) = store::start(&args).await?;
    banner::print(listener.local_addr()?, beanstalk.address()?, &listener_config, &opened);
    let talking = beanstalk.run(engine.clone(), listener_config.clone(), stop.clone())?;
    let app = App::new(engine.clone(), listener_config, deliver.policy(), deliver.observed());
    let (serving, delivering) = (http::serve(listener, app, stop.clone()), deliver.run(engine.clone(), stop.clone()));
    let work = async {
        tokio::join!(serving, delivering, talking);
    };
    match supervised(work, engine.fault(), &stop).await {
        Ok(()) => engine.stop().await?,
        Err(why) => {
            // It still records what it can. The next process finds the leases and jobs in the store.
            if tokio::time::timeout(STOP_AFTER_FAULT_MAX, engine.stop()).await.is_err() {
                tracing::error!("the engine did not stop in time");
            }
            return Err(Error::Fault(why));
        }
    }
    tracing::info!("stopped");
    Ok(())
}

/// Works to the end. After a fault of the engine, or a panic, the remaining parts are stopped and finished first.
async fn supervised(
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

/// The filter of the log.
fn filter(args: &Args) -> Result<EnvFilter, Error> {
    // The Redis client logs each failed try. We log and answer the result of the tries.
    EnvFilter::try_new(format!("redis=error,{}", args.log_level))
        .map_err(|_| Error::LogLevel(format!("{:?}", args.log_level)))
}

/// Is cancelled by SIGTERM and SIGINT. A second one ends the process at once.
fn stop_signal() -> Result<CancellationToken, Error> {
    /// As a shell reports a process that a SIGINT ended.
    const EXIT_INTERRUPTED: i32 = 130;
    let mut signals = Signals::of_server()?;
    let token = CancellationToken::new();
    let stop = token.clone();
    tokio::spawn(async move {
        signals.next().await;
        tracing::info!("stopping: finishing running requests; a second signal exits at once");
        stop.cancel();
        signals.next().await;
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
