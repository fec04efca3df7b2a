//! How far a database's tables have come.

/// Which migrations have run, and which this version needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The number of the last migration that ran; 0 for none.
    pub found: usize,
    /// The number of the last that this version knows.
    pub known: usize,
}
