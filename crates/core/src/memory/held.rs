//! What the memory broker holds, and the moves of a job between its structures. Each verb of the broker is made of
//! these moves, under one lock.

use super::live::{Live, Place, Run};
use super::names::Names;
use super::outbox::Outbox;
use super::queue::{Entered, Queue};
use super::requests::Requests;
use super::tombs::{Tomb, Tombs};
use crate::clock::{Clock, Millis};
use crate::id::JobId;
use crate::job::Job;
use crate::limits::LEASE_MS_MAX;
use crate::ports::{Broker, Note, Put};
use crate::wheel::Wheel;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Above so many queues, idle ones are looked for and dropped each time their number has doubled.
const QUEUES_KEPT: usize = 1_000;

/// Both clocks, read once for each call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) wall: Millis,
    pub(super) mono: Millis,
}

impl Now {
    pub(super) fn of(clock: &dyn Clock) -> Self {
        Self { wall: clock.wall(), mono: clock.mono() }
    }
}

#[derive(Debug)]
pub(super) struct Held {
    pub(super) live: HashMap<JobId, Box<Live>>,
    pub(super) queues: BTreeMap<Arc<str>, Queue>,
    queues_max: usize,
    /// Lease ends, by the monotonic clock.
    pub(super) leases: Wheel<JobId>,
    /// From when waiting jobs may no longer start, by the wall clock.
    pub(super) start_by: BTreeSet<(Millis, JobId)>,
    /// Held keys by queue and key.
    keys: HashMap<(Arc<str>, Arc<str>), JobId>,
    pub(super) tombs: Tombs,
    pub(super) outbox: Outbox,
    pub(super) requests: Requests,
    names: Names,
    /// Queues of which somebody is to be told once the lock is open again.
    pub(super) to_wake: Vec<Arc<str>>,
}

impl Held {
    pub(super) fn new(mono: Millis) -> Self {
        Self {
            live: HashMap::new(),
            queues: BTreeMap::new(),
            queues_max: QUEUES_KEPT,
            leases: Wheel::new(mono),
            start_by: BTreeSet::new(),
            keys: HashMap::new(),
            tombs: Tombs::default(),
            outbox: Outbox::default(),
            requests: Requests::default(),
            names: Names::default(),
            to_wake: Vec::new(),
        }
    }

    pub(super) fn put(&mut self, job: Job, read_at: Millis, now: Now) -> Put {
        if now.wall.saturating_sub(read_at) > <dyn Broker>::READ_AGE_MS_MAX {
            return Put::Stale;
        }
        let noted = self.outbox.get(job.id).map(|note| note.job().version);
        let known = self.tombs.get(job.id).map(|tomb| tomb.version).max(noted);
        if known.is_some_and(|version| version > job.version) && !self.live.contains_key(&job.id) {
            return Put::Buried;
        }
        if let Some(holder) = self.key_holder(&job).filter(|&holder| holder != job.id) {
            return Put::KeyHeld(holder);
        }
        match self.live.get(&job.id) {
            Some(live) if live.version >= job.version || live.run().is_some() => return Put::Held,
            Some(_) => drop(self.remove(job.id)),
            None => {}
        }
        self.insert(job, now);
        Put::Held
    }

    fn key_holder(&self, job: &Job) -> Option<JobId> {
        let key = job.live_key()?;
        self.keys.get(&(job.queue.clone(), key.clone())).copied()
    }

    /// Holds a job that is not held: running where it has a lease, else waiting.
    pub(super) fn insert(&mut self, job: Job, now: Now) {
        let id = job.id;
        if let Some(key) = job.live_key() {
            self.keys.insert((job.queue.clone(), key.clone()), id);
        }
        if let Some(start_by) = job.start_by() {
            self.start_by.insert((start_by, id));
        }
        let rank = (job.priority, job.due_at, id);
        let queue = self.queue_mut(&job.queue, now);
        let place = if let Some(lease_until) = job.lease_until {
            queue.running.insert(id);
            // What is left by the wall clock, from here on by the monotonic one.
            let left_ms = lease_until.saturating_sub(now.wall).min(LEASE_MS_MAX);
            let handle = self.leases.insert(now.mono + left_ms, id);
            let started_at = job.started_at.unwrap_or(now.wall);
            let lease_ms = lease_until.saturating_sub(started_at).min(LEASE_MS_MAX);
            Place::Running(Box::new(Run { handle, lease_until, lease_ms, started_at }))
        } else {
            let is_sooner = queue.look_at.is_none_or(|look_at| rank.1 < look_at);
            let place = match queue.enter(rank, now.wall) {
                Entered::Scheduled(handle) => Place::Scheduled(handle),
                Entered::HeldBack => Place::HeldBack,
                Entered::Ready => Place::Ready,
            };
            if is_sooner {
                queue.look_at = Some(rank.1);
                self.to_wake.push(job.queue.clone());
            }
            place
        };
        let live = Live::pack(job, place, &mut self.names);
        self.live.insert(id, Box::new(live));
    }

