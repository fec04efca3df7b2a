//! Decides how many jobs to reserve, and when: enough for the free handlers, and a few more if handlers are so fast that
//! they would wait for the next reserve.
//!
//! Jobs reserved ahead are limited by the recent pace, and jobs that could not start soon are released. A stalled worker
//! therefore keeps no jobs from others.

use super::backoff::Backoff;
use duetime_core::Job;
use duetime_core::limits::RESERVE_JOBS_MAX;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// As many jobs are reserved ahead as are finished within this time at the current pace.
const AHEAD: Duration = Duration::from_millis(5);
/// The pace is measured over this span.
const PACE_SPAN: Duration = Duration::from_millis(5);
/// A job that has waited this long for a handler, or for the handler's runtime, is released.
pub(super) const WAIT_MAX: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(super) struct Prefetch {
    /// Whether jobs are reserved ahead.
    is_ahead: bool,
    waiting: VecDeque<(Job, Instant)>,
    pace: Pace,
    /// The last reserve got fewer jobs than it asked for: no more are reserved before a handler is free.
    is_short: bool,
    backoff: Backoff,
    not_before: Option<Instant>,
}

impl Prefetch {
    pub(super) fn new(is_ahead: bool) -> Self {
        Self { is_ahead, ..Self::default() }
    }

    pub(super) fn add(&mut self, job: Job, now: Instant) {
        self.waiting.push_back((job, now));
    }

    /// The first job that can start.
    pub(super) fn next(&mut self, can_start: impl Fn(&Job) -> bool) -> Option<Job> {
        let place = self.waiting.iter().position(|(job, _)| can_start(job))?;
        self.waiting.remove(place).map(|(job, _)| job)
    }

    pub(super) fn finished(&mut self, count: usize, now: Instant) {
        self.pace.finished(count, now);
    }

    /// Jobs that have waited too long for a handler.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<Job> {
        let late = |since: Instant| now.duration_since(since) > WAIT_MAX;
        let count = self.waiting.iter().take_while(|(_, since)| late(*since)).count();
        self.waiting.drain(..count).map(|(job, _)| job).collect()
    }

    /// All jobs that wait for a handler.
    pub(super) fn drain(&mut self) -> Vec<Job> {
        self.waiting.drain(..).map(|(job, _)| job).collect()
    }

    /// How many of these idle handlers no job waits for.
    pub(super) fn free(&self, idle: usize) -> usize {
        idle.saturating_sub(self.waiting.len())
    }

    /// A reserve of at most `limit` jobs got this many.
    pub(super) fn got(&mut self, count: usize, limit: usize) {
        self.is_short = count < limit;
    }

    /// How many jobs to reserve now for these idle handlers; 0 for none.
    pub(super) fn wanted(&self, idle: usize, now: Instant) -> usize {
        if self.not_before.is_some_and(|at| now < at) || self.is_short && self.free(idle) == 0 {
            return 0;
        }
        let ahead = if self.is_ahead { self.pace.within(AHEAD, now) } else { 0 };
        let target = idle + ahead;
        let wanted = target.saturating_sub(self.waiting.len()).min(RESERVE_JOBS_MAX);
        // While some jobs wait, reserving just a few more is not worth a call.
        let is_worth_it = self.waiting.is_empty() || wanted * 4 >= target.min(RESERVE_JOBS_MAX);
        if is_worth_it { wanted } else { 0 }
    }

    /// When to check again, if that is later than now.
    pub(super) fn not_before(&self, now: Instant) -> Option<Instant> {
        self.not_before.filter(|&at| at > now)
    }

    /// A reserve was answered. Returns whether the one before had failed.
    pub(super) fn answered(&mut self) -> bool {
        let had_failed = !self.backoff.is_calm();
        self.backoff.reset();
        self.not_before = None;
        had_failed
    }

    /// A reserve failed at `now`. Returns whether it is the first failure in a row.
    pub(super) fn failed(&mut self, now: Instant) -> bool {
        let is_news = self.backoff.is_calm();
        self.not_before = Some(now + self.backoff.next());
        is_news
    }
}

/// The rate at which jobs finish.
#[derive(Default)]
struct Pace {
    span_start: Option<Instant>,
    in_span: usize,
    per_second: f64,
}

impl Pace {
    fn finished(&mut self, count: usize, now: Instant) {
        let start = *self.span_start.get_or_insert(now);
        self.in_span += count;
        let elapsed = now.duration_since(start);
        if elapsed >= PACE_SPAN {
            self.per_second = self.in_span as f64 / elapsed.as_secs_f64();
            (self.span_start, self.in_span) = (Some(now), 0);
        }
    }

    fn within(&self, time: Duration, now: Instant) -> usize {
        let is_fresh = self.span_start.is_some_and(|start| now.duration_since(start) < WAIT_MAX);
        if is_fresh { (self.per_second * time.as_secs_f64()) as usize } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duetime_core::{JobId, NewJob};

    fn job(n: u64) -> Job {
        NewJob::new(*b"1").accept(JobId::from_sequence(n), 1, 10).unwrap()
    }

    #[test]
    fn a_slow_worker_reserves_nothing_ahead() {
        let (mut prefetch, start) = (Prefetch::new(true), Instant::now());
        assert_eq!(prefetch.wanted(8, start), 8);
        for second in 1..10 {
            prefetch.finished(1, start + Duration::from_secs(second));
        }
        assert_eq!(prefetch.wanted(0, start + Duration::from_secs(9)), 0);
        assert_eq!(prefetch.wanted(1, start + Duration::from_secs(9)), 1);
    }

    #[test]
    fn a_quick_worker_reserves_ahead_as_long_as_it_is_quick() {
        let (mut prefetch, start) = (Prefetch::new(true), Instant::now());
        for millisecond in 0..=10 {
            prefetch.finished(100, start + Duration::from_millis(millisecond));
        }
        let now = start + Duration::from_millis(10);
        assert!((450..=600).contains(&prefetch.wanted(0, now)), "{}", prefetch.wanted(0, now));
        assert_eq!(prefetch.wanted(0, now + Duration::from_secs(1)), 0);
    }

    /// Else it would ask again and again while its handlers are busy.
    #[test]
    fn a_worker_that_got_too_little_asks_again_once_a_handler_is_free() {
        let (mut prefetch, now) = (Prefetch::new(true), Instant::now());
        prefetch.pace = Pace { span_start: Some(now), in_span: 0, per_second: 2_000.0 };
        for (count, wanted) in [(10, 10), (9, 0)] {
            prefetch.got(count, 10);
            assert_eq!((prefetch.wanted(0, now), prefetch.wanted(2, now)), (wanted, 12));
        }
        prefetch.add(job(1), now);
        assert_eq!((prefetch.free(1), prefetch.wanted(1, now)), (0, 0), "a job waits for it");
        assert_eq!((prefetch.free(2), prefetch.wanted(2, now)), (1, 11));
    }

    #[test]
    fn what_waits_too_long_is_given_back() {
        let (mut prefetch, start) = (Prefetch::new(true), Instant::now());
        prefetch.add(job(1), start);
        prefetch.add(job(2), start + WAIT_MAX);
        assert_eq!(prefetch.overdue(start + WAIT_MAX).len(), 0);
        assert_eq!(prefetch.overdue(start + WAIT_MAX + Duration::from_millis(1)), [job(1)]);
    }
}
