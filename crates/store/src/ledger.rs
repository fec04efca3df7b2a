//! The ledger that an address names, whichever server keeps it.

pub use crate::sql::{Looked, Options, Schema};

use duetime_core::Error;
use duetime_core::ports::{Ledger, Registry};
use std::sync::Arc;

/// What an address may look like.
const EXPECTED: &str = "mysql://user:password@host[:port]/database or postgres://user:password@host[:port]/database";

/// A ledger and registry that stand.
pub struct Connected {
    /// The jobs.
    pub ledger: Arc<dyn Ledger>,
    /// The settings, in the same database.
    pub registry: Arc<dyn Registry>,
    /// What it is and where, without user and password.
    pub shown: String,
}

#[derive(Clone, Copy)]
enum Kind {
    #[cfg(feature = "mysql")]
    MySql,
    #[cfg(feature = "postgres")]
    Postgres,
}

fn kind(url: &str) -> Result<Kind, Error> {
    match url.split_once("://").map(|(scheme, _)| scheme) {
        #[cfg(feature = "mysql")]
        Some("mysql" | "mariadb") => Ok(Kind::MySql),
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => Ok(Kind::Postgres),
        Some(scheme) => Err(Error::invalid("ledger", EXPECTED, format!("{scheme}://…"))),
        // It may hold a password.
        None => Err(Error::invalid("ledger", EXPECTED, "no scheme")),
    }
}

/// Connects to the ledger at this address, and makes or changes its tables where that is wanted.
///
/// # Errors
/// [`Error::Invalid`] for an address that cannot be right; [`Error::Unavailable`] where nothing answers;
/// [`Error::Unusable`] where the server or its tables will not do.
pub async fn connect(url: &str, options: Options) -> Result<Connected, Error> {
    match kind(url)? {
        #[cfg(feature = "mysql")]
        Kind::MySql => {
            let store = Arc::new(crate::mysql::MySql::connect(url, options).await?);
            Ok(Connected { shown: store.to_string(), ledger: store.clone(), registry: store })
        }
        #[cfg(feature = "postgres")]
        Kind::Postgres => {
            let store = Arc::new(crate::postgres::Postgres::connect(url, options).await?);
            Ok(Connected { shown: store.to_string(), ledger: store.clone(), registry: store })
        }
    }
}

/// Which migrations have run there.
///
/// # Errors
/// As [`connect`].
pub async fn check(url: &str) -> Result<Schema, Error> {
    match kind(url)? {
        #[cfg(feature = "mysql")]
        Kind::MySql => crate::mysql::MySql::check(url).await,
        #[cfg(feature = "postgres")]
        Kind::Postgres => crate::postgres::Postgres::check(url).await,
    }
}

/// Looks whether a server could use it, and changes nothing; `may_lose` as in [`Options::may_lose`].
///
/// # Errors
/// As [`connect`].
pub async fn look(url: &str, may_lose: bool) -> Result<Looked, Error> {
    match kind(url)? {
        #[cfg(feature = "mysql")]
        Kind::MySql => crate::mysql::MySql::look(url, may_lose).await,
        #[cfg(feature = "postgres")]
        Kind::Postgres => crate::postgres::Postgres::look(url, may_lose).await,
    }
}

/// Runs the migrations that have not run; answers how it was before.
///
/// # Errors
/// As [`connect`].
pub async fn migrate(url: &str) -> Result<Schema, Error> {
    match kind(url)? {
        #[cfg(feature = "mysql")]
        Kind::MySql => crate::mysql::MySql::migrate(url).await,
        #[cfg(feature = "postgres")]
        Kind::Postgres => crate::postgres::Postgres::migrate(url).await,
    }
}

/// All migrations as SQL for the kind of server that an address names, with what is recorded of them: for who runs them
/// by hand. Nothing is connected to.
///
/// # Errors
/// [`Error::Invalid`].
pub fn script(url: &str) -> Result<String, Error> {
    Ok(match kind(url)? {
        #[cfg(feature = "mysql")]
        Kind::MySql => crate::mysql::MySql::script(),
        #[cfg(feature = "postgres")]
        Kind::Postgres => crate::postgres::Postgres::script(),
    })
}

impl std::fmt::Debug for Connected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Connected").field(&self.shown).finish()
    }
}
