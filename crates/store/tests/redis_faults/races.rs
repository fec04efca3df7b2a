//! Operations that come between two steps of one call.

use crate::redis_faults::subject::{has, hash, until};
use duetime_core::json::Timestamp;
use duetime_core::ports::{
    Acquire, Acquired, Beginning, Broker, BrokerClock, Change, Detail, Edit, Edited, Extend, Extended, Host, Ledger,
    Locks, Outbox, Outcomes, Put, Room, Settle, Update,
};
use duetime_core::rules::{Decision, Finish};
use duetime_core::testing::fixtures::{FixedHost, QUEUE, job, reserve, take};
use duetime_core::{Error, Job, Millis, Stage, State};
use duetime_store::redis::{Options, Redis};
use duetime_store::testing::{End, Fate, Proxy, RedisServer};
use std::io::{Read as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Longer than the events in between take.
const HELD: Duration = Duration::from_millis(500);

fn beside() -> Options {
    Options { beside: Some("test".into()), ..Options::default() }
}

async fn begun(url: &str) -> Redis {
    let redis = Redis::connect(url, beside()).await.unwrap();
    redis.begin(Arc::new(FixedHost::default())).await.unwrap();
    redis
}

fn flush(port: u16) {
    let mut way = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    way.write_all(b"FLUSHALL\r\n").unwrap();
    way.read_exact(&mut [0; 5]).unwrap();
}

/// A job that is put after an edit has not found it, and before it is barred, is told to be here: otherwise the ledger would
/// end a job that the broker hands out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_put_while_it_is_edited_is_edited() {
    let server = RedisServer::start();
    let other = begun(&server.url()).await;
    let seen = Arc::new(AtomicU64::new(0));
    let count = seen.clone();
    let tombstone = hash("tombstone");
    let proxy = Proxy::to(server.port(), move |command| {
        if !has(command, tombstone) {
            return Fate::default();
        }
        count.fetch_add(1, Ordering::SeqCst);
        Fate { held: HELD, ..Fate::default() }
    });
    let redis = begun(&proxy.url()).await;
    let bar = tokio::spawn(async move { redis.bar(&[(job(1).id, job(1).version)]).await });
    until("the tombstone to be on its way", || seen.load(Ordering::SeqCst) > 0).await;
    let put = other.put(vec![job(1)], other.reading(), Room::Any).await.unwrap();
    match (&put[..], &bar.await.unwrap().unwrap()[..]) {
        ([Put::Held], [held]) => assert_eq!(*held, job(1).id),
        // If this was held up, the tombstone came first.
        ([Put::Tombstone], []) => {}
        came => panic!("{came:?}"),
    }
}

/// Its repeat finds a job that others have changed since: it is answered as the first attempt was, and changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_whose_answer_was_lost_is_made_once() {
    let server = RedisServer::start();
    let other = begun(&server.url()).await;
    let (change, seen) = (hash("change"), AtomicU64::new(0));
    let (is_repeated, repeated) = std::sync::mpsc::channel();
    let (go, goes) = std::sync::mpsc::channel();
    let goes = Mutex::new(goes);
    let proxy = Proxy::to(server.port(), move |command| {
        let end = match has(command, change).then(|| seen.fetch_add(1, Ordering::SeqCst)) {
            Some(0) => End::ReplyLost,
            Some(1) => {
                is_repeated.send(()).unwrap();
                goes.lock().unwrap().recv().unwrap();
                End::Answered
            }
            _ => End::Answered,
        };
        Fate { end, ..Fate::default() }
    });
    let redis = begun(&proxy.url()).await;
    other.put(vec![job(1), job(2)], other.reading(), Room::Any).await.unwrap();
    let update = |n, payload: &[u8]| {
        let update = Update { payload: Some(payload.into()), ..Update::default() };
        vec![Edit { id: job(n).id, version: None, change: Change::Update(update) }]
    };
    // So that the script is known, and is called by its hash.
    Broker::edit(&other, update(2, b"0")).await.unwrap();
    let edit = update(1, b"first");
    let edit = vec![Edit { version: Some(job(1).version), ..edit[0].clone() }];
    let edit = tokio::spawn(async move { Broker::edit(&redis, edit).await });
    tokio::task::block_in_place(|| repeated.recv().unwrap());
    Broker::edit(&other, update(1, b"second")).await.unwrap();
    go.send(()).unwrap();
    let (edited, _) = edit.await.unwrap().unwrap();
    assert!(matches!(&edited[..], [Edited::Changed(job)] if *job.payload == *b"first"), "{edited:?}");
    let left = Broker::get(&other, &[job(1).id], Detail::Whole).await.unwrap();
    assert!(matches!(&left[..], [Some(job)] if *job.payload == *b"second"), "{left:?}");
}

