//! Operations of the engine and the ledger on the broker.

use super::{HORIZON_MS, QUEUES, Truth, Unseen, World, at, fresh};
use crate::memory::random::Op;
use duetime_core::json::{Span, Timestamp};
use duetime_core::ports::{Broker, Change, Edited, OutboxEntry, Put, Room};
use duetime_core::rules::{self};
use duetime_core::testing::fixtures::due;
use duetime_core::{Clock, Job, JobId, KeyUntil, Millis, Numbers, Stage};

impl World {
    pub(super) async fn push(&mut self, op: Op) {
        let Op::Push { queue, priority, due_in, key, until_started, expires_ms } = op else { unreachable!() };
        self.last_id += 1;
        let now = self.now();
        let job = Job {
            queue: QUEUES[queue].into(),
            priority,
            expires: expires_ms.filter(|ms| ms % 3 == 0).map(Span),
            lease: (priority == 2).then_some(Span(5_000)),
            key: key.filter(|_| due_in % 2 == 0).map(|key| key.to_string().into()),
            key_until: if until_started { KeyUntil::Started } else { KeyUntil::Finished },
            created_at: Timestamp(now),
            updated_at: Timestamp(now),
            ..due(self.last_id, now.saturating_add_signed(due_in))
        };
        if self.live_holder(&job).is_none() {
            self.create(job.clone());
            if job.due_at < Timestamp(now + HORIZON_MS) {
                self.put(job, now).await;
            }
        } else if let Some(holder) = self.holder_in_broker(&job) {
            assert_eq!(self.broker.put(vec![job], at(now), Room::Any).await.unwrap(), [Put::KeyHeld(holder)]);
        }
    }

    /// The ledger records a new job.
    pub(super) fn create(&mut self, job: Job) {
        self.rows.insert(job.id, job.clone());
        self.truths.insert(job.id, Truth { job, held: false, removed: false, lease: None, noted: None });
    }

    pub(super) async fn put(&mut self, job: Job, read_at: Millis) {
        let (now, mono) = (self.now(), self.clock.mono());
        let answer = self.broker.put(vec![job.clone()], at(read_at), Room::Any).await.unwrap()[0];
        let truth = &self.truths[&job.id];
        let may_have_tombstone = self.tombstone_until.get(&job.id).is_some_and(|&until| mono < until);
        let is_barred = |unseen: &Unseen| unseen.edit.id == job.id && unseen.version >= job.version;
        let must_have_tombstone = self.unseen.iter().any(is_barred);
        if now - read_at > <dyn Broker>::READ_AGE_MS_MAX {
            assert_eq!(answer, Put::Stale);
        } else if truth.held {
            assert_eq!(answer, Put::Held);
        } else if must_have_tombstone || truth.removed || truth.job.version > job.version {
            assert_eq!(answer, Put::Tombstone, "what has changed since is not put: {:?}", truth.job);
        } else if answer != Put::Tombstone || !may_have_tombstone {
            let holder = self.holder_in_broker(&job);
            assert_eq!(answer, holder.map_or(Put::Held, Put::KeyHeld));
            self.truths.get_mut(&job.id).unwrap().held = answer == Put::Held;
        }
    }

    pub(super) fn holder_in_broker(&self, job: &Job) -> Option<JobId> {
        self.live_holder(job).filter(|holder| self.truths[holder].held)
    }

    pub(super) fn live_holder(&self, job: &Job) -> Option<JobId> {
        let key = job.live_key()?;
        let holds = |t: &Truth| t.job.queue == job.queue && t.job.live_key() == Some(key) && !t.removed;
        self.truths.iter().find(|(id, t)| **id != job.id && holds(t)).map(|(&id, _)| id)
    }

