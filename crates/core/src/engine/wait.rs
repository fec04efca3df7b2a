//! Reserves that wait at queues, and an alarm that wakes one of them when something is due.
//!
//! The one who has waited longest is woken, and looks. One who finds more than it wanted wakes the next. A waiter that goes
//! away passes on a wake that it did not see ([`Notify`] does). So however many wait, a due job wakes one.

use crate::clock::Millis;
use crate::ports::Broker;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// The longest sleep between looks at the clock: a wall clock that is set forward makes jobs due sooner.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// In order, so that the same is woken first whenever a seed is run.
    by_queue: Mutex<BTreeMap<Arc<str>, Waiters>>,
    alarm: Mutex<Alarm>,
    alarm_changed: Notify,
}

/// Those of one queue.
#[derive(Debug, Default)]
struct Waiters {
    notify: Arc<Notify>,
    count: usize,
}

/// When to wake at which queue.
#[derive(Debug, Default)]
struct Alarm {
    by_time: BTreeSet<(Millis, Arc<str>)>,
    by_queue: HashMap<Arc<str>, Millis>,
}

impl Waiting {
    /// Wakes the first who waits at this queue.
    pub(super) fn wake(&self, queue: &Arc<str>) {
        if let Some(waiters) = self.by_queue().get(queue) {
            waiters.notify.notify_one();
        }
    }

    /// Whether somebody waits at this queue.
    pub(super) fn has(&self, queue: &str) -> bool {
        self.by_queue().contains_key(queue)
    }

    /// Wakes the first who waits at each queue.
    pub(super) fn wake_all(&self) {
        self.by_queue().values().for_each(|waiters| waiters.notify.notify_one());
    }

    /// Begins to wait at these queues.
    pub(super) fn register<'a>(&'a self, queues: &'a [Arc<str>]) -> Registration<'a> {
        let mut by_queue = self.by_queue();
        let notifies = queues.iter().map(|queue| {
            let waiters = by_queue.entry(queue.clone()).or_default();
            waiters.count += 1;
            waiters.notify.clone()
        });
        Registration { notifies: notifies.collect(), waiting: self, queues }
    }

    /// Wakes at these queues at this instant, or earlier where that is set already.
    pub(super) fn arm(&self, queues: &[Arc<str>], at: Millis) {
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

    /// The same, but only for those of these queues that somebody waits at.
    pub(super) fn arm_waited(&self, queues: &[Arc<str>], at: Millis) {
        let by_queue = self.by_queue();
        if by_queue.is_empty() {
            return;
        }
        let waited: Vec<Arc<str>> = queues.iter().filter(|queue| by_queue.contains_key(*queue)).cloned().collect();
        drop(by_queue);
        self.arm(&waited, at);
    }

    /// Wakes those for whom something is due, until the process stops.
    pub(super) async fn keep(&self, broker: &dyn Broker) {
        loop {
            let changed = self.alarm_changed.notified();
            match self.wake_due(broker.now()) {
                None => changed.await,
                Some(next_at) => {
                    let sleep = tokio::time::sleep(broker.until(next_at).min(LOOK_AGAIN));
                    tokio::select! { biased; () = changed => {} () = sleep => {} }
                }
            }
        }
    }

    /// Wakes those for whom something is due, and answers when the next one is.
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
        due.iter().for_each(|queue| self.wake(queue));
        next_at
    }

    fn by_queue(&self) -> std::sync::MutexGuard<'_, BTreeMap<Arc<str>, Waiters>> {
        self.by_queue.lock().expect("no panic under this lock")
    }

    fn alarm(&self) -> std::sync::MutexGuard<'_, Alarm> {
        self.alarm.lock().expect("no panic under this lock")
    }
}

/// A place among those who wait at some queues.
pub(super) struct Registration<'a> {
    notifies: Vec<Arc<Notify>>,
    waiting: &'a Waiting,
    queues: &'a [Arc<str>],
}

impl Registration<'_> {
    /// The next wake from now on.
    pub(super) fn woken(&self) -> Woken {
        let notified = self.notifies.iter().map(|notify| {
            let mut notified = Box::pin(notify.clone().notified_owned());
            notified.as_mut().enable();
            notified
        });
        Woken(notified.collect())
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        let mut by_queue = self.waiting.by_queue();
        for queue in self.queues {
            if let Some(waiters) = by_queue.get_mut(queue) {
                waiters.count -= 1;
                if waiters.count == 0 {
                    by_queue.remove(queue);
                }
            }
        }
    }
}

/// The next wake at any of some queues.
pub(super) struct Woken(Vec<Pin<Box<OwnedNotified>>>);

impl Woken {
    pub(super) async fn wait(mut self) {
        poll_fn(|context| {
            let any = self.0.iter_mut().any(|notified| notified.as_mut().poll(context).is_ready());
            if any { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
