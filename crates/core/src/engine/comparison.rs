//! Compares what a shared broker holds with the ledger beside it, and makes the broker drop the jobs of which the ledger has a
//! later state.
//!
//! A broker that fails over to an older copy of its memory holds jobs again that have ended, were cancelled or were edited. So a
//! memory is compared *before it begins*. Until it begins it hands nothing out, so nobody gets such a job, whoever leads.
//!
//! - The broker names the memory that it is about to begin, and begins it only if it is still that one. A comparison belongs
//!   to one name, and reads nothing before it is given. If the broker falls back meanwhile, the next memory has another name, and
//!   is compared from the start.
//! - While a memory has not begun, its jobs change only by puts, and by drops as made here. No put brings an outdated job back: its
//!   row was read after this memory was known, and an edit leaves a tombstone in this memory before it changes a row.
//!   An edit that left its tombstone in the memory before may still get past that, if its process dies. So the leader
//!   [compares once more](Comparison::repeat), when no earlier reading can be put.
//! - A row that is gone was removed after its job had ended: a job is recorded before it is put.
//! - A drop names the version up to which it holds, and only a later state in the ledger is a reason for it. So it is right
//!   at any time, in any memory: two engines may compare at once, and so may one whose memory has long been replaced.
//! - If an end is recorded after its job was compared, the recorder removes the job from the broker as it forgets the entry.
//!   The job may have been handed out in between, as after any loss of an unrecorded end.
//!
//! The comparison runs in a task, since it may take longer than any caller waits. It continues where it is, whatever fails: a
//! database that is unavailable only delays it. If its process dies, another engine compares from the start. Pushes and all
//! reading go on. Calls that need the memory wait until [`WAIT`] has passed since the comparison began, then fail as ones that may be
//! repeated. A job that is pushed more than [`PUSHED_SINCE_MS`] after that is not compared: it cannot be outdated, and pushes might be faster
//! than the comparison.

use crate::clock::Millis;
use crate::engine::base::Base;
use crate::engine::loader::{Loader, outdated};
use crate::engine::supervisor::Supervisor;
use crate::error::Error;
use crate::limits::{MINUTE_MS, STEP_JOBS_MAX};
use crate::model::id::JobId;
use crate::model::job::{Job, Stage, State};
use crate::ports::{Broker, Detail, Ledger, Listing, Queues, Window};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// How long after its begin calls wait for the comparison.
const WAIT: Duration = Duration::from_secs(2);
/// A job that says it was made this long after the begin was, however the clocks of processes differ.
const PUSHED_SINCE_MS: Millis = MINUTE_MS;
/// After a failure.
const REST: Duration = Duration::from_millis(500);
/// Between two lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);
/// How often jobs that change meanwhile are compared.
const TRIES: usize = 5;
/// Queues that are compared at once, of all partitions.
const QUEUES_AT_ONCE: usize = 16;

/// Compares what the broker holds with the ledger.
pub(super) struct Comparison {
    broker: Arc<dyn Broker>,
    ledger: Arc<dyn Ledger>,
    loader: Arc<Loader>,
    supervisor: Arc<Supervisor>,
    /// Held while a queue is compared.
    turns: Semaphore,
    /// The latest one of each partition.
    begun: Mutex<BTreeMap<u16, OfMemory>>,
}

/// The comparison of a memory that is to begin.
struct OfMemory {
    memory: String,
    pass: Arc<Pass>,
    task: AbortOnDropHandle<()>,
}

/// A pass over the jobs.
struct Pass {
    /// Only these jobs, of a memory that is to begin. It ends only when all are compared. `None`: all jobs, as long as this engine
    /// leads.
    partition: Option<u16>,
    begin: Instant,
    /// The broker's clock then.
    began_at: Millis,
    /// The broker's clock at its end; the maximum before.
    ended_at: AtomicU64,
    state: Mutex<PassState>,
    /// Wakes waiters in the order in which they came, so that a seed of the simulation repeats its run. A watch channel wakes them
    /// in a random one.
    changed: Notify,
    compared: AtomicU64,
    dropped: AtomicU64,
    told_at: Mutex<Instant>,
}

enum PassState {
    Going,
    /// The present step is repeated.
    Failing(Error),
    Over,
}

