//! Storage for Duetime's jobs.
//!
//! - [`open`]: opens any of these stores, ready for an engine.
//! - [`pair`]: Redis beside a ledger in an SQL server.
//! - [`private`]: files that only their owner can read (feature `sqlite`).
//! - [`redis`]: live jobs of many processes, with or without a ledger beside it (feature `redis`).
//! - [`sql`]: a ledger in MySQL or MariaDB (feature `mysql`) or PostgreSQL (feature `postgres`).
//! - [`sqlite`]: a ledger in a file, or in memory (feature `sqlite`).
//! - [`testing`]: private servers for tests (feature `testing`).

#[cfg(any(feature = "redis", feature = "mysql", feature = "postgres"))]
mod keep;
pub mod open;
#[cfg(all(feature = "redis", any(feature = "mysql", feature = "postgres")))]
pub mod pair;
#[cfg(any(feature = "redis", feature = "mysql", feature = "postgres"))]
mod place;
#[cfg(feature = "sqlite")]
pub mod private;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(feature = "sqlite", feature = "mysql", feature = "postgres"))]
mod sums;
#[cfg(feature = "testing")]
pub mod testing;
