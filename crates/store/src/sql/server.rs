//! The kind of server that a URL names.

use super::address::{Address, unknown};
use super::connection::{Database, Dialect};
#[cfg(feature = "mysql")]
use super::mysql;
#[cfg(feature = "postgres")]
use super::postgres;
use duetime_core::Error;
use std::sync::Arc;

/// Checks the form of a ledger's URL, without connecting.
///
/// # Errors
/// [`Error::Invalid`], without the password.
pub fn check_url(url: &str) -> Result<(), Error> {
    dialect(url)?;
    Address::parse(url).map(drop)
}

/// The kind that this URL names.
pub(super) fn dialect(url: &str) -> Result<&'static Dialect, Error> {
    match url.split_once("://").map(|(scheme, _)| scheme) {
        #[cfg(feature = "mysql")]
        Some("mysql" | "mariadb") => Ok(&mysql::DIALECT),
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => Ok(&postgres::DIALECT),
        _ => Err(unknown(url)),
    }
}

/// The server of this URL, with at most this many connections. It does not connect yet.
pub(super) fn open(url: &str, connections: usize) -> Result<Arc<dyn Database>, Error> {
    (dialect(url)?.open)(url, connections)
}
