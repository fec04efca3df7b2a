//! The workers that ask this process for jobs under a name, and the leases that they hold.
//!
//! All of it is in memory and bounded. A reserve without a name costs nothing here. Ends of leases cost one read of an
//! atomic while no named worker holds a lease. A lease is noted before its receipt is returned, so nobody settles it
//! earlier.

use crate::api::{HeldLease, Timestamp, WorkerStatus, Workers as Page};
use crate::clock::Millis;
use crate::limits::{HOUR_MS, SECOND_MS};
use crate::model::id::Receipt;
use crate::ports::Lease;
use crate::request::Extension;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most workers that are remembered. Beyond them the tenth that was seen least recently is forgotten.
const WORKERS_MAX: usize = 10_000;
/// Most leases that are remembered. Others are not counted.
const LEASES_MAX: usize = 100_000;
/// How long a worker is remembered after it was last seen.
const SEEN_FOR_MS: u64 = HOUR_MS;
/// Most queues of a worker that are remembered: those that it asked for last.
const QUEUES_MAX: usize = 16;
/// Most leases of a worker that are shown.
const LEASES_SHOWN: usize = 10;
/// How often expired leases are looked for if there is no room for more.
const SWEEP_EVERY_MS: u64 = 10 * SECOND_MS;

/// What the name of a worker begins with that gave none; its address follows.
const UNNAMED: &str = "unnamed@";

/// The name under which a server lists a worker at this address that gives none.
pub fn unnamed(address: impl Display) -> Arc<str> {
    format!("{UNNAMED}{address}").into()
}

#[derive(Debug, Default)]
pub(in crate::engine) struct Workers {
    table: Mutex<Table>,
    /// The number of leases that are noted.
    lease_count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Table {
    since: Millis,
    by_name: BTreeMap<Arc<str>, Worker>,
    holders: HashMap<Receipt, Arc<str>>,
    swept_at: Millis,
    /// No worker is added before this instant.
    full_until: Millis,
}

#[derive(Debug, Default)]
struct Worker {
    places: Vec<Place>,
    leases: HashMap<Receipt, LiveLease>,
}

/// A worker at a queue.
#[derive(Debug)]
struct Place {
    queue: Arc<str>,
    waiting: u32,
    first_seen: Millis,
    last_seen: Millis,
}

#[derive(Debug)]
struct LiveLease {
    queue: Arc<str>,
    until: Millis,
}

impl Workers {
    pub(in crate::engine) fn begin(&self, now: Millis) {
        self.table().since = now;
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes leases that have ended, or are lost.
    pub(in crate::engine) fn ended(&self, receipts: impl Iterator<Item = Receipt>) {
        if self.lease_count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut table = self.table();
        receipts.for_each(|receipt| table.forget(receipt));
        self.lease_count.store(table.holders.len(), Ordering::Relaxed);
    }

    /// Extends leases as these answers say.
    pub(in crate::engine) fn extended<'a>(&self, extensions: impl Iterator<Item = &'a Extension>, now: Millis) {
        if self.lease_count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut table = self.table();
        for extension in extensions {
            table.extend(extension, now);
        }
    }

    /// The worker that holds a lease, if it asked this process under a name.
    pub(in crate::engine) fn holder(&self, receipt: Receipt) -> Option<Arc<str>> {
        self.table().holders.get(&receipt).cloned()
    }

    pub(in crate::engine) fn enter(&self, worker: &Arc<str>, queues: &[Arc<str>], now: Millis) {
        let mut table = self.table();
        if !table.by_name.contains_key(worker) && !table.has_room(now) {
            return;
        }
        let worker = table.by_name.entry(worker.clone()).or_default();
        for queue in queues {
            worker.see(queue, now, |waiting| waiting.saturating_add(1));
        }
    }

    pub(in crate::engine) fn leave(&self, worker: &Arc<str>, queues: &[Arc<str>], now: Millis) {
        let mut table = self.table();
        let Some(worker) = table.by_name.get_mut(worker) else { return };
        for queue in queues {
            if let Some(place) = worker.places.iter_mut().find(|place| place.queue == *queue) {
                (place.waiting, place.last_seen) = (place.waiting.saturating_sub(1), now);
            }
        }
    }

    pub(in crate::engine) fn add_leases(&self, worker: &Arc<str>, leases: &[Lease], now: Millis) {
        let mut table = self.table();
        for lease in leases {
            table.note(worker, lease, now);
        }
        self.lease_count.store(table.holders.len(), Ordering::Relaxed);
    }

    /// The number of workers of each queue: those that wait, and those that have asked since this instant.
    pub(in crate::engine) fn by_queue(&self, since: Millis) -> HashMap<Arc<str>, u64> {
        let mut counts = HashMap::new();
        for place in self.table().by_name.values().flat_map(|worker| &worker.places) {
            if place.waiting > 0 || place.last_seen >= since {
                *counts.entry(place.queue.clone()).or_default() += 1;
            }
        }
        counts
    }

