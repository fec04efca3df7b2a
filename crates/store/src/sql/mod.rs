//! The ledger and the registry in an SQL server, beside a broker that several processes share.
//!
//! The order of steps and the transactions are the same for all servers. Rows are locked and read, their new values are
//! computed here, and then written by statements for many rows (`session`). Each kind of server implements
//! `connection::Dialect`, which defines the text of statements and how they run.
//!
//! New jobs and outcomes go through `writer`s, where waiting tasks share a transaction. Everything else has its own
//! transaction. A transaction that conflicts with another is retried. So is one whose connection was lost, if that is safe.

mod address;
mod apply;
mod call;
mod changes;
mod connection;
mod documents;
mod edit;
mod fault;
mod find;
mod foreign;
mod group;
mod inbox;
mod keys;
mod ledger;
mod loaded;
#[cfg(feature = "mysql")]
mod mysql;
mod options;
#[cfg(feature = "postgres")]
mod postgres;
mod probe;
mod prune;
mod queue;
mod read;
mod record;
mod reports;
mod row;
mod schema;
mod session;
mod statements;
mod tally;
#[cfg(feature = "testing")]
pub mod testing;
mod value;
mod writer;

pub use foreign::Foreign;
pub use options::Options;
pub use probe::ProbeReport;
pub use schema::Schema;

use crate::keep::keep;
use connection::{Database, Dialect};
use duetime_core::Error;
use duetime_core::ports::Queues;
use fault::Fault;
use queue::Queue;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::task::JoinHandle;

/// A ledger and registry in an SQL server. If it is dropped without [`close`](duetime_core::ports::Ledger::close), it still
/// finishes waiting work.
pub struct Store {
    database: Arc<dyn Database>,
    queue: Arc<Queue>,
    writers: Mutex<Vec<JoinHandle<()>>>,
    is_closed: AtomicBool,
    /// The queues to check next for tallies without rows.
    to_tidy: Mutex<Queues>,
}

/// Checks the form of a ledger's URL, without connecting.
///
/// # Errors
/// [`Error::Invalid`], without the password.
pub fn check_url(url: &str) -> Result<(), Error> {
    dialect(url)?;
    address::Address::parse(url).map(drop)
}

fn dialect(url: &str) -> Result<&'static Dialect, Error> {
    match url.split_once("://").map(|(scheme, _)| scheme) {
        #[cfg(feature = "mysql")]
        Some("mysql" | "mariadb") => Ok(&mysql::DIALECT),
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => Ok(&postgres::DIALECT),
        _ => Err(address::unknown(url)),
    }
}

fn open(url: &str, connections: usize) -> Result<Arc<dyn Database>, Error> {
    (dialect(url)?.open)(url, connections)
}

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

impl Store {
    /// A store on a server with the current schema. Its writers run on the current runtime.
    fn new(database: Arc<dyn Database>, options: Options) -> Self {
        let queue = Arc::new(Queue::new());
        let writer = || {
            let (database, queue) = (database.clone(), queue.clone());
            keep("writer", move || writer::work(database.clone(), queue.clone()))
        };
        let writers = (0..options.writers.max(1)).map(|_| writer()).collect();
        Self {
            database,
            queue,
            writers: Mutex::new(writers),
            is_closed: AtomicBool::new(false),
            to_tidy: Mutex::new(Queues::first()),
        }
    }

    /// Runs a read.
    async fn read<A: Send + Sync, T: Send>(&self, asked: A, how: call::Function<A, T>) -> Result<T, Error> {
        self.call(call::Plain::<A, T, false>(asked, how)).await
    }

    /// Runs a write that can be repeated if the answer was lost.
    async fn write<A: Send + Sync, T: Send>(&self, asked: A, how: call::Function<A, T>) -> Result<T, Error> {
        self.call(call::Plain::<A, T, true>(asked, how)).await
    }

    async fn call<V: call::Verb>(&self, verb: V) -> Result<V::Answer, Error> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Error::Stopping);
        }
        call::call(&*self.database, verb).await
    }
}

impl Drop for Store {
    /// The writers still finish waiting tasks.
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// A description with its location, without user and password.
impl std::fmt::Display for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.database.shown())
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Store").field(&self.database.shown()).finish()
    }
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
