//! Leases: extended, settled, expired.

use super::job_table::{JobTable, Now};
use super::live::Whereabouts;
use crate::limits::SECOND_MS;
use crate::model::id::Receipt;
use crate::model::job::State;
use crate::ports::{Expired, Extend, Extended, OutboxEntry, Run, Settle, Settled};
use crate::rules::{self, Decision};

/// An expired lease is returned by `expired` again after this time if nobody settled it.
const EXPIRED_AGAIN_MS: u64 = SECOND_MS;

impl JobTable {
    pub(super) fn extend(&mut self, extend: Extend, now: Now) -> Extended {
        let Extend { receipt, lease_ms, progress } = extend;
        let numbers = self.numbers();
        let Some(live) = self.live.get_mut(receipt.id).filter(|live| live.run_of(receipt).is_some()) else {
            return Extended::Lost;
        };
        let cancel_asked = live.is_cancel_asked();
        let Whereabouts::Running(run) = &mut live.place else { return Extended::Lost };
        let lease_ms = lease_ms.unwrap_or(run.lease_ms);
        self.leases.cancel(run.handle);
        run.handle = self.leases.insert(now.mono + lease_ms, receipt.id);
        run.lease_until = now.wall + lease_ms;
        run.updated_at = now.wall;
        let lease_until = run.lease_until;
        live.version = numbers.after(live.version);
        let version = live.version;
        if progress.is_some() {
            let before = live.bytes();
            live.set_progress(progress);
            self.reweigh(receipt.id, before);
        }
        let live = self.live.get(receipt.id).expect("it was found above");
        let lease = if self.outbox.get(receipt.id).is_some() {
            let job = live.unpack(receipt.id);
            self.lease_entry(&job, now);
            None
        } else {
            live.lease_entry(receipt.id)
        };
        Extended::Until { lease_until, version, cancel_asked, lease }
    }

    pub(super) fn settle(&mut self, settle: Settle, now: Now, settled: &mut Settled) {
        let Settle { receipt, version, read: _, decision } = settle;
        let leased = self.live.get(receipt.id).filter(|live| live.run_of(receipt).is_some());
        let Some(live) = leased else {
            let state = self.settled_before(receipt, &decision, now);
            let noted = self.outbox.get(receipt.id).filter(|_| state.is_some());
            settled.entries.extend(noted.cloned());
            settled.states.push(state);
            settled.runs.push(None);
            return;
        };
        if version.is_some_and(|version| version != live.version) {
            settled.states.push(None);
            settled.runs.push(None);
            return;
        }
        if live.has_follow_ups() && !rules::is_whole(&live.unpack(receipt.id), &decision) {
            settled.undecided.push((settled.states.len(), Settle { receipt, version, read: None, decision }));
            settled.states.push(None);
            settled.runs.push(None);
            return;
        }
        let mut job = self.remove(receipt.id).expect("it was found above");
        debug_assert_eq!(job.receipt(), receipt, "only the holder ends a lease");
        let rewrites = decision.rewrites();
        let remains = rules::apply(&mut job, decision, now.wall, self.numbers());
        settled.runs.push(Some(Run::of(&job)));
        settled.states.push(Some(job.state(now.wall)));
        debug_assert!(job.lease_until.is_none(), "a settle ends the lease");
        if job.is_pending() {
            self.insert(job.clone(), now);
        }
        let entry = match remains.is_removed {
            true => OutboxEntry::Removed(job),
            false if rewrites => OutboxEntry::Rewritten(job),
            false => OutboxEntry::Changed(job),
        };
        settled.entries.push(self.outbox.add(entry.followed_by(remains.successors), now.mono));
    }

    /// A settle that is sent again after its reply was lost gets the same answer.
    fn settled_before(&self, receipt: Receipt, decision: &Decision, now: Now) -> Option<State> {
        let stage = decision.end()?;
        let noted = self.outbox.get(receipt.id).map(|entry| (entry.job().epoch, entry.job().stage));
        let end = noted.or_else(|| self.tombstones.get(receipt.id, now.mono)?.end)?;
        if end == (receipt.epoch, stage) { stage.end_state() } else { None }
    }

    pub(super) fn expired(&mut self, limit: usize, now: Now) -> Expired {
        // Nothing else may be recorded any more.
        self.tombstones.drop_lapsed(limit, now.mono);
        let mut ids = Vec::new();
        let mut more = self.leases.expire(now.mono, limit, |id| ids.push(id));
        let (mut crashed, mut untaken) = (Vec::with_capacity(ids.len()), Vec::new());
        for id in ids {
            let live = self.live.get_mut(id).expect("what is leased is live");
            let Whereabouts::Running(run) = &mut live.place else { unreachable!("what is leased runs") };
            debug_assert!(run.epoch <= live.version, "a lease is no newer than its job");
            run.handle = self.leases.insert(now.mono + EXPIRED_AGAIN_MS, id);
            let of_its_kind = if run.takes { &mut untaken } else { &mut crashed };
            of_its_kind.push(live.unpack(id));
        }
        let mut unstarted = Vec::new();
        for &(start_by, id) in &self.start_by {
            if start_by > now.wall {
                break;
            }
            if unstarted.len() == limit {
                more = true;
                break;
            }
            unstarted.extend(self.live.get(id).map(|live| live.unpack(id)));
        }
        let next_lease = self.leases.next_expiry().map(|at| at.saturating_sub(now.mono));
        let next_start = self.start_by.first().map(|&(at, _)| at.saturating_sub(now.wall));
        let next_ms = if more { Some(0) } else { [next_lease, next_start].into_iter().flatten().min() };
        Expired { crashed, untaken, unstarted, next_ms, is_full: false }
    }
}
