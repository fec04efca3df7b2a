//! Locks, as the library holds them.

use super::queue;
use duetime::lock::Guard;
use duetime::{Client, Error, ErrorKind, Lock};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time limit of every wait; never reached if all is well.
const LONG: Duration = Duration::from_secs(60);
/// A time to live that a test can wait for.
const SHORT: Duration = Duration::from_millis(400);

/// A lock that no other test has.
fn lock(client: &Client) -> Lock {
    client.locks().named(format!("lock/of {}", queue()))
}

async fn held(lock: &Lock) -> Guard {
    lock.try_acquire().await.unwrap().expect("it is free")
}

fn is_held(error: &Error) -> bool {
    (error.kind(), error.code()) == (ErrorKind::Conflict, "lock_held")
}

fn is_lost(error: &Error) -> bool {
    error.kind() == ErrorKind::Lost
}

pub(crate) async fn a_lock_has_one_holder(client: Client) {
    let lock = lock(&client);
    let guard = held(&lock).await;
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(guard.is_held().await.unwrap() && !guard.lost().is_cancelled());
    let holding = client.locks().holder(guard.name()).await.unwrap().unwrap();
    assert_eq!((&holding.owner, holding.grant.fence), (guard.owner(), guard.fence()));
    assert!(client.locks().list(None, 1_000).await.unwrap().locks.contains(&holding));
    let (fence, name) = (guard.fence(), guard.name().clone());
    guard.release().await.unwrap();
    assert_eq!(client.locks().holder(&name).await.unwrap(), None);
    assert!(held(&lock).await.fence() > fence);
}

pub(crate) async fn a_guard_renews_itself(client: Client) {
    // Long enough that a busy machine renews in time.
    let ttl = SHORT * 4;
    let lock = lock(&client).ttl(ttl);
    let guard = held(&lock).await;
    let (begin, lost) = (Instant::now(), guard.lost().clone());
    assert!(is_held(&lock.acquire(ttl * 2).await.unwrap_err()), "it waits in vain");
    assert!(begin.elapsed() >= ttl * 2);
    assert!(guard.is_held().await.unwrap() && !lost.is_cancelled());
    guard.release().await.unwrap();
    assert!(!lost.is_cancelled(), "to release is not to lose");
}

pub(crate) async fn a_guard_that_is_dropped_releases(client: Client) {
    let lock = lock(&client);
    let guard = held(&lock).await;
    let waiter = {
        let lock = lock.clone();
        tokio::spawn(async move { lock.acquire(LONG).await })
    };
    drop(guard);
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

pub(crate) async fn those_who_wait_come_in_order(client: Client) {
    let lock = lock(&client);
    let guard = held(&lock).await;
    let (told, mut order) = tokio::sync::mpsc::unbounded_channel();
    let mut tasks = Vec::new();
    for n in 0..5 {
        let (lock, told) = (lock.clone(), told.clone());
        let mut wait = Box::pin(async move {
            let guard = lock.acquire(LONG).await.unwrap();
            told.send((n, guard.fence())).unwrap();
            guard.release().await.unwrap();
        });
        // It is in line once it has not been answered for a moment.
        assert!(tokio::time::timeout(Duration::from_millis(100), &mut wait).await.is_err());
        tasks.push(tokio::spawn(wait));
    }
    let mut last = guard.fence();
    guard.release().await.unwrap();
    for n in 0..5 {
        let (next, fence) = order.recv().await.unwrap();
        assert!(next == n && fence > last, "{next} came as number {n}");
        last = fence;
    }
    for task in tasks {
        task.await.unwrap();
    }
}

pub(crate) async fn one_who_goes_away_leaves_nothing(client: Client) {
    let lock = lock(&client);
    for ms in 0..20 {
        // A server may first have to notice that a client is gone.
        let guard = lock.acquire(LONG).await.unwrap();
        let gone = tokio::time::timeout(Duration::from_millis(ms), lock.acquire(LONG)).await;
        assert!(gone.is_err());
        guard.release().await.unwrap();
        // At any moment of an acquire.
        let gone = tokio::time::timeout(Duration::from_micros(ms * 50), lock.acquire(LONG)).await;
        drop(gone);
        let begin = Instant::now();
        lock.acquire(LONG).await.unwrap().release().await.unwrap();
        assert!(begin.elapsed() < Duration::from_secs(10), "it was held until it expired");
    }
}

pub(crate) async fn a_lost_lock_is_told(client: Client) {
    let lock = lock(&client).ttl(SHORT).owner("careless");
    let guard = held(&lock).await;
    assert!(client.locks().release_all("careless").await.unwrap().released >= 1);
    let other = lock.clone().ttl(LONG).owner("other").acquire(LONG).await.unwrap();
    tokio::time::timeout(LONG, guard.lost().cancelled()).await.unwrap();
    assert!(!guard.is_held().await.unwrap());
    assert!(is_lost(&guard.release().await.unwrap_err()));
    assert!(other.is_held().await.unwrap());
    other.release().await.unwrap();
}

pub(crate) async fn an_owner_gets_its_lock_again(client: Client) {
    let name: Arc<str> = format!("owner {}", queue()).into();
    let lock = lock(&client).owner(name.clone());
    let (guard, again) = (held(&lock).await, held(&lock).await);
    assert_eq!(guard.fence(), again.fence());
    assert!(lock.clone().owner("another").try_acquire().await.unwrap().is_none());
    assert_eq!(client.locks().release_all(&name).await.unwrap().released, 1);
    assert!(is_lost(&guard.release().await.unwrap_err()));
    drop(again);
}

pub(crate) async fn a_caller_that_blocks_keeps_its_lock(client: Client) {
    let lock = lock(&client).ttl(SHORT * 2);
    let guard = held(&lock).await;
    std::thread::sleep(SHORT * 3);
    assert!(!guard.lost().is_cancelled() && guard.is_held().await.unwrap());
    guard.release().await.unwrap();
}

pub(crate) async fn a_lock_beyond_a_limit_is_refused(client: Client) {
    let long = "n".repeat(256);
    for lock in [
        client.locks().named(""),
        client.locks().named(long.as_str()),
        client.locks().named("l").owner(""),
        client.locks().named("l").owner(long.as_str()),
        client.locks().named("l").ttl(Duration::from_millis(99)),
        client.locks().named("l").ttl(Duration::from_secs(86_401)),
    ] {
        assert_eq!(lock.try_acquire().await.unwrap_err().code(), "invalid", "{lock:?}");
    }
    assert_eq!(client.locks().release_all("").await.unwrap_err().code(), "invalid");
    assert_eq!(client.locks().holder("").await.unwrap_err().code(), "invalid");
    assert_eq!(client.locks().list(None, 0).await.unwrap_err().code(), "invalid");
    for name in ["a b", "ä/ö", "%2F", "+", "?x=1", "..", "\n", "\0"] {
        let name = format!("{}{name}", queue());
        let guard = held(&client.locks().named(name.as_str())).await;
        assert_eq!(&*client.locks().holder(&name).await.unwrap().unwrap().name, name);
        guard.release().await.unwrap();
    }
}