impl Pass {
    fn new(partition: Option<u16>, began_at: Millis) -> Arc<Self> {
        let (begin, state, changed) = (Instant::now(), Mutex::new(PassState::Going), Notify::new());
        let (compared, dropped, told_at) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::new(begin));
        let ended_at = AtomicU64::new(Millis::MAX);
        Arc::new(Self { partition, begin, began_at, ended_at, state, changed, compared, dropped, told_at })
    }

    fn state(&self) -> MutexGuard<'_, PassState> {
        self.state.lock().expect("no panic under this lock")
    }

    fn set(&self, state: PassState) {
        *self.state() = state;
        self.changed.notify_waiters();
    }

    /// Waits until it is over, or a step has failed.
    async fn settled(&self) {
        loop {
            let changed = self.changed.notified();
            if !matches!(*self.state(), PassState::Going) {
                return;
            }
            changed.await;
        }
    }

    /// Makes a step. Before a memory begins, it is repeated until it succeeds, unless something is damaged.
    async fn step<T, F: Future<Output = Result<T, Error>>>(&self, call: impl Fn() -> F) -> Result<T, Error> {
        loop {
            let answer = call().await;
            if self.partition.is_none() {
                return answer;
            }
            match answer {
                Ok(answer) => {
                    *self.state() = PassState::Going;
                    return Ok(answer);
                }
                Err(damaged @ Error::Damaged(_)) => return Err(damaged),
                Err(error) => {
                    self.set(PassState::Failing(error));
                    tokio::time::sleep(REST).await;
                }
            }
        }
    }

    fn add(&self, compared: usize) {
        let jobs = self.compared.fetch_add(compared as u64, Ordering::Relaxed) + compared as u64;
        let mut told_at = self.told_at.lock().expect("no panic under this lock");
        if told_at.elapsed() >= PROGRESS_EVERY {
            *told_at = Instant::now();
            tracing::info!(jobs, "comparing the jobs that the broker holds with the ledger");
        }
    }

    fn end(&self) {
        let (jobs, dropped) = (self.compared.load(Ordering::Relaxed), self.dropped.load(Ordering::Relaxed));
        let ms = self.begin.elapsed().as_millis() as u64;
        if dropped > 0 {
            tracing::warn!(
                jobs,
                dropped,
                ms,
                "the broker lost its newest changes: jobs were dropped of which the ledger has a later state"
            );
        } else if self.begin.elapsed() >= PROGRESS_EVERY {
            tracing::info!(jobs, ms, "the jobs that the broker holds were compared with the ledger");
        }
        self.set(PassState::Over);
    }

    /// Why a memory has not been compared.
    fn trouble(&self) -> Error {
        match &*self.state() {
            PassState::Failing(error) => error.clone(),
            PassState::Going | PassState::Over => {
                let jobs = self.compared.load(Ordering::Relaxed);
                Error::Unavailable(format!("the jobs that it holds are compared with the ledger, {jobs} so far"))
            }
        }
    }
}

impl Comparison {
    pub(super) fn new(base: &Base, loader: Arc<Loader>) -> Self {
        let (broker, ledger) = (base.stores.broker.clone(), base.stores.ledger.clone());
        let (supervisor, turns) = (base.supervisor.clone(), Semaphore::new(QUEUES_AT_ONCE));
        Self { broker, ledger, loader, supervisor, turns, begun: Mutex::default() }
    }

    /// Compares the memory of a partition before it begins, once.
    ///
    /// # Errors
    /// The one with which the comparison fails at present; [`Error::Unavailable`] if it takes long. It goes on in both cases.
    pub(super) async fn before_begin(self: &Arc<Self>, partition: u16, memory: &str) -> Result<(), Error> {
        self.supervisor.check_open()?;
        let pass = self.pass_of(partition, memory);
        let _ = tokio::time::timeout_at(pass.begin + WAIT, pass.settled()).await;
        if matches!(*pass.state(), PassState::Over) { Ok(()) } else { Err(pass.trouble()) }
    }

