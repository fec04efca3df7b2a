//! Pushes, work, a lock and a schedule over the servers that are up, and the acknowledgements.
//!
//! A call that a server did not answer, since it was stopping, is sent to another one; any other failure is a fault. A push
//! is not repeated: its outcome is unknown, and not checked.

use super::LIMIT;
use super::servers::Servers;
use duetime::server::Cause;
use duetime::{Client, Error};
use duetime_core::engine::{Query, ReserveRequest, Source};
use duetime_core::limits::HOUR_MS;
use duetime_core::ports::Lease;
use duetime_core::rules::Failure;
use duetime_core::{
    Backoff, Clock as _, Due, Job, JobId, JobOptions, Millis, NewJob, Retry, Schedule, State as JobState, SystemClock,
    Timing,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

const QUEUE: &str = "load";
const BEATS: &str = "beats";
const LOCK: &str = "of one";
const DELAYS_MS: [u64; 5] = [0, 80, 700, 2_500, 2 * HOUR_MS];
/// A lost lease comes back after this.
const LEASE_MS: u64 = 15_000;
/// Pushed and not completed at most, far ones aside.
const AHEAD_MAX: usize = 500;
const BEAT_MS: u64 = 1_000;

/// The acknowledged requests.
#[derive(Clone, Debug, Default)]
struct Journal {
    pushed: BTreeMap<JobId, Millis>,
    far: usize,
    completed: BTreeSet<JobId>,
    beats: BTreeMap<Millis, JobId>,
    grants: u64,
}

type Shared = Arc<watch::Sender<Journal>>;

pub(crate) struct Load {
    journal: Shared,
    pushes_end: watch::Sender<bool>,
    work_ends: watch::Sender<bool>,
    pushers: Vec<JoinHandle<()>>,
    others: Vec<JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start(servers: &Arc<Servers>) -> Self {
        let journal: Shared = Arc::new(watch::Sender::new(Journal::default()));
        let (pushes_end, work_ends) = (watch::Sender::new(false), watch::Sender::new(false));
        let pushers = (0..2u64)
            .map(|n| tokio::spawn(push(n, servers.clone(), journal.clone(), pushes_end.subscribe())))
            .collect();
        let mut others = Vec::new();
        for queue in [QUEUE, QUEUE, QUEUE, BEATS] {
            others.push(tokio::spawn(work(queue, servers.clone(), journal.clone(), work_ends.subscribe())));
        }
        let held = Arc::new((AtomicBool::new(false), AtomicU64::new(0)));
        for _ in 0..2 {
            others.push(tokio::spawn(lock(servers.clone(), journal.clone(), held.clone(), work_ends.subscribe())));
        }
        Self { journal, pushes_end, work_ends, pushers, others }
    }

    /// Waits until this many more jobs were completed.
    pub(crate) async fn completes(&self, more: usize) {
        let mut journal = self.journal.subscribe();
        let wanted = self.journal.borrow().completed.len() + more;
        let is_there = journal.wait_for(|now| now.completed.len() >= wanted);
        timeout(LIMIT, is_there).await.expect("jobs are pushed and worked").unwrap();
    }

    /// An older version may not know schedules: then it is set when one does.
    pub(crate) fn sets_schedule_once_there_is_one(&self, servers: &Arc<Servers>) {
        let servers = servers.clone();
        let mut journal = self.journal.subscribe();
        tokio::spawn(async move {
            loop {
                let job = NewJob { queue: BEATS.into(), ..NewJob::new(*b"beat") };
                let beat = Schedule::new(Timing::Every(BEAT_MS), job);
                match servers.any().set_schedule("beat", beat).await {
                    Ok(_) => return,
                    Err(error) if matches!(error.cause(), Cause::Refused { status: 404, .. }) => {}
                    Err(error) => assert!(goes_elsewhere(&error), "{error:?}"),
                }
                // Once more after each job.
                journal.mark_unchanged();
                let _ = journal.changed().await;
            }
        });
    }

    /// Each server reads all jobs, whichever version wrote them.
    pub(crate) async fn is_read_by_all(&self, servers: &Servers) {
        let pushed: BTreeSet<JobId> = self.journal.borrow().pushed.keys().copied().collect();
        for client in servers.all() {
            let read = records(&client, QUEUE).await;
            let missing: Vec<_> = pushed.iter().filter(|id| !read.contains_key(id)).collect();
            assert!(missing.is_empty(), "{missing:?} of {} are not read", pushed.len());
        }
    }

    /// Ends the pushes, waits until all is done, and compares.
    pub(crate) async fn ends_well(self, servers: &Servers) {
        self.pushes_end.send_replace(true);
        for pusher in self.pushers {
            timeout(LIMIT, pusher).await.unwrap().unwrap();
        }
        let mut journal = self.journal.subscribe();
        let is_done = |now: &Journal| {
            let is_near = |job: &(&JobId, &Millis)| !now.completed.contains(job.0);
            now.pushed.iter().filter(is_near).count() == now.far
        };
        if timeout(LIMIT, journal.wait_for(is_done)).await.is_err() {
            let now = self.journal.borrow().clone();
            let left = now.pushed.keys().filter(|id| !now.completed.contains(id)).count();
            panic!("{left} jobs are left, {} of them far off", now.far);
        }
        self.work_ends.send_replace(true);
        for other in self.others {
            timeout(LIMIT, other).await.unwrap().unwrap();
        }
        let now = self.journal.borrow().clone();
        for client in servers.all() {
            let records = records(&client, QUEUE).await;
            for (id, due_at) in &now.pushed {
                let job = records.get(id).unwrap_or_else(|| panic!("{id} was acknowledged, and is gone"));
                let is_far = *due_at > job.created_at + HOUR_MS;
                let expected = if is_far { JobState::Scheduled } else { JobState::Succeeded };
                let state = job.state(SystemClock::new().wall());
                assert_eq!((state, job.first_due_at), (expected, *due_at), "{job:?}");
                assert_eq!(now.completed.contains(id), !is_far, "{job:?}");
            }
        }
        let beats: Vec<Millis> = now.beats.keys().copied().collect();
        let gaps: Vec<_> = beats.windows(2).filter(|pair| pair[1] - pair[0] != BEAT_MS).collect();
        assert!(gaps.is_empty(), "{gaps:?} of {}", beats.len());
        println!("{} jobs, {} beats, {} grants of a lock", now.pushed.len(), beats.len(), now.grants);
        assert!(!beats.is_empty() && now.grants > 0);
    }
}

/// Whether a server was only stopping.
fn goes_elsewhere(error: &Error) -> bool {
    matches!(error.code(), "unreachable" | "outcome_unknown" | "stopping")
}

async fn push(n: u64, servers: Arc<Servers>, journal: Shared, ends: watch::Receiver<bool>) {
    for round in 0.. {
        let mut now = journal.subscribe();
        let has_room = |now: &Journal| now.pushed.len() - now.far < now.completed.len() + AHEAD_MAX;
        timeout(LIMIT, now.wait_for(has_room)).await.expect("jobs are worked").unwrap();
        if *ends.borrow() {
            return;
        }
        let job = |(place, ms): (usize, u64)| NewJob {
            queue: QUEUE.into(),
            kind: format!("kind-{}", place % 2).into(),
            due: Due::After(Span(ms)),
            key: (place == 1).then(|| format!("key-{n}-{round}").into()),
            tags: if place == 2 { vec!["tag".into(), format!("round:{round}").into()] } else { Vec::new() },
            priority: if place == 3 { 7 } else { 1_024 },
            options: match place {
                0 => Retry {
                    backoff: Some(Backoff::fixed(Duration::from_millis(50))),
                    max_attempts: Some(9),
                    ..Retry::default()
                }
                .into(),
                _ => JobOptions::default(),
            },
            lease_ms: (place == 2).then_some(20_000),
            ..NewJob::new(format!("{{\"round\": {round}}}").into_bytes())
        };
        let answers = match servers.any().push_many(DELAYS_MS.into_iter().enumerate().map(job).collect()).await {
            Ok(answers) => answers,
            Err(error) if goes_elsewhere(&error) => continue,
            Err(error) => panic!("a push: {error:?}"),
        };
        for (answer, delay_ms) in answers.into_iter().zip(DELAYS_MS) {
            match answer {
                Ok(pushed) => journal.send_modify(|journal| {
                    assert!(journal.pushed.insert(pushed.id, pushed.due_at).is_none(), "{} twice", pushed.id);
                    journal.far += usize::from(delay_ms >= HOUR_MS);
                }),
                Err(error) => assert!(goes_elsewhere(&error), "a push: {error:?}"),
            }
        }
    }
}

async fn work(queue: &'static str, servers: Arc<Servers>, journal: Shared, ends: watch::Receiver<bool>) {
    while !*ends.borrow() {
        let leases = match reserve(&servers.any(), queue).await {
            Ok(leases) => leases,
            Err(error) if goes_elsewhere(&error) => continue,
            Err(error) => panic!("a reserve: {error:?}"),
        };
        for lease in leases {
            settle(&lease.job, &servers, &journal, queue).await;
        }
    }
}

async fn settle(job: &Job, servers: &Servers, journal: &Shared, queue: &str) {
    assert!(job.started_at.unwrap() >= job.due_at, "early: {job:?}");
    assert!(!journal.borrow().completed.contains(&job.id), "it was completed, and came again: {job:?}");
    if queue == BEATS {
        let other = journal.borrow().beats.get(&job.first_due_at).copied();
        assert!(other.is_none_or(|id| id == job.id), "a tick twice: {job:?}");
    }
    // Some fail the first time.
    let fails = job.attempt == 1 && (job.id.get() / 1_024).is_multiple_of(16);
    loop {
        // Usually by another server than the one that handed it out.
        let client = servers.any();
        let answer = if fails {
            let failure =
                Failure { message: "the first time".into(), retry_after: Some(Span(100)), ..Failure::default() };
            client.fail(job.receipt(), failure).await.map(drop)
        } else {
            client.complete(job.receipt(), Some((*b"{\"done\": true}").into())).await.map(drop)
        };
        match answer {
            Ok(()) => break,
            // If a failure was recorded but its answer lost, the repeat gets `lease_lost`.
            Err(error) if fails && error.code() == "lease_lost" => return,
            Err(error) => assert!(goes_elsewhere(&error), "a settle: {error:?}, {job:?}"),
        }
    }
    if !fails {
        journal.send_modify(|journal| {
            if queue == BEATS {
                journal.beats.insert(job.first_due_at, job.id);
            } else {
                journal.completed.insert(job.id);
            }
        });
    }
}

pub(crate) async fn reserve(client: &Client, queue: &str) -> Result<Vec<Lease>, Error> {
    let from = Source::Queues(vec![queue.into()]);
    let request = ReserveRequest::new(from).limit(8).lease(Span(LEASE_MS)).wait(Span(300));
    Ok(client.reserve(request).await?.leases)
}

/// Acquires the lock, checks that nobody else has it, and releases it.
async fn lock(servers: Arc<Servers>, journal: Shared, held: Arc<(AtomicBool, AtomicU64)>, ends: watch::Receiver<bool>) {
    while !*ends.borrow() {
        let lock = servers.any().lock(LOCK).ttl(Duration::from_secs(20));
        let guard = match lock.acquire(Duration::from_secs(25)).await {
            Ok(guard) => guard,
            Err(error) => {
                // If an answer was lost, the lock may be held by nobody for its time to live.
                assert!(goes_elsewhere(&error) || error.code() == "lock_held", "an acquire: {error:?}");
                continue;
            }
        };
        assert!(!held.0.swap(true, Ordering::SeqCst), "two have the lock");
        let last = held.1.swap(guard.fence(), Ordering::SeqCst);
        assert!(guard.fence() > last, "the fence {} after {last}", guard.fence());
        held.0.store(false, Ordering::SeqCst);
        journal.send_modify(|journal| journal.grants += 1);
        if let Err(error) = guard.release().await {
            assert!(goes_elsewhere(&error), "a release: {error:?}");
        }
    }
}

async fn records(client: &Client, queue: &str) -> BTreeMap<JobId, Job> {
    let query = Query { queue: Some(queue.into()), ..Query::default() };
    let (mut records, mut cursor) = (BTreeMap::new(), None::<String>);
    loop {
        let page = client.find(&query, cursor.as_deref(), 1_000).await.unwrap();
        records.extend(page.jobs.into_iter().map(|job| (job.id, job)));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return records;
        }
    }
}
