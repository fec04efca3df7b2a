//! The state of the memory broker, and the moves of a job between its structures. Each verb of the broker is made of these
//! moves, under one lock.

use super::by_id::ById;
use super::live::{Live, LiveLease, Whereabouts};
use super::names::Names;
use super::outbox::Outbox;
use super::queue::Queue;
use super::requests::Requests;
use super::tombstones::{DROPPED_MAX, Tombstones};
use super::wheel::Wheel;
use crate::clock::{Clock, Millis};
use crate::model::id::{JobId, Numbers};
use crate::model::job::Job;
use crate::ports::{Beginning, Broker, Limits, OutboxEntry, Put, Room};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

/// For each new queue this many others are checked, and dropped if they are idle.
const QUEUES_LOOKED_AT: usize = 2;
/// Removed queues that are remembered: limits of older settings arrive within moments, if at all.
const REMOVED_MAX: usize = 1_000;
/// Default bound of the memory of live jobs: some two million small ones.
const BYTES_MAX_DEFAULT: u64 = 512 << 20;

/// Both clocks, read once for each step.
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

#[derive(Clone, Debug, Default)]
pub(super) struct JobTable {
    pub(super) live: ById<Box<Live>>,
    pub(super) queues: BTreeMap<Arc<str>, Queue>,
    /// The queue that was last checked for being idle.
    looked_at: Option<Arc<str>>,
    /// Lease ends, by the monotonic clock.
    pub(super) leases: Wheel<JobId>,
    /// The latest start times of waiting jobs, by the wall clock.
    pub(super) start_by: BTreeSet<(Millis, JobId)>,
    /// Held keys by queue and key.
    keys: HashMap<(Arc<str>, Arc<str>), JobId>,
    pub(super) tombstones: Tombstones,
    pub(super) outbox: Outbox,
    /// The generation with which it has begun.
    pub(super) generation: Option<u64>,
    /// Jobs due before this instant are not dropped; `None` until it is set.
    pub(super) watermark: Option<Millis>,
    pub(super) requests: Requests,
    pub(super) names: Names,
    /// The memory of all live jobs.
    bytes: u64,
    /// Of the queues that were removed last, the versions up to which limits change nothing.
    removed: VecDeque<(Arc<str>, u64)>,
    /// Queues whose waiters are woken once the lock is released.
    pub(super) to_wake: Vec<Arc<str>>,
}

impl JobTable {
    pub(super) fn new(mono: Millis) -> Self {
        Self { leases: Wheel::new(mono), ..Self::default() }
    }

    /// The versions that it gives.
    pub(super) fn numbers(&self) -> Numbers {
        Numbers::Generation(self.generation.unwrap_or(0))
    }

    pub(super) fn put(&mut self, job: Job, read_at: Millis, room: Room, now: Now) -> Put {
        // If the clock was set back since, the age of the reading is unknown.
        if now.wall.checked_sub(read_at).is_none_or(|age_ms| age_ms > <dyn Broker>::READ_AGE_MS_MAX) {
            return Put::Stale;
        }
        let live = self.live.get(job.id);
        let is_held = live.is_some();
        if live.is_some_and(|live| live.version >= job.version || live.run().is_some()) {
            return Put::Held;
        }
        if !is_held {
            let noted = self.outbox.get(job.id).map(|entry| entry.job().version);
            let known = self.tombstones.get(job.id, now.mono).map(|tombstone| tombstone.version).max(noted);
            if known.is_some_and(|version| version > job.version) {
                return Put::Tombstone;
            }
        }
        if let Some(holder) = self.key_holder(&job).filter(|&holder| holder != job.id) {
            return Put::KeyHeld(holder);
        }
        if is_held {
            self.remove(job.id);
        } else if let Room::Within(bytes_max) = room
            && self.is_full(&job, bytes_max.unwrap_or(BYTES_MAX_DEFAULT), now.wall)
        {
            return Put::Full;
        }
        let (id, is_bound) = (job.id, !is_held && job.lease_until.is_none());
        self.insert(job, now);
        debug_assert!(
            !is_bound || self.is_within(room, id),
            "what is held is within the bound, but for the job put last"
        );
        Put::Held
    }

