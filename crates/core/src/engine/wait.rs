//! Reserves that wait: one bell for each queue that somebody waits at, and an alarm that rings it when something is
//! due.
//!
//! A ring wakes the one who has waited longest, who then looks; one who finds more than it wanted rings again. A
//! waiter that goes away passes an unheard ring on ([`Notify`] does). So however many wait, a due job wakes one.

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
    /// In order, so that the same is rung first whenever a seed is run.
    bells: Mutex<BTreeMap<Arc<str>, Bell>>,
    alarm: Mutex<Alarm>,
    alarm_changed: Notify,
}

#[derive(Debug, Default)]
struct Bell {
    notify: Arc<Notify>,
    seats: usize,
}

/// When to ring which queue's bell.
#[derive(Debug, Default)]
struct Alarm {
    by_time: BTreeSet<(Millis, Arc<str>)>,
    by_queue: HashMap<Arc<str>, Millis>,
}

impl Waiting {
    /// Wakes the first who waits at this queue.
    pub(super) fn ring(&self, queue: &Arc<str>) {
        if let Some(bell) = self.bells().get(queue) {
            bell.notify.notify_one();
        }
    }

    /// Wakes the first who waits at each queue.
    pub(super) fn ring_all(&self) {
        self.bells().values().for_each(|bell| bell.notify.notify_one());
    }

    /// Sits down at these queues.
    pub(super) fn sit<'a>(&'a self, queues: &'a [Arc<str>]) -> Seats<'a> {
        let mut bells = self.bells();
        let notifies = queues.iter().map(|queue| {
            let bell = bells.entry(queue.clone()).or_default();
            bell.seats += 1;
            bell.notify.clone()
        });
        Seats { notifies: notifies.collect(), waiting: self, queues }
    }

    /// Has these queues' bells rung at this instant, or earlier where that is set already.
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
        let bells = self.bells();
        if bells.is_empty() {
            return;
        }
        let waited: Vec<Arc<str>> = queues.iter().filter(|queue| bells.contains_key(*queue)).cloned().collect();
        drop(bells);
        self.arm(&waited, at);
    }

    /// Rings what is due, for ever.
    pub(super) async fn keep(&self, broker: &dyn Broker) {
        loop {
            let changed = self.alarm_changed.notified();
            match self.ring_due(broker.now()) {
                None => changed.await,
                Some(next_at) => {
                    let sleep = tokio::time::sleep(broker.until(next_at).min(LOOK_AGAIN));
                    tokio::select! { biased; () = changed => {} () = sleep => {} }
                }
            }
        }
    }

    /// Rings what is due, and answers when the next one is.
    fn ring_due(&self, now: Millis) -> Option<Millis> {
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
        due.iter().for_each(|queue| self.ring(queue));
        next_at
    }

    fn bells(&self) -> std::sync::MutexGuard<'_, BTreeMap<Arc<str>, Bell>> {
        self.bells.lock().expect("no panic under this lock")
    }

    fn alarm(&self) -> std::sync::MutexGuard<'_, Alarm> {
        self.alarm.lock().expect("no panic under this lock")
    }
}

/// A place among those who wait at some queues.
pub(super) struct Seats<'a> {
    notifies: Vec<Arc<Notify>>,
    waiting: &'a Waiting,
    queues: &'a [Arc<str>],
}

impl Seats<'_> {
    /// Hears any ring from now on.
    pub(super) fn listen(&self) -> Ring {
        let heard = self.notifies.iter().map(|notify| {
            let mut notified = Box::pin(notify.clone().notified_owned());
            notified.as_mut().enable();
            notified
        });
        Ring(heard.collect())
    }
}

impl Drop for Seats<'_> {
    fn drop(&mut self) {
        let mut bells = self.waiting.bells();
        for queue in self.queues {
            if let Some(bell) = bells.get_mut(queue) {
                bell.seats -= 1;
                if bell.seats == 0 {
                    bells.remove(queue);
                }
            }
        }
    }
}

/// The next ring of any of some bells.
pub(super) struct Ring(Vec<Pin<Box<OwnedNotified>>>);

impl Ring {
    pub(super) async fn heard(mut self) {
        poll_fn(|context| {
            let any = self.0.iter_mut().any(|notified| notified.as_mut().poll(context).is_ready());
            if any { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
