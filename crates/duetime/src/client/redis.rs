//! An engine in this process on a Redis that others share.

use super::ConnectOptions;
use super::embedded::Embedded;
use crate::error::Error;
use duetime_store::redis::{Options, Redis};

/// Starts an engine on the Redis at this address.
pub(super) async fn start(address: &str, options: ConnectOptions) -> Result<Embedded, Error> {
    let address = address.to_owned();
    let open = async move {
        let redis = Redis::connect(&address, Options::default()).await?;
        redis.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
        Ok(redis.stores())
    };
    Embedded::start(open, options.engine).await
}
