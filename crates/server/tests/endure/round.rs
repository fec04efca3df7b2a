//! One round: a store, servers on it, their users, and the errors found in the end.

use crate::harm::harm;
use crate::late::Late;
use crate::servers::{LastWrite, Server, Way, ports};
use crate::store::{BrokerKind, Kind, Store};
use duetime::Client;
use duetime_core::api::DegradedCode;
use duetime_core::engine::Query;
use duetime_core::testing::Random;
use duetime_core::testing::account::{Account, At, Call, Field, Loss, QUEUES, System};
use duetime_core::{Clock as _, Job, JobId, Millis, SystemClock};
use duetime_store::testing::Fates;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::timeout;

const SERVERS: usize = 3;
/// Everything ends within this time after the last fault.
const END_WITHIN: Duration = Duration::from_secs(150);
const LOOK_EVERY: Duration = Duration::from_millis(100);
const PAGE_JOBS: usize = 1_000;
/// The columns of a line besides its place and time.
pub(crate) const COLUMNS: [&str; 14] = [
    "servers killed",
    "stores killed",
    "flushes",
    "failovers",
    "clocks set",
    "full disks",
    "freezes",
    "connections cut",
    "jobs pushed",
    "leases",
    "leases extended",
    "jobs taken",
    "jobs cancelled",
    "locks acquired",
];

/// A round in progress.
pub(crate) struct Round {
    pub(crate) kind: Kind,
    pub(crate) servers: Vec<Arc<Server>>,
    pub(crate) last_write: Arc<LastWrite>,
    /// When the disk was last full: leases of that time, and outcomes not yet reported as recorded, are written soon after.
    pub(crate) full: Mutex<Option<(Millis, Millis)>>,
    store: Mutex<Store>,
    field: Arc<Field>,
    clock: Arc<SystemClock>,
    off_ms: Arc<AtomicI64>,
}

/// The result of a round.
pub(crate) struct Ended {
    kind: Kind,
    seed: u64,
    seconds: u64,
    counts: BTreeMap<&'static str, u64>,
    violations: usize,
    pub(crate) wrong: Vec<String>,
}

