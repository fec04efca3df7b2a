//! In which order a worker asks its queues. Without weights it is the order in which they were added. With weights, the queue
//! that has had the least for its weight comes first: each job that is handed out is charged to its queue.
//!
//! A queue that had nothing due has saved nothing up: it joins again where the others are. So no queue starves, and none
//! keeps the others out after a quiet time.

use std::collections::HashMap;
use std::sync::Arc;

/// What a job of a queue with the weight 1 is charged.
const CHARGE: u64 = 1 << 32;

/// A queue that a worker serves, with or without a weight: see [`Worker::queues`](super::Worker::queues).
#[derive(Clone, Debug)]
pub struct QueueShare {
    queue: Arc<str>,
    weight: Option<u32>,
}

impl From<Arc<str>> for QueueShare {
    fn from(queue: Arc<str>) -> Self {
        Self { queue, weight: None }
    }
}

impl From<&str> for QueueShare {
    fn from(queue: &str) -> Self {
        Arc::<str>::from(queue).into()
    }
}

impl From<String> for QueueShare {
    fn from(queue: String) -> Self {
        Arc::<str>::from(queue).into()
    }
}

impl<Q: Into<Arc<str>>> From<(Q, u32)> for QueueShare {
    fn from((queue, weight): (Q, u32)) -> Self {
        Self { queue: queue.into(), weight: Some(weight) }
    }
}

/// The queues of a worker, and what each has had.
pub(super) struct Turns {
    queues: Vec<Turn>,
    has_weights: bool,
}

struct Turn {
    queue: Arc<str>,
    charge: u64,
    charged: u64,
}

impl Turns {
    pub(super) fn new(shares: &[QueueShare]) -> Self {
        let turn = |share: &QueueShare| Turn {
            queue: share.queue.clone(),
            charge: CHARGE / u64::from(share.weight.unwrap_or(1).max(1)),
            charged: 0,
        };
        Self {
            queues: shares.iter().map(turn).collect(),
            has_weights: shares.iter().any(|share| share.weight.is_some()),
        }
    }

    /// The queues in the order of the next reserve.
    pub(super) fn order(&mut self) -> Vec<Arc<str>> {
        if self.has_weights {
            // Stable: of equals, the one that was added first.
            self.queues.sort_by_key(|turn| turn.charged);
        }
        self.queues.iter().map(|turn| turn.queue.clone()).collect()
    }

    /// Charges the jobs of these queues to them. A reserve of at most `limit` jobs, which asked in the order that
    /// [`order`](Self::order) returned last, was answered with them.
    pub(super) fn handed_out<'q>(&mut self, limit: usize, jobs: impl ExactSizeIterator<Item = &'q Arc<str>>) {
        if !self.has_weights {
            return;
        }
        if jobs.len() < limit {
            // Nothing more was due anywhere.
            self.queues.iter_mut().for_each(|turn| turn.charged = 0);
            return;
        }
        let mut counts: HashMap<&str, u64> = HashMap::new();
        for queue in jobs {
            *counts.entry(queue).or_default() += 1;
        }
        let Some(last) = self.queues.iter().rposition(|turn| counts.contains_key(&*turn.queue)) else { return };
        let level = self.queues[last].charged;
        for (place, turn) in self.queues.iter_mut().enumerate() {
            turn.charged += turn.charge * counts.get(&*turn.queue).copied().unwrap_or(0);
            if place < last {
                // It had nothing more.
                turn.charged = turn.charged.max(level);
            }
        }
        let least = self.queues.iter().map(|turn| turn.charged).min().unwrap_or(0);
        self.queues.iter_mut().for_each(|turn| turn.charged -= least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Queues with this many due jobs each.
    struct Due(BTreeMap<Arc<str>, usize>);

    impl Due {
        fn new<const N: usize>(queues: [(&str, usize); N]) -> Self {
            Self(queues.into_iter().map(|(queue, count)| (queue.into(), count)).collect())
        }

        /// Reserves as an engine does, and returns the queues of the jobs.
        fn reserve(&mut self, turns: &mut Turns, limit: usize) -> Vec<Arc<str>> {
            let mut handed_out = Vec::new();
            for queue in turns.order() {
                let left = self.0.entry(queue.clone()).or_default();
                let count = (*left).min(limit - handed_out.len());
                *left -= count;
                handed_out.extend(std::iter::repeat_n(queue, count));
            }
            turns.handed_out(limit, handed_out.iter());
            handed_out
        }
    }

    fn counts(queues: &[Arc<str>]) -> Vec<(&str, usize)> {
        let mut counts = BTreeMap::new();
        queues.iter().for_each(|queue| *counts.entry(&**queue).or_default() += 1);
        counts.into_iter().collect()
    }

    fn weighted() -> Turns {
        Turns::new(&[("low", 1).into(), ("urgent", 6).into(), ("mail", 3).into()])
    }

    #[test]
    fn without_weights_the_order_is_kept() {
        let (mut turns, mut due) = (Turns::new(&["a".into(), "b".into()]), Due::new([("a", 30), ("b", 30)]));
        let served: Vec<_> = (0..10).flat_map(|_| due.reserve(&mut turns, 2)).collect();
        assert_eq!(counts(&served), [("a", 20)]);
    }

    #[test]
    fn each_queue_has_its_share_and_none_waits_long() {
        let (mut turns, mut due) = (weighted(), Due::new([("low", 99), ("urgent", 999), ("mail", 999)]));
        let served: Vec<_> = (0..100).flat_map(|_| due.reserve(&mut turns, 1)).collect();
        for ten in served.chunks(10) {
            assert_eq!(counts(ten), [("low", 1), ("mail", 3), ("urgent", 6)]);
        }
        let together = served.chunk_by(|one, next| one == next).map(<[_]>::len).max();
        assert!(together.unwrap() <= 3, "{served:?}");
    }

    #[test]
    fn large_reserves_have_the_same_shares() {
        let (mut turns, mut due) = (weighted(), Due::new([("low", 9_999), ("urgent", 9_999), ("mail", 9_999)]));
        let served: Vec<_> = (0..100).flat_map(|_| due.reserve(&mut turns, 50)).collect();
        assert_eq!(counts(&served), [("low", 500), ("mail", 1_500), ("urgent", 3_000)]);
    }

    #[test]
    fn a_quiet_queue_saves_nothing_up() {
        let (mut turns, mut due) = (weighted(), Due::new([("urgent", 999)]));
        for limit in [1, 7] {
            (0..50).for_each(|_| drop(due.reserve(&mut turns, limit)));
            due.0.insert("mail".into(), 99);
            let served: Vec<_> = (0..9).flat_map(|_| due.reserve(&mut turns, 1)).collect();
            let mails = served.iter().filter(|queue| &***queue == "mail").count();
            // Its own share, and at most that of one reserve more.
            assert!((3..=4 + limit / 2).contains(&mails), "{mails} after reserves of {limit}");
            due.0.remove("mail");
        }
    }

    #[test]
    fn a_reserve_that_finds_too_little_clears_all_debts() {
        let (mut turns, mut due) = (weighted(), Due::new([("urgent", 5)]));
        due.reserve(&mut turns, 6);
        assert!(turns.queues.iter().all(|turn| turn.charged == 0));
    }
}
