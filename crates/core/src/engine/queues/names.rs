//! The names of queues that this process has seen: their number is bounded, because each costs memory, here and in the store, and a caller
//! who may push can make as many as it likes.
//!
//! A name counts from its first push. Now and then the stores are asked which queues there still are ([`recount`](Names::recount)), and
//! the others no longer count. A new name beyond the bound is refused; those that are known always pass.

use crate::api::each_follow_up;
use crate::error::Error;
use crate::model::options::JobOptions;
use crate::model::retry::WhenExhausted;
use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Memory for live jobs of which there may be one queue: four times as much as one takes.
const BYTES_EACH: u64 = 4 << 10;
/// Queues that there may be with the default memory, 512 MiB; also where Redis holds the jobs.
const DEFAULT: usize = 131_072;
/// Queues that there may be however little memory there is.
const LEAST: usize = 1_000;

#[derive(Debug)]
pub(in crate::engine) struct Names {
    max: usize,
    sets: RwLock<Sets>,
}

#[derive(Debug, Default)]
struct Sets {
    names: HashSet<Arc<str>>,
    /// Those that came since a recount began.
    new: HashSet<Arc<str>>,
}

impl Names {
    /// With so much memory for live jobs.
    pub(in crate::engine) fn new(memory_max: Option<u64>) -> Self {
        let max = memory_max.map_or(DEFAULT, |bytes| usize::try_from(bytes / BYTES_EACH).unwrap_or(usize::MAX));
        Self { max: max.max(LEAST), sets: RwLock::default() }
    }

    /// Whether there may be a queue of this name. From now on it counts.
    ///
    /// # Errors
    /// [`Error::LimitReached`] if it is new, and there are as many as there may be.
    pub(in crate::engine) fn admit(&self, queue: &Arc<str>) -> Result<(), Error> {
        if self.sets().names.contains(queue) {
            return Ok(());
        }
        let mut known = self.to_change();
        if known.names.contains(queue) {
            return Ok(());
        }
        if known.names.len() >= self.max {
            return Err(Error::LimitReached(format!(
                "{} queues are known, and the limit is {}; delete unused queues, use fewer names, or raise --memory-max",
                known.names.len(),
                self.max
            )));
        }
        known.names.insert(queue.clone());
        known.new.insert(queue.clone());
        Ok(())
    }

    /// The same for all queues of a job with these options: its own, and those of its rule and of the jobs that follow it. Rows of
    /// the inbox are written by who has the database, and schedules have a bound of their own; their queues are counted once they are
    /// there.
    ///
    /// # Errors
    /// The same.
    pub(in crate::engine) fn admit_all(&self, queue: &Arc<str>, options: &JobOptions) -> Result<(), Error> {
        self.admit(queue)?;
        if let Some(WhenExhausted::Move(queue)) = &options.retry.when_exhausted {
            self.admit(queue)?;
        }
        each_follow_up(options, |next| self.admit_all(&next.queue, &next.options))
    }

    /// A queue was deleted: its name no longer counts.
    pub(in crate::engine) fn remove(&self, queue: &Arc<str>) {
        let mut known = self.to_change();
        known.names.remove(queue);
        known.new.remove(queue);
    }

    /// Whether it is worth a look which of them are gone.
    pub(in crate::engine) fn are_many(&self) -> bool {
        self.sets().names.len() > self.max / 2
    }

    /// The stores are about to be asked for all names.
    pub(in crate::engine) fn recount(&self) {
        self.to_change().new.clear();
    }

    /// These are the names that the stores know; others that came meanwhile count too.
    pub(in crate::engine) fn recounted(&self, mut names: HashSet<Arc<str>>) {
        let mut known = self.to_change();
        names.extend(known.new.drain());
        known.names = names;
    }

    fn sets(&self) -> RwLockReadGuard<'_, Sets> {
        self.sets.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn to_change(&self) -> RwLockWriteGuard<'_, Sets> {
        self.sets.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: usize) -> Arc<str> {
        format!("q{n}").into()
    }

    #[test]
    fn names_have_a_bound_and_come_free() {
        let names = Names::new(Some(1));
        for n in 0..LEAST {
            names.admit(&name(n)).unwrap();
        }
        assert!(names.are_many());
        let refused = names.admit(&name(LEAST)).unwrap_err();
        assert_eq!((refused.code(), refused.is_retryable()), ("store_full", true));
        assert!(refused.to_string().starts_with("1000 queues are known, and the limit is 1000; delete"), "{refused}");
        names.admit(&name(7)).unwrap();
        names.recount();
        names.recounted((0..LEAST - 1).map(name).collect());
        names.admit(&name(LEAST)).unwrap();
        assert!(names.admit(&name(LEAST - 1)).is_err());
        // One that comes while the stores are asked stays.
        names.recount();
        names.recounted(HashSet::new());
        names.recount();
        names.admit(&name(1)).unwrap();
        names.recounted(HashSet::new());
        assert_eq!(names.sets().names.iter().cloned().collect::<Vec<_>>(), [name(1)]);
    }
}
