//! What goes wrong below the ports: the process dies between any two steps, the ledger is away for a while, and
//! replies take their time.

use crate::clock::Millis;
use crate::error::Error;
use crate::id::{JobId, Receipt};
use crate::job::Job;
use crate::memory::Memory;
use crate::ports::{
    Broker, Counts, Cursor, Edit, Edited, Expired, Extended, Find, Found, LeaseNote, Ledger, Listing, Note, Outcomes,
    Page, Put, Recorded, Reserve, Reserved, Retention, Settled, Tally, Wake,
};
use crate::rules::Decision;
use crate::testing::{ModelLedger, Random};
use async_trait::async_trait;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// One life of a process: it dies after so many steps.
#[derive(Debug)]
pub(super) struct Chaos {
    random: Mutex<Random>,
    steps_left: Mutex<Option<u64>>,
    died: Notify,
}

impl Chaos {
    /// A life of so many steps; `None` for one without end.
    pub(super) fn new(seed: u64, steps: Option<u64>) -> Arc<Self> {
        Arc::new(Self { random: Mutex::new(Random::new(seed)), steps_left: Mutex::new(steps), died: Notify::new() })
    }

    /// Ends when the process has died.
    pub(super) async fn death(&self) {
        self.died.notified().await;
    }

    /// A step of the process, after which others may run, or at which it dies.
    async fn step(&self) {
        let is_dead = {
            let mut left = self.steps_left.lock().expect("no panic under this lock");
            if let Some(left) = left.as_mut() {
                *left = left.saturating_sub(1);
            }
            *left == Some(0)
        };
        if is_dead {
            self.died.notify_one();
            std::future::pending::<()>().await;
        }
        let dice = self.random.lock().expect("no panic under this lock").within(0..100);
        match dice {
            0..50 => {}
            50..90 => tokio::task::yield_now().await,
            _ => tokio::time::sleep(Duration::from_millis(dice - 89)).await,
        }
    }

    async fn around<T>(&self, verb: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.step().await;
        let answer = verb.await;
        self.step().await;
        answer
    }
}

/// The memory broker, in a process that may die.
pub(super) struct MortalBroker {
    pub(super) memory: Memory,
    pub(super) chaos: Arc<Chaos>,
}

#[async_trait]
impl Broker for MortalBroker {
    fn now(&self) -> Millis {
        self.memory.now()
    }

    fn is_volatile(&self) -> bool {
        self.memory.is_volatile()
    }

    fn watch(&self, wake: Wake) {
        self.memory.watch(wake);
    }

    async fn put(&self, jobs: Vec<Job>, read_at: Millis) -> Result<Vec<Put>, Error> {
        self.chaos.around(self.memory.put(jobs, read_at)).await
    }

    async fn reserve(&self, reserve: Reserve) -> Result<Reserved, Error> {
        // A reserve may be dropped where it waits, and then must have handed out nothing: no step comes after it.
        self.chaos.step().await;
        self.memory.reserve(reserve).await
    }

    async fn extend(&self, leases: Vec<(Receipt, Option<u64>)>) -> Result<Vec<Extended>, Error> {
        self.chaos.around(self.memory.extend(leases)).await
    }

    async fn settle(&self, decisions: Vec<(Receipt, Decision)>) -> Result<Settled, Error> {
        self.chaos.around(self.memory.settle(decisions)).await
    }

    async fn expired(&self, limit: usize) -> Result<Expired, Error> {
        self.chaos.around(self.memory.expired(limit)).await
    }

    async fn edit(&self, edits: Vec<Edit>) -> Result<(Vec<Edited>, Vec<Note>), Error> {
        self.chaos.around(self.memory.edit(edits)).await
    }

    async fn get(&self, ids: &[JobId]) -> Result<Vec<Option<Job>>, Error> {
        self.chaos.around(self.memory.get(ids)).await
    }

    async fn list(&self, listing: Listing) -> Result<Vec<Job>, Error> {
        self.chaos.around(self.memory.list(listing)).await
    }

    async fn counts(&self, queues: Option<&[Arc<str>]>) -> Result<Vec<(Arc<str>, Counts)>, Error> {
        self.chaos.around(self.memory.counts(queues)).await
    }

    async fn pause(&self, queue: &Arc<str>, paused: bool) -> Result<(), Error> {
        self.chaos.around(self.memory.pause(queue, paused)).await
    }

    async fn outcomes(&self, which: Outcomes) -> Result<Vec<Note>, Error> {
        self.chaos.around(self.memory.outcomes(which)).await
    }

    async fn set_frontier(&self, frontier: Millis) -> Result<(), Error> {
        self.chaos.around(self.memory.set_frontier(frontier)).await
    }

    async fn forget(&self, noted: &[(JobId, u64)], frontier: Millis) -> Result<Vec<JobId>, Error> {
        self.chaos.around(self.memory.forget(noted, frontier)).await
    }

    fn backlog(&self) -> usize {
        self.memory.backlog()
    }
}

/// The ledger of a process that may die; what it has recorded outlives the process.
pub(super) struct MortalLedger {
    pub(super) model: ModelLedger,
    pub(super) chaos: Arc<Chaos>,
}

#[async_trait]
impl Ledger for MortalLedger {
    async fn allot(&self, count: u64, now: Millis) -> Result<Range<u64>, Error> {
        self.chaos.around(self.model.allot(count, now)).await
    }

    async fn record(&self, jobs: Vec<Job>, frontier: Millis) -> Result<Vec<Recorded>, Error> {
        self.chaos.around(self.model.record(jobs, frontier)).await
    }

    async fn note(&self, notes: Vec<Note>, frontier: Millis) -> Result<(), Error> {
        self.chaos.around(self.model.note(notes, frontier)).await
    }

    fn lease(&self, leases: Vec<LeaseNote>) {
        let (model, chaos) = (self.model.clone(), self.chaos.clone());
        tokio::spawn(async move {
            let noted = async {
                model.lease(leases);
                Ok(())
            };
            // Nobody waits for it, and its loss is harmless.
            drop(chaos.around(noted).await);
        });
    }

    async fn pending(&self, until: Millis, after: Option<Cursor>, limit: usize) -> Result<Page, Error> {
        // Small pages, so that much happens between them.
        self.chaos.around(self.model.pending(until, after, limit.min(7))).await
    }

    async fn leased(&self) -> Result<Vec<Job>, Error> {
        self.chaos.around(self.model.leased()).await
    }

    async fn get(&self, ids: &[JobId]) -> Result<Vec<Option<Job>>, Error> {
        self.chaos.around(self.model.get(ids)).await
    }

    async fn find(&self, find: Find) -> Result<Found, Error> {
        self.chaos.around(self.model.find(find)).await
    }

    async fn edit(&self, edits: Vec<Edit>, now: Millis, frontier: Millis) -> Result<Vec<Edited>, Error> {
        self.chaos.around(self.model.edit(edits, now, frontier)).await
    }

    async fn prune(&self, retention: Retention, now: Millis, limit: usize) -> Result<usize, Error> {
        self.chaos.around(self.model.prune(retention, now, limit)).await
    }

    async fn tallies(&self) -> Result<Vec<(Arc<str>, Tally)>, Error> {
        self.chaos.around(self.model.tallies()).await
    }

    async fn close(&self) -> Result<(), Error> {
        Ok(())
    }
}
