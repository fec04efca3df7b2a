//! The model: each job's true state in a map, and all that an engine and a ledger do with a broker, reduced to what can
//! go out of order. It scans everything each time.

use super::random::{How, Op, What};
use duetime_core::limits::{LEASE_MS_DEFAULT, LEASE_MS_MAX};
use duetime_core::ports::{
    Broker, Change, Edit, Edited, Extended, Lease, Named, Note, Outcomes, Put, Reserve, Reserved, Source, Update,
    Window,
};
use duetime_core::rules::{self, Again, Decision, Finish};
use duetime_core::testing::ManualClock;
use duetime_core::testing::fixtures::{due, edit, finish, listing, reserve, success};
use duetime_core::{Clock, Job, JobId, KeyUntil, Memory, Millis, Receipt, Stage, State};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

const QUEUES: [&str; 3] = ["a", "b", "c"];
/// How far ahead of now the broker holds jobs.
const HORIZON_MS: u64 = 60_000;
/// The ledger answers an edit before its tombstone lapses.
const ANSWER_MS_MAX: u64 = 50_000;
const UNSEEN_MS_MAX: u64 = 60_000;
const REQUEST_MS: u64 = 60_000;
const TOLD_AGAIN_MS: u64 = 1_000;

/// A job as it is, wherever it is.
struct Truth {
    job: Job,
    /// Whether the broker holds it.
    held: bool,
    removed: bool,
    lease: Option<Run>,
    /// The note in the outbox, and whether it says payload and tags too.
    noted: Option<(Note, bool)>,
}

/// When a lease ends by the monotonic clock, its first length, and when its end was last told.
struct Run {
    ends: Millis,
    lease_ms: u64,
    told: Option<Millis>,
}

/// An edit that the broker did not know the job of.
struct Unseen {
    edit: Edit,
    since: Millis,
}

