//! The name of a server in its log, which tells the logs of many servers apart.

use duetime_core::printable::printable;
use std::str::FromStr;

/// The longest name.
const CHARS_MAX: usize = 64;

/// A name without spaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Instance(String);

impl Instance {
    /// The machine's name and the process id.
    pub(super) fn of_process() -> Self {
        let host = nix::unistd::gethostname().ok().and_then(|host| host.into_string().ok());
        let id = std::process::id();
        // A host name may be anything. If it is not a valid name here, the process id is used alone.
        let name = host.map_or_else(|| id.to_string(), |host| format!("{host}:{id}"));
        name.parse().unwrap_or_else(|_| Self(id.to_string()))
    }

    pub(super) fn name(&self) -> &str {
        &self.0
    }
}

impl FromStr for Instance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_fit = |(c, is_hidden): (char, bool)| !c.is_whitespace() && !is_hidden;
        if (1..=CHARS_MAX).contains(&text.chars().count()) && printable(text).all(is_fit) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!("expected a name of 1 to {CHARS_MAX} visible characters without spaces"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read() {
        for right in ["a", "shop-1:77", "Ördér", &"x".repeat(64)] {
            assert_eq!(right.parse::<Instance>().unwrap().name(), right);
        }
        for wrong in ["", " ", "a b", "a\n", "\u{1b}[2J", &"x".repeat(65)] {
            assert!(wrong.parse::<Instance>().is_err(), "{wrong:?}");
        }
        assert!(Instance::of_process().name().ends_with(&std::process::id().to_string()));
    }
}
