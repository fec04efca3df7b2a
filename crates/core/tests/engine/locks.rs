//! Locks through the engine: waiting callers, and callers that stop waiting.

use super::fixture::{Bench, pass};
use duetime_core::Error;
use duetime_core::api::Span;
use duetime_core::engine::LockRequest;
use duetime_core::limits::LOCK_TICKET_MS;
use duetime_core::ports::{Grant, Released};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

const TTL_MS: u64 = 15_000;

fn request(owner: &str, wait_ms: u64) -> LockRequest {
    LockRequest { name: "l".into(), owner: owner.into(), ttl: Span(TTL_MS), wait: Span(wait_ms), keep_place: false }
}

type Waiter = JoinHandle<Result<Grant, Error>>;

impl Bench {
    async fn acquire(&self, owner: &str) -> Grant {
        self.engine.acquire(request(owner, 0)).await.unwrap()
    }

    /// A caller that waits once this returns.
    async fn lock_waiter(&self, request: LockRequest) -> Waiter {
        let engine = self.engine.clone();
        let waiter = tokio::spawn(async move { engine.acquire(request).await });
        settle().await;
        waiter
    }

    async fn release_lock(&self, owner: &str, grant: Grant) {
        self.engine.release_lock("l", owner, grant.fence).await.unwrap();
        settle().await;
    }

    async fn holder(&self) -> Option<String> {
        self.engine.inspect("l").await.unwrap().map(|holding| holding.owner.to_string())
    }
}

/// Lets all tasks that can proceed do so, without time passing.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

