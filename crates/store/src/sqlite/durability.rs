//! How much an answer promises.

use duetime_core::Error;

/// When what was answered is on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::Display, strum::EnumString)]
#[strum(serialize_all = "snake_case", parse_err_ty = Error, parse_err_fn = unknown)]
pub enum Durability {
    /// Before the answer. Nothing answered is lost, not even when the power fails.
    #[default]
    Commit,
    /// At most 50 ms after the answer. Ending the process loses nothing; a power failure may lose the last 50 ms.
    Interval,
    /// When the system writes it. Ending the process loses nothing; a power failure may damage the file.
    None,
}

impl Durability {
    /// What it could lose, and when.
    pub(crate) fn loss(self) -> &'static str {
        match self {
            Self::Commit => "nothing that was acknowledged, if the disk keeps what was synced",
            Self::Interval => "up to 50 ms of acknowledged changes in a power failure; nothing in a crash",
            Self::None => "the whole file, in a power failure; nothing in a crash of this process",
        }
    }

    /// The statement that says which of its writes SQLite waits for.
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

/// SQLite waits for no write.
pub(super) const OFF: &str = "PRAGMA synchronous = OFF";
/// SQLite waits for the writes of checkpoints.
pub(super) const NORMAL: &str = "PRAGMA synchronous = NORMAL";
/// SQLite waits for the writes of commits, too.
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
