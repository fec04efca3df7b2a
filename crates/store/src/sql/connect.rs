//! Connects to a server, and checks or migrates its tables.

use super::fault::Fault;
use super::options::Options;
use super::probe::{self, ProbeReport};
use super::schema::{self, Schema};
use super::server::{dialect, open};
use super::store::Store;
use duetime_core::Error;

/// Connects, checks that the server is suitable, and migrates its tables if the options allow it.
///
/// The URL is `mysql://[user[:password]@]host[:port]/database`, also with `mariadb://`, or the same with `postgres://`. Add
/// `?sslmode=require` for TLS. Certificates are always checked, against well-known roots or those of `sslrootcert=FILE`. If
/// a URL has several PostgreSQL hosts, separated by commas, the writable one is used.
///
/// # Errors
/// [`Error::Invalid`] for a malformed URL; [`Error::Unavailable`] if the server does not answer; [`Error::Unusable`] if the
/// server is too old, refuses the user, may lose acknowledged changes, or has tables of a newer version, or of an older
/// version and migrations are disabled.
pub async fn connect(url: &str, options: Options) -> Result<Store, Error> {
    let database = open(url, options.connections)?;
    let Schema { found, known } =
        schema::prepare(&*database, options.may_lose, options.migrates).await.map_err(Fault::into_error)?;
    if !options.migrates && found < known {
        return Err(Error::Unusable(format!(
            "{} has schema {found}, but this version needs {known}: run `duetime migrate`",
            database.shown()
        )));
    }
    Ok(Store::new(database, options))
}

/// Which migrations have run, and which this version needs.
///
/// # Errors
/// Same as [`connect`].
pub async fn check(url: &str) -> Result<Schema, Error> {
    schema::prepare(&*open(url, 1)?, true, false).await.map_err(Fault::into_error)
}

/// Checks whether a server could use the database, without changing it; `may_lose` as in [`Options::may_lose`].
///
/// # Errors
/// Same as [`connect`].
pub async fn probe(url: &str, may_lose: bool) -> Result<ProbeReport, Error> {
    probe::probe(&*open(url, 1)?, may_lose).await.map_err(Fault::into_error)
}

/// Runs missing migrations and returns the state before.
///
/// # Errors
/// Same as [`connect`].
pub async fn migrate(url: &str) -> Result<Schema, Error> {
    schema::prepare(&*open(url, 1)?, true, true).await.map_err(Fault::into_error)
}

/// Returns all migrations as SQL for the kind of server that a URL names, including their bookkeeping, for running by hand.
/// It does not connect.
///
/// # Errors
/// [`Error::Invalid`].
pub fn script(url: &str) -> Result<String, Error> {
    dialect(url).map(schema::script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_another_kind_is_said_without_the_password() {
        for url in ["localhost", "u:secret@a", "redis://u:secret@a/b"] {
            let error = script(url).unwrap_err().to_string();
            assert!(!error.contains("secret") && error.contains("sslrootcert"), "{error}");
        }
    }
}
