//! Trace contexts: a job belongs to a trace, given as the `traceparent` of W3C Trace Context. This module defines them; the
//! edges open spans.

use crate::invalid::Invalid;
use crate::limits::TRACE_BYTES;

/// Bytes of each of its parts.
const PARTS: [usize; 4] = [2, 32, 16, 2];

/// Whether it is a `traceparent`, such as `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`.
///
/// # Errors
/// [`Invalid`].
pub fn check(trace: &str) -> Result<(), Invalid> {
    let expected = "a W3C traceparent such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let refused = |got: &str| Err(Invalid::new("trace", expected, got));
    if trace.len() != TRACE_BYTES {
        return refused(&format!("{} bytes", trace.len()));
    }
    let is_hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let parts: Vec<&str> = trace.split('-').collect();
    if !parts.iter().map(|part| part.len()).eq(PARTS) || !parts.iter().all(|part| is_hex(part)) {
        return refused("another form");
    }
    let is_zero = |part: &str| part.bytes().all(|byte| byte == b'0');
    match parts[..] {
        ["ff", ..] => refused("version ff, which is invalid"),
        [_, trace_id, ..] if is_zero(trace_id) => refused("a trace id of zeros"),
        [_, _, parent_id, _] if is_zero(parent_id) => refused("a parent id of zeros"),
        _ => Ok(()),
    }
}

/// The trace id and the parent id of a `traceparent` that was [checked](check); empty if it was not.
pub fn ids(trace: &str) -> (&str, &str) {
    (trace.get(3..35).unwrap_or_default(), trace.get(36..52).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_has_ids() {
        check(TRACE).unwrap();
        check(&TRACE.replace("00-4", "01-4")).unwrap();
        assert_eq!(ids(TRACE), ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"));
        assert_eq!(ids("é"), ("", ""));
    }

    #[test]
    fn what_is_no_traceparent_is_refused() {
        for (trace, why) in [
            ("", "0 bytes"),
            (&TRACE[1..], "54 bytes"),
            (&format!("{TRACE}-more"), "60 bytes"),
            (&TRACE.to_uppercase(), "another form"),
            (&TRACE.replace('-', "0"), "another form"),
            (&TRACE.replace("00-4bf", "00-4-f"), "another form"),
            (&TRACE.replace("00-4", "ff-4"), "version ff"),
            (&TRACE.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)), "a trace id of zeros"),
            (&TRACE.replace("00f067aa0ba902b7", &"0".repeat(16)), "a parent id of zeros"),
        ] {
            let error = check(trace).unwrap_err();
            assert!(error.to_string().contains(why), "{trace}: {error}");
        }
    }
}
