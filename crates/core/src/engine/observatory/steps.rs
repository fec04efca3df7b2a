//! Readings of the counters, at the end of each step.

use crate::api::{HistoryPoint, HistorySpan, Lateness, Span, Timestamp};
use crate::clock::Millis;
use crate::engine::metrics::{BOUNDS_US, Metrics, QUEUES_MAX, QueueMetrics};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

/// The counters of a queue, or the difference of two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reading {
    /// In the format of [`QueueMetrics::counts`].
    counts: [u64; 7],
    lateness: [u64; BOUNDS_US.len() + 1],
}

impl Reading {
    fn of(metrics: &QueueMetrics) -> Self {
        Self { counts: metrics.counts(), lateness: metrics.lateness.counts() }
    }

    fn with(self, other: &Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            counts: std::array::from_fn(|place| of(self.counts[place], other.counts[place])),
            lateness: std::array::from_fn(|bucket| of(self.lateness[bucket], other.lateness[bucket])),
        }
    }

    fn point(&self, at: Millis) -> HistoryPoint {
        let total: u64 = self.lateness.iter().sum();
        // The smallest bound within which this many started.
        let within = |count: u64| {
            let mut left = count;
            let bucket = self.lateness.iter().position(|&some| {
                let is_here = left <= some;
                left = left.saturating_sub(some);
                is_here
            });
            let bucket = bucket.unwrap_or_default().min(BOUNDS_US.len() - 1);
            // Lateness is counted in whole milliseconds.
            Span(BOUNDS_US[bucket] / 1_000)
        };
        let part = |percent: u64| within((total * percent).div_ceil(100));
        let [pushed, started, succeeded, failed, cancelled, attempts_failed, attempts_crashed] = self.counts;
        HistoryPoint {
            at: Timestamp(at),
            pushed,
            started,
            succeeded,
            failed,
            cancelled,
            attempts_failed,
            attempts_crashed,
            lateness: (total > 0).then(|| Lateness { p50: part(50), p99: part(99), max: within(total) }),
        }
    }
}

/// The counters of queues.
type Readings = HashMap<Arc<str>, Reading>;

/// A step that is over. Queues in which nothing happened are left out.
struct Step {
    index: u64,
    all: HistoryPoint,
    queues: Vec<(Arc<str>, HistoryPoint)>,
}

/// The steps of one span.
struct Steps {
    span: HistorySpan,
    /// The step that is not over, counted from 1970.
    index: u64,
    /// The counters at its beginning.
    before: Readings,
    over: VecDeque<Step>,
}

impl Steps {
    fn new(span: HistorySpan, now: Millis) -> Self {
        Self { span, index: now / span.step_ms(), before: Readings::new(), over: VecDeque::new() }
    }

    /// Ends the step if its time is over, or the clock was set back.
    fn advance(&mut self, now: Millis, readings: &Readings) {
        let index = now / self.span.step_ms();
        if index == self.index {
            return;
        }
        self.over.push_back(self.step(readings));
        self.over.retain(|step| step.index < index && step.index + self.span.steps() > index);
        (self.index, self.before) = (index, readings.clone());
    }

    /// The step that is not over.
    fn step(&self, readings: &Readings) -> Step {
        let at = self.index * self.span.step_ms();
        let (mut all, mut queues) = (Reading::default(), Vec::new());
        for (queue, reading) in readings {
            let before = self.before.get(queue).copied().unwrap_or_default();
            let done = reading.with(&before, u64::saturating_sub);
            if done != Reading::default() {
                all = all.with(&done, u64::saturating_add);
                queues.push((queue.clone(), done.point(at)));
            }
        }
        queues.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Step { index: self.index, all: all.point(at), queues }
    }

    /// One point for each step since an instant.
    fn points(&self, queue: Option<&str>, since: Millis, readings: &Readings) -> Vec<HistoryPoint> {
        let running = self.step(readings);
        let first = (self.index + 1).saturating_sub(self.span.steps()).max(since / self.span.step_ms());
        let point = |index: u64| {
            let step = self.over.iter().chain([&running]).find(|step| step.index == index);
            let counted = step.and_then(|step| match queue {
                None => Some(step.all),
                Some(queue) => {
                    let place = step.queues.binary_search_by(|(known, _)| (**known).cmp(queue)).ok();
                    place.map(|place| step.queues[place].1)
                }
            });
            counted.unwrap_or_else(|| Reading::default().point(index * self.span.step_ms()))
        };
        (first.min(self.index)..=self.index).map(point).collect()
    }
}

/// The starts of a queue in the last two minutes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct Starts {
    /// Attempts a minute.
    pub(in crate::engine) started: u64,
    /// 99 % of the first attempts were at most this late, in milliseconds; `None` if none started.
    pub(in crate::engine) late_ms: Option<u64>,
}

struct Series {
    since: Millis,
    spans: [Steps; 2],
}