    /// The ledger records an entry; the higher version wins.
    pub(super) fn record(&mut self, entry: OutboxEntry) {
        let (id, version) = (entry.job().id, entry.job().version);
        if self.rows.get(&id).is_some_and(|row| row.version < version) {
            let old = self.rows.remove(&id).unwrap();
            let (change, successors) = entry.parts();
            match change {
                OutboxEntry::Removed(_) => {}
                OutboxEntry::Rewritten(job) => drop(self.rows.insert(id, job)),
                OutboxEntry::Changed(job) => {
                    self.rows.insert(id, Job { payload: old.payload, tags: old.tags, ..job });
                }
                OutboxEntry::Followed(..) => unreachable!("the change itself"),
            }
            successors.into_iter().for_each(|job| self.create(job));
        }
        self.recorded.push((self.clock.mono(), (id, version)));
    }

    /// The ledger makes an edit if the row still has its version.
    pub(super) fn ledger_edit(&mut self, Unseen { edit, version, .. }: &Unseen) {
        let now = self.now();
        if let Some(mut row) = self.rows.get(&edit.id).filter(|row| row.version == *version).cloned() {
            let retried_key = Job { stage: Stage::Pending, started_at: None, ..row.clone() };
            let is_free = !matches!(edit.change, Change::Retry { .. }) || self.live_holder(&retried_key).is_none();
            let truth = self.truths.get_mut(&edit.id).unwrap();
            assert!(!truth.held, "a tombstone kept it out");
            if is_free && matches!(rules::edit(&mut row, None, &edit.change, now, Numbers::Ledger), Edited::Changed(_))
            {
                // A removed row has its last version; no reading of it may be put any more.
                let version = row.version;
                truth.job = row.clone();
                truth.removed = matches!(edit.change, Change::Delete);
                if truth.removed {
                    self.rows.remove(&edit.id)
                } else {
                    self.rows.insert(edit.id, row.clone())
                };
                self.answered.push((self.clock.mono(), (edit.id, version)));
            }
        }
    }

    pub(super) async fn forget(&mut self, batch: usize) {
        if batch.is_multiple_of(2) && !self.answered.is_empty() {
            let answer = self.answered.remove(batch % self.answered.len());
            self.recorded.push(answer);
            return;
        }
        if self.recorded.is_empty() {
            return;
        }
        let (recorded_at, (id, version)) = self.recorded.swap_remove(batch % self.recorded.len());
        // A caller that is this slow reads the job again.
        if self.clock.mono() - recorded_at >= <dyn Broker>::TOMBSTONE_MS {
            return;
        }
        let watermark = self.now() + HORIZON_MS;
        self.broker.set_watermark(1).await.unwrap();
        assert_eq!(self.broker.forget(&[(id, version)], watermark).await.unwrap(), []);
        let truth = self.truths.get_mut(&id).unwrap();
        truth.noted.take_if(|(entry, _)| entry.job().version <= version);
        if truth.held
            && truth.lease.is_none()
            && truth.job.version == version
            && truth.job.due_at >= Timestamp(watermark)
        {
            truth.held = false;
        }
    }

    /// The process ends when all is recorded, leases too, and begins again.
    pub(super) async fn restart(&mut self) {
        self.finish().await;
        self.broker = fresh(&self.clock, &self.woken);
        self.reads.clear();
        self.requests.clear();
        self.limits.clear();
        self.tombstone_until.clear();
        self.look_everywhere(Some(0));
        let (now, mono) = (self.now(), self.clock.mono());
        for truth in self.truths.values_mut().filter(|t| t.held) {
            self.rows.insert(truth.job.id, truth.job.clone());
            assert_eq!(self.broker.put(vec![truth.job.clone()], at(now), Room::Any).await.unwrap(), [Put::Held]);
            let lease_ms = truth.job.restored_lease_ms();
            truth.job.lease_until = truth.job.restored_until(now).map(Timestamp);
            if let (Some(run), Some(until)) = (&mut truth.lease, truth.job.lease_until) {
                assert!(
                    until <= Timestamp(now + run.given_ms),
                    "no longer than it was, whatever was done to the clock"
                );
                run.ends = mono + until.0.saturating_sub(now);
                (run.lease_ms, run.told, run.takes) = (lease_ms, None, false);
            }
        }
    }
}
