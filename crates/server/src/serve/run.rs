//! Runs the server.

use super::args::Args;
use super::error::Error;
use super::instance::Instance;
use super::supervise::{STOP_AFTER_FAULT_MAX, stop_signal, supervised};
use super::{banner, beanstalk, store, test};
use crate::descriptors::Descriptors;
use crate::http::{self, App, ListenerConfig};
use crate::{deliver, log};
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

/// Everything that is wrong with the options, even if each is valid by itself. Nothing is created, and only files that they
/// name are opened. Must be called in a tokio runtime.
pub(crate) fn refusals(args: &Args) -> Vec<Error> {
    let level = filter(args).err();
    let deliver = deliver::Setup::new(&args.deliver).err().map(Error::from);
    let of_http = ListenerConfig::refusals(&args.http, args.listen).into_iter().map(Error::from);
    let of_beanstalk = beanstalk::check(args).err();
    let of_test = test::check(args).err();
    let of_store = args.store().check().err().map(Error::Store);
    level.into_iter().chain(of_test).chain(of_store).chain(of_http).chain(deliver).chain(of_beanstalk).collect()
}

/// Why deliveries to Redis would fail now.
pub(crate) async fn delivery_troubles(args: &Args) -> Vec<String> {
    deliver::troubles(&args.deliver).await
}

/// Runs the server until the process gets a signal to stop, or an essential background task has ended. Given options
/// without effect are logged.
pub(crate) async fn run(args: Args, put_aside: &[String]) -> Result<(), Error> {
    let instance = args.instance.clone().unwrap_or_else(Instance::of_process);
    log::of_server(filter(&args)?, args.log_format, instance.name());
    put_aside.iter().for_each(|what| tracing::warn!("{what}"));
    test::check(&args)?;
    let mut listener_config = ListenerConfig::new(&args.http, args.listen)?;
    let listeners = 1 + usize::from(args.beanstalk.beanstalk.is_some());
    let descriptors = Descriptors::share_out(listeners, listener_config.connections_max)?;
    listener_config.connections_max = descriptors.connections;
    // Before the store is opened, so that an address in use does not touch it.
    let address = args.listen;
    let listener = TcpListener::bind(address).await.map_err(|error| Error::Listen { address, error })?;
    let beanstalk = beanstalk::Setup::new(&args).await?;
    let stop = stop_signal()?;
    let deliver = deliver::Setup::new(&args.deliver)?;
    let (engine, opened, clock) = store::start(&args).await?;
    if args.test {
        test::watch_stdin(&stop);
        banner::print_address(listener.local_addr()?, &listener_config);
    } else {
        banner::print(listener.local_addr()?, beanstalk.address()?, &listener_config, &opened);
    }
    let talking = beanstalk.run(engine.clone(), listener_config.clone(), stop.clone())?;
    let app = App::new(engine.clone(), listener_config, deliver.policy(), deliver.observed()).with_clock(clock);
    let (serving, delivering) =
        (http::serve(listener, app, stop.clone()), deliver.run(engine.clone(), descriptors.deliveries, stop.clone()));
    let silence = Box::pin(async {
        stop.cancelled().await;
        engine.broker_is_silent().await;
    });
    let working = Box::pin(async {
        tokio::join!(serving, delivering, talking);
    });
    let work = async {
        tokio::select! {
            () = working => {}
            // Requests in progress would wait for the broker as long as for a failover.
            () = silence => tracing::warn!("the broker does not answer; requests in progress are dropped"),
        }
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

/// The filter of the log.
fn filter(args: &Args) -> Result<EnvFilter, Error> {
    // The Redis client logs each failed try. We log and answer the result of the tries.
    EnvFilter::try_new(format!("redis=error,{}", args.log_level))
        .map_err(|_| Error::LogLevel(format!("{:?}", args.log_level)))
}
