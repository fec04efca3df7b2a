//! Results of bulk requests.

use crate::request::BulkCounts;
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The words of [`BulkCounts`].
pub(super) const WORDS: [&str; 21] = [
    "cancelled",
    "cancel_requested",
    "already_finished",
    "retried",
    "rescheduled",
    "deleted",
    "invalid",
    "not_found",
    "key_conflict",
    "version_mismatch",
    "lease_lost",
    "job_running",
    "not_due",
    "held_back",
    "job_live",
    "store_full",
    "store_unavailable",
    "store_damaged",
    "stopping",
    "backlog",
    "other",
];

/// The number of jobs by outcome. Words of a newer server are counted as `other`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Counts(pub BulkCounts);

impl<'de> Deserialize<'de> for Counts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut counts = BulkCounts::new();
        for (word, count) in BTreeMap::<Cow<'_, str>, u64>::deserialize(deserializer)? {
            let known = WORDS.into_iter().find(|known| *known == word).unwrap_or("other");
            *counts.entry(known).or_default() += count;
        }
        Ok(Self(counts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_a_newer_server_are_other() {
        let counts: Counts = serde_json::from_str(r#"{"cancelled":3,"vaporised":1}"#).unwrap();
        assert_eq!(counts.0, BulkCounts::from([("cancelled", 3), ("other", 1)]));
        assert_eq!(serde_json::to_string(&counts).unwrap(), r#"{"cancelled":3,"other":1}"#);
    }
}