    /// The pass over this memory. It is begun unless it has been.
    fn pass_of(self: &Arc<Self>, partition: u16, memory: &str) -> Arc<Pass> {
        let mut begun = self.begun.lock().expect("no panic under this lock");
        let is_kept = |known: &&OfMemory| {
            let is_over = matches!(*known.pass.state(), PassState::Over);
            // A task that ended otherwise has panicked.
            known.memory == memory && (is_over || !known.task.is_finished())
        };
        if let Some(known) = begun.get(&partition).filter(is_kept) {
            return known.pass.clone();
        }
        let pass = Pass::new(Some(partition), self.broker.now_at_most());
        let (this, its, stopping) = (self.clone(), pass.clone(), self.supervisor.stopping().clone());
        let work = async move {
            let compared = stopping.run_until_cancelled(this.compare(&its)).await;
            if compared.is_some_and(|compared| compared.is_ok()) {
                its.ended_at.store(this.broker.now_at_most(), Ordering::Relaxed);
                its.end();
            }
        };
        let task = AbortOnDropHandle::new(self.supervisor.spawn(work));
        begun.insert(partition, OfMemory { memory: memory.to_owned(), pass: pass.clone(), task });
        pass
    }

    /// Whether the lease of this job ended while a memory was compared that holds it: nobody could extend it then.
    pub(super) fn outlasted(&self, job: &Job) -> bool {
        let begun = self.begun.lock().expect("no panic under this lock");
        let (pass, until) = (begun.get(&self.broker.partition(&job.queue)).map(|of| &of.pass), job.lease_until);
        pass.zip(until)
            .is_some_and(|(pass, until)| (pass.began_at..=pass.ended_at.load(Ordering::Relaxed)).contains(&until.0))
    }

    /// Why a memory has not begun that is to begin, if that takes long.
    pub(super) fn trouble(&self) -> Option<Error> {
        let begun = self.begun.lock().expect("no panic under this lock");
        let mut passes = begun.values().map(|of| &of.pass);
        let is_long = |pass: &&Arc<Pass>| match *pass.state() {
            PassState::Going => pass.begin.elapsed() >= WAIT,
            PassState::Failing(_) => true,
            PassState::Over => false,
        };
        passes.find(is_long).map(|pass| pass.trouble())
    }

    /// Compares all jobs once more, as long as this engine leads.
    pub(super) async fn repeat(self: &Arc<Self>) -> Result<(), Error> {
        let pass = Pass::new(None, self.broker.now_at_most());
        self.compare(&pass).await?;
        pass.end();
        self.loader.reconcile().await
    }

    fn goes_on(&self, pass: &Pass) -> bool {
        pass.partition.is_some() || self.loader.leads()
    }

    async fn compare(self: &Arc<Self>, pass: &Arc<Pass>) -> Result<(), Error> {
        // Those that wait first: a job that is leased since is among those that run. One that is given back in between had been
        // handed out before.
        for partition in self.compare_waiting(pass).await? {
            let compared = self.compare_running(pass, partition).await;
            leave_damaged(pass, compared, |damage| {
                tracing::error!(partition, damage, "not all running jobs can be compared with the ledger");
            })?;
        }
        Ok(())
    }

    /// Compares the waiting jobs of all queues; returns the partitions that have jobs.
    async fn compare_waiting(self: &Arc<Self>, pass: &Arc<Pass>) -> Result<BTreeSet<u16>, Error> {
        let (mut page, mut tasks, mut partitions) = (Some(Queues::first()), JoinSet::new(), BTreeSet::new());
        while let Some(Queues::From(from, limit)) = page.take() {
            let asked = match pass.partition {
                Some(partition) => Queues::Named(pass.step(|| self.broker.queues_in(partition, &from, limit)).await?),
                None => Queues::From(from.clone(), limit),
            };
            let counted = pass.step(|| self.broker.counts(asked.clone())).await?;
            let next = Queues::From(from, limit).next(counted.iter().map(|(queue, ..)| queue));
            page = next.filter(|_| self.goes_on(pass));
            for (queue, counts, _) in counted {
                if counts.scheduled + counts.ready + counts.running == 0 {
                    continue;
                }
                partitions.insert(self.broker.partition(&queue));
                if tasks.len() >= QUEUES_AT_ONCE {
                    tasks.join_next().await.map_or(Ok(()), joined)?;
                }
                let (this, pass) = (self.clone(), pass.clone());
                tasks.spawn(async move {
                    let _turn = this.turns.acquire().await;
                    let compared = this.compare_queue(&pass, &queue).await;
                    leave_damaged(&pass, compared, |damage| {
                        tracing::error!(%queue, damage, "not all jobs of a queue can be compared with the ledger");
                    })
                });
            }
        }
        while let Some(ended) = tasks.join_next().await {
            joined(ended)?;
        }
        Ok(partitions)
    }

