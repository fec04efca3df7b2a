//! The event bus: publishes transitions of jobs over Pub/Sub while there are subscribers.
//!
//! A process with subscribers announces that in a key that expires, and receives events over its own connection. Other
//! processes check that key periodically, and publish only while it exists: in batches, by a task that nobody waits for.
//! Events that do not fit or cannot be published are counted and reported as missed.

use super::link::Link;
use super::wake::{self, PAUSE};
use duetime_core::ports::{Event, EventSink, Transition};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// How long an announcement is valid.
pub(super) const ANNOUNCED_FOR: Duration = Duration::from_secs(3);
/// Maximum number of transitions waiting to be published.
const WAITING_MAX: usize = 16_384;
/// Maximum number of transitions in one message: about 80 KiB.
const MESSAGE_TRANSITIONS_MAX: usize = 500;

/// Events to be published to other processes, and whether anyone subscribes to them.
pub(super) struct Bus {
    channel: String,
    /// The name of this process for others.
    pub(super) name: String,
    pub(super) sink: OnceLock<EventSink>,
    /// Whether this process has subscribers.
    is_wanted_here: watch::Sender<bool>,
    /// The latest known instant until which other processes have subscribers.
    others_until: Mutex<Option<Instant>>,
    /// Whether any process has subscribers.
    is_wanted: AtomicBool,
    waiting: Mutex<Vec<Arc<Transition>>>,
    filled: Notify,
    missed: AtomicU64,
}

/// A published message, which follows the name of its sender.
#[derive(Debug, Deserialize, Serialize)]
struct Message {
    /// The number of transitions missed before it.
    missed: u64,
    transitions: Vec<Arc<Transition>>,
}

impl Bus {
    pub(super) fn new(channel: String, name: String) -> Self {
        Self {
            channel,
            name,
            sink: OnceLock::new(),
            is_wanted_here: watch::Sender::new(false),
            others_until: Mutex::default(),
            is_wanted: AtomicBool::new(false),
            waiting: Mutex::default(),
            filled: Notify::new(),
            missed: AtomicU64::new(0),
        }
    }

    /// Whether any process has subscribers.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    /// Queues transitions to be published.
    pub(super) fn add(&self, transitions: Vec<Arc<Transition>>) {
        let mut waiting = self.waiting.lock().expect("no panic under this lock");
        if waiting.len() + transitions.len() > WAITING_MAX {
            self.missed.fetch_add(transitions.len() as u64, Ordering::Relaxed);
        } else {
            waiting.extend(transitions);
        }
        drop(waiting);
        self.filled.notify_one();
    }

    fn take(&self) -> Option<Message> {
        let mut waiting = self.waiting.lock().expect("no panic under this lock");
        let count = waiting.len().min(MESSAGE_TRANSITIONS_MAX);
        let transitions = waiting.drain(..count).collect::<Vec<_>>();
        let missed = self.missed.swap(0, Ordering::Relaxed);
        (count > 0 || missed > 0).then_some(Message { missed, transitions })
    }

    /// Delivers to the subscribers in this process.
    fn deliver(&self, event: Event) {
        if let Some(sink) = self.sink.get() {
            sink(event);
        }
    }

    fn read(&self, message: &[u8]) {
        let Some(at) = message.iter().position(|&byte| byte == b' ') else { return };
        if message[..at] == *self.name.as_bytes() {
            return;
        }
        match serde_json::from_slice::<Message>(&message[at + 1..]) {
            Ok(Message { missed, transitions }) => {
                if missed > 0 {
                    self.deliver(Event::Missed);
                }
                transitions.into_iter().for_each(|transition| self.deliver(Event::Transition(transition)));
            }
            Err(error) => {
                // It may be from a newer version.
                tracing::debug!(%error, "an event that another process published cannot be read");
                self.deliver(Event::Missed);
            }
        }
    }