    /// Whether, without this job, the memory is within its bound, or the queue within its share.
    fn is_within(&self, room: Room, last: JobId) -> bool {
        let Room::Within(bytes_max) = room else { return true };
        let bytes_max = bytes_max.unwrap_or(BYTES_MAX_DEFAULT);
        let live = self.live.get(last).expect("it was just put");
        let (queue, bytes) = (&self.queues[live.queue()], live.bytes());
        let least = Room::least(bytes_max, self.queues.len() as u64);
        queue.waiting() <= 1 || self.bytes - bytes <= bytes_max || queue.bytes - bytes <= least
    }

    /// Whether the job's queue has no room for one more.
    fn is_full(&self, job: &Job, bytes_max: u64, now: Millis) -> bool {
        let Some(queue) = self.queues.get(&job.queue).filter(|queue| queue.waiting() > 0) else { return false };
        let free = Room::share(bytes_max, job.due_at.0.saturating_sub(now)).saturating_sub(self.bytes);
        job.lease_until.is_none() && queue.bytes >= free.max(Room::least(bytes_max, self.queues.len() as u64))
    }

    /// Drops a waiting job that the ledger has in this version, if its queue takes more than it may.
    pub(super) fn crowd_out(&mut self, id: JobId, version: u64, room: Room, now: Now) -> Option<Job> {
        let Room::Within(bytes_max) = room else { return None };
        let bytes_max = bytes_max.unwrap_or(BYTES_MAX_DEFAULT);
        let live = self.live.get(id).filter(|live| live.version == version && live.run().is_none())?;
        let queue = self.queues.get(live.queue()).filter(|queue| queue.waiting() > 1)?;
        let is_over = self.bytes > bytes_max && queue.bytes > Room::least(bytes_max, self.queues.len() as u64);
        if !is_over || self.outbox.get(id).is_some() {
            return None;
        }
        self.tombstones.add(id, version, None, now.mono);
        self.remove(id)
    }

    /// Updates the memory of a live job that took this many bytes before it was changed.
    pub(super) fn reweigh(&mut self, id: JobId, before: u64) {
        let live = self.live.get(id).expect("the caller changed it");
        let queue = self.queues.get_mut(live.queue()).expect("a live job's queue exists");
        queue.bytes = queue.bytes + live.bytes() - before;
        self.bytes = self.bytes + live.bytes() - before;
    }

    fn key_holder(&self, job: &Job) -> Option<JobId> {
        let key = job.live_key()?;
        self.keys.get(&(job.queue.clone(), key.clone())).copied()
    }

    /// Holds a job that is not held: running if it has a lease, else waiting.
    pub(super) fn insert(&mut self, job: Job, now: Now) {
        let id = job.id;
        debug_assert!(job.is_pending(), "only what has not ended is live");
        debug_assert!(self.live.get(id).is_none(), "a job is held once");
        if let Some(key) = job.live_key() {
            let before = self.keys.insert((job.queue.clone(), key.clone()), id);
            debug_assert!(before.is_none_or(|before| before == id), "a key has one live job");
        }
        if let Some(start_by) = job.start_by() {
            self.start_by.insert((start_by, id));
        }
        let rank = (job.priority, job.due_at.0, id);
        let queue = queue_mut(&mut self.queues, &mut self.looked_at, &job.queue, now);
        let place = if let Some(lease_until) = job.restored_until(now.wall) {
            queue.running.insert(id);
            // The remaining time by the wall clock is measured by the monotonic one from here on.
            let handle = self.leases.insert(now.mono + lease_until.saturating_sub(now.wall), id);
            let started_at = job.started_at.map_or(now.wall, |at| at.0);
            let (epoch, updated_at, lease_ms) = (job.epoch, job.updated_at.0, job.restored_lease_ms());
            let run = LiveLease { handle, epoch, lease_until, lease_ms, started_at, updated_at, takes: false };
            Whereabouts::Running(Box::new(run))
        } else {
            if queue.look_at.is_none_or(|look_at| job.due_at.0 < look_at) {
                queue.look_at = Some(job.due_at.0);
                if self.to_wake.last() != Some(&job.queue) {
                    self.to_wake.push(job.queue.clone());
                }
            }
            queue.enter(rank, now.wall).into()
        };
        let live = Live::pack(job, place, &mut self.names);
        queue.bytes += live.bytes();
        self.bytes += live.bytes();
        self.live.insert(id, Box::new(live));
    }

