//! Numbers, instants and lengths as text, the same in every language.

use duetime_core::Millis;
use duetime_core::api::{Span, Timestamp};
use indicatif::HumanCount;

/// A number with all its digits.
pub(super) fn number(number: u64) -> String {
    HumanCount(number).to_string()
}

/// An instant in UTC, to the second.
pub(super) fn instant_text(at: Millis) -> String {
    let exact = Timestamp(at).to_string();
    format!("{} {} UTC", exact.get(..10).unwrap_or_default(), exact.get(11..19).unwrap_or_default())
}

/// A length as the API writes it.
pub(super) fn exact(ms: u64) -> String {
    Span(ms).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_all_their_digits() {
        for (value, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (u64::MAX, "18,446,744,073,709,551,615")] {
            assert_eq!(number(value), text);
        }
    }
}
