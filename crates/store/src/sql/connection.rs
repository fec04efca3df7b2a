//! What a kind of server is to us: connections that carry statements, and the text of these.

use super::fault::Fault;
use super::foreign::Words;
use super::statements::{Bulk, Statements};
use super::value::{Row, Rows, Value};
use async_trait::async_trait;
use duetime_core::Error;
use std::sync::Arc;

/// A server by its URL, with at most so many connections; none is made yet.
pub(super) type Open = fn(&str, usize) -> Result<Arc<dyn Database>, Error>;

/// A kind of server.
pub(super) struct Dialect {
    /// For people.
    pub(super) name: &'static str,
    /// A server of this kind.
    pub(super) open: Open,
    /// The migrations; the first is number 1. Statements end with `;` at the end of a line.
    pub(super) migrations: &'static [&'static str],
    /// Whether a failed migration takes back what it did to tables.
    pub(super) is_transactional: bool,
    /// Asks whether there is a `duetime_meta`: 0 or 1.
    pub(super) has_tables: &'static str,
    /// Asks for the time in milliseconds.
    pub(super) clock: &'static str,
    /// How a table of another program is read.
    pub(super) foreign: Words,
    /// What is sent to it.
    pub(super) statements: Statements,
}

/// A server and its connections.
#[async_trait]
pub(super) trait Database: Send + Sync {
    /// Which kind it is.
    fn dialect(&self) -> &'static Dialect;

    /// Its address, without user and password.
    fn shown(&self) -> &str;

    /// A connection that works, as far as can be told.
    async fn connection(&self) -> Result<Box<dyn Connection>, Fault>;

    /// Closes all that are not borrowed.
    async fn close(&self);
}

/// What came of a statement.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) rows: Vec<Row>,
    /// How many rows were inserted, changed or removed.
    pub(super) changed: u64,
}

/// A connection, borrowed. Dropped while it is held, it is closed: nobody knows what it is in the middle of.
#[async_trait]
pub(super) trait Connection: Send {
    /// From here it is in the middle of something, or is not any more.
    fn hold(&mut self, is_held: bool);

    /// Sends statements without values, and without preparing.
    async fn send(&mut self, statements: &str) -> Result<(), Fault>;

    /// Asks without preparing, for what is asked once.
    async fn ask(&mut self, statement: &str) -> Result<Vec<Row>, Fault>;

    /// Runs a statement.
    async fn run(&mut self, statement: &'static str, values: Vec<Value<'_>>) -> Result<Answer, Fault>;

    /// Runs a statement for many rows, in as many parts as it takes.
    async fn run_for(&mut self, statement: &'static Bulk, rows: Rows<'_>) -> Result<Answer, Fault>;

    /// Whether the server is one that we can work with.
    async fn fit(&mut self, may_lose: bool) -> Result<(), Fault>;

    /// Waits until no other node migrates this database; so until the connection is closed. What follows may take long.
    async fn lock_schema(&mut self) -> Result<(), Fault>;
}
