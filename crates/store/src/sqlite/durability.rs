//! When acknowledged changes are on disk.

use duetime_core::Error;

/// When acknowledged changes are on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::Display, strum::EnumString)]
#[strum(serialize_all = "snake_case", parse_err_ty = Error, parse_err_fn = unknown)]
#[non_exhaustive]
pub enum Durability {
    /// Before the acknowledgement. Nothing acknowledged is lost, even in a power failure.
    #[default]
    Commit,
    /// At most 50 ms after the acknowledgement. A process crash loses nothing; a power failure may lose the last 50 ms.
    Interval,
    /// When the operating system writes it. A process crash loses nothing; a power failure may damage the file.
    None,
}

impl Durability {
    /// The data that it could lose, and when.
    pub(crate) fn loss(self) -> &'static str {
        match self {
            Self::Commit => "nothing acknowledged, if the disk keeps synced data",
            Self::Interval => "up to 50 ms of acknowledged changes in a power failure; nothing in a crash",
            Self::None => "the whole file, in a power failure; nothing in a crash of this process",
        }
    }

    /// The statement that sets which of its writes SQLite syncs.
    pub(super) fn synchronous(self) -> &'static str {
        match self {
            Self::Commit => FULL,
            Self::Interval => NORMAL,
            Self::None => OFF,
        }
    }
}

fn unknown(text: &str) -> Error {
    Error::invalid("durability", "`commit`, `interval` or `none`", format!("{text:?}"))
}

/// SQLite syncs no writes.
pub(super) const OFF: &str = "PRAGMA synchronous = OFF";
/// SQLite syncs checkpoints.
pub(super) const NORMAL: &str = "PRAGMA synchronous = NORMAL";
/// SQLite syncs commits, too.
pub(super) const FULL: &str = "PRAGMA synchronous = FULL";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back() {
        for durability in [Durability::Commit, Durability::Interval, Durability::None] {
            assert_eq!(durability.to_string().parse::<Durability>().unwrap(), durability);
        }
        assert!("Commit".parse::<Durability>().is_err());
    }
}
