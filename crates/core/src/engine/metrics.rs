//! Counters and histograms of what this process did with jobs. They only grow, from 0 at the start; an edge shows them.
//!
//! Transitions are counted as they happen, not read back from stores. Each process that shares a broker has its own
//! counters; add them up.

use super::observation::Observation;
use crate::clock::Millis;
use crate::model::job::State;
use crate::ports::Run;
use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;
use tokio::time::Instant;

/// Queues that are counted apart; those that come later are counted together, under [`OTHER_QUEUES`].
pub const QUEUES_MAX: usize = 200;
/// No queue has this name.
pub const OTHER_QUEUES: &str = "*";

/// The upper bounds of a histogram's buckets, in microseconds: half a millisecond to an hour.
pub const BOUNDS_US: [u64; 18] = [
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    300_000_000,
    3_600_000_000,
];

/// A histogram of durations.
#[derive(Debug, Default)]
pub struct Histogram {
    counts: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

impl Histogram {
    /// One more, in microseconds.
    pub fn add(&self, us: u64) {
        let bucket = BOUNDS_US.partition_point(|&bound| bound < us);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Per-bucket (non-cumulative) counts; the last bucket is the overflow.
    pub fn counts(&self) -> [u64; BOUNDS_US.len() + 1] {
        std::array::from_fn(|bucket| self.counts[bucket].load(Ordering::Relaxed))
    }

    /// The sum, in microseconds.
    pub fn sum_us(&self) -> u64 {
        self.sum_us.load(Ordering::Relaxed)
    }

    /// Measures how long this takes, unless it is dropped.
    pub async fn time<T>(&self, work: impl Future<Output = T>) -> T {
        let begin = Instant::now();
        let done = work.await;
        self.add(micros(begin.elapsed()));
        done
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// Counters of one queue.
#[derive(Debug, Default)]
pub struct QueueMetrics {
    /// Jobs that were pushed and are new.
    pub pushed: AtomicU64,
    /// Attempts that were begun.
    pub started: AtomicU64,
    /// Jobs that were completed, or taken.
    pub succeeded: AtomicU64,
    /// Jobs that became dead letters, or were dropped or moved.
    pub failed: AtomicU64,
    /// Jobs that were cancelled.
    pub cancelled: AtomicU64,
    /// Attempts that a worker failed.
    pub attempts_failed: AtomicU64,
    /// Attempts whose lease ended unsettled.
    pub attempts_crashed: AtomicU64,
    /// Attempts that were given back.
    pub released: AtomicU64,
    /// Jobs that were refused or dropped, or not pushed by a schedule, because the queue was full.
    pub full: AtomicU64,
    /// From its due time to the start of a job's first attempt.
    pub lateness: Histogram,
    /// From the start of an attempt to its outcome.
    pub duration: Histogram,
}

/// The duration of store calls.
#[derive(Debug, Default)]
pub struct StoreMetrics {
    /// Jobs put into the broker.
    pub put: Histogram,
    /// Jobs leased, without the wait for them.
    pub reserve: Histogram,
    /// Leases settled.
    pub settle: Histogram,
    /// Leases extended.
    pub extend: Histogram,
    /// New jobs recorded in the ledger.
    pub record: Histogram,
    /// Outcomes recorded in the ledger.
    pub apply: Histogram,
}

/// All counters of the process.
#[derive(Debug, Default)]
pub struct Metrics {
    queues: RwLock<HashMap<Arc<str>, Arc<QueueMetrics>>>,
    other: Arc<QueueMetrics>,
    /// Calls of the stores.
    pub stores: StoreMetrics,
    /// Inbox rows that were rejected.
    pub inbox_refused: AtomicU64,
}

impl Metrics {
    /// The counters of each queue, and of all others under [`OTHER_QUEUES`] if there are any.
    pub fn queues(&self) -> Vec<(Arc<str>, Arc<QueueMetrics>)> {
        let queues = self.queues.read().expect("no panic under this lock");
        let mut all: Vec<_> = queues.iter().map(|(queue, metrics)| (queue.clone(), metrics.clone())).collect();
        if queues.len() >= QUEUES_MAX {
            all.push((Arc::from(OTHER_QUEUES), self.other.clone()));
        }
        all.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        all
    }

    /// Forgets the counters of a queue that was deleted.
    pub(super) fn remove(&self, queue: &Arc<str>) {
        self.queues.write().expect("no panic under this lock").remove(queue);
    }

    fn of(&self, queue: &Arc<str>) -> Arc<QueueMetrics> {
        if let Some(metrics) = self.queues.read().expect("no panic under this lock").get(queue) {
            return metrics.clone();
        }
        let mut queues = self.queues.write().expect("no panic under this lock");
        if queues.len() >= QUEUES_MAX && !queues.contains_key(queue) {
            return self.other.clone();
        }
        queues.entry(queue.clone()).or_default().clone()
    }

    /// Counts a job for which the queue had no place.
    pub(super) fn add_full(&self, queue: &Arc<str>) {
        self.of(queue).full.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts what happened to jobs, which mostly are neighbours of one queue.
    pub(super) fn count<'a>(&self, events: impl Iterator<Item = (&'a Arc<str>, Observation, State)>) {
        let mut last: Option<(&Arc<str>, Arc<QueueMetrics>)> = None;
        for (queue, event, state) in events {
            let metrics = match &last {
                Some((known, metrics)) if known == &queue => metrics,
                _ => &last.insert((queue, self.of(queue))).1,
            };
            metrics.count(event, state);
        }
    }
}

impl QueueMetrics {
    /// Jobs pushed, started, succeeded, failed and cancelled, then attempts failed and crashed.
    pub(super) fn counts(&self) -> [u64; 7] {
        let Self { pushed, started, succeeded, failed, cancelled, attempts_failed, attempts_crashed, .. } = self;
        [pushed, started, succeeded, failed, cancelled, attempts_failed, attempts_crashed]
            .map(|count| count.load(Ordering::Relaxed))
    }

    fn count(&self, event: Observation, state: State) {
        let one = |counter: &AtomicU64| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        let ended = || match state {
            State::Failed => one(&self.failed),
            State::Cancelled => one(&self.cancelled),
            _ => {}
        };
        match event {
            Observation::Pushed => one(&self.pushed),
            Observation::Started(late_ms) => {
                one(&self.started);
                late_ms.iter().for_each(|ms| self.lateness.add(ms.saturating_mul(1_000)));
            }
            Observation::Succeeded(ms) => {
                one(&self.succeeded);
                self.duration.add(ms.saturating_mul(1_000));
            }
            Observation::Taken => one(&self.succeeded),
            Observation::Failed(ms) => {
                one(&self.attempts_failed);
                self.duration.add(ms.saturating_mul(1_000));
                ended();
            }
            Observation::Crashed => {
                one(&self.attempts_crashed);
                ended();
            }
            Observation::Released => {
                one(&self.released);
                ended();
            }
            Observation::Expired => one(&self.failed),
            Observation::Cancelled => one(&self.cancelled),
            Observation::Imported | Observation::Changed | Observation::Retried | Observation::Deleted => {}
        }
    }
}

/// The duration of a run until now, in milliseconds.
pub(super) fn run_ms(run: &Run, now: Millis) -> u64 {
    now.saturating_sub(run.started_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_sorts_by_upper_bounds() {
        let histogram = Histogram::default();
        for us in [0, 500, 501, 1_000, 3_600_000_000, 3_600_000_001] {
            histogram.add(us);
        }
        let counts = histogram.counts();
        assert_eq!((counts[0], counts[1], counts[17], counts[18]), (2, 2, 1, 1));
        assert_eq!(counts.iter().sum::<u64>(), 6);
        assert_eq!(histogram.sum_us(), 7_200_002_002);
    }

    #[test]
    fn queues_beyond_the_bound_are_counted_together() {
        let metrics = Metrics::default();
        let pushed = |queue: &str| {
            let queue = Arc::from(queue);
            metrics.count(std::iter::once((&queue, Observation::Pushed, State::Ready)));
        };
        (0..QUEUES_MAX + 50).for_each(|n| pushed(&format!("q{n}")));
        pushed("q0");
        let all = metrics.queues();
        assert_eq!(all.len(), QUEUES_MAX + 1);
        let of = |name: &str| all.iter().find(|(queue, _)| &**queue == name).unwrap().1.pushed.load(Ordering::Relaxed);
        assert_eq!((of(OTHER_QUEUES), of("q0")), (50, 2));
    }
}