    async fn compare_queue(&self, pass: &Pass, queue: &Arc<str>) -> Result<(), Error> {
        let (states, limit) = (vec![State::Scheduled, State::Ready], STEP_JOBS_MAX);
        let (window, detail) = (Window::ALL, Detail::Head);
        let mut listing = Listing { queue: queue.clone(), states, window, after: None, limit, detail };
        let mut jobs = self.page(pass, &mut listing).await?;
        while !jobs.is_empty() && self.goes_on(pass) {
            let (next, compared) = tokio::join!(self.page(pass, &mut listing), self.compare_jobs(pass, jobs));
            compared?;
            jobs = next?;
        }
        Ok(())
    }

    async fn compare_running(&self, pass: &Pass, partition: u16) -> Result<(), Error> {
        let page = |after| pass.step(move || self.broker.running_in(partition, after, STEP_JOBS_MAX));
        let (mut jobs, mut after) = page(None).await?;
        while after.is_some() && self.goes_on(pass) {
            let (next, compared) = tokio::join!(page(after), self.compare_jobs(pass, jobs));
            compared?;
            (jobs, after) = next?;
        }
        self.compare_jobs(pass, jobs).await
    }

    /// The next jobs of this listing; none at its end.
    async fn page(&self, pass: &Pass, listing: &mut Listing) -> Result<Vec<Job>, Error> {
        let jobs = pass.step(|| self.broker.list(listing.clone())).await?;
        listing.after = jobs.last().map(|job| (job.due_at.0, job.id));
        Ok(jobs)
    }

    async fn compare_jobs(&self, pass: &Pass, mut jobs: Vec<Job>) -> Result<(), Error> {
        let count = jobs.len();
        jobs.retain(|job| job.created_at.0 <= pass.began_at + PUSHED_SINCE_MS);
        for _ in 0..TRIES {
            if jobs.is_empty() {
                break;
            }
            let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
            let rows = pass.step(|| self.ledger.versions(&ids)).await?;
            let is_live = |row: &Option<(u64, Stage)>| matches!(row, Some((_, Stage::Pending)));
            let live = jobs.iter().zip(&rows).filter(|(_, row)| is_live(row)).map(|(job, _)| job.id);
            let live: HashSet<JobId> = live.collect();
            let outdated = jobs.iter().zip(rows).filter_map(|(job, row)| outdated(job, row));
            let outdated: Vec<(JobId, u64)> = outdated.collect();
            if outdated.is_empty() {
                break;
            }
            let gone = pass.step(|| self.broker.forget(&outdated, Millis::MAX)).await?;
            pass.dropped.fetch_add(gone.len() as u64, Ordering::Relaxed);
            // Those that were changed in between are compared again.
            let left: Vec<JobId> = outdated.iter().map(|&(id, _)| id).filter(|id| !gone.contains(id)).collect();
            self.loader.reconcile_later(gone.into_iter().filter(|id| live.contains(id)));
            let read = pass.step(|| self.broker.get(&left, Detail::Head)).await?;
            jobs = read.into_iter().flatten().filter(Job::is_pending).collect();
        }
        pass.add(count);
        Ok(())
    }
}

/// Before a memory begins, damaged jobs are left: all others are still handed out. The leader says so, which compares again.
fn leave_damaged(pass: &Pass, compared: Result<(), Error>, log: impl FnOnce(String)) -> Result<(), Error> {
    match compared {
        Err(Error::Damaged(damage)) if pass.partition.is_some() => {
            log(damage);
            Ok(())
        }
        compared => compared,
    }
}

fn joined(ended: Result<Result<(), Error>, JoinError>) -> Result<(), Error> {
    match ended {
        Ok(compared) => compared,
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        Err(_) => Err(Error::Stopping),
    }
}
