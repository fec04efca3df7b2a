//! How a store in an SQL server is opened.

/// How a store in an SQL server is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Most connections of this process; by default 8.
    pub connections: usize,
    /// How many transactions write new jobs and outcomes at the same time; by default 2.
    pub writers: usize,
    /// Whether tables are made or changed where they are not those of this version; by default they are. Else opening
    /// fails, and says what to run.
    pub migrates: bool,
    /// Whether a server is taken that may lose what it has acknowledged when its machine crashes, as it is set; by
    /// default it is refused.
    pub may_lose: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { connections: 8, writers: 2, migrates: true, may_lose: false }
    }
}
