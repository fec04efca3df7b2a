//! Preconditions of a change.

use crate::error::Error;
use std::sync::Arc;

/// The precondition of a change to a schedule, or to a queue's settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precondition {
    /// No precondition.
    #[default]
    Anything,
    /// Nothing yet.
    Nothing,
    /// Something.
    Something,
    /// Something in this version.
    Version(u64),
}

impl Precondition {
    /// Checks it. `kind` is `schedule` or `queue`; 0 means that there is none.
    ///
    /// # Errors
    /// [`Error::Changed`].
    pub fn check(self, kind: &'static str, name: &str, current: u64) -> Result<(), Error> {
        let is_so = match self {
            Self::Anything => true,
            Self::Nothing => current == 0,
            Self::Something => current > 0,
            Self::Version(version) => current == version,
        };
        if is_so { Ok(()) } else { Err(Error::Changed { kind, name: Arc::from(name), current }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_compared() {
        let passes = |expected: Precondition| [0, 7, 8].map(|current| expected.check("queue", "q", current).is_ok());
        assert_eq!(passes(Precondition::Anything), [true, true, true]);
        assert_eq!(passes(Precondition::Nothing), [true, false, false]);
        assert_eq!(passes(Precondition::Something), [false, true, true]);
        assert_eq!(passes(Precondition::Version(7)), [false, true, false]);
        let error = Precondition::Version(7).check("queue", "q", 8).unwrap_err();
        assert_eq!(error, Error::Changed { kind: "queue", name: Arc::from("q"), current: 8 });
    }
}
