//! The interface to a kind of server: connections that run statements, and the text of these.

use super::fault::Fault;
use super::statements::{Bulk, Statements};
use super::value::{Row, Rows, Value};
use async_trait::async_trait;
use duetime_core::Error;
use std::sync::Arc;

/// Opens a server by its URL, with at most this many connections. It does not connect yet.
pub(super) type Open = fn(&str, usize) -> Result<Arc<dyn Database>, Error>;

/// A kind of server.
pub(super) struct Dialect {
    /// Its display name.
    pub(super) name: &'static str,
    /// Opens a server of this kind.
    pub(super) open: Open,
    /// The migrations; the first is number 1. Statements end with `;` at the end of a line.
    pub(super) migrations: &'static [&'static str],
    /// Whether a failed migration rolls back changes of tables.
    pub(super) is_transactional: bool,
    /// Query for whether `duetime_meta` exists: 0 or 1.
    pub(super) has_tables: &'static str,
    /// Query for the time in milliseconds.
    pub(super) clock: &'static str,
    /// How to read a table of another program.
    pub(super) foreign: Words,
    /// The text of all statements.
    pub(super) statements: Statements,
}

/// Parts of queries about a table of another program.
pub(super) struct Words {
    /// The quote character for names.
    pub(super) quote: char,
    /// The type of text, in a cast.
    pub(super) text: &'static str,
    /// The schema of a table if none is named, as an expression.
    pub(super) schema: &'static str,
}

/// A server and its connections.
#[async_trait]
pub(super) trait Database: Send + Sync {
    /// Its kind.
    fn dialect(&self) -> &'static Dialect;

    /// Its address, without user and password.
    fn shown(&self) -> &str;

    /// Returns a connection that is not known to be broken.
    async fn connection(&self) -> Result<Box<dyn Connection>, Fault>;

    /// Closes all connections that are not borrowed.
    async fn close(&self);
}

/// The result of a statement.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) rows: Vec<Row>,
    /// How many rows were inserted, changed or removed.
    pub(super) changed: u64,
}

/// A borrowed connection. If it is dropped while it is held, it is closed, because its state is unknown.
#[async_trait]
pub(super) trait Connection: Send {
    /// Marks the connection as busy (within a transaction, say) or idle.
    fn hold(&mut self, is_held: bool);

    /// Sends statements without values and without preparing them.
    async fn send(&mut self, statements: &str) -> Result<(), Fault>;

    /// Runs a query without preparing it, for queries that run once.
    async fn ask(&mut self, statement: &str) -> Result<Vec<Row>, Fault>;

    /// Runs a statement.
    async fn run(&mut self, statement: &'static str, values: Vec<Value<'_>>) -> Result<Answer, Fault>;

    /// Runs a statement for many rows, split into parts if necessary.
    async fn run_for(&mut self, statement: &'static Bulk, rows: Rows<'_>) -> Result<Answer, Fault>;

    /// Checks that the server is suitable.
    async fn fit(&mut self, may_lose: bool) -> Result<(), Fault>;

    /// Waits for the migration lock of this database and keeps it until the connection is closed. Later statements may take
    /// long.
    async fn lock_schema(&mut self) -> Result<(), Fault>;
}
