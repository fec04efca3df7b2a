//! A digest of a push. It is kept with the origin, and tells a repeat of the push from another push with the same origin.

use crate::hash;
use crate::invalid::Invalid;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

/// The parts of a push, and the bytes of the digest of each. With three bytes, one of 17 million other values counts as the
/// same.
const PARTS: [(&str, usize); 7] =
    [("payload", 6), ("kind", 3), ("due_at", 3), ("priority", 3), ("key", 3), ("tags", 3), ("options", 3)];
/// All of them.
const BYTES: usize = 24;

/// A digest of what was sent, part by part. Neither the queue nor the origin is one, since jobs with others are not compared; nor is the
/// trace, since each try of a request may have another; nor what is done if the key is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Sent([u8; BYTES]);

impl Sent {
    /// Of the parts, in the order of [`PARTS`].
    pub(super) fn of_parts(hashes: [u64; PARTS.len()]) -> Self {
        let mut bytes = [0; BYTES];
        let mut rest = &mut bytes[..];
        for ((_, length), hash) in PARTS.iter().zip(hashes) {
            let (part, others) = rest.split_at_mut(*length);
            part.copy_from_slice(&hash.to_be_bytes()[..*length]);
            rest = others;
        }
        Self(bytes)
    }

    /// The names of the parts in which they differ, as in JSON; `options` stands for all rarely used ones.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let mut at = 0;
        let mut differs = |length: usize| {
            let part = at..at + length;
            at = part.end;
            self.0[part.clone()] != other.0[part]
        };
        PARTS.iter().filter(|(_, length)| differs(*length)).map(|(name, _)| *name).collect()
    }
}

/// The hash of a part by its JSON, which is the same in every version.
pub(super) fn hash_of(value: &impl Serialize) -> u64 {
    hash::stable(&serde_json::to_vec(value).expect("such values have only string keys"))
}

impl Sent {
    /// As a store may keep it.
    pub fn bytes(&self) -> &[u8; BYTES] {
        &self.0
    }

    /// As a store has kept it.
    pub fn from_bytes(bytes: [u8; BYTES]) -> Self {
        Self(bytes)
    }
}

impl From<Sent> for String {
    fn from(sent: Sent) -> Self {
        URL_SAFE_NO_PAD.encode(sent.0)
    }
}

impl TryFrom<String> for Sent {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        let bytes = URL_SAFE_NO_PAD.decode(&text).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| Invalid::new("sent", format!("{BYTES} bytes in base64"), text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Span, Timestamp};
    use crate::model::job::{Due, KeyUntil, NewJob, OnConflict};
    use crate::model::meta::Meta;
    use crate::model::options::JobOptions;
    use crate::model::retry::Retry;

    fn new() -> NewJob {
        NewJob { origin: Some("o".into()), due: Due::After(Span(5)), ..NewJob::new(*b"1") }
    }

    /// The parts in which it differs from `new`.
    fn differences(other: &NewJob) -> Vec<&'static str> {
        new().sent().differences(&other.sent())
    }

    #[test]
    fn each_part_that_differs_is_named() {
        let options = |options| NewJob { options, ..new() };
        for (other, part) in [
            (NewJob { payload: (*b"2").into(), ..new() }, "payload"),
            (NewJob { kind: "k".into(), ..new() }, "kind"),
            (NewJob { due: Due::After(Span(6)), ..new() }, "due_at"),
            (NewJob { due: Due::At(Timestamp(5)), ..new() }, "due_at"),
            (NewJob { due: Due::Now, ..new() }, "due_at"),
            (NewJob { priority: 1, ..new() }, "priority"),
            (NewJob { key: Some("k".into()), ..new() }, "key"),
            (NewJob { key_until: KeyUntil::Started, ..new() }, "key"),
            (NewJob { tags: vec!["t".into()], ..new() }, "tags"),
            (NewJob { lease: Some(Span(1_000)), ..new() }, "options"),
            (NewJob { expires: Some(Span(1_000)), ..new() }, "options"),
            (options(Retry { max_attempts: Some(3), ..Retry::default() }.into()), "options"),
            (
                options(JobOptions { meta: Some(Meta::from_iter([("a", "b")]).into()), ..JobOptions::default() }),
                "options",
            ),
        ] {
            assert_eq!(differences(&other), [part], "{other:?}");
        }
        assert_eq!(differences(&NewJob { kind: "k".into(), priority: 2, ..new() }), ["kind", "priority"]);
    }

    #[test]
    fn what_a_repeat_may_change_is_no_difference() {
        let trace = JobOptions { trace: Some("t".into()), ..JobOptions::default() };
        for same in [
            new(),
            NewJob { options: trace, ..new() },
            NewJob { queue: "other".into(), origin: None, on_conflict: OnConflict::Reject, ..new() },
        ] {
            assert!(differences(&same).is_empty(), "{same:?}");
        }
    }

    /// Rows of any age are compared with it.
    #[test]
    fn it_never_changes_and_reads_back() {
        let sent = new().sent();
        let text = serde_json::to_string(&sent).unwrap();
        assert_eq!(text, r#""fDgy3eAg1HCEmDiqhcPzdUJlD2Dggmll""#);
        assert_eq!(serde_json::from_str::<Sent>(&text).unwrap(), sent);
        assert!(serde_json::from_str::<Sent>(r#""AAAA""#).is_err());
        assert_eq!(PARTS.iter().map(|(_, length)| length).sum::<usize>(), BYTES);
    }
}
