//! How a store in an SQL server is opened.

/// How a store in an SQL server is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Maximum number of connections of this process; 8 by default.
    pub connections: usize,
    /// How many transactions write new jobs and outcomes at the same time; 2 by default.
    pub writers: usize,
    /// Whether tables are created or migrated if they are not those of this version; they are by default. Otherwise opening
    /// fails, and the error says what to run.
    pub migrates: bool,
    /// Whether to accept a server whose settings risk losing acknowledged changes when its machine crashes; by default it is
    /// refused.
    pub may_lose: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { connections: 8, writers: 2, migrates: true, may_lose: false }
    }
}
