//! What a ledger knows to be wrong with itself.

/// A part of a ledger that does not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It has refused changes for lack of room.
    Full,
    /// Its files are no longer where they were opened, so it refuses changes.
    Moved,
    /// It refuses changes for another reason.
    Unwritable,
    /// Some of its content cannot be read, or is missing.
    Damaged,
    /// It removes records of finished jobs before their time, to make room for jobs.
    DropsRecords,
    /// It may lose jobs when its memory runs short.
    Evicts,
}

impl Trouble {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Full, Self::Moved, Self::Unwritable, Self::Damaged, Self::DropsRecords, Self::Evicts];

    /// Whether the ledger refuses changes.
    pub fn refuses(self) -> bool {
        matches!(self, Self::Full | Self::Moved | Self::Unwritable)
    }
}
