//! Queues of frameworks in Redis: lists of ready jobs, and sorted sets of those that are due later, in seconds. Jobs of Laravel and Sidekiq
//! can go back to their own workers once they are due.
//!
//! A claim of these two is three texts: the key, the member, and its score. A member of a list has the time of the claim as its score.

pub(super) mod laravel;
pub(super) mod message_queue;
pub(super) mod sidekiq;
mod survey;

use duetime_core::api;
use duetime_core::api::Timestamp;
use duetime_core::limits::{INSTANT_MS_MIN, KIND_BYTES_MAX, TAG_BYTES_MAX};
use duetime_core::{Due, Millis};
use serde::Deserialize;
use std::sync::Arc;

/// The texts that are stored of a claim.
type Texts = [Vec<u8>];

/// A claim: key, member, and instant in milliseconds.
fn claimed(texts: &Texts) -> Result<(&[u8], &[u8], Millis), String> {
    let [key, member, score] = texts else {
        return Err(format!("a claim must have a key, a member and a score; this one has {} values", texts.len()));
    };
    let at = instant(score).ok_or_else(|| format!("expected a score, got {}", String::from_utf8_lossy(score)))?;
    Ok((key, member, at))
}

/// A member that is an object in JSON. Structs would also be read from an array.
fn object<'a, T: Deserialize<'a>>(member: &'a [u8]) -> Result<T, api::Unread> {
    api::read_bytes(member).map(|api::Object(value)| value)
}

/// A score in seconds as milliseconds since 1970, rounded up.
fn instant(score: &[u8]) -> Option<Millis> {
    let seconds: f64 = std::str::from_utf8(score).ok()?.parse().ok()?;
    // A float of today has no digits beyond microseconds. Below 0 it is 0.
    (!seconds.is_nan()).then(|| ((seconds * 1e6).round() as u64).div_ceil(1_000))
}

/// An instant as a due time. Programs that want a job at once may give it the score 0.
fn due(at: Millis) -> Due {
    if at < INSTANT_MS_MIN { Due::Now } else { Due::At(Timestamp(at)) }
}

/// A class as a kind: the start of a name that is too long.
fn kind(class: &str) -> Arc<str> {
    let end = (0..=KIND_BYTES_MAX.min(class.len())).rev().find(|&end| class.is_char_boundary(end)).unwrap_or(0);
    Arc::from(&class[..end])
}

/// A job's tags: that of its source, and its id there.
fn tags(source: Arc<str>, name: &str, id: &str) -> Vec<Arc<str>> {
    let own = format!("{name}:{id}");
    let own = (!id.is_empty() && own.len() <= TAG_BYTES_MAX).then(|| Arc::from(own));
    std::iter::once(source).chain(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_instants_that_are_not_early() {
        for (score, expected) in [
            ("1700000000", Some(1_700_000_000_000)),
            ("1700000000.123", Some(1_700_000_000_123)),
            ("1700000000.1230011", Some(1_700_000_000_124)),
            ("1.7e+9", Some(1_700_000_000_000)),
            ("0", Some(0)),
            ("-5", Some(0)),
            ("-inf", Some(0)),
            ("nan", None),
            ("", None),
        ] {
            assert_eq!(instant(score.as_bytes()), expected, "{score}");
        }
        assert!(instant(b"inf").unwrap() > 1 << 50, "so late that it is refused");
        assert_eq!((due(0), due(1_700_000_000_000)), (Due::Now, Due::At(Timestamp(1_700_000_000_000))));
    }

    #[test]
    fn names_keep_their_limits() {
        assert_eq!(&*kind("App\\Jobs\\Ship"), "App\\Jobs\\Ship");
        assert_eq!(kind(&"é".repeat(200)).len(), KIND_BYTES_MAX);
        assert_eq!(kind(&format!("x{}", "é".repeat(200))).len(), KIND_BYTES_MAX - 1);
        let source = || Arc::from("adopted:mail");
        assert_eq!(tags(source(), "jid", "b4a5").len(), 2);
        assert_eq!(tags(source(), "jid", &"x".repeat(252)).len(), 1);
        assert_eq!(tags(source(), "jid", "").len(), 1);
    }
}