enum Got {
    Leases(Vec<Receipt>),
    Taken(Vec<Job>),
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
    paused: BTreeSet<Arc<str>>,
    /// Notes that verbs answered, on their way to the ledger in any order.
    unrecorded: Vec<Note>,
    recorded: Vec<Vec<(JobId, u64)>>,
    unseen: Vec<Unseen>,
    /// Answered by the ledger; the broker does not know that yet.
    answered: Vec<(JobId, u64)>,
    /// Until when a tombstone of an unseen edit may stand, by the monotonic clock.
    buried_until: BTreeMap<JobId, Millis>,
    requests: BTreeMap<u8, (Millis, Got)>,
    /// When somebody who waits for a queue will look, as far as the broker told.
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
            paused: BTreeSet::new(),
            unrecorded: Vec::new(),
            recorded: Vec::new(),
            unseen: Vec::new(),
            answered: Vec::new(),
            buried_until: BTreeMap::new(),
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
                let source = Source::Queues(queues.iter().map(|&queue| QUEUES[queue].into()).collect());
                let request_id = request.map(|n| n.to_string().into());
                let asked = Reserve { source, window, lease_ms, request_id, take, ..reserve("", limit) };
                self.reserve(asked, request).await;
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
                    self.ledger_edit(&unseen.edit);
                }
            }
            Op::Sweep { limit } => {
                let notes = self.broker.outcomes(Outcomes::Oldest { limit, age_ms: 0 }).await.unwrap();
                assert_eq!(notes.len(), limit.min(self.truths.values().filter(|t| t.noted.is_some()).count()));
                self.unrecorded.extend(notes);
            }
            Op::Record { note } => {
                if !self.unrecorded.is_empty() {
                    let note = self.unrecorded.swap_remove(note % self.unrecorded.len());
                    self.record(note);
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
            Op::Pause { queue, paused } => {
                let queue: Arc<str> = QUEUES[queue].into();
                self.broker.pause(&queue, paused).await.unwrap();
                if paused {
                    self.paused.insert(queue)
                } else {
                    self.paused.remove(&queue)
                };
            }
            Op::Pass { ms } => {
                self.clock.advance(ms);
                let mono = self.clock.mono();
                while let Some(late) = self.unseen.iter().position(|unseen| unseen.since + ANSWER_MS_MAX <= mono) {
                    let unseen = self.unseen.remove(late);
                    self.ledger_edit(&unseen.edit);
                }
            }
            Op::Step { ms } => {
                self.clock.step(ms);
                // Whoever waits looks again when the clocks drift apart, and reads what it is about to put again.
                self.look_everywhere(Some(0));
                self.reads.retain(|_| ms >= 0);
            }
            Op::Restart => self.restart().await,
        }
        for queue in std::mem::take(&mut *self.woken.lock().unwrap()) {
            self.looks.insert(queue, Some(0));
        }
    }

    async fn push(&mut self, op: Op) {
        let Op::Push { queue, priority, due_in, key, until_started, expires_ms } = op else { unreachable!() };
        self.last_id += 1;
        let now = self.now();
        let job = Job {
            queue: QUEUES[queue].into(),
            priority,
            expires_ms: expires_ms.filter(|ms| ms % 3 == 0),
            lease_ms: (priority == 2).then_some(5_000),
            key: key.filter(|_| due_in % 2 == 0).map(|key| key.to_string().into()),
            key_until: if until_started { KeyUntil::Started } else { KeyUntil::Finished },
            version: now,
            created_at: now,
            updated_at: now,
            ..due(self.last_id, now.saturating_add_signed(due_in))
        };
        if self.live_holder(&job).is_none() {
            self.create(job.clone());
            if job.due_at < now + HORIZON_MS {
                self.put(job, now).await;
            }
        } else if let Some(holder) = self.holder_in_broker(&job) {
            assert_eq!(self.broker.put(vec![job], now).await.unwrap(), [Put::KeyHeld(holder)]);
        }
    }

    /// The ledger records a new job.
    fn create(&mut self, job: Job) {
        self.rows.insert(job.id, job.clone());
        self.truths.insert(job.id, Truth { job, held: false, removed: false, lease: None, noted: None });
    }

    async fn put(&mut self, job: Job, read_at: Millis) {
        let (now, mono) = (self.now(), self.clock.mono());
        let answer = self.broker.put(vec![job.clone()], read_at).await.unwrap()[0];
        let truth = &self.truths[&job.id];
        let may_be_buried = self.buried_until.get(&job.id).is_some_and(|&until| mono < until);
        let must_be_buried = self.unseen.iter().any(|unseen| unseen.edit.id == job.id);
        if now - read_at > <dyn Broker>::READ_AGE_MS_MAX {
            assert_eq!(answer, Put::Stale);
        } else if truth.held {
            assert_eq!(answer, Put::Held);
        } else if must_be_buried || truth.removed || truth.job.version > job.version {
            assert_eq!(answer, Put::Buried, "what has changed since is not put: {:?}", truth.job);
        } else if answer != Put::Buried || !may_be_buried {
            let holder = self.holder_in_broker(&job);
            assert_eq!(answer, holder.map_or(Put::Held, Put::KeyHeld));
            self.truths.get_mut(&job.id).unwrap().held = answer == Put::Held;
        }
    }

    fn holder_in_broker(&self, job: &Job) -> Option<JobId> {
        self.live_holder(job).filter(|holder| self.truths[holder].held)
    }

    fn live_holder(&self, job: &Job) -> Option<JobId> {
        let key = job.live_key()?;
        let holds = |t: &Truth| t.job.queue == job.queue && t.job.live_key() == Some(key) && !t.removed;
        self.truths.iter().find(|(id, t)| **id != job.id && holds(t)).map(|(&id, _)| id)
    }

    /// What waits in the broker and may start, of a queue.
    fn waiting(&self, queue: &str) -> impl Iterator<Item = &Job> {
        let now = self.now();
        let held = self.truths.values().filter(|t| t.held && t.lease.is_none()).map(|t| &t.job);
        held.filter(move |job| &*job.queue == queue && job.start_by().is_none_or(|by| by > now))
    }

    async fn reserve(&mut self, asked: Reserve, request: Option<u8>) {
        let (now, mono) = (self.now(), self.clock.mono());
        let reserved = self.broker.reserve(asked.clone()).await.unwrap();
        if let Some((_, got)) = request.and_then(|n| self.requests.get(&n)).filter(|(until, _)| *until > mono) {
            return self.check_repeat(got, &reserved);
        }
        let Source::Queues(queues) = &asked.source else { unreachable!() };
        let open: Vec<_> = queues.iter().filter(|queue| !self.paused.contains(*queue)).cloned().collect();
        let mut expected = Vec::new();
        for queue in &open {
            let window = asked.window.from..=asked.window.to;
            let mut due: Vec<_> =
                self.waiting(queue).filter(|j| j.due_at <= now && window.contains(&j.due_at)).collect();
            due.sort_by_key(|job| (job.priority, job.due_at, job.id));
            due.truncate(asked.limit - expected.len());
            let new: Vec<_> = due.into_iter().map(|job| job.id).filter(|id| !expected.contains(id)).collect();
            expected.extend(new);
        }
        assert_eq!(reserved.leases.iter().map(|lease| lease.job.id).collect::<Vec<_>>(), expected);
        let got = self.hand_out(&asked, &reserved);
        if let Some(n) = request.filter(|_| !reserved.leases.is_empty()) {
            self.requests.insert(n, (mono + REQUEST_MS, got));
        }
        // Of what is due already, no matter since when.
        let first = open.iter().flat_map(|queue| self.waiting(queue)).map(|job| job.due_at.max(now)).min();
        match first {
            Some(first) => assert!(reserved.next_at.is_some_and(|at| at <= first), "{:?} {first}", reserved.next_at),
            // What may not start any more is passed over at the first look.
            None if asked.window == Window::ALL && reserved.leases.len() < asked.limit => {
                assert_eq!(reserved.next_at, None);
            }
            None => {}
        }
        if reserved.leases.len() < asked.limit {
            self.looks.extend(open.into_iter().map(|queue| (queue, reserved.next_at)));
        }
    }

    /// Checks the leases, and makes them true.
    fn hand_out(&mut self, asked: &Reserve, reserved: &Reserved) -> Got {
        let (now, mono) = (self.now(), self.clock.mono());
        let mut notes = reserved.notes.iter();
        for Lease { job, lease_ms } in &reserved.leases {
            let truth = self.truths.get_mut(&job.id).unwrap();
            assert_eq!(*lease_ms, asked.lease_ms.or(job.lease_ms).unwrap_or(LEASE_MS_DEFAULT));
            rules::lease(&mut truth.job, now + lease_ms, now);
            let receipt = truth.job.receipt();
            assert!(!self.receipts.contains(&receipt), "epochs never repeat");
            self.receipts.push(receipt);
            if asked.take {
                let taken = Finish { message: Some("taken".into()), ..Finish::new(Stage::Succeeded) };
                rules::apply(&mut truth.job, Decision::Finish(taken), now);
                self.ended.push((receipt, State::Succeeded));
                let note = notes.next().unwrap().clone();
                self.noted(job.id, note);
            } else {
                truth.lease = Some(Run { ends: mono + lease_ms, lease_ms: *lease_ms, told: None });
                if truth.noted.is_some() {
                    let note = notes.next().unwrap().clone();
                    self.noted(job.id, note);
                }
            }
            assert_eq!(*job, self.truths[&job.id].job);
        }
        assert!(notes.next().is_none());
        match asked.take {
            true => Got::Taken(reserved.leases.iter().map(|lease| lease.job.clone()).collect()),
            false => Got::Leases(reserved.leases.iter().map(|lease| lease.job.receipt()).collect()),
        }
    }

    fn check_repeat(&self, got: &Got, reserved: &Reserved) {
        let jobs: Vec<_> = reserved.leases.iter().map(|lease| &lease.job).collect();
        match got {
            Got::Leases(receipts) => {
                let truths = receipts.iter().map(|receipt| (&self.truths[&receipt.id], receipt));
                let live = truths.filter(|(t, receipt)| t.lease.is_some() && t.job.epoch == receipt.epoch);
                assert_eq!(jobs, live.map(|(t, _)| &t.job).collect::<Vec<_>>());
            }
            Got::Taken(taken) => {
                assert_eq!(jobs, taken.iter().collect::<Vec<_>>());
                let noted = taken.iter().filter(|job| {
                    self.truths[&job.id].noted.as_ref().is_some_and(|(note, _)| note.job().version == job.version)
                });
                assert_eq!(reserved.notes.len(), noted.count());
            }
        }
    }

    async fn named(&mut self, jobs: &[usize], right_version: bool, take: bool) {
        let mut ids: Vec<_> = jobs.iter().filter_map(|&job| self.any_job(job)).collect();
        ids.dedup();
        let version = |id| self.truths[&id].job.version + u64::from(!right_version);
        let named = ids.iter().map(|&id| Named { id, version: Some(version(id)) }).collect();
        let asked = Reserve { source: Source::Named(named), take, ..reserve("", 10) };
        let reserved = self.broker.reserve(asked.clone()).await.unwrap();
        for id in ids {
            let truth = &self.truths[&id];
            let (job, now) = (&truth.job, self.now());
            let may_start = !self.paused.contains(&job.queue)
                && job.state(now) == State::Ready
                && job.start_by().is_none_or(|by| by > now);
            let leased = reserved.leases.iter().any(|lease| lease.job.id == id);
            assert_eq!(leased, truth.held && right_version && may_start, "{job:?}");
            if !leased {
                let refused = &reserved.refused.iter().find(|(refused, _)| *refused == id).unwrap().1;
                match refused {
                    Edited::Mismatch(got) => assert!(truth.held && !right_version && got == job),
                    Edited::Running(got) => assert!(truth.lease.is_some() && got == job),
                    Edited::Unfit { .. } => assert!(truth.held || truth.noted.is_some()),
                    Edited::Unknown => assert!(!truth.held && truth.noted.is_none()),
                    other => panic!("{other:?}"),
                }
            }
        }
        self.hand_out(&asked, &reserved);
    }

    fn decision(&mut self, id: JobId, how: How) -> Decision {
        let (job, now) = (&self.truths[&id].job, self.now());
        match how {
            How::Success => success(),
            How::Final => finish(Stage::Failed),
            How::Drop => Decision::Finish(Finish { drop: true, ..Finish::new(Stage::Failed) }),
            How::Move => {
                self.last_id += 1;
                let copy = Job { queue: job.queue.clone(), version: now, ..due(self.last_id, now) };
                Decision::Finish(Finish { successor: Some(Box::new(copy)), ..Finish::new(Stage::Failed) })
            }
            How::Retry(ms) => {
                Decision::Again(Again { due_at: now + ms, attempt: job.attempt, crashes: job.crashes, error: None })
            }
            How::Release(ms) => rules::after_release(job, ms, now),
        }
    }

    async fn settle(&mut self, receipt: Receipt, decision: Decision) {
        let settled = self.broker.settle(vec![(receipt, decision.clone())]).await.unwrap();
        let now = self.now();
        let truth = self.truths.get_mut(&receipt.id).unwrap();
        if truth.lease.is_some() && truth.job.epoch == receipt.epoch {
            let drops = matches!(&decision, Decision::Finish(finish) if finish.drop);
            rules::apply(&mut truth.job, decision, now);
            truth.lease = None;
            (truth.held, truth.removed) = (truth.job.is_pending(), drops);
            self.ended.extend(truth.job.stage.end_state().map(|state| (receipt, state)));
            assert_eq!(settled.states, [Some(truth.job.state(now))]);
            assert_eq!(settled.notes.len(), 1);
            assert_eq!(matches!(settled.notes[0], Note::Removed(_)), drops);
            self.noted(receipt.id, settled.notes.into_iter().next().unwrap());
            return;
        }
        let same_end = match &decision {
            Decision::Finish(finish) => truth.job.epoch == receipt.epoch && truth.job.stage == finish.stage,
            Decision::Again(_) => false,
        };
        match settled.states[..] {
            [Some(state)] => {
                // It may have been retried by hand since.
                assert!(same_end || self.ended.contains(&(receipt, state)));
                assert!(settled.notes.len() <= 1);
            }
            [None] => assert!(!(same_end && truth.noted.is_some()), "the end is in the outbox"),
            _ => panic!("{settled:?}"),
        }
    }

    async fn extend(&mut self, receipt: usize, lease_ms: Option<u64>) {
        let Some(&receipt) = pick(&self.receipts, receipt) else { return };
        let extended = self.broker.extend(vec![(receipt, lease_ms)]).await.unwrap()[0];
        let (now, mono) = (self.now(), self.clock.mono());
        let truth = self.truths.get_mut(&receipt.id).unwrap();
        let Some(run) = truth.lease.as_mut().filter(|_| truth.job.epoch == receipt.epoch) else {
            return assert_eq!(extended, Extended::Lost);
        };
        let lease_ms = lease_ms.unwrap_or(run.lease_ms);
        (run.ends, run.told) = (mono + lease_ms, None);
        rules::touch(&mut truth.job, now);
        truth.job.lease_until = Some(now + lease_ms);
        let Job { version, cancel_asked, .. } = truth.job;
        assert_eq!(extended, Extended::Until { lease_until: now + lease_ms, version, cancel_asked });
        if truth.noted.is_some() {
            let note = self.broker.outcomes(Outcomes::Of(receipt.id)).await.unwrap().pop().unwrap();
            self.noted(receipt.id, note);
        }
    }

    fn change(&self, what: What) -> Change {
        match what {
            What::Cancel => Change::Cancel { message: Some("stop".into()) },
            What::Delete => Change::Delete,
            What::Due(offset) => {
                let due_at = Some(self.now().saturating_add_signed(offset));
                Change::Update(Update { due_at, ..Update::default() })
            }
            What::Payload(byte) => Change::Update(Update { payload: Some([byte].into()), ..Update::default() }),
            What::Expire => Change::Expire,
            What::Retry => Change::Retry,
        }
    }

    async fn edit(&mut self, edit: Edit) {
        let (mut edited, notes) = self.broker.edit(vec![edit.clone()]).await.unwrap();
        let (now, mono) = (self.now(), self.clock.mono());
        let truth = self.truths.get_mut(&edit.id).unwrap();
        if !truth.held {
            if truth.noted.is_some() {
                assert!(matches!(edited[0], Edited::Unfit { state, .. } if !state.is_live()), "{edited:?}");
            } else {
                assert_eq!(edited, [Edited::Unknown]);
                self.buried_until.insert(edit.id, mono + UNSEEN_MS_MAX);
                self.unseen.push(Unseen { edit, since: mono });
            }
            return assert!(notes.is_empty());
        }
        let expected = rules::edit(&mut truth.job, edit.version, &edit.change, now);
        assert_eq!(edited.remove(0), expected);
        let is_changed = matches!(expected, Edited::Changed(_));
        assert_eq!(notes.len(), usize::from(is_changed || matches!(expected, Edited::CancelAsked(_))));
        if is_changed {
            truth.removed = matches!(edit.change, Change::Delete);
            truth.held = truth.job.is_pending() && !truth.removed;
        }
        for note in notes {
            if matches!(edit.change, Change::Update(_)) {
                assert!(matches!(note, Note::Rewritten(_)));
            }
            self.noted(edit.id, note);
        }
    }

    /// A verb answered this note of a job as it is now.
    fn noted(&mut self, id: JobId, note: Note) {
        let truth = self.truths.get_mut(&id).unwrap();
        assert_eq!(*note.job(), truth.job);
        if truth.job.stage != Stage::Pending {
            truth.held = false;
        }
        let was_full = truth.noted.as_ref().is_some_and(|(_, full)| *full);
        let is_full = match &note {
            Note::Changed(_) => {
                assert!(!was_full, "payload and tags are still to be recorded");
                false
            }
            Note::Rewritten(_) => true,
            Note::Moved(..) | Note::Removed(_) => was_full,
        };
        truth.noted = Some((note.clone(), is_full));
        self.unrecorded.push(note);
    }

    /// The ledger records a note; the higher version wins.
    fn record(&mut self, note: Note) {
        let (id, version) = (note.job().id, note.job().version);
        if self.rows.get(&id).is_some_and(|row| row.version < version) {
            let old = self.rows.remove(&id).unwrap();
            match note {
                Note::Removed(_) => {}
                Note::Rewritten(job) => drop(self.rows.insert(id, job)),
                Note::Changed(job) => {
                    self.rows.insert(id, Job { payload: old.payload, tags: old.tags, ..job });
                }
                Note::Moved(job, copy) => {
                    self.rows.insert(id, job);
                    self.create(*copy);
                }
            }
        }
        self.recorded.push(vec![(id, version)]);
    }

    /// The ledger makes an edit that the broker did not know the job of.
    fn ledger_edit(&mut self, edit: &Edit) {
        let now = self.now();
        let mut version = 0;
        if let Some(mut row) = self.rows.get(&edit.id).cloned() {
            let retried_key = Job { stage: Stage::Pending, started_at: None, ..row.clone() };
            let is_free = !matches!(edit.change, Change::Retry) || self.live_holder(&retried_key).is_none();
            let truth = self.truths.get_mut(&edit.id).unwrap();
            assert!(!truth.held, "a tombstone kept it out");
            if is_free && matches!(rules::edit(&mut row, edit.version, &edit.change, now), Edited::Changed(_)) {
                truth.job = row.clone();
                truth.removed = matches!(edit.change, Change::Delete);
                if truth.removed {
                    self.rows.remove(&edit.id)
                } else {
                    self.rows.insert(edit.id, row.clone())
                };
            }
            version = row.version;
        }
        self.answered.push((edit.id, version));
    }

    async fn forget(&mut self, batch: usize) {
        if batch % 2 == 0 && !self.answered.is_empty() {
            let answer = self.answered.remove(batch % self.answered.len());
            self.recorded.push(vec![answer]);
            return;
        }
        if self.recorded.is_empty() {
            return;
        }
        let noted = self.recorded.swap_remove(batch % self.recorded.len());
        let frontier = self.now() + HORIZON_MS;
        self.broker.forget(&noted, frontier).await.unwrap();
        for (id, version) in noted {
            let truth = self.truths.get_mut(&id).unwrap();
            truth.noted.take_if(|(note, _)| note.job().version <= version);
            if truth.held && truth.lease.is_none() && truth.job.version == version && truth.job.due_at >= frontier {
                truth.held = false;
            }
        }
    }

    async fn expired(&mut self, limit: usize, acts: bool) {
        let (now, mono) = (self.now(), self.clock.mono());
        let expired = self.broker.expired(limit).await.unwrap();
        let over = |t: &&Truth| t.lease.as_ref().is_some_and(|run| run.tell_at() <= mono);
        assert_eq!(expired.crashed.len(), limit.min(self.truths.values().filter(over).count()));
        for job in &expired.crashed {
            let truth = self.truths.get_mut(&job.id).unwrap();
            assert!(over(&&*truth) && truth.job == *job);
            truth.lease.as_mut().unwrap().told = Some(mono);
        }
        let late = |t: &&Truth| t.held && t.job.start_by().is_some_and(|by| by <= now);
        assert_eq!(expired.unstarted.len(), limit.min(self.truths.values().filter(late).count()));
        for job in &expired.unstarted {
            assert!(late(&&self.truths[&job.id]) && self.truths[&job.id].job == *job);
        }
        let next_lease = self.truths.values().filter_map(|t| t.lease.as_ref()).map(|run| run.tell_at()).min();
        let next_start = self.truths.values().filter(|t| t.held).filter_map(|t| t.job.start_by()).min();
        let ms = [next_lease.map(|at| at.saturating_sub(mono)), next_start.map(|at| at.saturating_sub(now))];
        match ms.into_iter().flatten().min() {
            Some(ms) => assert!(expired.next_ms.is_some_and(|next_ms| next_ms <= ms)),
            None => assert_eq!(expired.next_ms, None),
        }
        if acts {
            for job in expired.crashed {
                self.settle(job.receipt(), rules::after_crash(&job, &Default::default(), now, None)).await;
            }
            for job in expired.unstarted {
                self.edit(Edit { version: Some(job.version), ..edit(job.id, Change::Expire) }).await;
            }
        }
    }

    /// The process ends when all is recorded, leases too, and begins again.
    async fn restart(&mut self) {
        self.finish().await;
        self.broker = fresh(&self.clock, &self.woken);
        self.reads.clear();
        self.requests.clear();
        self.paused.clear();
        self.buried_until.clear();
        self.look_everywhere(Some(0));
        let (now, mono) = (self.now(), self.clock.mono());
        for truth in self.truths.values_mut().filter(|t| t.held) {
            self.rows.insert(truth.job.id, truth.job.clone());
            assert_eq!(self.broker.put(vec![truth.job.clone()], now).await.unwrap(), [Put::Held]);
            if let (Some(run), Some(until)) = (&mut truth.lease, truth.job.lease_until) {
                run.ends = mono + until.saturating_sub(now).min(LEASE_MS_MAX);
                run.lease_ms = until.saturating_sub(truth.job.started_at.unwrap()).min(LEASE_MS_MAX);
                run.told = None;
            }
        }
    }

    /// Once the ledger has recorded everything, it knows every job as it is.
    pub(crate) async fn finish(&mut self) {
        for unseen in std::mem::take(&mut self.unseen) {
            self.ledger_edit(&unseen.edit);
        }
        self.unrecorded.extend(self.broker.outcomes(Outcomes::Oldest { limit: usize::MAX, age_ms: 0 }).await.unwrap());
        while let Some(note) = self.unrecorded.pop() {
            self.record(note);
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

    /// What holds after every operation.
    pub(crate) async fn check(&self) {
        let now = self.now();
        let queues = QUEUES.map(Arc::from);
        for (queue, counts) in self.broker.counts(Some(&queues)).await.unwrap() {
            let held: Vec<_> =
                self.truths.values().filter(|t| t.held && t.job.queue == queue).map(|t| t.job.clone()).collect();
            let count = |state| held.iter().filter(|job| job.state(now) == state).count() as u64;
            assert_eq!(
                (counts.scheduled, counts.ready, counts.running, counts.paused),
                (count(State::Scheduled), count(State::Ready), count(State::Running), self.paused.contains(&queue))
            );
            let mut listed = held.clone();
            listed.sort_by_key(|job| (job.due_at, job.id));
            assert_eq!(self.broker.list(listing(&queue)).await.unwrap(), listed);
            let mut keys: Vec<_> = held.iter().filter_map(Job::live_key).collect();
            keys.sort();
            assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "a key has one holder");
            let first = self.waiting(&queue).map(|job| job.due_at.max(now)).min();
            if let Some(first) = first.filter(|_| !self.paused.contains(&queue)) {
                let looks = self.looks[&queue];
                assert!(looks.is_some_and(|at| at <= first), "nobody looks at {first}, but at {looks:?}");
            }
        }
        for (&id, truth) in &self.truths {
            let known = truth.held || (truth.noted.is_some() && !truth.removed);
            assert_eq!(self.broker.get(&[id]).await.unwrap()[0].as_ref(), known.then_some(&truth.job));
        }
        assert_eq!(self.broker.backlog(), self.truths.values().filter(|t| t.noted.is_some()).count());
    }

    fn any_job(&self, n: usize) -> Option<JobId> {
        self.truths.keys().nth(n.checked_rem(self.truths.len())?).copied()
    }
}

impl Run {
    fn tell_at(&self) -> Millis {
        self.told.map_or(self.ends, |told| told + TOLD_AGAIN_MS)
    }
}

fn fresh(clock: &Arc<ManualClock>, woken: &Arc<Mutex<Vec<Arc<str>>>>) -> Arc<dyn Broker> {
    let broker = Memory::new(clock.clone());
    let woken = woken.clone();
    broker.watch(Arc::new(move |queue| woken.lock().unwrap().push(queue.clone())));
    Arc::new(broker)
}

fn pick<T>(things: &[T], n: usize) -> Option<&T> {
    things.get(n.checked_rem(things.len())?)
}
