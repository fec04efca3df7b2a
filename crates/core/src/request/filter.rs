//! The job events that a subscriber wants.

use crate::invalid::Invalid;
use crate::limits::RESERVE_QUEUES_MAX;
use crate::model::name;
use crate::ports::{Transition, What};
use std::sync::Arc;

/// Ends a pattern that matches many queues.
const ANY: char = '*';

/// The events that a subscriber wants. By default all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Filter {
    /// Events of these queues, at most 64; `mail.*` means all whose names begin with `mail.`. Empty: of all queues.
    pub queues: Vec<Arc<str>>,
    /// Events of these types. Empty: all.
    pub what: Vec<What>,
}

impl Filter {
    /// Adds a queue whose events are wanted; `mail.*` means all whose names begin with `mail.`.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<Arc<str>>) -> Self {
        self.queues.push(queue.into());
        self
    }

    /// Adds types of events that are wanted.
    #[must_use]
    pub fn what(mut self, what: impl IntoIterator<Item = What>) -> Self {
        self.what.extend(what);
        self
    }

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        if self.queues.len() > RESERVE_QUEUES_MAX {
            let got = self.queues.len();
            return Err(Invalid::new("queues", format!("at most {RESERVE_QUEUES_MAX} queues"), got));
        }
        self.queues.iter().try_for_each(|queue| match queue.strip_suffix(ANY) {
            Some("") => Ok(()),
            Some(beginning) => name::check_queue(beginning),
            None => name::check_queue(queue),
        })
    }

    pub(crate) fn fits(&self, transition: &Transition) -> bool {
        let is_named = |queue: &Arc<str>| match queue.strip_suffix(ANY) {
            Some(beginning) => transition.queue.starts_with(beginning),
            None => *queue == transition.queue,
        };
        (self.what.is_empty() || self.what.contains(&transition.what))
            && (self.queues.is_empty() || self.queues.iter().any(is_named))
    }
}