    /// At most `limit` workers, by name, after this name: the parts of them that may be read.
    pub(in crate::engine) fn page(
        &self,
        after: Option<&str>,
        limit: usize,
        may_read: impl Fn(&str) -> bool,
        now: Millis,
    ) -> Page {
        let mut table = self.table();
        table.drop_old(now);
        self.lease_count.store(table.holders.len(), Ordering::Relaxed);
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = table.by_name.range::<str, _>((from, Bound::Unbounded));
        let mut shown = rest.filter_map(|(name, worker)| worker.shown(name, &may_read, now));
        let workers: Vec<WorkerStatus> = shown.by_ref().take(limit).collect();
        let next_cursor = workers.last().filter(|_| shown.next().is_some()).map(|last| last.worker.to_string());
        Page { workers, since: Timestamp(table.since), next_cursor }
    }
}

impl Table {
    /// Whether one more worker may be remembered.
    fn has_room(&mut self, now: Millis) -> bool {
        if self.by_name.len() < WORKERS_MAX {
            return true;
        }
        if now < self.full_until {
            return false;
        }
        self.full_until = now + SWEEP_EVERY_MS;
        self.drop_old(now);
        if self.by_name.len() >= WORKERS_MAX {
            let idle = self.by_name.iter().filter(|(_, worker)| !worker.is_waiting());
            let mut by_age: Vec<_> = idle.map(|(name, worker)| (worker.last_seen(), name.clone())).collect();
            by_age.sort_unstable();
            by_age.truncate(WORKERS_MAX / 10);
            by_age.iter().for_each(|(_, name)| self.remove(name));
        }
        let has_room = self.by_name.len() < WORKERS_MAX;
        if has_room {
            self.full_until = 0;
        }
        has_room
    }

    /// Forgets workers that have not been seen for long.
    fn drop_old(&mut self, now: Millis) {
        let is_old = |worker: &Worker| {
            !worker.is_waiting() && now.saturating_sub(worker.last_seen()) > SEEN_FOR_MS && !worker.holds(now)
        };
        let old: Vec<_> = self.by_name.iter().filter(|(_, worker)| is_old(worker)).collect();
        let old: Vec<Arc<str>> = old.into_iter().map(|(name, _)| name.clone()).collect();
        old.iter().for_each(|name| self.remove(name));
    }

    fn remove(&mut self, name: &Arc<str>) {
        let leases = self.by_name.remove(name).map(|worker| worker.leases).unwrap_or_default();
        leases.keys().for_each(|receipt| drop(self.holders.remove(receipt)));
    }

    fn note(&mut self, worker: &Arc<str>, lease: &Lease, now: Millis) {
        if self.holders.len() >= LEASES_MAX {
            self.sweep(now);
        }
        let (receipt, queue) = (lease.job.receipt(), &lease.job.queue);
        let Some(table) = self.by_name.get_mut(worker).filter(|_| self.holders.len() < LEASES_MAX) else { return };
        // A worker that reserves jobs by id asks for no queue.
        table.see(queue, now, |waiting| waiting);
        let until = lease.job.lease_until.unwrap_or(Timestamp(now));
        table.leases.insert(receipt, LiveLease { queue: queue.clone(), until: until.0 });
        self.holders.insert(receipt, worker.clone());
    }

    /// Forgets leases that are over by now. Their jobs were taken back, or will be.
    fn sweep(&mut self, now: Millis) {
        if now.saturating_sub(self.swept_at) < SWEEP_EVERY_MS {
            return;
        }
        self.swept_at = now;
        for worker in self.by_name.values_mut() {
            worker.leases.retain(|receipt, held| {
                let is_live = held.until > now;
                if !is_live {
                    self.holders.remove(receipt);
                }
                is_live
            });
        }
    }

    fn forget(&mut self, receipt: Receipt) {
        if let Some(worker) = self.holders.remove(&receipt).and_then(|name| self.by_name.get_mut(&name)) {
            worker.leases.remove(&receipt);
        }
    }

    fn extend(&mut self, extension: &Extension, now: Millis) {
        let Some(worker) = self.holders.get(&extension.receipt).and_then(|name| self.by_name.get_mut(name)) else {
            return;
        };
        let Some(held) = worker.leases.get_mut(&extension.receipt) else { return };
        held.until = extension.lease_until.0;
        if let Some(place) = worker.places.iter_mut().find(|place| place.queue == held.queue) {
            place.last_seen = now;
        }
    }
}

impl Worker {
    /// The worker asks for this queue, or got a job of it.
    fn see(&mut self, queue: &Arc<str>, now: Millis, waiting: impl Fn(u32) -> u32) {
        if let Some(place) = self.places.iter_mut().find(|place| place.queue == *queue) {
            (place.waiting, place.last_seen) = (waiting(place.waiting), now);
            return;
        }
        if self.places.len() >= QUEUES_MAX {
            let idle = self.places.iter().enumerate().filter(|(_, place)| place.waiting == 0);
            let Some((oldest, _)) = idle.min_by_key(|(_, place)| place.last_seen) else { return };
            self.places.remove(oldest);
        }
        self.places.push(Place { queue: queue.clone(), waiting: waiting(0), first_seen: now, last_seen: now });
    }

