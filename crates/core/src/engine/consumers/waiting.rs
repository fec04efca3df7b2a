//! Reserves that wait at queues, and an alarm that wakes one of them when something is due.
//!
//! The caller that has waited longest is woken, and looks. If it finds more than it wanted, it wakes the next. A waiter that
//! goes away passes on a wake that it did not see ([`Notify`] does). So a due job wakes one waiter, however many there are.

use crate::clock::Millis;
use crate::engine::timers::{Timer, Timers};
use crate::engine::waiters::Waiters;
use crate::ports::Broker;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// The longest sleep between looks at the clock: a wall clock that is set forward makes jobs due sooner.
pub(in crate::engine) const LOOK_AGAIN: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(in crate::engine) struct Waiting {
    pub(in crate::engine) at_queues: Arc<Waiters<Arc<str>>>,
    alarm: Mutex<Alarm>,
    alarm_changed: Notify,
}

/// When to wake at which queue.
#[derive(Debug, Default)]
struct Alarm {
    by_time: BTreeSet<(Millis, Arc<str>)>,
    by_queue: HashMap<Arc<str>, Millis>,
}

impl Waiting {
    /// Wakes at these queues at this instant, or earlier if that is set already.
    pub(in crate::engine) fn arm(&self, queues: &[Arc<str>], at: Millis) {
        let mut alarm = self.alarm();
        let first = alarm.by_time.first().map(|&(at, _)| at);
        for queue in queues {
            match alarm.by_queue.get(queue).copied() {
                Some(armed) if armed <= at => continue,
                Some(armed) => drop(alarm.by_time.remove(&(armed, queue.clone()))),
                None => {}
            }
            alarm.by_queue.insert(queue.clone(), at);
            alarm.by_time.insert((at, queue.clone()));
        }
        drop(alarm);
        if first.is_none_or(|first| at < first) {
            self.alarm_changed.notify_one();
        }
    }

    /// The same, but only for queues with a waiting caller.
    pub(in crate::engine) fn arm_waited(&self, queues: &[Arc<str>], at: Millis) {
        let waited: Vec<_> = queues.iter().filter(|queue| self.at_queues.count(*queue) > 0).cloned().collect();
        if !waited.is_empty() {
            self.arm(&waited, at);
        }
    }

    /// Wakes callers that have something due, until the process stops.
    pub(in crate::engine) async fn keep(&self, broker: &dyn Broker, timers: &Timers) {
        loop {
            let changed = self.alarm_changed.notified();
            let next_at = self.wake_due(broker.now());
            let look_again = if next_at.is_some() { LOOK_AGAIN } else { Duration::MAX };
            let sleep = timers.sleep(Timer::Alarm, next_at, look_again);
            tokio::select! { biased; () = changed => {} () = sleep => {} }
        }
    }

    /// Wakes callers that have something due, and returns when the next one has.
    fn wake_due(&self, now: Millis) -> Option<Millis> {
        let mut due = Vec::new();
        let mut alarm = self.alarm();
        let next_at = loop {
            match alarm.by_time.first() {
                Some(&(at, _)) if at > now => break Some(at),
                None => break None,
                Some(_) => {
                    let (_, queue) = alarm.by_time.pop_first().expect("it was just seen");
                    alarm.by_queue.remove(&queue);
                    due.push(queue);
                }
            }
        };
        drop(alarm);
        due.iter().for_each(|queue| self.at_queues.wake_first(queue));
        next_at
    }

    fn alarm(&self) -> std::sync::MutexGuard<'_, Alarm> {
        self.alarm.lock().expect("no panic under this lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_queue_is_woken_once_at_the_earliest_instant_that_it_is_armed_for() {
        let waiting = Waiting::default();
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let place = waiting.at_queues.register(vec![a.clone()]);
        waiting.arm(&[a.clone(), b.clone()], 20);
        for at in [10, 30] {
            waiting.arm(std::slice::from_ref(&a), at);
        }
        let is_woken = |woken: crate::engine::waiters::Woken| async {
            tokio::time::timeout(Duration::ZERO, woken.wait()).await.is_ok()
        };
        let woken = place.woken();
        assert_eq!(waiting.wake_due(9), Some(10));
        assert!(!is_woken(woken).await);
        let woken = place.woken();
        assert_eq!(waiting.wake_due(10), Some(20), "of the other one");
        assert!(is_woken(woken).await);
        assert_eq!(waiting.wake_due(20), None);
        waiting.arm_waited(&[a, b], 40);
        assert_eq!(waiting.alarm().by_queue.len(), 1, "nobody waits at the other one");
    }
}
