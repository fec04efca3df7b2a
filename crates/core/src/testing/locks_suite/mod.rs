//! The conformance suite of locks: the contract of [`Locks`], case by case.
//!
//! A store runs all cases with [`locks_suite!`](crate::locks_suite), naming an async function that makes an empty one on a
//! given clock. Each case gets two separate stores. A case never asks which store it runs on, and never sleeps: it moves the
//! clock.

pub mod fences;
pub mod holding;
pub mod lines;
pub mod owners;
pub mod views;
pub mod wakes;

use super::clock::ManualClock;
use crate::clock::{Clock, Millis};
use crate::ports::{Acquire, Acquired, Grant, Holding, LockList, Locks, Released};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// How long a case waits for a wake before it gives up.
const WAKE_WAIT_MAX: Duration = Duration::from_secs(10);
/// The lock that most cases are about.
pub const LOCK: &str = "stock-42";
/// The time to live if a case does not need a special one.
pub const TTL_MS: u64 = 15_000;

/// A store of locks under test. Its methods fail the test if the store fails.
pub struct Subject {
    /// The store.
    pub locks: Arc<dyn Locks>,
    /// Another empty one, on the same clock, as after a loss of memory.
    pub fresh: Arc<dyn Locks>,
    clock: Arc<ManualClock>,
    woken: Arc<Mutex<Vec<(String, String)>>>,
    wake: Arc<Notify>,
}

impl Subject {
    /// Two empty stores that use this clock and were not started yet.
    pub async fn new(locks: Arc<dyn Locks>, fresh: Arc<dyn Locks>, clock: Arc<ManualClock>) -> Self {
        let woken = Arc::new(Mutex::new(Vec::new()));
        let wake = Arc::new(Notify::new());
        let (told, signal) = (woken.clone(), wake.clone());
        let tell = move |name: &Arc<str>, owner: &Arc<str>| {
            told.lock().expect("no case panics with it").push((name.to_string(), owner.to_string()));
            signal.notify_one();
        };
        locks.start(Arc::new(tell)).await.expect("start");
        fresh.start(Arc::new(|_, _| {})).await.expect("start");
        Self { locks, fresh, clock, woken, wake }
    }

    fn now(&self) -> Millis {
        self.clock.wall()
    }

    fn pass(&self, ms: u64) {
        self.clock.advance(ms);
    }

    /// Asks for [`LOCK`] for [`TTL_MS`].
    async fn ask(&self, owner: &str, waiting: bool) -> Acquired {
        self.ask_for(LOCK, owner, TTL_MS, waiting).await
    }

    async fn ask_for(&self, name: &str, owner: &str, ttl_ms: u64, waiting: bool) -> Acquired {
        let acquire = Acquire { name: name.into(), owner: owner.into(), ttl_ms, waiting };
        self.locks.acquire(acquire).await.expect("acquire")
    }

    /// Acquires [`LOCK`], which must be free.
    async fn acquire(&self, owner: &str) -> Grant {
        granted(self.ask(owner, false).await).0
    }

    /// Takes or refreshes a ticket; the lock must not be granted.
    async fn wait(&self, owner: &str) -> (u64, u64) {
        held(self.ask(owner, true).await)
    }

    async fn renew(&self, owner: &str, fence: u64, ttl_ms: u64) -> Option<Grant> {
        self.locks.renew(&LOCK.into(), &owner.into(), fence, ttl_ms).await.expect("renew")
    }

    async fn release(&self, owner: &str, fence: u64) -> bool {
        self.locks.release(&LOCK.into(), &owner.into(), fence).await.expect("release")
    }

    async fn release_all(&self, owner: &str) -> Released {
        self.locks.release_all(&owner.into()).await.expect("release_all")
    }

    async fn abandon(&self, owner: &str) {
        self.locks.abandon(&LOCK.into(), &owner.into()).await.expect("abandon");
    }

    async fn inspect(&self, name: &str) -> Option<Holding> {
        self.locks.inspect(&name.into()).await.expect("inspect")
    }

    /// The holder of [`LOCK`].
    async fn holder(&self) -> Option<String> {
        self.inspect(LOCK).await.map(|holding| holding.owner.to_string())
    }

