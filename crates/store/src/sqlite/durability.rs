//! How much an answer promises.

use duetime_core::Error;
use std::fmt;
use std::str::FromStr;

/// When what was answered is on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    const ALL: [Self; 3] = [Self::Commit, Self::Interval, Self::None];

    fn word(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Interval => "interval",
            Self::None => "none",
        }
    }

    /// What it could lose, and when.
    pub(crate) fn loss(self) -> &'static str {
        match self {
            Self::Commit => "nothing that was acknowledged, if the disk keeps what was synced",
            Self::Interval => "up to 50 ms of acknowledged changes in a power failure; nothing in a crash",
            Self::None => "the whole file, in a power failure; nothing in a crash of this process",
        }
    }

    /// SQLite's `synchronous` for it: FULL, NORMAL, OFF.
    pub(super) fn synchronous(self) -> Synchronous {
        match self {
            Self::Commit => Synchronous::Full,
            Self::Interval => Synchronous::Normal,
            Self::None => Synchronous::Off,
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Durability {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|durability| durability.word() == text);
        found.ok_or_else(|| Error::invalid("durability", "`commit`, `interval` or `none`", format!("{text:?}")))
    }
}

/// Which of its writes SQLite waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Synchronous {
    /// None.
    Off,
    /// Those of checkpoints.
    Normal,
    /// Those of commits too.
    Full,
}

impl Synchronous {
    pub(super) fn pragma(self) -> &'static str {
        match self {
            Self::Off => "PRAGMA synchronous = OFF",
            Self::Normal => "PRAGMA synchronous = NORMAL",
            Self::Full => "PRAGMA synchronous = FULL",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back() {
        for durability in Durability::ALL {
            assert_eq!(durability.to_string().parse::<Durability>().unwrap(), durability);
        }
        assert!("Commit".parse::<Durability>().is_err());
    }
}
