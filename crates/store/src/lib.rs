//! Where Duetime keeps jobs.
//!
//! - [`postgres`]: a ledger in PostgreSQL (feature `postgres`).
//! - [`redis`]: live jobs of many processes, with or without a ledger beside it (feature `redis`).
//! - [`sqlite`]: a ledger in a file, or in memory (feature `sqlite`).
//! - [`testing`]: private servers for tests (feature `testing`).

#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "postgres")]
mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(feature = "testing")]
pub mod testing;