    async fn list(&self, after: Option<&str>, limit: usize) -> LockList {
        self.locks.list(after.map(Arc::from).as_ref(), limit).await.expect("list")
    }

    fn take_woken(&self, name: &str, owner: &str) -> Option<Vec<(String, String)>> {
        let mut woken = self.woken.lock().expect("no case panics with it");
        woken.iter().any(|told| told.0 == name && told.1 == owner).then(|| std::mem::take(&mut *woken))
    }

    /// Waits until the owner was woken because its turn for this lock may have come, and returns all wakes since the last
    /// call.
    async fn told(&self, name: &str, owner: &str) -> Vec<(String, String)> {
        let told = async {
            loop {
                let signal = self.wake.notified();
                if let Some(told) = self.take_woken(name, owner) {
                    return told;
                }
                signal.await;
            }
        };
        let told = tokio::time::timeout(WAKE_WAIT_MAX, told).await;
        told.unwrap_or_else(|_| panic!("{owner} was not told of {name}"))
    }
}

/// The grant, and whether it is new.
fn granted(acquired: Acquired) -> (Grant, bool) {
    match acquired {
        Acquired::Granted { grant, is_new } => (grant, is_new),
        Acquired::Held { .. } => panic!("not granted: {acquired:?}"),
    }
}

/// How long it is held, and when to ask again.
fn held(acquired: Acquired) -> (u64, u64) {
    match acquired {
        Acquired::Held { expires_in_ms, again_in_ms } => (expires_in_ms, again_in_ms),
        Acquired::Granted { .. } => panic!("granted: {acquired:?}"),
    }
}

/// Makes a test of each case, on stores that this async function makes: `async fn(Arc<ManualClock>) -> Arc<dyn Locks>`.
#[macro_export]
macro_rules! locks_suite {
    ($make:path) => {
        $crate::locks_cases! { $make =>
            fences {
                a_fence_grows_with_each_grant fences_grow_over_all_locks fences_grow_over_a_lost_memory
                fences_grow_under_a_clock_set_back
            }
            holding {
                a_lock_has_one_holder an_owner_gets_the_same_fence_again a_lock_ends_when_its_time_is_over
                a_renewal_moves_the_end a_renewal_needs_owner_and_fence a_lock_that_ended_is_not_renewed
                a_release_needs_owner_and_fence a_repeated_release_is_told names_are_compared_byte_by_byte
                the_longest_and_the_shortest_life
                a_lock_of_a_clock_that_was_ahead_is_held_no_longer
            }
            lines {
                first_come_first_served a_free_lock_is_kept_for_the_first_in_line an_abandoned_ticket_is_not_granted
                a_lapsed_ticket_blocks_nobody a_refreshed_ticket_keeps_its_place a_ticket_is_taken_once
                who_no_longer_waits_loses_the_ticket the_end_is_foretold the_lapse_is_foretold
                a_grant_uses_the_ticket_up nobody_is_granted_who_does_not_ask a_line_is_bounded
            }
            owners {
                all_locks_of_an_owner_are_released lost_locks_are_counted_once
                what_was_lost_long_ago_is_forgotten others_keep_theirs many_locks_are_released
            }
            views {
                a_lock_is_seen_as_it_is a_listing_goes_by_name a_listing_is_paged a_sweep_changes_nothing_that_counts
            }
            wakes {
                a_release_is_told an_abandoned_place_is_told_to_the_next a_grant_is_told_to_the_next
                releasing_all_is_told an_end_that_comes_nearer_is_told
            }
        }
    };
}

/// Makes a test of each named case of each named module.
#[doc(hidden)]
#[macro_export]
macro_rules! locks_cases {
    ($make:path => $($module:ident { $($case:ident)* })*) => {
        $(mod $module {
            #[allow(unused_imports, reason = "the function may be named by an absolute path")]
            use super::*;
            $(
                #[tokio::test]
                async fn $case() {
                    let clock = ::std::sync::Arc::new($crate::testing::ManualClock::new());
                    let (locks, fresh) = ($make(clock.clone()).await, $make(clock.clone()).await);
                    let subject = $crate::testing::locks_suite::Subject::new(locks, fresh, clock).await;
                    $crate::testing::locks_suite::$module::$case(subject).await;
                }
            )*
        })*
    };
}
