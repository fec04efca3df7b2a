//! When workers last asked this process for jobs of which queue.
//!
//! A reserve or take costs one look into a map. Nothing is stored.

use crate::clock::Millis;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Most queues that are remembered. Beyond them all are forgotten.
const QUEUES_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Asked(RwLock<Known>);

#[derive(Debug, Default)]
struct Known {
    by_queue: HashMap<Arc<str>, AtomicU64>,
    /// Earlier requests are forgotten.
    since: Millis,
}

impl Asked {
    /// Requests are remembered from now on.
    pub(super) fn begin(&self, now: Millis) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Known { since: now, ..Known::default() };
    }

    /// Somebody asks for jobs of these queues.
    pub(super) fn note(&self, queues: &[Arc<str>], now: Millis) {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let is_new = |queue: &&Arc<str>| match known.by_queue.get(*queue) {
            Some(at) => {
                at.fetch_max(now, Ordering::Relaxed);
                false
            }
            None => true,
        };
        let new: Vec<&Arc<str>> = queues.iter().filter(is_new).collect();
        drop(known);
        if new.is_empty() {
            return;
        }
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.by_queue.len() + new.len() > QUEUES_MAX {
            *known = Known { since: now, ..Known::default() };
        }
        known.by_queue.extend(new.into_iter().map(|queue| (queue.clone(), AtomicU64::new(now))));
    }

    /// When somebody last asked for jobs of this queue; or from when on nobody did.
    pub(super) fn last(&self, queue: &str) -> Result<Millis, Millis> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.by_queue.get(queue).map(|at| at.load(Ordering::Relaxed)).ok_or(known.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_remembered_within_a_bound() {
        let asked = Asked::default();
        asked.begin(5);
        assert_eq!(asked.last("a"), Err(5));
        asked.note(&["a".into(), "b".into()], 7);
        asked.note(&["a".into()], 9);
        asked.note(&["a".into()], 8);
        assert_eq!((asked.last("a"), asked.last("b"), asked.last("c")), (Ok(9), Ok(7), Err(5)));
        for n in 0..QUEUES_MAX as u64 {
            asked.note(&[format!("q{n}").into()], 100 + n);
        }
        assert!(asked.0.read().unwrap().by_queue.len() <= QUEUES_MAX);
        let last = 100 + QUEUES_MAX as u64 - 1;
        assert!(asked.last("a").is_err_and(|since| since > 100));
        assert_eq!(asked.last(&format!("q{}", QUEUES_MAX - 1)), Ok(last));
    }
}
