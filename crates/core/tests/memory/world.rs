//! The model: each job's true state in a map, and all that an engine and a ledger do with a broker, reduced to what can
//! go out of order. It scans everything each time.

mod broker;
mod ledger;

use crate::memory::random::Op;
use async_trait::async_trait;
use duetime_core::json::Timestamp;
use duetime_core::ports::{
    Beginning, Broker, Detail, Edit, HandOut, Host, Limits, OutboxEntry, Outcomes, Queues, Reading, Reserve, Source,
    Take, Window,
};
use duetime_core::testing::ManualClock;
use duetime_core::testing::fixtures::{edit, listing};
use duetime_core::{Clock, Error, Job, JobId, Memory, Millis, Numbers, Receipt, State};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The generation that the broker begins with.
const GENERATION: u64 = 1;
const NUMBERS: Numbers = Numbers::Generation(GENERATION);
const QUEUES: [&str; 3] = ["a", "b", "c"];
/// How far ahead of now the broker holds jobs.
const HORIZON_MS: u64 = 60_000;
/// The ledger makes an edit before its tombstone lapses.
const ANSWER_MS_MAX: u64 = 50_000;
const REQUEST_MS: u64 = 60_000;
const TOLD_AGAIN_MS: u64 = 1_000;

/// A job in its current state, in broker or ledger.
struct Truth {
    job: Job,
    /// Whether the broker holds it.
    held: bool,
    removed: bool,
    lease: Option<ModelLease>,
    /// The entry in the outbox, and whether it says payload and tags too.
    noted: Option<(OutboxEntry, bool)>,
}

/// When a lease ends by the monotonic clock, its first length, and when its end was last told.
struct ModelLease {
    ends: Millis,
    /// The length it began with, if that is known after a restart.
    lease_ms: u64,
    /// The length it was last given.
    given_ms: u64,
    told: Option<Millis>,
    /// Whether the job is to be taken.
    takes: bool,
}

/// An edit of the ledger, of this version, while the broker does not know the job.
struct Unseen {
    edit: Edit,
    version: u64,
    since: Millis,
}