    /// Whether other processes have subscribers; `last` is the last process that announced some.
    pub(super) fn learn(&self, last: Option<&[u8]>, is_wanted_here: bool) -> bool {
        let now = Instant::now();
        let mut until = self.others_until.lock().expect("no panic under this lock");
        match last {
            Some(name) if name != self.name.as_bytes() => *until = Some(now + ANNOUNCED_FOR),
            // If there are several, the others may have announced theirs before.
            Some(_) => {}
            None => *until = None,
        }
        let others = until.is_some_and(|until| until > now);
        self.is_wanted.store(others || is_wanted_here, Ordering::Relaxed);
        self.is_wanted_here.send_if_modified(|before| std::mem::replace(before, is_wanted_here) != is_wanted_here);
        others
    }
}

/// Receives events of other processes while this process has subscribers.
pub(super) async fn receive(link: Arc<Link>, bus: Arc<Bus>) {
    let mut is_wanted = bus.is_wanted_here.subscribe();
    let mut was_cut = false;
    for turn in 0.. {
        if is_wanted.wait_for(|&is_wanted| is_wanted).await.is_err() {
            return;
        }
        let begin = || {
            // Events published in between are lost.
            if was_cut {
                bus.deliver(Event::Missed);
            }
        };
        let read = |_: &[u8], message: &[u8]| bus.read(message);
        let channels = [bus.channel.as_str()];
        was_cut = tokio::select! {
            () = wake::subscribe(&link, turn, &channels, begin, read) => true,
            _ = is_wanted.wait_for(|&is_wanted| !is_wanted) => false,
        };
        tokio::time::sleep(PAUSE).await;
    }
}

/// Publishes events of this process.
pub(super) async fn publish(link: Arc<Link>, bus: Arc<Bus>) {
    loop {
        bus.filled.notified().await;
        while let Some(message) = bus.take() {
            let body = serde_json::to_string(&message).expect("transitions have no maps");
            let text = format!("{} {body}", bus.name);
            let command = redis::cmd("PUBLISH").arg(&bus.channel).arg(text).to_owned();
            if let Err(error) = link.query(&command).await {
                tracing::debug!(%error, "events of this process were not published");
                let lost = message.missed + message.transitions.len() as u64;
                bus.missed.fetch_add(lost, Ordering::Relaxed);
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn of_two_with_subscribers_each_knows_of_the_other() {
        let (a, b) = (Bus::new(String::new(), "a".into()), Bus::new(String::new(), "b".into()));
        assert!(!a.learn(None, true));
        assert!(b.learn(Some(b"a"), true));
        assert!(a.learn(Some(b"b"), true));
        // Twice in a row, before the other's turn.
        assert!(a.learn(Some(b"a"), true));
        tokio::time::advance(ANNOUNCED_FOR).await;
        assert!(!a.learn(Some(b"a"), true), "the other one is gone");
        assert!(a.is_wanted());
        assert!(!a.learn(None, false) && !a.is_wanted());
    }

    #[test]
    fn what_there_is_no_room_for_is_missed() {
        let bus = Bus::new(String::new(), "a".into());
        let transition = r#"{"at":"2026-11-20T10:00:00Z","what":"pushed","id":"1","queue":"q","kind":"k","state":"ready","attempt":0,"due_at":"2026-11-20T10:00:00Z"}"#;
        let transition: Arc<Transition> = serde_json::from_str(transition).unwrap();
        bus.add(vec![transition.clone(); WAITING_MAX]);
        bus.add(vec![transition; 2]);
        let first = bus.take().unwrap();
        assert_eq!((first.missed, first.transitions.len()), (2, MESSAGE_TRANSITIONS_MAX));
        let rest = std::iter::from_fn(|| bus.take()).map(|message| (message.missed, message.transitions.len()));
        assert_eq!(rest.fold((0, 0), |sum, (missed, count)| (sum.0 + missed, sum.1 + count)), (0, WAITING_MAX - 500));
    }
}