async fn now(waiter: Waiter) -> Result<Grant, Error> {
    assert!(waiter.is_finished());
    waiter.await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn without_a_wait_a_held_lock_is_refused() {
    let bench = Bench::new().await;
    bench.acquire("a").await;
    pass(Duration::from_secs(5)).await;
    let refused = bench.engine.acquire(request("b", 0)).await.unwrap_err();
    assert_eq!(refused, Error::LockHeld { name: "l".into(), expires_in: Span(TTL_MS - 5_000) });
    assert!(refused.is_retryable());
}

#[tokio::test(start_paused = true)]
async fn a_release_grants_in_order_at_once() {
    let bench = Bench::new().await;
    let grant = bench.acquire("a").await;
    let first = bench.lock_waiter(request("b", 60_000)).await;
    let second = bench.lock_waiter(request("c", 60_000)).await;
    pass(Duration::from_secs(10)).await;
    let begin = Instant::now();
    bench.release_lock("a", grant).await;
    let grant = now(first).await.unwrap();
    assert!(!second.is_finished());
    bench.release_lock("b", grant).await;
    now(second).await.unwrap();
    assert_eq!(begin.elapsed(), Duration::ZERO);
    assert_eq!(bench.holder().await.as_deref(), Some("c"));
}

#[tokio::test(start_paused = true)]
async fn an_expiry_grants_in_order_to_the_millisecond() {
    let bench = Bench::new().await;
    bench.acquire("dead").await;
    let begin = Instant::now();
    let first = bench.lock_waiter(LockRequest { ttl: Span(250), ..request("b", 60_000) }).await;
    let second = bench.lock_waiter(request("c", 60_000)).await;
    first.await.unwrap().unwrap();
    assert_eq!(begin.elapsed(), Duration::from_millis(TTL_MS));
    second.await.unwrap().unwrap();
    assert_eq!(begin.elapsed(), Duration::from_millis(TTL_MS + 250));
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_over_gives_up_the_place() {
    let bench = Bench::new().await;
    let grant = bench.acquire("a").await;
    let short = bench.lock_waiter(request("b", 5_000)).await;
    let long = bench.lock_waiter(request("c", 60_000)).await;
    let refused = short.await.unwrap().unwrap_err();
    assert_eq!(refused, Error::LockHeld { name: "l".into(), expires_in: Span(TTL_MS - 5_000) });
    bench.release_lock("a", grant).await;
    now(long).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_kept_is_there_for_the_next_request() {
    let bench = Bench::new().await;
    let grant = bench.acquire("a").await;
    let first = bench.lock_waiter(LockRequest { keep_place: true, ..request("b", 2_000) }).await;
    let other = bench.lock_waiter(request("c", 60_000)).await;
    assert!(first.await.unwrap().is_err());
    bench.release_lock("a", grant).await;
    assert!(!other.is_finished());
    bench.engine.acquire(request("b", 2_000)).await.unwrap();

    let begin = Instant::now();
    let gone = bench.lock_waiter(LockRequest { keep_place: true, ..request("d", 0) }).await;
    assert!(now(gone).await.is_err());
    other.abort();
    settle().await;
    bench.engine.release_all("b").await.unwrap();
    bench.engine.acquire(request("e", 60_000)).await.unwrap();
    assert_eq!(begin.elapsed(), Duration::from_millis(LOCK_TICKET_MS), "a place is kept for a moment only");
}

#[tokio::test(start_paused = true)]
async fn one_who_goes_away_is_not_granted_and_blocks_nobody() {
    let bench = Bench::new().await;
    let grant = bench.acquire("a").await;
    let gone = bench.lock_waiter(request("b", 60_000)).await;
    let next = bench.lock_waiter(request("c", 60_000)).await;
    gone.abort();
    settle().await;
    let begin = Instant::now();
    bench.release_lock("a", grant).await;
    now(next).await.unwrap();
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

/// Whenever between the question and its answer.
#[tokio::test(start_paused = true)]
async fn one_who_goes_away_at_any_moment_holds_nothing() {
    let bench = Bench::new().await;
    for polls in 0..20 {
        let engine = bench.engine.clone();
        let waiter = tokio::spawn(async move { engine.acquire(request("gone", 0)).await });
        for _ in 0..polls {
            tokio::task::yield_now().await;
        }
        let was_answered = waiter.is_finished();
        waiter.abort();
        settle().await;
        assert_eq!(bench.holder().await.is_some(), was_answered, "after {polls} polls");
        if was_answered {
            return;
        }
    }
    panic!("it was never answered");
}

#[tokio::test(start_paused = true)]
async fn a_repeat_after_a_lost_reply_gets_the_same() {
    let bench = Bench::new().await;
    let grant = bench.acquire("a").await;
    pass(Duration::from_secs(10)).await;
    let again = bench.acquire("a").await;
    assert_eq!(again.fence, grant.fence);
    let first = bench.lock_waiter(request("b", 60_000)).await;
    let repeat = bench.lock_waiter(request("b", 60_000)).await;
    let other = bench.lock_waiter(request("c", 60_000)).await;
    first.abort();
    settle().await;
    bench.release_lock("a", grant).await;
    now(repeat).await.unwrap();
    assert!(!other.is_finished(), "the repeat kept the place");
}

#[tokio::test(start_paused = true)]
async fn many_take_turns() {
    let bench = Bench::new().await;
    let mut waiters = Vec::new();
    for n in 0..50 {
        waiters.push(bench.lock_waiter(LockRequest { ttl: Span(100), ..request(&format!("w{n}"), 60_000) }).await);
    }
    let begin = Instant::now();
    let mut last = 0;
    for waiter in waiters {
        let fence = waiter.await.unwrap().unwrap().fence;
        assert!(fence > last);
        last = fence;
    }
    assert_eq!(begin.elapsed(), Duration::from_millis(4_900), "each begins when the one before has ended");
}

#[tokio::test(start_paused = true)]
async fn renewals_and_releases_need_the_fence() {
    let bench = Bench::new().await;
    let grant = bench.acquire("a").await;
    pass(Duration::from_secs(14)).await;
    bench.engine.renew("l", "a", grant.fence, Span(TTL_MS)).await.unwrap();
    pass(Duration::from_secs(14)).await;
    let lost = |owner: &str, fence| Error::LockLost { name: "l".into(), owner: owner.into(), fence };
    let stale = grant.fence - 1;
    assert_eq!(bench.engine.renew("l", "a", stale, Span(TTL_MS)).await.unwrap_err(), lost("a", stale));
    assert_eq!(bench.engine.release_lock("l", "b", grant.fence).await.unwrap_err(), lost("b", grant.fence));
    bench.engine.release_lock("l", "a", grant.fence).await.unwrap();
    assert_eq!(bench.engine.release_lock("l", "a", grant.fence).await.unwrap_err(), lost("a", grant.fence));
}

#[tokio::test(start_paused = true)]
async fn a_lock_outlives_the_process() {
    let bench = Bench::new().await;
    let grant = bench.acquire("a").await;
    pass(Duration::from_secs(14)).await;
    let Bench { ledger, clock, .. } = bench;
    let bench = Bench::over(ledger, clock).await;
    pass(Duration::from_secs(14)).await;
    assert!(bench.engine.acquire(request("b", 0)).await.is_err());
    bench.engine.renew("l", "a", grant.fence, Span(TTL_MS)).await.unwrap();
    assert_eq!(bench.engine.release_all("a").await.unwrap(), Released { released: 1, lost: 0 });
    assert!(bench.acquire("b").await.fence > grant.fence);
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_those_who_wait_go() {
    let bench = Bench::new().await;
    bench.acquire("a").await;
    let waiter = bench.lock_waiter(request("b", 60_000)).await;
    bench.engine.stop().await.unwrap();
    assert_eq!(waiter.await.unwrap().unwrap_err(), Error::Stopping);
    assert_eq!(bench.engine.acquire(request("a", 0)).await.unwrap_err(), Error::Stopping);
}

#[tokio::test(start_paused = true)]
async fn locks_are_listed_and_swept() {
    let bench = Bench::new().await;
    for name in ["x", "y", "z"] {
        bench.engine.acquire(LockRequest { name: name.into(), ..request("a", 0) }).await.unwrap();
    }
    let page = bench.engine.list_locks(None, 2).await.unwrap();
    assert_eq!((page.locks.len(), page.next_cursor.as_deref()), (2, Some("y")));
    let page = bench.engine.list_locks(page.next_cursor.as_deref(), 2).await.unwrap();
    assert_eq!((&*page.locks[0].name, page.next_cursor), ("z", None));
    pass(Duration::from_secs(30)).await;
    assert_eq!(bench.engine.list_locks(None, 2).await.unwrap().locks, []);
    let registry: &dyn duetime_core::ports::Registry = &bench.ledger;
    assert_eq!(registry.documents("lock").await.unwrap(), [], "a restart would give them back");
}

#[tokio::test(start_paused = true)]
async fn what_is_beyond_a_limit_is_refused() {
    let bench = Bench::new().await;
    let long = "x".repeat(256);
    let cases = [
        ("lock", LockRequest { name: "".into(), ..request("a", 0) }),
        ("lock", LockRequest { name: long.as_str().into(), ..request("a", 0) }),
        ("owner", request("", 0)),
        ("owner", request(&long, 0)),
        ("ttl", LockRequest { ttl: Span(99), ..request("a", 0) }),
        ("ttl", LockRequest { ttl: Span(86_400_001), ..request("a", 0) }),
        ("wait", request("a", 60_001)),
    ];
    for (field, request) in cases {
        let error = bench.engine.acquire(request).await.unwrap_err();
        assert!(matches!(&error, Error::Invalid(invalid) if invalid.what == field), "{error}");
    }
    assert_eq!(bench.engine.renew("l", "a", 1, Span(99)).await.unwrap_err().code(), "invalid");
    assert_eq!(bench.engine.release_lock(&long, "a", 1).await.unwrap_err().code(), "invalid");
    assert_eq!(bench.engine.release_all("").await.unwrap_err().code(), "invalid");
    assert_eq!(bench.engine.inspect("").await.unwrap_err().code(), "invalid");
    assert_eq!(bench.engine.list_locks(None, 0).await.unwrap_err().code(), "invalid");
    assert_eq!(bench.engine.list_locks(None, 1_001).await.unwrap_err().code(), "invalid");
    assert_eq!(bench.engine.list_locks(Some(&long), 10).await.unwrap_err().code(), "invalid");
}

/// One of the locks elects the leader: a client that held it would keep jobs from being loaded.
#[tokio::test(start_paused = true)]
async fn nobody_holds_or_releases_the_engines_own_locks() {
    let bench = Bench::new().await;
    let of_engine = LockRequest { name: "duetime:leader".into(), ..request("a", 0) };
    let engine = &bench.engine;
    for refused in [
        engine.acquire(of_engine).await.err(),
        engine.acquire(request("duetime:engine-1", 0)).await.err(),
        engine.renew("duetime:leader", "a", 1, Span(TTL_MS)).await.err(),
        engine.release_lock("duetime:leader", "a", 1).await.err(),
        engine.release_all("duetime:engine-1").await.err(),
    ] {
        let refused = refused.expect("it is refused");
        assert!(refused.code() == "invalid" && refused.to_string().contains("duetime:"), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn locks_are_listed_by_how_they_begin() {
    let bench = Bench::new().await;
    for name in ["a", "b", "b.1", "b.2", "b.3", "c"] {
        bench.engine.acquire(LockRequest { name: name.into(), ..request("o", 0) }).await.unwrap();
    }
    for limit in 1..5 {
        let (mut names, mut cursor) = (Vec::new(), None);
        loop {
            let page = bench.engine.list_locks_in("b", cursor.as_deref(), limit).await.unwrap();
            assert!(page.locks.len() <= limit);
            names.extend(page.locks.into_iter().map(|holding| holding.name.to_string()));
            cursor = page.next_cursor;
            assert!(cursor.as_ref().is_none_or(|cursor| cursor.starts_with('b')), "{cursor:?}");
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(names, ["b", "b.1", "b.2", "b.3"], "{limit} at a time");
    }
    assert_eq!(bench.engine.list_locks_in("d", None, 9).await.unwrap().locks, []);
}
