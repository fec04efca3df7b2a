//! When workers last asked this process for jobs of which queue.
//!
//! A reserve or take costs one look into a map. Nothing is stored.

use crate::clock::Millis;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most queues that are remembered. Beyond them all are forgotten.
const QUEUES_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(in crate::engine) struct Requests(Mutex<Latest>);

#[derive(Debug, Default)]
struct Latest {
    by_queue: HashMap<Arc<str>, Millis>,
    /// Earlier requests are forgotten.
    since: Millis,
}

impl Requests {
    fn latest(&self) -> MutexGuard<'_, Latest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests are remembered from now on.
    pub(in crate::engine) fn begin(&self, now: Millis) {
        *self.latest() = Latest { since: now, ..Latest::default() };
    }

    /// Notes a request for jobs of these queues.
    pub(in crate::engine) fn note(&self, queues: &[Arc<str>], now: Millis) {
        let mut latest = self.latest();
        for queue in queues {
            if let Some(at) = latest.by_queue.get_mut(queue) {
                *at = now.max(*at);
                continue;
            }
            if latest.by_queue.len() >= QUEUES_MAX {
                *latest = Latest { since: now, ..Latest::default() };
            }
            latest.by_queue.insert(queue.clone(), now);
        }
    }

    /// When jobs of this queue were last requested; or since when none were.
    pub(in crate::engine) fn last(&self, queue: &str) -> Result<Millis, Millis> {
        let latest = self.latest();
        latest.by_queue.get(queue).copied().ok_or(latest.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_remembered_within_a_bound() {
        let requests = Requests::default();
        requests.begin(5);
        assert_eq!(requests.last("a"), Err(5));
        requests.note(&["a".into(), "b".into()], 7);
        requests.note(&["a".into()], 9);
        requests.note(&["a".into()], 8);
        assert_eq!((requests.last("a"), requests.last("b"), requests.last("c")), (Ok(9), Ok(7), Err(5)));
        for n in 0..QUEUES_MAX as u64 {
            requests.note(&[format!("q{n}").into()], 100 + n);
        }
        assert!(requests.latest().by_queue.len() <= QUEUES_MAX);
        let last = 100 + QUEUES_MAX as u64 - 1;
        assert!(requests.last("a").is_err_and(|since| since > 100));
        assert_eq!(requests.last(&format!("q{}", QUEUES_MAX - 1)), Ok(last));
    }
}