impl Round {
    pub(crate) async fn run(kind: Kind, seed: u64, time: Duration) -> Ended {
        println!("{kind}, seed {seed}");
        let mut random = Random::new(seed);
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().to_owned();
        let store = tokio::task::spawn_blocking(move || Store::start(kind, &place)).await.unwrap();
        let (clock, off_ms): (Arc<SystemClock>, Arc<AtomicI64>) = Default::default();
        let (mut fates, mut proxies, mut servers) = (Vec::new(), Vec::new(), Vec::new());
        let count = if kind.broker == BrokerKind::File { 1 } else { SERVERS };
        for (n, port) in ports(count).into_iter().enumerate() {
            let own = Arc::new(Fates::new(random.any()));
            let log = folder.path().join(format!("server-{n}.log"));
            let arguments = store.arguments(&own, &mut proxies);
            servers.push(Arc::new(Server::start(port, arguments, store.environment(), log)));
            fates.push(own);
        }
        let (read, off) = (clock.clone(), off_ms.clone());
        let at = move || {
            let off_ms = off.load(Ordering::SeqCst);
            At { wall: read.wall().saturating_add_signed(off_ms), mono: read.mono() }
        };
        let keeps = kind.ledger.is_some() || kind.broker == BrokerKind::File;
        let round = Self {
            kind,
            servers,
            last_write: Arc::default(),
            full: Mutex::default(),
            store: Mutex::new(store),
            field: Field::new(Account::new(keeps), at),
            clock,
            off_ms,
        };
        let ways = round.ways().await;
        let client = Client::connect(&round.servers[0].url()).await.unwrap();
        let late = Late::push(&client, Millis::try_from(time.as_millis()).unwrap()).await;
        let mut actors = round.field.begin(&ways, &mut random);
        fates.iter().for_each(|fates| fates.set_calm(false));
        let trouble = harm(&round, time, Random::new(random.any()));
        let keep = async {
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                round.servers.iter().for_each(|server| server.keep());
            }
        };
        let edits = late.edit(&round, Random::new(random.any()));
        tokio::select! { () = trouble => {}, () = keep => {}, () = edits => {} }
        fates.iter().for_each(|fates| fates.set_calm(true));
        round.field.be_calm();
        let (is_done, late) = tokio::join!(timeout(END_WITHIN, round.worked_off(&client)), late.run(&round));
        round.field.end();
        while let Some(ended) = actors.join_next().await {
            ended.expect("no actor panics");
        }
        let records = records(&client).await.unwrap();
        round.judge(seed, &records, is_done.is_ok(), late, folder)
    }

    /// Each asks another server first.
    async fn ways(&self) -> Vec<Arc<dyn System>> {
        let mut ways: Vec<Arc<dyn System>> = Vec::new();
        for first in 0..self.servers.len().min(2) {
            let mut clients = Vec::new();
            for n in 0..self.servers.len() {
                let server = &self.servers[(first + n) % self.servers.len()];
                clients.push(Client::connect(&server.url()).await.unwrap());
            }
            let clock = self.clock.clone();
            let now = Arc::new(move || clock.mono());
            ways.push(Arc::new(Way { clients, last_write: self.last_write.clone(), now }));
        }
        ways
    }

    async fn worked_off(&self, client: &Client) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let is_made = self.field.makes_jobs();
            self.servers.iter().for_each(|server| server.keep());
            let Ok(queues) = client.queues().list().await else { continue };
            let is_live = |queue: &duetime_core::engine::QueueStatus| {
                let counts = queue.counts;
                counts.scheduled + counts.ready + counts.running + queue.tally.pending > 0
            };
            if !is_made && !queues.iter().any(is_live) && client.health().await.is_ok_and(|health| health.backlog == 0)
            {
                return;
            }
        }
    }

    fn judge(
        &self,
        seed: u64,
        records: &BTreeMap<JobId, Job>,
        is_done: bool,
        late: Vec<String>,
        folder: TempDir,
    ) -> Ended {
        let account = self.field.account();
        let mut wrong = account.judge(records);
        if !is_done {
            let pending: Vec<&Job> = records.values().filter(|job| job.is_pending()).take(3).collect();
            wrong.push(format!("some jobs do not end, such as {pending:?}"));
        }
        wrong.extend(late);
        wrong.extend(self.servers.iter().flat_map(|server| server.complaints()));
        // The lines that begin with blanks explain the one before.
        let violations = wrong.iter().filter(|line| !line.starts_with(' ')).count();
        if !wrong.is_empty() {
            wrong.insert(0, format!("{}, seed {seed}, logs in {}:", self.kind, folder.keep().display()));
        }
        let mut counts = account.counts().clone();
        let ended = self.servers.iter().map(|server| server.ended.load(Ordering::Relaxed)).sum();
        counts.insert("servers that ended", ended);
        Ended { kind: self.kind, seed, seconds: self.mono() / 1_000, counts, violations, wrong }
    }

    pub(crate) fn mono(&self) -> Millis {
        self.clock.mono()
    }

    pub(crate) fn at(&self) -> At {
        self.field.at()
    }

    /// A client of each server.
    pub(crate) async fn clients(&self) -> Vec<Client> {
        let mut clients = Vec::new();
        for server in &self.servers {
            clients.push(Client::connect(&server.url()).await.unwrap());
        }
        clients
    }

    pub(crate) fn count(&self, what: &'static str) {
        self.field.account().count(what);
    }

    /// Something was lost from this instant until now.
    pub(crate) fn lost(&self, loss: Loss, from: Millis) {
        self.lost_until(loss, from, self.mono() + 1);
    }

    pub(crate) fn lost_until(&self, loss: Loss, from: Millis, until: Millis) {
        self.field.account().lost(loss, from, until);
    }

    /// All jobs that the store has now, and when it was asked.
    pub(crate) async fn read(&self) -> (Call, BTreeMap<JobId, Job>) {
        loop {
            for server in &self.servers {
                server.keep();
                let client = Client::connect(&server.url()).await.unwrap();
                let asked = self.field.at();
                if let Ok(records) = records(&client).await {
                    return (Call { asked, answered: self.field.at() }, records);
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Whether a server says that records of finished jobs were dropped early.
    pub(crate) async fn has_dropped_records(&self) -> bool {
        for server in &self.servers {
            let client = Client::connect(&server.url()).await.unwrap();
            let says = |health: duetime_core::engine::Health| {
                health.degraded.iter().any(|part| part.code == DegradedCode::RecordsDroppedEarly)
            };
            if client.health().await.is_ok_and(says) {
                return true;
            }
        }
        false
    }

    /// Records that the store had then may have been dropped until this instant.
    pub(crate) fn dropped(&self, read: Call, records: BTreeMap<JobId, Job>, until: Millis) {
        self.field.account().dropped(read, records, until);
    }

    pub(crate) fn set_off(&self, off_ms: i64) {
        self.off_ms.store(off_ms, Ordering::SeqCst);
    }

    /// Does something to the store that takes its time.
    pub(crate) fn with_store<T>(&self, act: impl FnOnce(&mut Store) -> T) -> T {
        tokio::task::block_in_place(|| act(&mut self.store.lock().unwrap()))
    }
}

/// All jobs there are.
async fn records(client: &Client) -> Result<BTreeMap<JobId, Job>, duetime::Error> {
    let mut records = BTreeMap::new();
    for queue in QUEUES {
        let query = Query { queue: Some(queue.into()), ..Query::default() };
        let mut cursor: Option<String> = None;
        loop {
            let page = client.jobs().page(&query, cursor.as_deref(), PAGE_JOBS).await?;
            records.extend(page.jobs.into_iter().map(|job| (job.id, job)));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
    }
    Ok(records)
}

impl Ended {
    /// As the file has it.
    pub(crate) fn line(&self) -> String {
        let commit = std::env::var("DUETIME_ENDURE_COMMIT").unwrap_or_else(|_| "-".to_owned());
        let count = |what: &&str| self.counts.get(*what).copied().unwrap_or(0).to_string();
        let mut words = vec![commit, self.kind.to_string(), self.seed.to_string(), self.seconds.to_string()];
        words.extend(COLUMNS.iter().map(count));
        words.push(self.violations.to_string());
        words.join("\t")
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<String> = self.counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
        write!(f, "{}, seed {}, {} s: {}", self.kind, self.seed, self.seconds, counts.join(", "))?;
        if self.wrong.is_empty() { Ok(()) } else { write!(f, "\n{}", self.wrong.join("\n")) }
    }
}
