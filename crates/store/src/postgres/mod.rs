//! The ledger and the registry in PostgreSQL, 13 or later.
//!
//! Rows travel as arrays, so that a statement for many is one round trip and its text always the same. What is done in
//! which order is the same for all SQL servers, and is not said here.

mod address;
mod fault;
mod look;
mod pool;
mod rows;
mod schema;
mod session;
mod statements;

pub use crate::sql::{Looked, Options, Schema};
pub use schema::MIGRATIONS;
#[doc(hidden)]
pub use statements::QUESTIONS;

use crate::sql::{Store, ports};
use address::Address;
use duetime_core::ports::{
    Admitted, Cursor, Document, Edit, Edited, Find, Found, InboxRow, LeaseNote, Note, OverflowDue, Page, PutIf, Queues,
    Recorded, Retention, Tally, Verdict, Window,
};
use duetime_core::{Error, Job, JobId, Millis};
use pool::Server;
use std::ops::Range;
use std::sync::Arc;

/// A store in a PostgreSQL database. Dropped without [`close`](duetime_core::ports::Ledger::close) it still finishes what
/// waits.
pub struct Postgres {
    store: Store<Server>,
}

impl Postgres {
    /// Connects, looks whether the server is fit, and makes or changes tables where that is wanted.
    ///
    /// The URL is `postgres://[user[:password]@]host[:port]/database`, with `?sslmode=require` for TLS: certificates are
    /// always checked, against the machine's roots or those of `sslrootcert=FILE`. Of several hosts, separated by
    /// commas, it takes the one that can be written to.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a URL that cannot be right; [`Error::Unavailable`] where PostgreSQL does not answer;
    /// [`Error::Unusable`] where it is too old, refuses the user, may lose what it has acknowledged, has tables of a newer version, or older ones that are
    /// not to be changed.
    pub async fn connect(url: &str, options: Options) -> Result<Self, Error> {
        let server = Server::new(&Address::parse(url)?, options.connections)?;
        if options.migrates {
            schema::migrate(&server, options.may_lose).await?;
        } else {
            let Schema { found, known } = schema::check(&server, options.may_lose).await?;
            if found < known {
                return Err(Error::Unusable(format!(
                    "{} has the schema {found}, this version needs {known}: run `duetime migrate`",
                    server.shown
                )));
            }
        }
        Ok(Self { store: Store::new(server, options) })
    }

    /// Which migrations have run, and which this version needs.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn check(url: &str) -> Result<Schema, Error> {
        schema::check(&Server::new(&Address::parse(url)?, 1)?, true).await
    }

    /// Looks whether a server could use it, and changes nothing.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn look(url: &str, may_lose: bool) -> Result<Looked, Error> {
        look::look(&Server::new(&Address::parse(url)?, 1)?, may_lose).await
    }

    /// Runs the migrations that have not run; answers how it was before.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn migrate(url: &str) -> Result<Schema, Error> {
        schema::migrate(&Server::new(&Address::parse(url)?, 1)?, true).await
    }

    /// All migrations as SQL, with what is recorded of them: for who runs them by hand.
    pub fn script() -> String {
        schema::script()
    }
}

ports!(Postgres);

/// What it is and where, without user and password.
impl std::fmt::Display for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.store.database().shown)
    }
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Postgres").field("store", &self.store.database().shown).finish_non_exhaustive()
    }
}
