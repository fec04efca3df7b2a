//! What recent reserves and takes handed out, by request id: a repeat after a lost reply gets the same.

use crate::clock::Millis;
use crate::id::Receipt;
use crate::limits::{SECOND_MS, STEP_JOBS_MAX};
use crate::ports::Lease;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// How long a request is remembered.
const REQUEST_MS: u64 = 60 * SECOND_MS;
/// Above so many bytes the oldest requests are forgotten before their time, but for the newest one.
const BYTES_MAX: usize = 64 << 20;
/// About what a remembered request takes, what a receipt adds to it, and a taken job without its payload.
const REQUEST_BYTES: usize = 200;
const RECEIPT_BYTES: usize = size_of::<Receipt>();
const TAKEN_BYTES: usize = size_of::<Lease>();
/// Requests whose time is over that one call drops.
const DROPPED_MAX: usize = 3;

/// What a request got.
#[derive(Clone, Debug)]
pub(super) enum Got {
    /// Leases; the jobs are still held.
    Leases(Vec<Receipt>),
    /// Taken jobs; they are gone.
    Taken(Vec<Lease>),
}

impl Got {
    fn is_nothing(&self) -> bool {
        match self {
            Self::Leases(receipts) => receipts.is_empty(),
            Self::Taken(leases) => leases.is_empty(),
        }
    }

    fn bytes(&self) -> usize {
        REQUEST_BYTES
            + match self {
                Self::Leases(receipts) => receipts.len() * RECEIPT_BYTES,
                Self::Taken(leases) => leases.iter().map(|lease| TAKEN_BYTES + lease.job.payload.len()).sum(),
            }
    }
}

#[derive(Debug, Default)]
#[cfg_attr(any(test, feature = "testing"), derive(Clone))]
pub(super) struct Requests {
    got: HashMap<Arc<str>, (Millis, Got)>,
    order: VecDeque<(Millis, Arc<str>)>,
    bytes: usize,
}

impl Requests {
    pub(super) fn get(&self, id: &Arc<str>, mono: Millis) -> Option<&Got> {
        self.got.get(id).filter(|(until, _)| *until > mono).map(|(_, got)| got)
    }

    /// Remembers a request that got something.
    pub(super) fn remember(&mut self, id: Arc<str>, got: Got, mono: Millis) {
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
        if !got.is_nothing() {
            self.forget(&id);
            self.bytes += got.bytes();
            self.order.push_back((mono + REQUEST_MS, id.clone()));
            self.got.insert(id, (mono + REQUEST_MS, got));
        }
    }

    fn forget(&mut self, id: &Arc<str>) {
        if let Some((_, old)) = self.got.remove(id) {
            self.bytes -= old.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Job;
    use crate::testing::fixtures::job;

    fn taken(bytes: usize) -> Got {
        Got::Taken(vec![Lease { job: Job { payload: vec![0; bytes].into(), ..job(1) }, lease_ms: 1 }])
    }

    /// Taken jobs are remembered whole, whatever their size.
    #[test]
    fn requests_take_bounded_memory() {
        let mut requests = Requests::default();
        for n in 0..10_u64 {
            requests.remember(n.to_string().into(), taken(BYTES_MAX / 3), n);
            assert!(requests.bytes <= BYTES_MAX * 4 / 3 + 1_000_000, "{}", requests.bytes);
        }
        assert!(requests.get(&"9".into(), 10).is_some());
        assert!(requests.get(&"0".into(), 10).is_none());
    }

    #[test]
    fn requests_are_dropped_a_few_at_a_time() {
        let mut requests = Requests::default();
        for n in 0..100_u64 {
            requests.remember(n.to_string().into(), taken(1), 0);
        }
        requests.remember("late".into(), taken(1), REQUEST_MS);
        assert_eq!(requests.got.len(), 101 - DROPPED_MAX);
        assert!(requests.get(&"99".into(), REQUEST_MS).is_none(), "its time is over");
        for n in 0..50_u64 {
            requests.remember(format!("l{n}").into(), taken(1), REQUEST_MS);
        }
        assert_eq!((requests.got.len(), requests.order.len()), (51, 51));
    }
}
