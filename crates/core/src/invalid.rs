//! Values that are refused.

use std::borrow::Cow;
use std::fmt;

/// The expectation of a field that must not be left out.
pub const GIVEN: &str = "given";
/// Stands for a field that is missing.
pub const NOTHING: &str = "nothing";
/// Stands for a field or a parameter that does not exist.
pub const UNKNOWN: &str = "an unknown name";

/// Begins what is expected in place of an unknown name, if one resembles it.
pub const MEANT: &str = "did you mean ";

/// A value outside a limit, or malformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The part of the request.
    pub what: Cow<'static, str>,
    /// The accepted values.
    pub expected: String,
    /// The actual value.
    pub got: String,
}

impl Invalid {
    /// A value of `what` that is not as expected.
    pub fn new(what: impl Into<Cow<'static, str>>, expected: impl Into<String>, got: impl fmt::Display) -> Self {
        Self { what: what.into(), expected: expected.into(), got: got.to_string() }
    }

    /// The parts of a [message](fmt::Display).
    pub(crate) fn parse(said: &str) -> Option<Self> {
        let (what, rest) = said.strip_prefix('`')?.split_once('`')?;
        let (expected, got) = if rest == " is missing" {
            (GIVEN, NOTHING)
        } else if let Some(expected) =
            rest.strip_prefix(" is unknown, expected ").or_else(|| rest.strip_prefix(" is unknown; "))
        {
            (expected, UNKNOWN)
        } else {
            rest.strip_prefix(" must be ")?.split_once(", got ")?
        };
        Some(Self::new(what.to_owned(), expected, got))
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, expected, got } = self;
        match (&**expected, &**got) {
            (GIVEN, NOTHING) => write!(f, "`{what}` is missing"),
            // What was probably meant comes first.
            (_, UNKNOWN) if expected.starts_with(MEANT) => write!(f, "`{what}` is unknown; {expected}"),
            (_, UNKNOWN) => write!(f, "`{what}` is unknown, expected {expected}"),
            _ => write!(f, "`{what}` must be {expected}, got {got}"),
        }
    }
}

impl std::error::Error for Invalid {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_can_be_taken_apart() {
        for (expected, got, said) in [
            ("a string", "the number 5", "`a.b` must be a string, got the number 5"),
            (GIVEN, NOTHING, "`a.b` is missing"),
            ("one of `c`", UNKNOWN, "`a.b` is unknown, expected one of `c`"),
            ("did you mean `c`? Accepted: `c`, `d`", UNKNOWN, "`a.b` is unknown; did you mean `c`? Accepted: `c`, `d`"),
        ] {
            let invalid = Invalid::new("a.b", expected, got);
            assert_eq!(invalid.to_string(), said);
            assert_eq!(Invalid::parse(said), Some(invalid));
        }
    }
}
