//! Where Duetime keeps jobs.
//!
//! - [`sqlite`]: a ledger in a file, or in memory (feature `sqlite`).
//! - [`testing`]: private servers for tests (feature `testing`).

#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(feature = "testing")]
pub mod testing;
