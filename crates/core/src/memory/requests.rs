//! What recent reserves and takes handed out, by request id: a repeat after a lost reply gets the same.

use crate::clock::Millis;
use crate::id::Receipt;
use crate::ports::Lease;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// How long a request is remembered.
const REQUEST_MS: u64 = 60_000;
/// Above so many remembered leases the oldest requests are forgotten before their time.
const LEASES_MAX: usize = 100_000;
/// The same for taken jobs, which are remembered whole.
const TAKEN_MAX: usize = 10_000;

/// What a request got.
#[derive(Clone, Debug)]
pub(super) enum Got {
    /// Leases; the jobs are still held.
    Leases(Vec<Receipt>),
    /// Taken jobs; they are gone.
    Taken(Vec<Lease>),
}

impl Got {
    fn len(&self) -> usize {
        match self {
            Self::Leases(leases) => leases.len(),
            Self::Taken(taken) => taken.len(),
        }
    }

    fn weight(&self) -> usize {
        match self {
            Self::Leases(leases) => leases.len(),
            Self::Taken(taken) => taken.len() * (LEASES_MAX / TAKEN_MAX),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Requests {
    got: HashMap<Arc<str>, Got>,
    order: VecDeque<(Millis, Arc<str>)>,
    weight: usize,
}

impl Requests {
    pub(super) fn get(&self, id: &Arc<str>) -> Option<&Got> {
        self.got.get(id)
    }

    /// Remembers a request that got something.
    pub(super) fn remember(&mut self, id: Arc<str>, got: Got, mono: Millis) {
        while let Some((at, _)) = self.order.front()
            && (at + REQUEST_MS <= mono || self.weight > LEASES_MAX)
        {
            if let Some((_, id)) = self.order.pop_front()
                && let Some(old) = self.got.remove(&id)
            {
                self.weight -= old.weight();
            }
        }
        if got.len() > 0 && !self.got.contains_key(&id) {
            self.weight += got.weight();
            self.order.push_back((mono, id.clone()));
            self.got.insert(id, got);
        }
    }
}
