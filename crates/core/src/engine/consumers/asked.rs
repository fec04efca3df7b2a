//! When workers last asked this process for jobs of which queue.
//!
//! A reserve or take costs one look into a map. Nothing is stored.

use crate::clock::Millis;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most queues that are remembered. Beyond them all are forgotten.
const QUEUES_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(in crate::engine) struct Asked(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    by_queue: HashMap<Arc<str>, Millis>,
    /// Earlier requests are forgotten.
    since: Millis,
}

impl Asked {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests are remembered from now on.
    pub(in crate::engine) fn begin(&self, now: Millis) {
        *self.known() = Known { since: now, ..Known::default() };
    }

    /// Notes a request for jobs of these queues.
    pub(in crate::engine) fn note(&self, queues: &[Arc<str>], now: Millis) {
        let mut known = self.known();
        for queue in queues {
            if let Some(at) = known.by_queue.get_mut(queue) {
                *at = now.max(*at);
                continue;
            }
            if known.by_queue.len() >= QUEUES_MAX {
                *known = Known { since: now, ..Known::default() };
            }
            known.by_queue.insert(queue.clone(), now);
        }
    }

    /// When jobs of this queue were last requested; or since when none were.
    pub(in crate::engine) fn last(&self, queue: &str) -> Result<Millis, Millis> {
        let known = self.known();
        known.by_queue.get(queue).copied().ok_or(known.since)
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
        assert!(asked.known().by_queue.len() <= QUEUES_MAX);
        let last = 100 + QUEUES_MAX as u64 - 1;
        assert!(asked.last("a").is_err_and(|since| since > 100));
        assert_eq!(asked.last(&format!("q{}", QUEUES_MAX - 1)), Ok(last));
    }
}
