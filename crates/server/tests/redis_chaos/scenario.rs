//! A run: jobs are pushed and completed while faults are injected, and then everything is counted.

use crate::common::Random;
use crate::fleet::Fleet;
use crate::history::{self, HeldLease, Leases, Line};
use crate::pushes;
use crate::verdict::Verdict;
use crate::worker::connect;
use duetime::Client;
use duetime_core::engine::Query;
use duetime_core::{Job, JobId};
use futures_util::future::join3;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{interval, timeout};

/// One in each of four partitions.
pub(crate) const QUEUES: [&str; 4] = ["images", "orders", "reminders", "reports"];
const JOBS_DEFAULT: u64 = 6_000;
const SECONDS_DEFAULT: u64 = 12;
/// Nothing takes this long after the last fault.
const TIME_LIMIT: Duration = Duration::from_secs(120);
/// The interval between two checks of the remaining jobs.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Between two lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);
const PAGE_JOBS: usize = 1_000;

/// The size, the duration, and the choices.
pub(crate) struct Plan {
    pub(crate) jobs: u64,
    pub(crate) seconds: u64,
    pub(crate) seed: u64,
    /// Whether a new master may forget what the old one had acknowledged. Sentinels on a loaded machine may replace the
    /// new one, too, so that says nothing of when.
    pub(crate) forgets: bool,
    /// The ledger beside Redis: then a third of the batches is cancelled by tag.
    pub(crate) ledger: Option<String>,
}

impl Plan {
    /// A part of what the environment says.
    pub(crate) fn of_environment(part: u64) -> Self {
        let number = |name: &str| {
            let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
            Some(text.parse::<u64>().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
        };
        Self {
            jobs: number("DUETIME_CHAOS_JOBS").unwrap_or(JOBS_DEFAULT) / part,
            seconds: number("DUETIME_CHAOS_SECONDS").unwrap_or(SECONDS_DEFAULT) / part,
            seed: number("DUETIME_CHAOS_SEED").unwrap_or_else(|| u64::from(std::process::id())),
            forgets: false,
            ledger: None,
        }
    }

    pub(crate) fn span(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// The number of jobs that a worker reserves at once: as many as arrive in a tenth of a second, and a few more.
    fn limit(&self) -> usize {
        (self.jobs / self.seconds / 20 + 10) as usize
    }
}

/// Runs a plan on this Redis with these faults; returns the verdict, and the result of the faults.
pub(crate) async fn run<T>(url: &str, plan: &Plan, trouble: impl AsyncFnOnce(&Fleet) -> T) -> (Verdict, T) {
    let Plan { jobs, seconds, seed, forgets, .. } = *plan;
    let ledger = plan.ledger.as_deref();
    // Tests in one process would choose the same ports, and share the machine.
    static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    let _turn = ONE_AT_A_TIME.lock().await;
    println!("{jobs} jobs over {seconds} s with DUETIME_CHAOS_SEED={seed}");
    let fleet = Fleet::start(url, ledger, plan.limit());
    let (mut random, direct) = (Random::new(seed), [url.to_owned()]);
    let (servers, own) = (fleet.server_urls(), Random::new(random.any()));
    let client = connect(url, ledger).await.unwrap();
    let all = async {
        let one = pushes::push(&fleet, &servers, plan, jobs / 2, Random::new(random.any()));
        let other = pushes::push(&fleet, &direct, plan, jobs - jobs / 2, own);
        let (one, other, servers) = join3(one, other, trouble(&fleet)).await;
        let mut acknowledged = one;
        acknowledged.extend(other);
        timeout(TIME_LIMIT, worked_off(&client)).await.expect("the jobs are worked off in time");
        (acknowledged, servers)
    };
    let progress = async {
        let mut ticks = interval(PROGRESS_EVERY);
        loop {
            ticks.tick().await;
            if let Ok((left, done)) = counts(&client).await {
                println!("  {left} jobs wait or run, {done} are done");
            }
        }
    };
    let (acknowledged, servers) = tokio::select! { done = all => done, () = progress => unreachable!() };
    let records = records(&client).await;
    let (leases, wrong) = leases(&fleet);
    let verdict = Verdict::of(&acknowledged, &records, &leases, &fleet.outages(), fleet.kills(), forgets, wrong);
    println!("{verdict}");
    if !verdict.wrong.is_empty() {
        println!("histories and logs are kept in {:?}", fleet.keep());
    }
    (verdict, servers)
}

/// The number of live jobs, and of completed ones.
async fn counts(client: &Client) -> Result<(u64, u64), duetime::Error> {
    let queues = client.queues().list().await?;
    let live = queues.iter().map(|queue| queue.counts.scheduled + queue.counts.ready + queue.counts.running).sum();
    Ok((live, queues.iter().map(|queue| queue.tally.succeeded).sum()))
}

async fn worked_off(client: &Client) {
    let mut looks = interval(LOOK_EVERY);
    loop {
        looks.tick().await;
        if matches!(counts(client).await, Ok((0, _))) {
            return;
        }
    }
}

/// All jobs there are.
async fn records(client: &Client) -> BTreeMap<JobId, Job> {
    let mut records = BTreeMap::new();
    for queue in QUEUES {
        let query = Query { queue: Some(queue.into()), ..Query::default() };
        let mut cursor: Option<String> = None;
        loop {
            let page = client.jobs().page(&query, cursor.as_deref(), PAGE_JOBS).await.unwrap();
            records.extend(page.jobs.into_iter().map(|job| (job.id, job)));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
    }
    records
}

/// The leases that the workers wrote down, and the errors in them.
fn leases(fleet: &Fleet) -> (Leases, Vec<String>) {
    let (mut leases, mut wrong) = (Leases::new(), Vec::new());
    for (worker, path) in fleet.stop_workers() {
        for line in history::read(&path) {
            match line {
                Line::Leased { receipt, due_at, started_at, until, seen_at } => {
                    let held = HeldLease { worker, due_at, started_at, until, seen_at, is_ending: false, ended: None };
                    if leases.entry(receipt.id).or_default().insert(receipt.epoch, held).is_some() {
                        wrong.push(format!("the lease {receipt} was handed out twice"));
                    }
                }
                Line::Ending { receipt } => {
                    let held = leases.get_mut(&receipt.id).and_then(|of_job| of_job.get_mut(&receipt.epoch));
                    held.expect("it was leased").is_ending = true;
                }
                Line::Ended { receipt, at, counts } => {
                    let held = leases.get_mut(&receipt.id).and_then(|of_job| of_job.get_mut(&receipt.epoch));
                    held.expect("it was leased").ended = Some((at, counts));
                }
                Line::Wrong(what) => wrong.push(what),
            }
        }
    }
    (leases, wrong)
}
