//! Which queues are asked for.

use crate::limits::STEP_QUEUES_MAX;
use std::sync::Arc;

/// Which queues are asked for. A name is greater than another by its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Queues {
    /// These.
    Named(Vec<Arc<str>>),
    /// From this name on at most so many (and at most [`STEP_QUEUES_MAX`]), in the order of their names. Fewer are answered
    /// only where there are no more.
    From(Arc<str>, usize),
}

impl Queues {
    /// The first ones of all.
    pub fn first() -> Self {
        Self::From(Arc::from(""), STEP_QUEUES_MAX)
    }

    /// Those that follow what this was answered with; `None` where that is all.
    pub fn next<'a>(&self, answered: impl ExactSizeIterator<Item = &'a Arc<str>>) -> Option<Self> {
        let &Self::From(_, limit) = self else { return None };
        let is_all = answered.len() < limit.min(STEP_QUEUES_MAX);
        let last = answered.last().filter(|_| !is_all)?;
        Some(Self::From(after(last), limit))
    }

    /// One.
    pub fn one(queue: &Arc<str>) -> Self {
        Self::Named(vec![queue.clone()])
    }
}

/// The least name that is greater than this one.
pub fn after(queue: &str) -> Arc<str> {
    // The least character of which names are made.
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
