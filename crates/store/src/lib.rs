//! Where Duetime keeps jobs.
//!
//! - [`ledger`]: the ledger that an address names (features `mysql`, `postgres`).
//! - [`mysql`]: a ledger in MySQL or MariaDB (feature `mysql`).
//! - [`open`]: any of these, by what names it, ready for an engine.
//! - [`pair`]: Redis beside such a ledger.
//! - [`postgres`]: a ledger in PostgreSQL (feature `postgres`).
//! - [`private`]: files that only their owner can read (feature `sqlite`).
//! - [`redis`]: live jobs of many processes, with or without a ledger beside it (feature `redis`).
//! - [`sqlite`]: a ledger in a file, or in memory (feature `sqlite`).
//! - [`testing`]: private servers for tests (feature `testing`).

#[cfg(any(feature = "redis", feature = "mysql", feature = "postgres"))]
mod keep;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub mod ledger;
#[cfg(feature = "mysql")]
pub mod mysql;
pub mod open;
#[cfg(all(feature = "redis", any(feature = "mysql", feature = "postgres")))]
pub mod pair;
#[cfg(any(feature = "redis", feature = "mysql", feature = "postgres"))]
mod place;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod private;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(feature = "sqlite", feature = "mysql", feature = "postgres"))]
mod sums;
#[cfg(feature = "testing")]
pub mod testing;
