//! The event bus: what happens to jobs, by Pub/Sub, while there are subscribers.
//!
//! A process with subscribers announces that in a key that lapses, and has its own connection for what is published.
//! Others look at that key now and then, and publish only while it is there: in batches, by a task that nobody waits for.
//! What it has no room for, or cannot publish, is counted and published as missed.

use super::Redis;
use super::link::Link;
use super::wake::{self, PAUSE};
use async_trait::async_trait;
use duetime_core::Error;
use duetime_core::ports::{Event, EventBus, EventSink, Transition};
use redis::Value;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// How long an announcement counts.
const ANNOUNCED_FOR: Duration = Duration::from_secs(3);
/// Transitions that wait to be published.
const WAITING_MAX: usize = 16_384;
/// Transitions in one message: some 80 KiB.
const MESSAGE_TRANSITIONS_MAX: usize = 500;

/// What is on its way to other processes, and who wants it.
pub(super) struct Bus {
    channel: String,
    /// By which this process is known to others.
    name: String,
    sink: OnceLock<EventSink>,
    /// Whether there are subscribers here.
    is_wanted_here: watch::Sender<bool>,
    /// Until when there are some elsewhere, as far as is known.
    others_until: Mutex<Option<Instant>>,
    /// Whether there are some anywhere.
    is_wanted: AtomicBool,
    waiting: Mutex<Vec<Arc<Transition>>>,
    filled: Notify,
    missed: AtomicU64,
}

/// What is published, behind the name of who does.
#[derive(Debug, Deserialize, Serialize)]
struct Message {
    /// What was not published before it.
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

    /// Whether there are subscribers, in whatever process.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    /// Leaves transitions to be published.
    fn add(&self, transitions: Vec<Arc<Transition>>) {
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

    /// To the subscribers here.
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
                // Of a newer version, say.
                tracing::debug!(%error, "an event that another process published cannot be read");
                self.deliver(Event::Missed);
            }
        }
    }

    /// Whether there are subscribers elsewhere, where `last` is the last process that announced some.
    fn learn(&self, last: Option<&[u8]>, is_wanted_here: bool) -> bool {
        let now = Instant::now();
        let mut until = self.others_until.lock().expect("no panic under this lock");
        match last {
            Some(name) if name != self.name.as_bytes() => *until = Some(now + ANNOUNCED_FOR),
            // Of several, the others may have announced theirs before.
            Some(_) => {}
            None => *until = None,
        }
        let others = until.is_some_and(|until| until > now);
        self.is_wanted.store(others || is_wanted_here, Ordering::Relaxed);
        self.is_wanted_here.send_if_modified(|before| std::mem::replace(before, is_wanted_here) != is_wanted_here);
        others
    }
}

#[async_trait]
impl EventBus for Redis {
    fn subscribe(&self, sink: EventSink) {
        assert!(self.bus.sink.set(sink).is_ok(), "an event bus has one sink");
    }

    async fn announce(&self, has_subscribers: bool) -> Result<bool, Error> {
        let key = self.keys.own("listening");
        let command = if has_subscribers {
            let ms = ANNOUNCED_FOR.as_millis() as u64;
            redis::cmd("SET").arg(key).arg(&self.bus.name).arg("PX").arg(ms).arg("GET").to_owned()
        } else {
            redis::cmd("GET").arg(key).to_owned()
        };
        let last = match self.link.query(&command).await? {
            Value::BulkString(name) => Some(name),
            _ => None,
        };
        Ok(self.bus.learn(last.as_deref(), has_subscribers))
    }

    fn publish(&self, transitions: Vec<Arc<Transition>>) {
        self.bus.add(transitions);
    }
}

/// Receives what others publish, while there are subscribers here.
pub(super) async fn receive(link: Arc<Link>, bus: Arc<Bus>) {
    let mut is_wanted = bus.is_wanted_here.subscribe();
    let mut was_cut = false;
    for turn in 0.. {
        if is_wanted.wait_for(|&is_wanted| is_wanted).await.is_err() {
            return;
        }
        let begin = || {
            // What was published in between is not known.
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

/// Publishes what happens here.
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
        // Twice in a row, before the other one's turn.
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
