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
mod buckets;
mod call;
mod changes;
mod connect;
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
mod server;
mod session;
mod statements;
mod store;
mod tally;
#[cfg(feature = "testing")]
pub mod testing;
mod value;
mod writer;

pub use connect::{check, connect, migrate, probe, script};
pub use foreign::Foreign;
pub use options::Options;
pub(crate) use probe::NAME;
pub use probe::ProbeReport;
pub use schema::Schema;
pub use server::check_url;
pub use store::Store;