    /// Removes a job, and returns it as it was.
    pub(super) fn remove(&mut self, id: JobId) -> Option<Job> {
        let live = self.live.remove(id)?;
        let queue = self.queues.get_mut(live.queue()).expect("a live job's queue exists");
        debug_assert!(live.bytes() <= queue.bytes && queue.bytes <= self.bytes, "bytes count what is held");
        queue.bytes -= live.bytes();
        self.bytes -= live.bytes();
        match &live.place {
            Whereabouts::Running(run) => {
                if queue.is_full() {
                    self.to_wake.push(live.queue().clone());
                }
                let ran = queue.running.remove(&id);
                debug_assert!(ran, "what is leased counts as running");
                let lease = self.leases.cancel(run.handle);
                debug_assert_eq!(lease, Some(id), "a lease has its end in the wheel");
            }
            _ => leave(queue, id, &live),
        }
        let is_indexed = live.is_indexed();
        let job = live.into_job(id);
        if is_indexed {
            self.leave_indexes(&job);
        }
        Some(job)
    }

    fn leave_indexes(&mut self, job: &Job) {
        if let Some(key) = job.live_key() {
            self.keys.remove(&(job.queue.clone(), key.clone()));
        }
        if let Some(start_by) = job.start_by() {
            self.start_by.remove(&(start_by, job.id));
        }
    }

    /// Leases a waiting job, and returns it.
    pub(super) fn lease(&mut self, id: JobId, lease_ms: u64, takes: bool, now: Now) -> Job {
        let numbers = self.numbers();
        let live = self.live.get_mut(id).expect("what is picked is live");
        let queue = self.queues.get_mut(live.queue()).expect("a live job's queue exists");
        leave(queue, id, live);
        queue.running.insert(id);
        queue.pass(now.wall);
        let before = live.is_indexed().then(|| live.unpack(id));
        let version_before = live.version;
        live.version = numbers.after(live.version);
        debug_assert!(live.version > version_before, "versions only grow");
        live.attempt = live.attempt.saturating_add(1);
        live.set_progress(None);
        let handle = self.leases.insert(now.mono + lease_ms, id);
        let run = LiveLease {
            handle,
            epoch: live.version,
            lease_until: now.wall + lease_ms,
            lease_ms,
            started_at: now.wall,
            updated_at: now.wall,
            takes,
        };
        live.place = Whereabouts::Running(Box::new(run));
        let job = live.unpack(id);
        debug_assert_eq!(job.receipt().epoch, job.version, "a lease begins with the version that it makes");
        if let Some(before) = before {
            self.leave_indexes(&before);
            if let Some(key) = job.live_key() {
                self.keys.insert((job.queue.clone(), key.clone()), id);
            }
        }
        job
    }

    /// The entry for a lease of a job that has an entry in the outbox: otherwise the ledger would take that entry for older.
    pub(super) fn lease_entry(&mut self, job: &Job, now: Now) -> Option<OutboxEntry> {
        self.outbox.get(job.id)?;
        Some(self.outbox.add(OutboxEntry::Changed(job.clone()), now.mono))
    }