/// Generations, each another one.
#[derive(Default)]
struct Raised(AtomicU64);

#[async_trait::async_trait]
impl Host for Raised {
    async fn beginning(&self) -> Result<Beginning, Error> {
        Ok(Beginning { generation: self.0.fetch_add(1, Ordering::SeqCst) + 1, limits: Vec::new() })
    }
}

/// One that is repeated after its reply was lost begins no other memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fences_begin_anew_though_an_earlier_beginning_comes_late() {
    let server = RedisServer::start();
    let host = Arc::new(Raised::default());
    let (begin, begun) = (hash("lock_begin"), AtomicU64::new(0));
    let (is_repeated, repeated) = std::sync::mpsc::channel();
    let (go, goes) = std::sync::mpsc::channel();
    let goes = Mutex::new(goes);
    let proxy = Proxy::to(server.port(), move |command| {
        let end = match has(command, begin).then(|| begun.fetch_add(1, Ordering::SeqCst)) {
            Some(0) => End::ReplyLost,
            Some(1) => {
                is_repeated.send(()).unwrap();
                goes.lock().unwrap().recv().unwrap();
                End::Answered
            }
            _ => End::Answered,
        };
        Fate { end, ..Fate::default() }
    });
    let (slow, quick) = (Redis::connect(&proxy.url(), beside()).await, Redis::connect(&server.url(), beside()).await);
    let (slow, quick) = (slow.unwrap(), quick.unwrap());
    slow.begin(host.clone()).await.unwrap();
    quick.begin(host.clone()).await.unwrap();
    let acquire = |n: u64| Acquire { name: format!("{n}").into(), owner: "o".into(), ttl_ms: 60_000, waiting: false };
    let fence = |acquired| match acquired {
        Ok(Acquired::Granted { grant, .. }) => grant.fence,
        other => panic!("{other:?}"),
    };
    let late = tokio::spawn(async move { slow.acquire(acquire(1)).await });
    tokio::task::block_in_place(|| repeated.recv().unwrap());
    let before = fence(quick.acquire(acquire(2)).await);
    server.command(&["FLUSHALL"]);
    go.send(()).unwrap();
    let after = fence(late.await.unwrap());
    assert!(after > before, "{after} after {before}");
}

/// The interval between two checks of the ledger that it is used with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_emptied_while_it_is_first_used_is_no_damage() {
    let server = RedisServer::start();
    let port = server.port();
    let looks = AtomicU64::new(0);
    let proxy = Proxy::to(port, move |command| {
        if has(command, "GET") && has(command, ":ledger") && looks.fetch_add(1, Ordering::SeqCst) == 1 {
            flush(port);
        }
        Fate::default()
    });
    let redis = Redis::connect(&proxy.url(), beside()).await.unwrap();
    redis.begin(Arc::new(FixedHost::default())).await.unwrap();
}

