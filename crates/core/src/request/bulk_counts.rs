//! How many jobs of a bulk request had which outcome.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// How many jobs of a bulk request had which outcome. JSON has only outcomes with jobs, and errors among them by their codes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BulkCounts {
    /// Jobs that will not run.
    pub cancelled: u64,
    /// Jobs that are running; their workers are asked to stop.
    pub cancel_requested: u64,
    /// Jobs that had ended before.
    pub already_finished: u64,
    /// Jobs that run again.
    pub retried: u64,
    /// Jobs with a new due time.
    pub rescheduled: u64,
    /// Jobs without a record now.
    pub deleted: u64,
    /// Jobs that were not changed, by the code of the error. An outcome of a newer server is here, too, under its word.
    pub errors: BTreeMap<String, u64>,
}

impl BulkCounts {
    /// Outcomes that had jobs, with their number, in the order of their words.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        let Self { cancelled, cancel_requested, already_finished, retried, rescheduled, deleted, errors } = self;
        let outcomes = [
            ("cancelled", cancelled),
            ("cancel_requested", cancel_requested),
            ("already_finished", already_finished),
            ("retried", retried),
            ("rescheduled", rescheduled),
            ("deleted", deleted),
        ];
        let errors = errors.iter().map(|(code, count)| (&**code, count));
        let all: BTreeMap<&str, u64> = outcomes.into_iter().chain(errors).map(|(word, count)| (word, *count)).collect();
        all.into_iter().filter(|(_, count)| *count > 0)
    }

    /// Whether no job was found.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Counts jobs with this outcome.
    pub(crate) fn add(&mut self, word: &str, jobs: u64) {
        let count = match word {
            "cancelled" => &mut self.cancelled,
            "cancel_requested" => &mut self.cancel_requested,
            "already_finished" => &mut self.already_finished,
            "retried" => &mut self.retried,
            "rescheduled" => &mut self.rescheduled,
            "deleted" => &mut self.deleted,
            code => self.errors.entry(code.to_owned()).or_default(),
        };
        *count += jobs;
    }
}

impl<W: AsRef<str>> FromIterator<(W, u64)> for BulkCounts {
    fn from_iter<I: IntoIterator<Item = (W, u64)>>(counts: I) -> Self {
        let mut all = Self::default();
        counts.into_iter().for_each(|(word, jobs)| all.add(word.as_ref(), jobs));
        all
    }
}

impl<const N: usize> From<[(&str, u64); N]> for BulkCounts {
    fn from(counts: [(&str, u64); N]) -> Self {
        counts.into_iter().collect()
    }
}

impl Serialize for BulkCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for BulkCounts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        BTreeMap::<Cow<'_, str>, u64>::deserialize(deserializer).map(Self::from_iter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_outcomes_with_jobs_and_errors_by_code() {
        let text = r#"{"cancel_requested":2,"cancelled":3,"store_full":4,"vaporised":1}"#;
        let counts: BulkCounts = serde_json::from_str(text).unwrap();
        assert_eq!((counts.cancelled, counts.cancel_requested, counts.retried), (3, 2, 0));
        let errors = [("store_full".to_owned(), 4), ("vaporised".to_owned(), 1)];
        assert_eq!(counts.errors, errors.into(), "an outcome of a newer server is kept");
        assert_eq!(serde_json::to_string(&counts).unwrap(), text);
        let words = ["cancelled", "cancel_requested", "already_finished", "retried", "rescheduled", "deleted"];
        let each: BulkCounts = words.into_iter().map(|word| (word, 1)).collect();
        assert!(each.errors.is_empty() && each.iter().count() == words.len(), "{each:?}");
        assert!(BulkCounts::default().is_empty() && !each.is_empty());
    }
}
