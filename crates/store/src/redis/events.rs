//! What happens to jobs, told between processes by Pub/Sub, while somebody listens.
//!
//! Who listens says so in a key that lapses, and has a connection of its own that hears what is published. Others look at
//! that key now and then, and publish only while it is there: in batches, by a task that nobody waits for. What it has no
//! room for, or cannot be rid of, is counted and told as missed.

use super::Parts;
use super::link::Link;
use super::wake::{self, PAUSE};
use duetime_core::Error;
use duetime_core::ports::{Ear, Told, Transition};
use redis::Value;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// How long it is known that a process listens, after it has said so.
const LISTENS_FOR: Duration = Duration::from_secs(3);
/// Transitions that wait to be published.
const WAITING_MAX: usize = 16_384;
/// Transitions in one message: some 80 KiB.
const MESSAGE_TRANSITIONS_MAX: usize = 500;

/// What is heard from others, and told to them.
pub(super) struct Grapevine {
    channel: String,
    /// By which this process is known to others.
    name: String,
    ear: OnceLock<Ear>,
    /// Whether somebody here listens.
    listens: watch::Sender<bool>,
    /// Until when somebody elsewhere does, as far as is known.
    others_until: Mutex<Option<Instant>>,
    /// Whether somebody does anywhere.
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
    told: Vec<Arc<Transition>>,
}

impl Grapevine {
    pub(super) fn new(channel: String, name: String) -> Self {
        Self {
            channel,
            name,
            ear: OnceLock::new(),
            listens: watch::Sender::new(false),
            others_until: Mutex::default(),
            is_wanted: AtomicBool::new(false),
            waiting: Mutex::default(),
            filled: Notify::new(),
            missed: AtomicU64::new(0),
        }
    }

    pub(super) fn overhear(&self, ear: Ear) {
        assert!(self.ear.set(ear).is_ok(), "a broker is listened to by one engine");
    }

    /// Whether somebody listens to what happens here, in whatever process.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    /// Leaves transitions to be published.
    pub(super) fn tell(&self, transitions: Vec<Arc<Transition>>) {
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
        let told = waiting.drain(..count).collect::<Vec<_>>();
        let missed = self.missed.swap(0, Ordering::Relaxed);
        (count > 0 || missed > 0).then_some(Message { missed, told })
    }

    /// Tells who listens here.
    fn pass_on(&self, told: Told) {
        if let Some(ear) = self.ear.get() {
            ear(told);
        }
    }

    fn read(&self, message: &[u8]) {
        let Some(at) = message.iter().position(|&byte| byte == b' ') else { return };
        if message[..at] == *self.name.as_bytes() {
            return;
        }
        match serde_json::from_slice::<Message>(&message[at + 1..]) {
            Ok(Message { missed, told }) => {
                if missed > 0 {
                    self.pass_on(Told::Missed);
                }
                told.into_iter().for_each(|transition| self.pass_on(Told::Transition(transition)));
            }
            Err(error) => {
                // Of a newer version, say.
                tracing::debug!(%error, "what another process told was not understood");
                self.pass_on(Told::Missed);
            }
        }
    }

    /// Whether somebody elsewhere listens, where `said` is the last one who said so.
    fn learn(&self, said: Option<&[u8]>, listens: bool) -> bool {
        let now = Instant::now();
        let mut until = self.others_until.lock().expect("no panic under this lock");
        match said {
            Some(name) if name != self.name.as_bytes() => *until = Some(now + LISTENS_FOR),
            // Of several who listen, the others may have spoken before.
            Some(_) => {}
            None => *until = None,
        }
        let others = until.is_some_and(|until| until > now);
        self.is_wanted.store(others || listens, Ordering::Relaxed);
        self.listens.send_if_modified(|before| std::mem::replace(before, listens) != listens);
        others
    }
}

impl Parts {
    /// Says whether somebody listens here, and learns whether somebody does elsewhere.
    pub(super) async fn look_for_listeners(&self, listens: bool) -> Result<bool, Error> {
        let key = self.keys.own("listening");
        let command = if listens {
            let ms = LISTENS_FOR.as_millis() as u64;
            redis::cmd("SET").arg(key).arg(&self.grapevine.name).arg("PX").arg(ms).arg("GET").to_owned()
        } else {
            redis::cmd("GET").arg(key).to_owned()
        };
        let said = match self.link.query(&command).await? {
            Value::BulkString(name) => Some(name),
            _ => None,
        };
        Ok(self.grapevine.learn(said.as_deref(), listens))
    }
}

/// Hears what others tell, whenever somebody here listens; for ever.
pub(super) async fn hear(link: Arc<Link>, grapevine: Arc<Grapevine>) {
    let mut listens = grapevine.listens.subscribe();
    let mut was_cut = false;
    for turn in 0.. {
        if listens.wait_for(|&listens| listens).await.is_err() {
            return;
        }
        let begin = || {
            // What was told in between is not known.
            if was_cut {
                grapevine.pass_on(Told::Missed);
            }
        };
        let tell = |_: &[u8], message: &[u8]| grapevine.read(message);
        let channels = [grapevine.channel.as_str()];
        was_cut = tokio::select! {
            () = wake::subscribe(&link, turn, &channels, begin, tell) => true,
            _ = listens.wait_for(|&listens| !listens) => false,
        };
        tokio::time::sleep(PAUSE).await;
    }
}

/// Publishes what happens here; for ever.
pub(super) async fn publish(link: Arc<Link>, grapevine: Arc<Grapevine>) {
    loop {
        grapevine.filled.notified().await;
        while let Some(message) = grapevine.take() {
            let body = serde_json::to_string(&message).expect("transitions have no maps");
            let text = format!("{} {body}", grapevine.name);
            let command = redis::cmd("PUBLISH").arg(&grapevine.channel).arg(text).to_owned();
            if let Err(error) = link.query(&command).await {
                tracing::debug!(%error, "what happened here was not told to others");
                let lost = message.missed + message.told.len() as u64;
                grapevine.missed.fetch_add(lost, Ordering::Relaxed);
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn of_two_who_listen_each_knows_of_the_other() {
        let (a, b) = (Grapevine::new(String::new(), "a".into()), Grapevine::new(String::new(), "b".into()));
        assert!(!a.learn(None, true));
        assert!(b.learn(Some(b"a"), true));
        assert!(a.learn(Some(b"b"), true));
        // Twice in a row, before the other one's turn.
        assert!(a.learn(Some(b"a"), true));
        tokio::time::advance(LISTENS_FOR).await;
        assert!(!a.learn(Some(b"a"), true), "the other one is gone");
        assert!(a.is_wanted());
        assert!(!a.learn(None, false) && !a.is_wanted());
    }

    #[test]
    fn what_there_is_no_room_for_is_told_as_missed() {
        let grapevine = Grapevine::new(String::new(), "a".into());
        let transition =
            r#"{"at":1,"what":"pushed","id":"1","queue":"q","kind":"k","state":"ready","attempt":0,"due_at":1}"#;
        let transition: Arc<Transition> = serde_json::from_str(transition).unwrap();
        grapevine.tell(vec![transition.clone(); WAITING_MAX]);
        grapevine.tell(vec![transition; 2]);
        let first = grapevine.take().unwrap();
        assert_eq!((first.missed, first.told.len()), (2, MESSAGE_TRANSITIONS_MAX));
        let rest = std::iter::from_fn(|| grapevine.take()).map(|message| (message.missed, message.told.len()));
        assert_eq!(rest.fold((0, 0), |sum, (missed, told)| (sum.0 + missed, sum.1 + told)), (0, WAITING_MAX - 500));
    }
}
