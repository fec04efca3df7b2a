//! One account of the memory that callers make this process hold while it serves them, whichever door they came through.
//!
//! - Whatever is held for a caller takes a [`Share`] of a [`Budget`] before it grows, and gives it back when it is dropped.
//! - Three budgets, so that none of these waits for another: `requests` (bodies, and what is parsed from them, until the request is
//!   done), `answers` (from before they are made until they are sent) and `strangers` (what is read of callers before it is known
//!   whether they may ask for anything: heads, and commands before a token).
//! - A share waits for others, oldest first, for a few seconds; then the request is refused with a code that says to try again. While one
//!   waits, connections that make little progress are closed, so a refusal does not last.
//! - One thing that is larger than a whole budget gets all of it, alone, so that it is not refused each time.
//! - The small memory of each connection is not counted: its number has a bound. Memory of jobs and their names is the engine's.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Memory for all requests and answers in progress, unless an option says otherwise.
pub(crate) const BYTES_DEFAULT: u64 = 384 << 20;
/// The least that can be configured: less would refuse most pages of jobs.
pub(crate) const BYTES_MIN: u64 = 16 << 20;
/// The most that can be configured.
pub(crate) const BYTES_MAX: u64 = 4 << 30;
/// How long a share waits for others to make room.
const WAIT_MAX: Duration = Duration::from_secs(3);
/// Answers that are in memory already while they wait for their share. More are refused at once.
const MADE_MAX: usize = 8;

/// The memory of one process.
#[derive(Debug)]
pub(crate) struct Account {
    /// Of requests of known callers.
    pub(crate) requests: Arc<Budget>,
    /// Of answers that are not sent yet.
    pub(crate) answers: Arc<Budget>,
    /// Of callers who have not shown yet what they may do.
    pub(crate) strangers: Arc<Budget>,
    made: Semaphore,
}

/// Bytes that may be held.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: usize,
    room: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// There was no room for so long that the request was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exhausted;

/// The share of one request or answer, released when this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    permit: Option<OwnedSemaphorePermit>,
}

/// One that waits for room.
struct Waits<'a>(&'a AtomicUsize);

impl Account {
    /// Of this many bytes in all: a half for requests, a sixteenth for strangers.
    pub(crate) fn new(bytes: u64) -> Arc<Self> {
        let bytes = usize::try_from(bytes.clamp(BYTES_MIN, BYTES_MAX)).expect("it is within the bounds");
        let (requests, strangers) = (bytes / 2, bytes / 16);
        let answers = bytes - requests - strangers;
        let [requests, answers, strangers] = [requests, answers, strangers].map(|bytes| Arc::new(Budget::new(bytes)));
        Arc::new(Self { requests, answers, strangers, made: Semaphore::new(MADE_MAX) })
    }

    /// The same with this many bytes for requests.
    #[cfg(test)]
    pub(crate) fn with_requests(bytes: usize) -> Arc<Self> {
        Arc::new(Self { requests: Arc::new(Budget::new(bytes)), ..Self::default() })
    }

    /// A share for an answer of this many bytes that is in memory already. Few of these wait at a time.
    ///
    /// # Errors
    /// [`Exhausted`], at once if others wait.
    pub(crate) async fn made(&self, bytes: usize) -> Result<Share, Exhausted> {
        let mut share = self.answers.share();
        self.grow_made(&mut share, bytes).await?;
        Ok(share)
    }

    /// The same for an answer that grows.
    ///
    /// # Errors
    /// As [`made`](Self::made).
    pub(crate) async fn grow_made(&self, share: &mut Share, bytes: usize) -> Result<(), Exhausted> {
        if share.try_grow(bytes).is_ok() {
            return Ok(());
        }
        let _turn = self.made.try_acquire().map_err(|_| Exhausted)?;
        share.grow(bytes).await
    }
}

impl Default for Account {
    fn default() -> Self {
        Arc::into_inner(Self::new(BYTES_DEFAULT)).expect("it is new")
    }
}

impl Budget {
    /// For this many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { bytes, room: Arc::new(Semaphore::new(bytes)), waiting: AtomicUsize::new(0) }
    }

    /// All of it.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many wait for room.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// True if a request waits for room.
    pub(crate) fn is_short(&self) -> bool {
        self.waiting() > 0
    }

    /// A share of nothing yet.
    pub(crate) fn share(self: &Arc<Self>) -> Share {
        Share { budget: self.clone(), permit: None }
    }
}

