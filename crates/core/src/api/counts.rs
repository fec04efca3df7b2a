//! What a bulk request did.

use crate::engine::BulkCounts;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The words of [`BulkCounts`].
pub(super) const WORDS: [&str; 20] = [
    "cancelled",
    "cancel_requested",
    "already_finished",
    "retried",
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

/// How many jobs came to which outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Counts<'a>(#[serde(borrow)] pub BTreeMap<Cow<'a, str>, u64>);

impl From<BulkCounts> for Counts<'static> {
    fn from(counts: BulkCounts) -> Self {
        Self(counts.into_iter().map(|(word, count)| (Cow::Borrowed(word), count)).collect())
    }
}

/// Words of a newer server are counted as `other`.
impl From<Counts<'_>> for BulkCounts {
    fn from(counts: Counts<'_>) -> Self {
        let mut all = Self::new();
        for (word, count) in counts.0 {
            let known = WORDS.into_iter().find(|known| *known == word).unwrap_or("other");
            *all.entry(known).or_default() += count;
        }
        all
    }
}
