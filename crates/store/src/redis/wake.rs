//! Notifications that a job is due sooner, over a subscription that monitors itself.
//!
//! A subscription can fail silently, so it is pinged every few seconds. Whenever it was reopened, all waiting callers check
//! again.
//!
//! If many idle nodes are notified of one job, one node gets it. A node that lost the race waits a little longer than the
//! others next time; a node that won does not.

use super::link::Link;
use duetime_core::Millis;
use duetime_core::ports::{Host, TurnWake};
use redis::{AsyncConnectionConfig, PushInfo, PushKind, RedisResult, Value};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::sync::oneshot;

/// How often the subscription is pinged, and the time limit for the answer.
const PING_EVERY: Duration = Duration::from_secs(5);
const PONG_WITHIN: Duration = Duration::from_secs(2);
/// Pause between attempts to subscribe.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
/// How much each consecutive lost race adds to the wait, and how many count.
const LOSS: Duration = Duration::from_micros(300);
const LOSSES_MAX: u32 = 10;

/// The host to notify, and how the last races ended.
#[derive(Default)]
pub(super) struct Waker {
    host: OnceLock<Arc<dyn Host>>,
    locks: OnceLock<TurnWake>,
    /// When a job was expected to be due, by the clock of Redis; 0 if none is expected.
    expected_at: AtomicU64,
    losses: AtomicU32,
}

impl Waker {
    pub(super) fn watch(&self, host: Arc<dyn Host>) {
        assert!(self.host.set(host).is_ok(), "a broker is watched by one engine");
    }

    pub(super) fn watch_locks(&self, wake: TurnWake) {
        assert!(self.locks.set(wake).is_ok(), "locks are watched by one engine");
    }

    /// How long a node that lost the last races waits before it checks.
    pub(super) fn handicap(&self) -> Duration {
        LOSS * self.losses.load(Ordering::Relaxed)
    }

    /// Records a check at this instant, and whether it found a job. If a job was expected by then but not found, other nodes
    /// were faster.
    pub(super) fn looked(&self, found: bool, at: Millis) {
        let expected_at = self.expected_at.load(Ordering::Relaxed);
        if found {
            self.losses.store(0, Ordering::Relaxed);
        } else if expected_at > 0 && expected_at <= at {
            self.expected_at.store(0, Ordering::Relaxed);
            let losses = self.losses.load(Ordering::Relaxed);
            self.losses.store((losses + 1).min(LOSSES_MAX), Ordering::Relaxed);
        }
    }

    /// Expects a job to be due then; all nodes know of it.
    pub(super) fn expect(&self, at: Millis) {
        self.expected_at.store(at, Ordering::Relaxed);
    }

    pub(super) fn wake(&self, queue: Option<&Arc<str>>) {
        if let Some(host) = self.host.get() {
            host.wake(queue);
        }
    }

    fn wake_lock(&self, name: &str, owner: &str) {
        if let Some(wake) = self.locks.get() {
            wake(&Arc::from(name), &Arc::from(owner));
        }
    }
}

/// The subscribed channels.
#[derive(Clone, Debug)]
pub(super) struct Channels {
    pub(super) queues: String,
    pub(super) locks: String,
}

/// Listens forever; reports when it has begun.
pub(super) async fn listen(
    link: Arc<Link>,
    channels: Channels,
    waker: Arc<Waker>,
    mut begun: Option<oneshot::Sender<()>>,
) {
    for turn in 0.. {
        let begin = || {
            if let Some(begun) = begun.take() {
                // The receiver is gone if the caller was dropped.
                let _ = begun.send(());
            }
            // Waiters for locks ask again on their own, at least every second.
            waker.wake(None);
        };
        subscribe(&link, turn, &[&channels.queues, &channels.locks], begin, |channel, message| {
            tell(channel, message, &channels, &waker);
        })
        .await;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Forwards messages of channels over a separate connection until it breaks; `turn` selects one of several servers.
pub(super) async fn subscribe(
    link: &Link,
    turn: usize,
    channels: &[&str],
    begin: impl FnOnce(),
    tell: impl Fn(&[u8], &[u8]),
) {
    let (sender, mut messages) = mpsc::unbounded_channel();
    let config = AsyncConnectionConfig::new()
        .set_push_sender(sender)
        .set_response_timeout(Some(PONG_WITHIN))
        .set_connection_timeout(Some(PONG_WITHIN));
    let subscribed = async {
        let mut connection = link.listener(&config, turn).await?;
        for channel in channels {
            connection.subscribe(*channel).await?;
        }
        RedisResult::Ok(connection)
    };
    match subscribed.await {
        Ok(mut connection) => {
            begin();
            hear(&mut connection, &mut messages, tell).await;
        }
        Err(error) => tracing::debug!(%error, "cannot subscribe to Redis; trying again"),
    }
}

async fn hear(
    connection: &mut redis::aio::MultiplexedConnection,
    messages: &mut UnboundedReceiver<PushInfo>,
    tell: impl Fn(&[u8], &[u8]),
) {
    let mut next_ping = tokio::time::Instant::now() + PING_EVERY;
    loop {
        tokio::select! {
            message = messages.recv() => match message {
                Some(PushInfo { kind: PushKind::Message, data }) => {
                    if let [Value::BulkString(channel), Value::BulkString(message)] = &data[..] {
                        tell(channel, message);
                    }
                }
                Some(PushInfo { kind: PushKind::Disconnection, .. }) | None => return,
                Some(_) => {}
            },
            () = tokio::time::sleep_until(next_ping) => {
                let pong: RedisResult<Value> = redis::cmd("PING").query_async(connection).await;
                if pong.is_err() {
                    return;
                }
                next_ping = tokio::time::Instant::now() + PING_EVERY;
            }
        }
    }
}

/// A message consists of its channel and the name of a queue, or a lock and an owner.
fn tell(channel: &[u8], message: &[u8], channels: &Channels, waker: &Arc<Waker>) {
    if channel == channels.locks.as_bytes() {
        if let Some((name, owner)) = turn(message) {
            waker.wake_lock(name, owner);
        }
    } else if channel == channels.queues.as_bytes() {
        let Ok(name) = std::str::from_utf8(message) else { return };
        // That means at once.
        waker.expect(1);
        let (handicap, queue) = (waker.handicap(), Arc::from(name));
        if handicap.is_zero() {
            waker.wake(Some(&queue));
        } else {
            let waker = waker.clone();
            tokio::spawn(async move {
                tokio::time::sleep(handicap).await;
                waker.wake(Some(&queue));
            });
        }
    }
}

/// A lock's name, after a byte with its length, and the owner first in its line.
fn turn(message: &[u8]) -> Option<(&str, &str)> {
    let (&length, rest) = message.split_first()?;
    let (name, owner) = rest.split_at_checked(length.into())?;
    Some((std::str::from_utf8(name).ok()?, std::str::from_utf8(owner).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_a_name_and_an_owner() {
        assert_eq!(turn(b"\x02a\0b"), Some(("a\0", "b")));
        let (name, owner) = ("n".repeat(255), "ö".repeat(100));
        let message = [&[255], name.as_bytes(), owner.as_bytes()].concat();
        assert_eq!(turn(&message), Some((name.as_str(), owner.as_str())));
        assert_eq!([turn(b""), turn(b"\x02a"), turn(b"\x01\xffb")], [None; 3]);
    }
}