    /// The ledger has the job in this version; returns whether it was dropped since it was here in a lower one.
    pub(super) fn forget(&mut self, id: JobId, version: u64, watermark: Millis, now: Now) -> bool {
        self.tombstones.drop_lapsed(DROPPED_MAX, now.mono);
        let noted = self.outbox.forget(id, version);
        let is_far = |due_at| self.watermark.is_some_and(|own| due_at >= own.max(watermark));
        if let Some(live) = self.live.get(id) {
            let is_outdated = live.version < version;
            if is_outdated || (live.run().is_none() && live.version == version && is_far(live.due_at)) {
                self.remove(id);
                self.tombstones.add(id, version, None, now.mono);
                return is_outdated;
            }
        } else if let Some(entry) = noted {
            let job = entry.job();
            self.tombstones.add(id, job.version, Some((job.epoch, job.stage)), now.mono);
        } else {
            self.tombstones.raise(id, version, now.mono);
        }
        false
    }

    /// Moves due jobs to ready, at most `limit`; returns whether there are more.
    pub(super) fn advance(&mut self, name: &Arc<str>, now: Now, limit: usize) -> bool {
        let Some(queue) = self.queues.get_mut(name) else { return false };
        let (mut due, mut held_back) = (Vec::new(), Vec::new());
        let more = queue.advance(now.wall, limit, |id| due.push(id), |id| held_back.push(id));
        for id in due {
            let live = self.live.get_mut(id).expect("what waits is live");
            debug_assert!(live.run().is_none(), "what waits does not run");
            // An overdue job may no longer be due, since the clock was set back.
            live.place = queue.enter((live.priority, live.due_at, id), now.wall).into();
        }
        for id in held_back {
            self.live.get_mut(id).expect("what waits is live").place = Whereabouts::HeldBack;
        }
        more
    }

    /// Begins with these limits.
    pub(super) fn begin(&mut self, beginning: Beginning, now: Now) {
        for (name, limits, version) in beginning.limits {
            queue_mut(&mut self.queues, &mut self.looked_at, &name, now).begin(limits, version, now.wall);
        }
        debug_assert!(self.generation.is_none_or(|last| last < beginning.generation), "generations only grow");
        self.generation = Some(beginning.generation);
        self.to_wake.extend(self.queues.keys().cloned());
    }

    pub(super) fn limit(&mut self, name: &Arc<str>, limits: Limits, version: u64, now: Now) {
        if self.removed.iter().any(|(queue, removed)| queue == name && version <= *removed) {
            return;
        }
        let queue = queue_mut(&mut self.queues, &mut self.looked_at, name, now);
        if version >= queue.limits_version {
            (queue.limits, queue.limits_version) = (limits, version);
            self.to_wake.push(name.clone());
        }
    }

    /// Removes the limits of a queue, and the queue if it holds no job; returns whether it has removed the queue.
    pub(super) fn remove_queue(&mut self, name: &Arc<str>, version: u64) -> bool {
        if version > 0 {
            let known = self.removed.iter().position(|(queue, _)| queue == name);
            let last = known.and_then(|place| self.removed.remove(place)).map_or(0, |(_, last)| last);
            if self.removed.len() == REMOVED_MAX {
                self.removed.pop_front();
            }
            self.removed.push_back((name.clone(), version.max(last)));
        }
        let Some(queue) = self.queues.get_mut(name) else { return false };
        (queue.limits, queue.limits_version) = (Limits::default(), 0);
        if queue.is_idle() {
            return self.queues.remove(name).is_some();
        }
        self.to_wake.push(name.clone());
        false
    }
}

/// Removes a waiting job from its place in the queue.
fn leave(queue: &mut Queue, id: JobId, live: &Live) {
    match live.place {
        Whereabouts::Scheduled(handle) => {
            let waited = queue.wheel.cancel(handle);
            debug_assert_eq!(waited, Some(id), "what is scheduled is in the wheel");
        }
        Whereabouts::HeldBack => {
            let waited = queue.held_back.remove(&(live.due_at, id));
            debug_assert!(waited, "what is held back is in its list");
        }
        Whereabouts::Ready => {
            let waited = queue.ready.remove(&(live.priority, live.due_at, id));
            debug_assert!(waited, "what is ready is in its order");
        }
        Whereabouts::Overdue(start_by) => {
            let waited = queue.overdue.remove(&(start_by, id));
            debug_assert!(waited, "what is overdue is in its list");
        }
        Whereabouts::Running(_) => unreachable!("a running job does not wait"),
    }
}

