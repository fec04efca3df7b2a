//! Numbers that a protocol keeps with a job, such as its own counters.
//! The core stores and shows them, and neither reads nor changes any.

use crate::invalid::Invalid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most marks of one job.
pub const MARKS_MAX: usize = 8;
/// Longest name of a mark.
pub const NAME_BYTES_MAX: usize = 32;

/// Numbers by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Marks(BTreeMap<Arc<str>, u64>);

impl Marks {
    /// The mark of this name.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// In the form that a job stores: without any, nothing.
    pub fn shared(self) -> Option<Arc<Self>> {
        (!self.0.is_empty()).then(|| Arc::new(self))
    }

    /// Whether they keep their limits.
    ///
    /// # Errors
    /// [`Invalid`].
    pub fn check(&self) -> Result<(), Invalid> {
        if self.0.len() > MARKS_MAX {
            return Err(Invalid::new("marks", format!("at most {MARKS_MAX}"), self.0.len()));
        }
        let is_name = |name: &str| {
            (1..=NAME_BYTES_MAX).contains(&name.len())
                && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        match self.0.keys().find(|name| !is_name(name)) {
            Some(name) => {
                let expected = format!("names of up to {NAME_BYTES_MAX} characters a-z, 0-9 and _");
                Err(Invalid::new("marks", expected, format!("{name:?}")))
            }
            None => Ok(()),
        }
    }

    /// About how many bytes of memory they take.
    pub(crate) fn bytes(&self) -> usize {
        self.0.keys().map(|name| size_of::<(Arc<str>, u64)>() + name.len()).sum::<usize>() + size_of::<Self>()
    }
}

impl<N: Into<Arc<str>>> FromIterator<(N, u64)> for Marks {
    fn from_iter<I: IntoIterator<Item = (N, u64)>>(marks: I) -> Self {
        Self(marks.into_iter().map(|(name, number)| (name.into(), number)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_few_and_have_short_names() {
        let longest = "n".repeat(NAME_BYTES_MAX);
        let marks: Marks = [("parks", 1), ("delay_ms", 0), (&*longest, u64::MAX)].into_iter().collect();
        assert_eq!(marks.check(), Ok(()));
        assert_eq!((marks.get("parks"), marks.get("none")), (Some(1), None));
        for name in ["", "Parks", "a b", &"n".repeat(NAME_BYTES_MAX + 1)] {
            let error = Marks::from_iter([(name, 1)]).check().unwrap_err().to_string();
            assert!(error.contains("`marks` must be names of up to 32 characters"), "{error}");
        }
        let many = (0..=MARKS_MAX as u64).map(|n| (format!("n{n}"), n)).collect::<Marks>();
        assert!(many.check().unwrap_err().to_string().contains("at most 8, got 9"));
        assert_eq!(Marks::default().shared(), None);
    }
}