pub(crate) struct World {
    clock: Arc<ManualClock>,
    broker: Arc<dyn Broker>,
    woken: Arc<Mutex<Vec<Arc<str>>>>,
    truths: BTreeMap<JobId, Truth>,
    /// The ledger.
    rows: BTreeMap<JobId, Job>,
    reads: Vec<(Job, Millis)>,
    receipts: Vec<Receipt>,
    /// Leases that ended their jobs.
    ended: Vec<(Receipt, State)>,
    limits: BTreeMap<Arc<str>, Limits>,
    limits_version: u64,
    /// Entries that verbs answered, on their way to the ledger in any order.
    unrecorded: Vec<OutboxEntry>,
    /// Recorded versions, with the monotonic time of their recording.
    recorded: Vec<(Millis, (JobId, u64))>,
    unseen: Vec<Unseen>,
    /// Answered by the ledger; the broker does not know that yet.
    answered: Vec<(Millis, (JobId, u64))>,
    /// Until when the tombstone of such an edit may remain, by the monotonic clock.
    tombstone_until: BTreeMap<JobId, Millis>,
    requests: BTreeMap<u8, (Millis, Vec<Receipt>)>,
    /// When a caller waiting for a queue will look next, according to the broker.
    looks: BTreeMap<Arc<str>, Option<Millis>>,
    last_id: u64,
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(ManualClock::new());
        let woken = Arc::default();
        let mut world = Self {
            broker: fresh(&clock, &woken),
            clock,
            woken,
            truths: BTreeMap::new(),
            rows: BTreeMap::new(),
            reads: Vec::new(),
            receipts: Vec::new(),
            ended: Vec::new(),
            limits: BTreeMap::new(),
            limits_version: 0,
            unrecorded: Vec::new(),
            recorded: Vec::new(),
            unseen: Vec::new(),
            answered: Vec::new(),
            tombstone_until: BTreeMap::new(),
            requests: BTreeMap::new(),
            looks: BTreeMap::new(),
            last_id: 0,
        };
        world.look_everywhere(None);
        world
    }

    pub(crate) fn now(&self) -> Millis {
        self.clock.wall()
    }

    fn look_everywhere(&mut self, at: Option<Millis>) {
        self.looks = QUEUES.iter().map(|&queue| (queue.into(), at)).collect();
    }

    pub(crate) async fn act(&mut self, op: Op) {
        match op {
            Op::Push { .. } => self.push(op).await,
            Op::Reserve { queues, limit, window, lease_ms, request, take } => {
                let at = |offset| self.now().saturating_add_signed(offset);
                let window = window.map_or(Window::ALL, |(from, to)| Window { from: at(from), to: at(to) });
                let from = Source::Queues(queues.iter().map(|&queue| QUEUES[queue].into()).collect());
                let request_id = request.map(|n| n.to_string().into());
                if take {
                    let asked = Take { window, request_id, ..Take::new(from, limit) };
                    self.hand_out(HandOut::Take(&asked), request).await;
                } else {
                    let asked = Reserve { lease_ms, request_id, ..Reserve::new(from.into(), limit) };
                    self.hand_out(HandOut::Reserve(&asked), request).await;
                }
            }
            Op::Named { jobs, right_version, take } => self.named(&jobs, right_version, take).await,
            Op::Settle { receipt, how } => {
                if let Some(&receipt) = pick(&self.receipts, receipt) {
                    let decision = self.decision(receipt.id, how);
                    self.settle(receipt, decision).await;
                }
            }
            Op::Extend { receipt, lease_ms } => self.extend(receipt, lease_ms).await,
            Op::Edit { job, what, right_version } => {
                if let Some(id) = self.any_job(job) {
                    let now = self.truths[&id].job.version;
                    let version = right_version.map(|right| if right { now } else { now + 1 });
                    self.edit(Edit { version, ..edit(id, self.change(what)) }).await;
                }
            }
            Op::LedgerEdit { edit } => {
                if !self.unseen.is_empty() {
                    let unseen = self.unseen.remove(edit % self.unseen.len());
                    self.ledger_edit(&unseen);
                }
            }
            Op::Sweep { limit } => {
                let entries = self.broker.outcomes(Outcomes::Oldest { limit, age_ms: 0 }).await.unwrap();
                assert_eq!(entries.len(), limit.min(self.truths.values().filter(|t| t.noted.is_some()).count()));
                self.unrecorded.extend(entries);
            }
            Op::Record { entry } => {
                if !self.unrecorded.is_empty() {
                    let entry = self.unrecorded.swap_remove(entry % self.unrecorded.len());
                    self.record(entry);
                }
            }
            Op::Forget { batch } => self.forget(batch).await,
            Op::Read { job } => {
                let row = self.any_job(job).and_then(|id| self.rows.get(&id));
                self.reads.extend(row.filter(|row| row.is_pending()).map(|row| (row.clone(), self.now())));
            }
            Op::Put { read } => {
                if let Some((job, read_at)) = pick(&self.reads, read).cloned() {
                    self.put(job, read_at).await;
                }
            }
            Op::Expired { limit, acts } => self.expired(limit, acts).await,
            Op::Limit { queue, paused, max_running } => {
                let queue: Arc<str> = QUEUES[queue].into();
                let limits = Limits { paused, max_running, ..Limits::default() };
                self.limits_version += 1;
                self.broker.limit(&queue, limits, self.limits_version).await.unwrap();
                self.limits.insert(queue, limits);
            }
            Op::Pass { ms } => {
                self.clock.advance(ms);
                let mono = self.clock.mono();
                while let Some(late) = self.unseen.iter().position(|unseen| unseen.since + ANSWER_MS_MAX <= mono) {
                    let unseen = self.unseen.remove(late);
                    self.ledger_edit(&unseen);
                }
            }
            Op::Step { ms } => {
                self.clock.step(ms);
                // Waiting callers look again when the clocks drift apart, and read again before they put.
                self.look_everywhere(Some(0));
                self.reads.retain(|_| ms >= 0);
            }
            Op::Restart => self.restart().await,
        }
        for queue in std::mem::take(&mut *self.woken.lock().unwrap()) {
            self.looks.insert(queue, Some(0));
        }
    }

    /// Once the ledger has recorded everything, it knows the current state of every job.
    pub(crate) async fn finish(&mut self) {
        for unseen in std::mem::take(&mut self.unseen) {
            self.ledger_edit(&unseen);
        }
        self.unrecorded.extend(self.broker.outcomes(Outcomes::Oldest { limit: usize::MAX, age_ms: 0 }).await.unwrap());
        while let Some(entry) = self.unrecorded.pop() {
            self.record(entry);
        }
        for (id, truth) in &self.truths {
            let row = self.rows.get(id);
            assert_eq!(row.is_none(), truth.removed, "{:?}", truth.job);
            if let Some(row) = row {
                assert_eq!((&row.payload, row.stage), (&truth.job.payload, truth.job.stage), "{row:?}");
                assert!(truth.lease.is_some() || row.version == truth.job.version, "{row:?} {:?}", truth.job);
            }
        }
        while !(self.recorded.is_empty() && self.answered.is_empty()) {
            self.forget(0).await;
            self.forget(1).await;
        }
        assert_eq!(self.broker.backlog(), 0);
        self.check().await;
    }

    /// Checks the invariants that hold after every operation.
    pub(crate) async fn check(&self) {
        let now = self.now();
        let queues = QUEUES.map(Arc::from);
        for (queue, counts, _) in self.broker.counts(Queues::Named(queues.to_vec())).await.unwrap() {
            let held: Vec<_> =
                self.truths.values().filter(|t| t.held && t.job.queue == queue).map(|t| t.job.clone()).collect();
            let count = |state| held.iter().filter(|job| job.state(now) == state).count() as u64;
            assert_eq!(
                (counts.scheduled, counts.ready, counts.running, counts.paused),
                (count(State::Scheduled), count(State::Ready), count(State::Running), self.limits_of(&queue).paused)
            );
            let mut listed = held.clone();
            listed.sort_by_key(|job| (job.due_at, job.id));
            assert_eq!(self.broker.list(listing(&queue)).await.unwrap(), listed);
            let mut keys: Vec<_> = held.iter().filter_map(Job::live_key).collect();
            keys.sort();
            assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "a key has one holder");
            let first = self.waiting(&queue).map(|job| job.due_at.max(Timestamp(now))).min();
            if let Some(first) = first.filter(|_| self.room(&queue, false) > 0) {
                let looks = self.looks[&queue];
                assert!(looks.is_some_and(|at| at <= first.0), "nobody looks at {first}, but at {looks:?}");
            }
        }
        for (&id, truth) in &self.truths {
            let known = truth.held || (truth.noted.is_some() && !truth.removed);
            assert_eq!(self.broker.get(&[id], Detail::Whole).await.unwrap()[0].as_ref(), known.then_some(&truth.job));
        }
        assert_eq!(self.broker.backlog(), self.truths.values().filter(|t| t.noted.is_some()).count());
    }

    fn limits_of(&self, queue: &str) -> Limits {
        self.limits.get(queue).copied().unwrap_or_default()
    }

    /// The number of jobs of a queue that may still be handed out.
    fn room(&self, queue: &str, takes: bool) -> usize {
        let Limits { paused, max_running, .. } = self.limits_of(queue);
        let running = self.truths.values().filter(|t| t.lease.is_some() && &*t.job.queue == queue).count();
        let max_running = max_running.filter(|_| !takes).map_or(usize::MAX, |max| max as usize);
        if paused { 0 } else { max_running.saturating_sub(running) }
    }

    fn any_job(&self, n: usize) -> Option<JobId> {
        self.truths.keys().nth(n.checked_rem(self.truths.len())?).copied()
    }
}

impl ModelLease {
    fn tell_at(&self) -> Millis {
        self.told.map_or(self.ends, |told| told + TOLD_AGAIN_MS)
    }
}

/// A reading at this instant.
fn at(at: Millis) -> Reading {
    Reading { at, memory: 0 }
}

/// Takes down at which queues it is woken.
struct Woken(Arc<Mutex<Vec<Arc<str>>>>);

#[async_trait]
impl Host for Woken {
    async fn beginning(&self) -> Result<Beginning, Error> {
        unreachable!("a broker in memory is told")
    }

    fn wake(&self, queue: Option<&Arc<str>>) {
        self.0.lock().unwrap().extend(queue.cloned());
    }
}

fn fresh(clock: &Arc<ManualClock>, woken: &Arc<Mutex<Vec<Arc<str>>>>) -> Arc<dyn Broker> {
    let broker = Memory::new(clock.clone());
    broker.watch(Arc::new(Woken(woken.clone())));
    broker.begin_with(Beginning { generation: GENERATION, limits: Vec::new() });
    Arc::new(broker)
}

fn pick<T>(things: &[T], n: usize) -> Option<&T> {
    things.get(n.checked_rem(things.len())?)
}
