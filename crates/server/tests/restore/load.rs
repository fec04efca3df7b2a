//! Pushes and work, and their acknowledgements.

use super::LIMIT;
use duetime::{Client, Error};
use duetime_core::api::Span;
use duetime_core::engine::{Query, ReserveRequest, Source};
use duetime_core::limits::HOUR_MS;
use duetime_core::ports::Lease;
use duetime_core::{Due, Job, JobId, Millis, NewJob};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

const QUEUE: &str = "load";
/// The delays of jobs that are pushed together.
const DELAYS_MS: [u64; 5] = [0, 50, 400, 3_000, HOUR_MS];
/// Pushes of them that wait for their answer together.
const PUSHERS: usize = 2;
const WORKERS: usize = 2;
/// A job that runs at the time of a backup comes back after this.
const LEASE_MS: u64 = 5_000;
/// The maximum number of jobs that have to be worked off in the end.
const JOBS_MAX: usize = 5_000;

/// The acknowledged requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    pub(crate) pushed: Vec<(JobId, Millis)>,
    pub(crate) completed: BTreeSet<JobId>,
}

/// Runs until it is ended.
pub(crate) struct Load {
    journal: Arc<watch::Sender<Journal>>,
    ends: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start(client: &Client) -> Self {
        let journal = Arc::new(watch::Sender::new(Journal::default()));
        let ends = watch::Sender::new(false);
        let mut tasks = Vec::new();
        for _ in 0..PUSHERS {
            tasks.push(tokio::spawn(push(client.clone(), journal.clone(), ends.subscribe())));
        }
        for _ in 0..WORKERS {
            tasks.push(tokio::spawn(work(client.clone(), journal.clone(), ends.subscribe())));
        }
        Self { journal, ends, tasks }
    }

    pub(crate) fn journal(&self) -> Journal {
        self.journal.borrow().clone()
    }

    /// Waits until this much was acknowledged.
    pub(crate) async fn reaches(&self, pushed: usize, completed: usize) {
        let mut journal = self.journal.subscribe();
        let is_there = journal.wait_for(|now| now.pushed.len() >= pushed && now.completed.len() >= completed);
        timeout(LIMIT, is_there).await.expect("jobs are pushed and worked").unwrap();
    }

    /// From now on the server may be unavailable.
    pub(crate) fn ends(&self) {
        self.ends.send_replace(true);
    }

    pub(crate) async fn has_ended(self) {
        for task in self.tasks {
            timeout(LIMIT, task).await.expect("it ends").unwrap();
        }
    }
}

/// An error fails the test unless the load has been ended.
fn is_fault<T>(answer: &Result<T, Error>, ends: &watch::Receiver<bool>) -> bool {
    let failed = answer.is_err();
    assert!(!failed || *ends.borrow(), "{:?}", answer.as_ref().err());
    failed
}

async fn push(client: Client, journal: Arc<watch::Sender<Journal>>, ends: watch::Receiver<bool>) {
    while !*ends.borrow() && journal.borrow().pushed.len() < JOBS_MAX {
        let job = |ms| NewJob { queue: QUEUE.into(), due: Due::After(Span(ms)), ..NewJob::new(*b"load") };
        let answers = client.push_many(DELAYS_MS.map(job).to_vec()).await;
        if is_fault(&answers, &ends) {
            return;
        }
        let answers = answers.unwrap().into_iter().map(Result::unwrap);
        let pushed: Vec<_> = answers.map(|pushed| (pushed.id, pushed.due_at.0)).collect();
        journal.send_modify(|journal| journal.pushed.extend(pushed));
    }
}

async fn work(client: Client, journal: Arc<watch::Sender<Journal>>, ends: watch::Receiver<bool>) {
    while !*ends.borrow() {
        let leases = reserve(&client).await;
        if is_fault(&leases, &ends) {
            return;
        }
        for lease in leases.unwrap() {
            is_not_early(&lease.job);
            let answer = client.leases().complete(lease.job.receipt(), None).await;
            if is_fault(&answer, &ends) {
                return;
            }
            journal.send_modify(|journal| assert!(journal.completed.insert(lease.job.id), "{lease:?} came twice"));
        }
    }
}

pub(crate) async fn reserve(client: &Client) -> Result<Vec<Lease>, Error> {
    let from = Source::Queues(vec![QUEUE.into()]);
    let request = ReserveRequest::new(from).limit(5).lease(Span(LEASE_MS)).wait(Span(200));
    Ok(client.leases().reserve(request).await?.leases)
}

pub(crate) fn is_not_early(job: &Job) {
    assert!(job.started_at.unwrap() >= job.due_at, "early: {job:?}");
}

/// All jobs of the load, as they are.
pub(crate) async fn records(client: &Client) -> BTreeMap<JobId, Job> {
    let query = Query { queue: Some(QUEUE.into()), ..Query::default() };
    let (mut records, mut cursor) = (BTreeMap::new(), None::<String>);
    loop {
        let page = client.jobs().page(&query, cursor.as_deref(), 1_000).await.unwrap();
        records.extend(page.jobs.into_iter().map(|job| (job.id, job)));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return records;
        }
    }
}