/// Its caller has had its answer, and the place in which it was remembered is used for another call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_take_that_is_carried_out_late_takes_nothing() {
    let server = RedisServer::start();
    let (reserves, seen) = (hash("reserve"), AtomicU64::new(0));
    let proxy = Proxy::to(server.port(), move |command| {
        let is_first = has(command, reserves) && seen.fetch_add(1, Ordering::SeqCst) == 0;
        Fate { end: if is_first { End::Late(HELD) } else { End::Answered }, ..Fate::default() }
    });
    let redis = Redis::connect(&proxy.url(), Options::default()).await.unwrap();
    redis.begin(Arc::new(FixedHost::default())).await.unwrap();
    // So that the script is known, and is called by its hash.
    let other = Redis::connect(&server.url(), Options::default()).await.unwrap();
    other.begin(Arc::new(FixedHost::default())).await.unwrap();
    other.reserve(reserve(QUEUE, 1)).await.unwrap();
    let taken = redis.take(take(QUEUE, 9)).await.unwrap();
    assert!(taken.reserved.leases.is_empty());
    let due = |n| Job { due_at: Timestamp(1), ..job(n) };
    other.record(vec![due(1)], Millis::MAX).await.unwrap();
    assert_eq!(redis.reserve(reserve(QUEUE, 9)).await.unwrap().leases.len(), 1);
    other.record(vec![due(2)], Millis::MAX).await.unwrap();
    let calls = || {
        let stats = server.command(&["INFO", "commandstats"]);
        let calls =
            stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")?.split(',').next()?.parse().ok());
        calls.unwrap_or(0_u64)
    };
    let before = calls();
    until("the take to be carried out", || calls() > before).await;
    let left = Broker::get(&redis, &[job(2).id], Detail::Whole).await.unwrap();
    assert!(left[0].as_ref().is_some_and(Job::is_pending), "{left:?}");
}

/// Otherwise the lease ends before the time that its worker was told last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_extension_that_is_carried_out_late_shortens_no_later_one() {
    let server = RedisServer::start();
    let (extends, seen) = (hash("extend"), AtomicU64::new(0));
    let proxy = Proxy::to(server.port(), move |command| {
        let is_first = has(command, extends) && seen.fetch_add(1, Ordering::SeqCst) == 0;
        Fate { end: if is_first { End::Late(HELD) } else { End::Answered }, ..Fate::default() }
    });
    let redis = begun(&proxy.url()).await;
    let other = begun(&server.url()).await;
    let due = |n| Job { due_at: Timestamp(1), ..job(n) };
    redis.put(vec![due(1), due(2)], redis.reading(), Room::Any).await.unwrap();
    let leases = redis.reserve(reserve(QUEUE, 2)).await.unwrap().leases;
    let extend = |n: usize, ms| vec![Extend::new(leases[n].job.receipt(), Some(ms))];
    // So that the script is known, and is called by its hash.
    other.extend(extend(1, 60_000)).await.unwrap();
    redis.extend(extend(0, 1_000)).await.unwrap();
    let last = redis.extend(extend(0, 600_000)).await.unwrap();
    let [Extended::Until { lease_until, .. }] = last[..] else { panic!("{last:?}") };
    let calls = || {
        let stats = server.command(&["INFO", "commandstats"]);
        let calls =
            stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")?.split(',').next()?.parse().ok());
        calls.unwrap_or(0_u64)
    };
    let before = calls();
    until("the extension to be carried out", || calls() > before).await;
    let left = Broker::get(&other, &[job(1).id], Detail::Head).await.unwrap();
    assert_eq!(left[0].as_ref().and_then(|job| job.lease_until), Some(Timestamp(lease_until)));
}

/// Else it would be said to be recorded, and run again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_that_is_lost_while_it_is_asked_for_again_is_not_answered() {
    let server = RedisServer::start();
    let (port, outcomes, asked) = (server.port(), hash("outcomes"), AtomicU64::new(0));
    let proxy = Proxy::to(port, move |command| {
        if has(command, outcomes) && asked.fetch_add(1, Ordering::SeqCst) == 0 {
            flush(port);
        }
        Fate::default()
    });
    let (redis, other) = (begun(&proxy.url()).await, begun(&server.url()).await);
    let due = Job { due_at: Timestamp(1), ..job(1) };
    redis.put(vec![due], redis.reading(), Room::Any).await.unwrap();
    let leased = redis.reserve(reserve(QUEUE, 1)).await.unwrap().leases.remove(0).job;
    let failed = || vec![Settle::new(leased.receipt(), Decision::Finish(Finish::new(Stage::Failed)))];
    // So that the scripts are known, and are called by their hashes.
    other.outcomes(Outcomes::Of(leased.id)).await.unwrap();
    let settled = redis.settle(failed()).await.unwrap();
    assert_eq!((&settled.states[..], settled.entries.len()), (&[Some(State::Failed)][..], 1));
    let again = redis.settle(failed()).await.unwrap();
    assert_eq!((&again.states[..], again.entries.len()), (&[None][..], 0));
}
