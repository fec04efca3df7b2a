//! The leases of recent reserves and takes, by request id: a repeat after a lost reply gets the same.

use crate::clock::Millis;
use crate::limits::{SECOND_MS, STEP_JOBS_MAX};
use crate::model::id::Receipt;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// How long a request is remembered.
const REQUEST_MS: u64 = 60 * SECOND_MS;
/// Above this many bytes the oldest requests are dropped early, but never the newest one.
const BYTES_MAX: usize = 64 << 20;
/// Approximate memory of a remembered request.
const REQUEST_BYTES: usize = 200;
/// Lapsed requests that one call drops.
const DROPPED_MAX: usize = 3;

#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    got: HashMap<Arc<str>, (Millis, Arc<[Receipt]>)>,
    order: VecDeque<(Millis, Arc<str>)>,
    bytes: usize,
}

impl Requests {
    pub(super) fn get(&self, id: &Arc<str>, mono: Millis) -> Option<&[Receipt]> {
        self.got.get(id).filter(|(until, _)| *until > mono).map(|(_, got)| &**got)
    }

    /// Remembers a request that got something.
    pub(super) fn remember(&mut self, id: Arc<str>, got: Arc<[Receipt]>, mono: Millis) {
        for dropped in 0..STEP_JOBS_MAX {
            let is_full = self.bytes > BYTES_MAX;
            let is_over = |until: Millis| until <= mono && dropped < DROPPED_MAX;
            if !self.order.front().is_some_and(|&(until, _)| is_full || is_over(until)) {
                break;
            }
            let Some((until, id)) = self.order.pop_front() else { break };
            if self.got.get(&id).is_some_and(|&(newest, _)| newest == until) {
                self.forget(&id);
            }
        }
        if !got.is_empty() {
            self.forget(&id);
            self.bytes += bytes(&got);
            self.order.push_back((mono + REQUEST_MS, id.clone()));
            self.got.insert(id, (mono + REQUEST_MS, got));
        }
    }

    fn forget(&mut self, id: &Arc<str>) {
        if let Some((_, old)) = self.got.remove(id) {
            self.bytes -= bytes(&old);
        }
    }
}

fn bytes(got: &[Receipt]) -> usize {
    REQUEST_BYTES + size_of_val(got)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures::id;

    fn leased(count: u64) -> Arc<[Receipt]> {
        (1..=count).map(|n| Receipt { id: id(n), epoch: n }).collect()
    }

    #[test]
    fn requests_take_bounded_memory() {
        let mut requests = Requests::default();
        let most = leased(1_000);
        let count = BYTES_MAX / size_of_val(&*most);
        for n in 0..2 * count {
            requests.remember(n.to_string().into(), most.clone(), n as u64);
            assert!(requests.bytes <= BYTES_MAX + 2 * bytes(&most), "{}", requests.bytes);
        }
        assert!(requests.get(&(2 * count - 1).to_string().into(), 10).is_some());
        assert!(requests.get(&"0".into(), 10).is_none());
    }

    #[test]
    fn requests_are_dropped_a_few_at_a_time() {
        let mut requests = Requests::default();
        for n in 0..100_u64 {
            requests.remember(n.to_string().into(), leased(1), 0);
        }
        requests.remember("late".into(), leased(1), REQUEST_MS);
        assert_eq!(requests.got.len(), 101 - DROPPED_MAX);
        assert!(requests.get(&"99".into(), REQUEST_MS).is_none(), "its time is over");
        for n in 0..50_u64 {
            requests.remember(format!("l{n}").into(), leased(1), REQUEST_MS);
        }
        assert_eq!((requests.got.len(), requests.order.len()), (51, 51));
    }
}
