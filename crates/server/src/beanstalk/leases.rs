//! The leases of a connection, each with the deadline of its client.

use super::command::Tube;
use duetime_core::limits::{LEASE_MS_MAX, SECOND_MS};
use duetime_core::model::marks::Marks;
use duetime_core::{Job, JobId, Receipt};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Most jobs that one connection may hold.
pub(super) const HELD_MAX: usize = 10_000;
/// The warning before a deadline: a waiting client gets `DEADLINE_SOON` this long before it.
pub(super) const MARGIN: Duration = Duration::from_secs(1);

/// A job that a connection holds.
#[derive(Clone, Debug)]
pub(super) struct Lease {
    pub(super) receipt: Receipt,
    /// The job's tube.
    pub(super) tube: Tube,
    /// The marks of the job: nobody changes them while it is leased.
    pub(super) marks: Option<Arc<Marks>>,
    pub(super) deadline: Instant,
    /// The time to run, from the reserve or the last touch.
    pub(super) ttr: Duration,
    /// The instant at which the lease, shorter than that, is extended.
    renew_at: Option<Instant>,
}

/// All that one connection holds.
#[derive(Debug, Default)]
pub(super) struct LeaseTable {
    by_id: HashMap<JobId, Lease>,
    deadlines: BTreeSet<(Instant, JobId)>,
    renewals: BTreeSet<(Instant, JobId)>,
}

impl LeaseTable {
    /// Holds a lease of this job, for this time to run from now on.
    pub(super) fn add(&mut self, job: &Job, ttr: Duration, now: Instant) {
        let (receipt, tube, marks) = (job.receipt(), job.queue.clone(), job.options().marks.clone());
        self.put_back(Lease { receipt, tube, marks, deadline: now, ttr, renew_at: None });
        self.touch(job.id, now);
    }

    /// The time to run of a lease begins anew.
    pub(super) fn touch(&mut self, id: JobId, now: Instant) {
        if let Some(lease) = self.remove(id) {
            let deadline = now + lease.ttr;
            self.put_back(Lease { deadline, renew_at: renewal(deadline, now), ..lease });
        }
    }

    /// Holds a lease again that was taken out.
    pub(super) fn put_back(&mut self, lease: Lease) {
        let id = lease.receipt.id;
        self.remove(id);
        self.deadlines.insert((lease.deadline, id));
        self.renewals.extend(lease.renew_at.map(|at| (at, id)));
        self.by_id.insert(id, lease);
    }

    pub(super) fn get(&self, id: JobId) -> Option<&Lease> {
        self.by_id.get(&id)
    }

    pub(super) fn remove(&mut self, id: JobId) -> Option<Lease> {
        let lease = self.by_id.remove(&id)?;
        self.deadlines.remove(&(lease.deadline, id));
        if let Some(at) = lease.renew_at {
            self.renewals.remove(&(at, id));
        }
        Some(lease)
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// The earliest deadline. Jobs past their deadlines are dropped first.
    pub(super) fn soonest(&mut self, now: Instant) -> Option<Instant> {
        loop {
            let &(deadline, id) = self.deadlines.first()?;
            if deadline > now {
                return Some(deadline);
            }
            self.remove(id);
        }
    }

    /// The instant of the next renewal.
    pub(super) fn next_renewal(&self) -> Option<Instant> {
        self.renewals.first().map(|&(at, _)| at)
    }

    /// The leases to renew now, each for this many milliseconds.
    pub(super) fn renew(&mut self, now: Instant) -> Vec<(Receipt, Option<u64>)> {
        let mut due = Vec::new();
        while let Some(&(at, id)) = self.renewals.first()
            && at <= now
        {
            self.renewals.pop_first();
            let Some(lease) = self.by_id.get_mut(&id) else { continue };
            let left = lease.deadline.saturating_duration_since(now);
            due.push((lease.receipt, Some(lease_ms(left))));
            lease.renew_at = renewal(lease.deadline, now);
            self.renewals.extend(lease.renew_at.map(|at| (at, id)));
        }
        due
    }

    pub(super) fn all(&mut self) -> Vec<Receipt> {
        self.deadlines.clear();
        self.renewals.clear();
        self.by_id.drain().map(|(_, lease)| lease.receipt).collect()
    }
}

/// The lease for a time to run: no longer than leases may be.
pub(super) fn lease_ms(ttr: Duration) -> u64 {
    u64::try_from(ttr.as_millis()).unwrap_or(u64::MAX).clamp(SECOND_MS, LEASE_MS_MAX)
}

/// The instant at which a lease that ends before the deadline is renewed.
fn renewal(deadline: Instant, now: Instant) -> Option<Instant> {
    let lease_max = Duration::from_millis(LEASE_MS_MAX);
    (deadline.saturating_duration_since(now) > lease_max).then(|| now + lease_max / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(n: u64) -> Job {
        Job { id: JobId::new(n).unwrap(), epoch: n, ..duetime_core::testing::fixtures::job(n) }
    }

    fn receipt(n: u64) -> Receipt {
        job(n).receipt()
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_time_to_run_is_renewed_up_to_its_deadline() {
        let (mut held, begin) = (LeaseTable::default(), Instant::now());
        let hours = |hours: u64| Duration::from_secs(hours * 3_600);
        held.add(&job(1), hours(20), begin);
        held.add(&job(2), hours(12), begin);
        assert_eq!(held.next_renewal(), Some(begin + hours(6)));
        // A delete that fails holds it as before.
        let lease = held.remove(receipt(1).id).unwrap();
        assert_eq!(held.next_renewal(), None);
        held.put_back(lease);
        assert_eq!(held.renew(begin + hours(6)), [(receipt(1), Some(LEASE_MS_MAX))]);
        assert_eq!(held.renew(begin + hours(12)), [(receipt(1), Some(8 * 3_600_000))]);
        assert_eq!(held.next_renewal(), None);
        assert_eq!(held.soonest(begin + hours(12)), Some(begin + hours(20)));
        assert_eq!((held.len(), held.soonest(begin + hours(20))), (1, None));
    }

    #[tokio::test(start_paused = true)]
    async fn deadlines_come_in_order() {
        let (mut held, begin) = (LeaseTable::default(), Instant::now());
        (1..=3).for_each(|n| held.add(&job(n), Duration::from_secs(10 - n), begin));
        assert_eq!(held.soonest(begin), Some(begin + Duration::from_secs(7)));
        assert_eq!(held.remove(receipt(3).id).unwrap().receipt, receipt(3));
        held.add(&job(2), Duration::from_secs(60), begin);
        assert_eq!(held.soonest(begin), Some(begin + Duration::from_secs(9)));
        assert_eq!(held.all().len(), 2);
    }
}