/// The queue of this name, created if there is none. The number of queues is unbounded, so each new one pays for a check
/// whether others are idle.
fn queue_mut<'a>(
    queues: &'a mut BTreeMap<Arc<str>, Queue>,
    looked_at: &mut Option<Arc<str>>,
    name: &Arc<str>,
    now: Now,
) -> &'a mut Queue {
    if !queues.contains_key(name) {
        for _ in 0..QUEUES_LOOKED_AT {
            let start = looked_at.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            let next = queues.range::<Arc<str>, _>((start, Bound::Unbounded)).next();
            let next = next.map(|(name, queue)| (name.clone(), queue.is_idle()));
            if let Some((idle, true)) = &next {
                queues.remove(idle);
            }
            *looked_at = next.map(|(name, _)| name);
        }
        queues.insert(name.clone(), Queue::new(now.wall));
    }
    queues.get_mut(name).expect("it was just inserted")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Timestamp;
    use crate::model::progress::Progress;
    use crate::ports::{Change, Edit, Extend};
    use crate::testing::fixtures::{T0, id, job};

    /// The others would take memory without a bound.
    #[test]
    fn the_queues_that_were_removed_last_are_remembered() {
        let (mut table, now) = (JobTable::new(0), Now { wall: T0, mono: 0 });
        let name = |n: usize| Arc::from(format!("q{n}"));
        for n in 0..=REMOVED_MAX {
            table.remove_queue(&name(n), 7);
        }
        // The version only grows, and a queue is remembered once.
        table.remove_queue(&name(REMOVED_MAX), 5);
        assert_eq!(table.removed.len(), REMOVED_MAX);
        let paused = Limits { paused: true, ..Limits::default() };
        for n in [0, 1, REMOVED_MAX] {
            table.limit(&name(n), paused, 7, now);
            assert_eq!(table.queues.contains_key(&*name(n)), n == 0, "{n}");
        }
        table.limit(&name(1), paused, 8, now);
        assert!(table.queues[&*name(1)].limits.paused);
    }

    #[test]
    fn memory_is_counted_to_the_byte() {
        let mut table = JobTable::new(0);
        let now = Now { wall: T0, mono: 0 };
        for n in 1..100 {
            table.insert(
                Job { payload: vec![0; n as usize].into(), queue: format!("q{}", n % 3).into(), ..job(n) },
                now,
            );
        }
        let started = table.lease(id(1), 1_000, false, now);
        let progress = Progress { percent: 1, note: Some("half".into()), at: Timestamp(T0) };
        table.extend(Extend { progress: Some(progress.into()), ..Extend::new(started.receipt(), None) }, now);
        let cancel = Edit { id: id(1), version: None, change: Change::cancel(None) };
        table.edit(&cancel, now, &mut Vec::new());
        let live =
            |table: &JobTable| (1..100).filter_map(|n| table.live.get(id(n))).map(|live| live.bytes()).sum::<u64>();
        let of_queues = |table: &JobTable| table.queues.values().map(|queue| queue.bytes).sum::<u64>();
        assert_eq!((table.bytes, of_queues(&table)), (live(&table), live(&table)));
        for n in 1..100 {
            table.remove(id(n));
            assert_eq!((table.bytes, of_queues(&table)), (live(&table), live(&table)));
        }
        assert_eq!(table.bytes, 0);
    }

    /// The number of names is unbounded: one for each customer, say.
    #[test]
    fn idle_queues_do_not_pile_up() {
        let mut table = JobTable::new(0);
        let now = Now { wall: T0, mono: 0 };
        table.insert(Job { queue: "busy".into(), ..job(1) }, now);
        table.limit(&"paused".into(), Limits { paused: true, ..Limits::default() }, 1, now);
        for n in 2..1_000 {
            table.insert(Job { queue: format!("q{n}").into(), ..job(n) }, now);
            table.remove(id(n));
        }
        assert!(table.queues.len() < 10, "{}", table.queues.len());
        assert!(table.queues.contains_key("busy") && table.queues.contains_key("paused"));
    }
}
