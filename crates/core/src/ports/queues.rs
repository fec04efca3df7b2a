//! Selections of queues.

use crate::limits::STEP_QUEUES_MAX;
use std::sync::Arc;

/// A selection of queues. Names are ordered by their bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Queues {
    /// These queues.
    Named(Vec<Arc<str>>),
    /// From this name on at most `limit` (and at most [`STEP_QUEUES_MAX`]), in the order of their names. Fewer are returned
    /// only at the end.
    From(Arc<str>, usize),
}

impl Queues {
    /// The first page of all queues.
    pub fn first() -> Self {
        Self::From(Arc::from(""), STEP_QUEUES_MAX)
    }

    /// The page after the one that was answered with these; `None` at the end.
    pub fn next<'a>(&self, answered: impl ExactSizeIterator<Item = &'a Arc<str>>) -> Option<Self> {
        let &Self::From(_, limit) = self else { return None };
        let is_all = answered.len() < limit.min(STEP_QUEUES_MAX);
        let last = answered.last().filter(|_| !is_all)?;
        Some(Self::From(after(last), limit))
    }

    /// One queue.
    pub fn one(queue: &Arc<str>) -> Self {
        Self::Named(vec![queue.clone()])
    }
}

/// The least name that is greater than this one.
pub fn after(queue: &str) -> Arc<str> {
    // The least character that names may contain.
    Arc::from(format!("{queue}$"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_lies_between_a_name_and_the_one_after_it() {
        let names = (0..=u8::MAX).map(|byte| format!("a{}", char::from(byte)));
        for name in names.filter(|name| crate::model::name::check_queue(name).is_ok()) {
            assert!(*after("a") <= *name && *after("a") > *"a", "{name}");
        }
    }
}