/// The history since the start; empty until the clock is known.
#[derive(Default)]
pub(super) struct Record(Mutex<Option<Series>>);

impl Record {
    /// Since when there are readings, and the points of a queue or of all; without points if the queue is not counted
    /// separately.
    pub(super) fn points(
        &self,
        queue: Option<&str>,
        span: HistorySpan,
        now: Millis,
        metrics: &Metrics,
    ) -> (Millis, Option<Vec<HistoryPoint>>) {
        let readings = readings(metrics);
        let is_counted = queue.is_none_or(|queue| readings.len() < QUEUES_MAX || readings.contains_key(queue));
        self.look(now, &readings, |recorded| {
            let steps = &recorded.spans[span as usize];
            (recorded.since, is_counted.then(|| steps.points(queue, recorded.since, &readings)))
        })
    }

    /// The starts of each queue in the last whole minute, or in this one.
    pub(super) fn lately(&self, now: Millis, metrics: &Metrics) -> HashMap<Arc<str>, Starts> {
        let readings = readings(metrics);
        self.look(now, &readings, |recorded| {
            let steps = &recorded.spans[HistorySpan::Hour as usize];
            let before = steps.over.iter().find(|step| step.index + 1 == steps.index);
            let running = steps.step(&readings);
            let mut lately: HashMap<Arc<str>, Starts> = HashMap::new();
            for (queue, point) in before.into_iter().chain([&running]).flat_map(|step| &step.queues) {
                let of = lately.entry(queue.clone()).or_default();
                of.started = of.started.max(point.started);
                of.late_ms = of.late_ms.max(point.lateness.map(|lateness| lateness.p99.0));
            }
            lately
        })
    }

    /// Reads the counters.
    pub(super) fn read(&self, now: Millis, metrics: &Metrics) {
        self.look(now, &readings(metrics), |_| ());
    }

    /// Looks at what was recorded, up to now.
    fn look<T>(&self, now: Millis, readings: &Readings, look: impl FnOnce(&Series) -> T) -> T {
        let mut recorded = self.0.lock().expect("no panic under this lock");
        let begin = || Series { since: now, spans: HistorySpan::ALL.map(|span| Steps::new(span, now)) };
        let recorded = recorded.get_or_insert_with(begin);
        recorded.spans.iter_mut().for_each(|steps| steps.advance(now, readings));
        look(recorded)
    }
}

fn readings(metrics: &Metrics) -> Readings {
    metrics.queues().into_iter().map(|(queue, metrics)| (queue, Reading::of(&metrics))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP_MS: u64 = 60_000;

    fn pushed(count: u64) -> Readings {
        let counts = [count, 0, 0, 0, 0, 0, 0];
        [(Arc::from("q"), Reading { counts, ..Reading::default() })].into()
    }

    fn points(steps: &Steps, since: Millis, readings: &Readings) -> Vec<u64> {
        steps.points(Some("q"), since, readings).into_iter().map(|point| point.pushed).collect()
    }

    /// The counters only grow: a step is the difference of two readings.
    #[test]
    fn a_step_has_what_was_counted_in_it_and_quiet_steps_have_none() {
        let mut steps = Steps::new(HistorySpan::Hour, 0);
        steps.advance(STEP_MS - 1, &pushed(3));
        steps.advance(STEP_MS, &pushed(5));
        steps.advance(3 * STEP_MS, &pushed(6));
        assert_eq!(points(&steps, 0, &pushed(10)), [5, 1, 0, 4]);
        assert_eq!(points(&steps, STEP_MS, &pushed(10)), [1, 0, 4], "since then");
        assert!(steps.points(Some("other"), 0, &pushed(10)).iter().all(|point| point.pushed == 0));
    }

    #[test]
    fn steps_that_are_too_old_or_lie_ahead_of_a_clock_that_was_set_back_are_dropped() {
        let mut steps = Steps::new(HistorySpan::Hour, 0);
        for step in 1..=70 {
            steps.advance(step * STEP_MS, &pushed(step));
        }
        assert_eq!(points(&steps, 0, &pushed(70)).len() as u64, HistorySpan::Hour.steps());
        steps.advance(69 * STEP_MS, &pushed(71));
        assert!(steps.over.iter().all(|step| step.index < 69));
        assert_eq!(points(&steps, 0, &pushed(71)).last(), Some(&0));
    }

    #[test]
    fn lateness_is_the_bound_of_the_bucket_that_holds_the_part() {
        let mut lateness = [0; BOUNDS_US.len() + 1];
        (lateness[0], lateness[2]) = (98, 2);
        let point = Reading { lateness, ..Reading::default() }.point(0).lateness.unwrap();
        let bound = |bucket: usize| Span(BOUNDS_US[bucket] / 1_000);
        assert_eq!((point.p50, point.p99, point.max), (bound(0), bound(2), bound(2)));
        assert_eq!(Reading::default().point(0).lateness, None);
    }
}
