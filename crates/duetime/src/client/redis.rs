//! An engine in this process on a Redis that others share, perhaps beside a ledger.

use super::ConnectOptions;
use super::embedded::Embedded;
use crate::error::Error;
use duetime_core::Error as CoreError;
use duetime_core::engine::Stores;
use duetime_store::redis::{Options, Redis};

/// Starts an engine on the Redis at this address.
pub(super) async fn start(address: &str, options: ConnectOptions) -> Result<Embedded, Error> {
    let (address, ledger) = (address.to_owned(), options.ledger);
    let open = async move {
        match ledger {
            Some(ledger) => beside(&address, &ledger).await,
            None => alone(&address).await,
        }
    };
    Embedded::start(open, options.engine).await
}

async fn alone(address: &str) -> Result<Stores, CoreError> {
    let redis = Redis::connect(address, Options::default()).await?;
    redis.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    Ok(redis.stores())
}

#[cfg(any(feature = "mysql", feature = "postgres"))]
async fn beside(address: &str, ledger: &str) -> Result<Stores, CoreError> {
    use duetime_store::{ledger, pair::Pair};
    let pair = Pair::connect(address, ledger, ledger::Options::default()).await?;
    pair.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    Ok(pair.stores())
}

#[cfg(not(any(feature = "mysql", feature = "postgres")))]
async fn beside(_address: &str, _ledger: &str) -> Result<Stores, CoreError> {
    Err(CoreError::invalid("ledger", "the feature `mysql` or `postgres` of the crate duetime", "neither"))
}