    fn is_waiting(&self) -> bool {
        self.places.iter().any(|place| place.waiting > 0)
    }

    fn holds(&self, now: Millis) -> bool {
        self.leases.values().any(|held| held.until > now)
    }

    fn last_seen(&self) -> Millis {
        self.places.iter().map(|place| place.last_seen).max().unwrap_or_default()
    }

    /// The worker as a caller sees it that may read these queues.
    fn shown(&self, name: &Arc<str>, may_read: &impl Fn(&str) -> bool, now: Millis) -> Option<WorkerStatus> {
        let places: Vec<&Place> = self.places.iter().filter(|place| may_read(&place.queue)).collect();
        let first_seen = places.iter().map(|place| place.first_seen).min()?;
        let last_seen = places.iter().map(|place| place.last_seen).max()?;
        let live = self.leases.iter().filter(|(_, held)| held.until > now && may_read(&held.queue));
        let mut leases: Vec<_> = live.collect();
        let held = leases.len();
        leases.sort_unstable_by_key(|(receipt, held)| (held.until, receipt.id));
        leases.truncate(LEASES_SHOWN);
        let lease = |(receipt, held): (&Receipt, &LiveLease)| HeldLease {
            id: receipt.id,
            queue: held.queue.clone(),
            lease_until: Timestamp(held.until),
        };
        Some(WorkerStatus {
            worker: name.clone(),
            queues: places.iter().map(|place| place.queue.clone()).collect(),
            // A request for several queues waits at each of them.
            waiting: places.iter().map(|place| place.waiting).max().unwrap_or_default(),
            held,
            leases: leases.into_iter().map(lease).collect(),
            first_seen: Timestamp(first_seen),
            last_seen: Timestamp(if places.iter().any(|place| place.waiting > 0) { now } else { last_seen }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Span;
    use crate::model::id::JobId;
    use crate::testing::fixtures::job;

    fn lease(n: u64, until: Millis) -> Lease {
        let mut job = job(n);
        job.lease_until = Some(Timestamp(until));
        Lease { job, length: Span(1) }
    }

    fn name(n: usize) -> Arc<str> {
        format!("worker-{n:06}").into()
    }

    #[test]
    fn the_oldest_are_forgotten_first() {
        let (workers, queues) = (Workers::default(), ["q".into()]);
        for n in 0..WORKERS_MAX {
            workers.enter(&name(n), &queues, n as u64);
            if n > 0 {
                workers.leave(&name(n), &queues, n as u64);
            }
        }
        workers.add_leases(&name(1), &[lease(7, 1 << 40)], 1);
        workers.enter(&name(WORKERS_MAX), &queues, WORKERS_MAX as u64);
        let table = workers.table();
        assert_eq!(table.by_name.len(), WORKERS_MAX - WORKERS_MAX / 10 + 1);
        assert!(table.by_name.contains_key(&name(0)), "it waits");
        assert!(table.by_name.contains_key(&name(WORKERS_MAX)));
        assert!(table.holders.is_empty(), "with their leases");
        assert!(!table.by_name.contains_key(&name(2)));
    }

    #[test]
    fn leases_have_a_bound() {
        let (workers, worker) = (Workers::default(), name(1));
        workers.enter(&worker, &["q".into()], 0);
        for n in 1..=LEASES_MAX as u64 + 1 {
            workers.add_leases(&worker, &[lease(n, 20_000)], 1);
        }
        assert_eq!(workers.table().holders.len(), LEASES_MAX);
        let last = lease(1 << 30, 90_000);
        workers.add_leases(&worker, std::slice::from_ref(&last), 30_000);
        let table = workers.table();
        let receipts: Vec<JobId> = table.holders.keys().map(|receipt| receipt.id).collect();
        assert_eq!(receipts, [last.job.id], "those that are over make room");
        assert_eq!(table.by_name[&worker].leases.len(), 1);
    }

    #[test]
    fn queues_of_a_worker_have_a_bound() {
        let (workers, worker) = (Workers::default(), name(1));
        for n in 0..40 {
            let queues = [format!("q{n}").into()];
            workers.enter(&worker, &queues, n);
            workers.leave(&worker, &queues, n);
        }
        let table = workers.table();
        let queues: Vec<_> = table.by_name[&worker].places.iter().map(|place| place.queue.to_string()).collect();
        assert_eq!(queues, (24..40).map(|n| format!("q{n}")).collect::<Vec<_>>());
    }
}