    /// Lets go of a job, and answers it as it was.
    pub(super) fn remove(&mut self, id: JobId) -> Option<Job> {
        let live = self.live.remove(&id)?;
        let job = live.unpack(id);
        self.leave(id, &live);
        if live.is_indexed() {
            self.leave_indexes(&job);
        }
        Some(job)
    }

    /// Takes a job out of where it is held.
    fn leave(&mut self, id: JobId, live: &Live) {
        let queue = self.queues.get_mut(&live.queue).expect("a live job's queue exists");
        match &live.place {
            Place::Scheduled(handle) => drop(queue.wheel.cancel(*handle)),
            Place::HeldBack => drop(queue.held_back.remove(&(live.due_at, id))),
            Place::Ready => drop(queue.ready.remove(&(live.priority, live.due_at, id))),
            Place::Overdue => {}
            Place::Running(run) => {
                queue.running.remove(&id);
                self.leases.cancel(run.handle);
            }
        }
    }

    fn leave_indexes(&mut self, job: &Job) {
        if let Some(key) = job.live_key() {
            self.keys.remove(&(job.queue.clone(), key.clone()));
        }
        if let Some(start_by) = job.start_by() {
            self.start_by.remove(&(start_by, job.id));
        }
    }

    /// Leases a job that is in its queue's `ready` (or nowhere), and answers it.
    pub(super) fn start(&mut self, id: JobId, lease_ms: u64, now: Now) -> Option<Job> {
        let live = self.live.get_mut(&id)?;
        let queue = self.queues.get_mut(&live.queue).expect("a live job's queue exists");
        queue.running.insert(id);
        let indexed = live.is_indexed().then(|| live.unpack(id));
        let lease_until = now.wall + lease_ms;
        live.version = crate::id::next_number(live.version, now.wall);
        live.epoch = crate::id::next_number(live.epoch, now.wall);
        live.attempt = live.attempt.saturating_add(1);
        let handle = self.leases.insert(now.mono + lease_ms, id);
        live.place = Place::Running(Box::new(Run { handle, lease_until, lease_ms, started_at: now.wall }));
        let job = live.unpack(id);
        if let Some(before) = indexed {
            self.leave_indexes(&before);
            if let Some(key) = job.live_key() {
                self.keys.insert((job.queue.clone(), key.clone()), id);
            }
        }
        Some(job)
    }

    /// A lease of a job with a note in the outbox goes there too, lest the ledger takes it for newer than the note.
    pub(super) fn note_lease(&mut self, job: &Job, now: Now) -> Option<Note> {
        self.outbox.get(job.id)?;
        self.outbox.add(Note::Changed(job.clone()), now.mono);
        self.outbox.get(job.id).cloned()
    }

    /// Ends a job here: its tombstone stays, and the note is in the outbox.
    pub(super) fn end(&mut self, note: Note, now: Now) {
        let job = note.job();
        let tomb = Tomb { version: job.version, end: Some((job.epoch, job.stage)) };
        self.tombs.add(job.id, tomb, now.mono);
        self.outbox.add(note, now.mono);
    }

    /// The ledger has the job in this version.
    pub(super) fn forget(&mut self, id: JobId, version: u64, frontier: Millis) {
        self.outbox.forget(id, version);
        self.tombs.resolve(id, version);
        let is_beyond = |live: &Live| live.due_at >= frontier && live.version == version && live.run().is_none();
        if self.live.get(&id).is_some_and(|live| is_beyond(live)) {
            self.remove(id);
        }
    }

    /// Moves what has become due to ready, at most `limit` jobs; answers whether there is more.
    pub(super) fn advance(&mut self, queue: &Arc<str>, now: Now, limit: usize) -> bool {
        let Some(entry) = self.queues.get_mut(queue) else { return false };
        let mut became_ready = Vec::new();
        let more = entry.advance(now.wall, limit, |id| became_ready.push(id));
        for id in became_ready {
            let live = self.live.get_mut(&id).expect("what waits is live");
            live.place = Place::Ready;
            entry.ready.insert((live.priority, live.due_at, id));
        }
        more
    }

    pub(super) fn queue_mut(&mut self, name: &Arc<str>, now: Now) -> &mut Queue {
        if !self.queues.contains_key(name) {
            if self.queues.len() >= self.queues_max {
                self.queues.retain(|_, queue| !queue.is_idle());
                self.queues_max = QUEUES_KEPT.max(2 * self.queues.len());
            }
            let name = self.names.share(name);
            self.queues.insert(name, Queue::new(now.wall));
        }
        self.queues.get_mut(name).expect("it was just inserted")
    }
}
