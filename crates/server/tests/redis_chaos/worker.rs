//! The process of a worker: it reserves, holds its jobs until it has asked for more, and completes them.

use crate::history::History;
use crate::scenario::QUEUES;
use duetime::{Client, ConnectOptions, Error};
use duetime_core::api::Span;
use duetime_core::engine::{Outcome, ReserveRequest, Source};
use duetime_core::{Clock as _, Job, Receipt, SystemClock};
use std::io::Read as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// The environment that makes a process a worker: its number, how many jobs it reserves at once, its history file, and the
/// address of the store.
const ORDERS: &str = "DUETIME_CHAOS_WORKER";

const NO_LEDGER: &str = "-";
/// The lease: longer than a worker needs, and short enough that a killed worker's jobs are handed out again.
pub(crate) const LEASE_MS: u64 = 3_000;
/// How long a worker waits for jobs while it holds some.
const WAIT_MS: u64 = 100;
/// Between calls that fail at once.
const PAUSE: Duration = Duration::from_millis(5);

pub(crate) struct Orders {
    pub(crate) urls: Vec<String>,
    /// Beside Redis.
    pub(crate) ledger: Option<String>,
    pub(crate) history: PathBuf,
    pub(crate) number: usize,
    pub(crate) limit: usize,
}

impl Orders {
    pub(crate) fn put(&self, command: &mut Command) {
        let Self { urls, ledger, history, number, limit } = self;
        let ledger = ledger.as_deref().unwrap_or(NO_LEDGER);
        command.env(ORDERS, format!("{number} {limit} {} {ledger} {}", history.display(), urls.join(" ")));
    }

    pub(crate) fn of_environment() -> Option<Self> {
        let text = std::env::var(ORDERS).ok()?;
        let mut words = text.split(' ');
        let mut number = || words.next().and_then(|word| word.parse().ok()).expect("a number");
        let (number, limit) = (number(), number());
        let history = PathBuf::from(words.next().expect("a path"));
        let ledger = words.next().filter(|word| *word != NO_LEDGER).map(str::to_owned);
        Some(Self { urls: words.map(str::to_owned).collect(), ledger, history, number, limit })
    }
}

/// Clients of several servers of the same jobs, or of one Redis; asked in turn until one answers.
pub(crate) struct Clients {
    clients: Vec<Client>,
    at: usize,
}

impl Clients {
    pub(crate) async fn connect(urls: &[String], ledger: Option<&str>) -> Self {
        let mut clients = Vec::new();
        for url in urls {
            clients.push(loop {
                match connect(url, ledger).await {
                    Ok(client) => break client,
                    Err(error) => assert!(error.is_retryable(), "{error}"),
                }
                pause().await;
            });
        }
        Self { clients, at: 0 }
    }

    /// Calls until there is an answer that a repeat would not change; returns how often there was none.
    pub(crate) async fn call<T>(&mut self, call: impl AsyncFn(Client) -> Result<T, Error>) -> (Result<T, Error>, u64) {
        let mut unanswered = 0;
        loop {
            match call(self.clients[self.at].clone()).await {
                Err(error) if error.is_retryable() => {
                    unanswered += 1;
                    self.at = (self.at + 1) % self.clients.len();
                    pause().await;
                }
                answer => return (answer, unanswered),
            }
        }
    }
}

/// A client of a server, or of Redis and the ledger beside it.
pub(crate) async fn connect(url: &str, ledger: Option<&str>) -> Result<Client, Error> {
    let mut options = ConnectOptions::default();
    options.ledger = ledger.filter(|_| url.starts_with("redis")).map(str::to_owned);
    Client::connect_with(url, options).await
}

async fn pause() {
    tokio::time::sleep(PAUSE).await;
}

/// Works until it is killed, or its parent is gone.
pub(crate) async fn work(orders: Orders) {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let mut history = History::create(&orders.history);
    let mut clients = Clients::connect(&orders.urls, orders.ledger.as_deref()).await;
    let clock = SystemClock::new();
    let mut queues: Vec<Arc<str>> = QUEUES.iter().map(|&queue| Arc::from(queue)).collect();
    queues.rotate_left(orders.number % QUEUES.len());
    let mut held: Vec<Job> = Vec::new();
    for turn in 0_u64.. {
        let request = ReserveRequest {
            from: Source::Queues(queues.clone()),
            limit: orders.limit,
            free: None,
            lease: Some(Span(LEASE_MS)),
            wait: Span(WAIT_MS),
            request_id: Some(format!("{}.{}.{turn}", orders.number, std::process::id()).into()),
            worker: None,
        };
        let (reservation, _) = clients.call(async |client| client.leases().reserve(request.clone()).await).await;
        let jobs: Vec<Job> = match reservation {
            Ok(reservation) => reservation.leases.into_iter().map(|lease| lease.job).collect(),
            Err(error) => {
                history.wrong(&format!("a reserve was answered {error}"));
                continue;
            }
        };
        history.leased(&jobs, clock.wall());
        complete(&mut clients, &mut history, &clock, std::mem::replace(&mut held, jobs)).await;
        queues.rotate_left(1);
    }
}

async fn complete(clients: &mut Clients, history: &mut History, clock: &SystemClock, jobs: Vec<Job>) {
    let mut left: Vec<Receipt> = jobs.iter().map(Job::receipt).collect();
    while !left.is_empty() {
        history.ending(&left);
        let outcomes: Vec<_> = left.iter().map(|&receipt| (receipt, Outcome::complete(None))).collect();
        let (answers, _) = clients.call(async |client| client.leases().settle(outcomes.clone()).await).await;
        let answers = match answers {
            Ok(answers) => answers,
            Err(error) => return history.wrong(&format!("a settle was answered {error}")),
        };
        let (mut ended, mut again) = (Vec::new(), Vec::new());
        for (receipt, answer) in left.into_iter().zip(answers) {
            match answer {
                Ok(settlement) if !settlement.state.is_live() => ended.push((receipt, true)),
                Err(error) if error.code() == "lease_lost" => ended.push((receipt, false)),
                Err(error) if error.is_retryable() => again.push(receipt),
                other => history.wrong(&format!("{receipt} was answered {other:?}")),
            }
        }
        history.ended(&ended, clock.wall());
        left = again;
        if !left.is_empty() {
            pause().await;
        }
    }
}
