//! An engine in this process on a shared Redis, with or without a ledger.

use super::connect_options::ConnectOptions;
use super::embedded::Embedded;
use crate::error::Error;
use duetime_core::Error as CoreError;
use duetime_store::open::{Spec, open};

/// Starts an engine on the Redis at this address.
pub(super) async fn start(address: &str, options: ConnectOptions) -> Result<Embedded, Error> {
    let spec = match options.ledger {
        Some(ledger) => beside(address, ledger)?,
        None => Spec::Redis { url: address.to_owned(), memory_max: None },
    };
    Embedded::start(open(spec), options.engine).await
}

#[cfg(any(feature = "mysql", feature = "postgres"))]
#[expect(clippy::unnecessary_wraps, reason = "the same form as without the features")]
fn beside(address: &str, ledger: String) -> Result<Spec, CoreError> {
    Ok(Spec::Pair { broker: address.to_owned(), ledger, options: duetime_store::sql::Options::default() })
}

#[cfg(not(any(feature = "mysql", feature = "postgres")))]
fn beside(_address: &str, _ledger: String) -> Result<Spec, CoreError> {
    Err(CoreError::invalid("ledger", "left out, or the crate built with the feature `mysql` or `postgres`", "neither"))
}