impl Share {
    /// How many bytes it has.
    pub(crate) fn bytes(&self) -> usize {
        self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    /// Whether it is one of this budget.
    pub(crate) fn is_of(&self, budget: &Arc<Budget>) -> bool {
        Arc::ptr_eq(&self.budget, budget)
    }

    /// True if others wait for room in its budget.
    pub(crate) fn is_short(&self) -> bool {
        self.budget.is_short()
    }

    /// Takes this many more bytes. Those who have waited longest come first.
    ///
    /// # Errors
    /// [`Exhausted`] if others do not make room in time.
    pub(crate) async fn grow(&mut self, bytes: usize) -> Result<(), Exhausted> {
        if self.try_grow(bytes).is_ok() {
            return Ok(());
        }
        let budget = self.budget.clone();
        let _waits = Waits::new(&budget.waiting);
        let permit = timeout(WAIT_MAX, budget.room.clone().acquire_many_owned(self.most(bytes))).await;
        self.add(permit.map_err(|_| Exhausted)?.map_err(|_| Exhausted)?);
        Ok(())
    }

    /// The same without a wait.
    ///
    /// # Errors
    /// [`Exhausted`] if there is no room now.
    pub(crate) fn try_grow(&mut self, bytes: usize) -> Result<(), Exhausted> {
        let permit = self.budget.room.clone().try_acquire_many_owned(self.most(bytes)).map_err(|_| Exhausted)?;
        self.add(permit);
        Ok(())
    }

    /// Takes more, or gives some back, so that it has so many.
    ///
    /// # Errors
    /// As [`grow`](Self::grow).
    pub(crate) async fn resize(&mut self, bytes: usize) -> Result<(), Exhausted> {
        match bytes.checked_sub(self.bytes()) {
            Some(more) => self.grow(more).await,
            None => {
                self.shrink(bytes);
                Ok(())
            }
        }
    }

    /// Gives back what it has beyond so many bytes.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let rest = self.bytes().saturating_sub(bytes);
        drop(self.permit.as_mut().and_then(|permit| permit.split(rest)));
    }

    /// No more than there is: one that needs more gets all of it.
    fn most(&self, bytes: usize) -> u32 {
        let left = self.budget.bytes - self.bytes().min(self.budget.bytes);
        u32::try_from(bytes.min(left)).unwrap_or(u32::MAX)
    }

    fn add(&mut self, permit: OwnedSemaphorePermit) {
        match &mut self.permit {
            Some(held) => held.merge(permit),
            None => self.permit = Some(permit),
        }
    }
}

impl<'a> Waits<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test(start_paused = true)]
    async fn no_more_is_held_than_there_is() {
        let budget = Arc::new(Budget::new(100));
        let (mut one, mut other) = (budget.share(), budget.share());
        one.grow(60).await.unwrap();
        one.grow(20).await.unwrap();
        assert_eq!(one.bytes(), 80);
        other.grow(20).await.unwrap();
        assert!(!budget.is_short());
        let mut waits = Box::pin(other.grow(1));
        assert!((&mut waits).now_or_never().is_none() && budget.is_short());
        // Time passes.
        assert_eq!(waits.await, Err(Exhausted));
        assert!(!budget.is_short());
        drop(one);
        other.grow(80).await.unwrap();
        assert_eq!(other.bytes(), 100);
        other.resize(30).await.unwrap();
        let mut third = budget.share();
        third.resize(70).await.unwrap();
        assert_eq!((other.bytes(), third.bytes()), (30, 70));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_larger_than_all_gets_all_of_it_alone() {
        let budget = Arc::new(Budget::new(100));
        let (mut one, mut other) = (budget.share(), budget.share());
        one.grow(10).await.unwrap();
        assert_eq!(other.try_grow(1_000), Err(Exhausted));
        one.resize(1_000).await.unwrap();
        assert_eq!((one.bytes(), other.try_grow(1)), (100, Err(Exhausted)));
        drop(one);
        other.grow(1_000).await.unwrap();
        assert_eq!(other.bytes(), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn few_answers_wait_once_they_are_made() {
        let account = Account::new(BYTES_MIN);
        let all = account.made(usize::MAX).await.unwrap();
        let mut waiting: Vec<_> = (0..MADE_MAX).map(|_| Box::pin(account.made(1))).collect();
        assert!(waiting.iter_mut().all(|made| made.now_or_never().is_none()));
        assert_eq!(account.made(1).now_or_never().map(|made| made.map(|_| ())), Some(Err(Exhausted)));
        drop(all);
        assert!(futures_util::future::join_all(waiting).await.iter().all(Result::is_ok));
    }
}
