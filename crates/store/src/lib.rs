//! Where Duetime keeps jobs.
//!
//! - [`sqlite`]: a ledger in a file, or in memory (feature `sqlite`).

#[cfg(feature = "sqlite")]
pub mod sqlite;
