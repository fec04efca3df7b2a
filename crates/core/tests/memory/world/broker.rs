//! Operations of workers and users on the broker.

use super::{ModelLease, NUMBERS, REQUEST_MS, Truth, Unseen, World, pick};
use crate::memory::random::{How, What};
use duetime_core::api::Span;
use duetime_core::json::Timestamp;
use duetime_core::limits::LEASE_MS_DEFAULT;
use duetime_core::model::retry::Retry;
use duetime_core::ports::{
    Broker, Change, Edit, Edited, Extend, Extended, HandOut, Lease, LeaseRecord, OutboxEntry, Outcomes, Pick, Reserve,
    Reserved, Settle, Source, Take, Taken, Update, Window,
};
use duetime_core::rules::{self, Again, Decision, Finish, Release};
use duetime_core::testing::fixtures::{due, edit, finish, success};
use duetime_core::{Clock, Job, JobId, JobRef, Progress, Receipt, Stage, State};
use std::collections::BTreeMap;
use std::sync::Arc;

impl World {
    /// Jobs of a queue that wait in the broker and may start.
    pub(super) fn waiting(&self, queue: &str) -> impl Iterator<Item = &Job> {
        let now = self.now();
        let held = self.truths.values().filter(|t| t.held && t.lease.is_none()).map(|t| &t.job);
        held.filter(move |job| &*job.queue == queue && job.start_by().is_none_or(|by| by > now))
    }

    async fn ask(&self, asked: HandOut<'_>) -> Taken {
        match asked {
            HandOut::Reserve(reserve) => {
                Taken { reserved: self.broker.reserve(reserve.clone()).await.unwrap(), repeats: Vec::new() }
            }
            HandOut::Take(take) => self.broker.take(take.clone()).await.unwrap(),
        }
    }

    pub(super) async fn hand_out(&mut self, asked: HandOut<'_>, request: Option<u8>) {
        let (now, mono, takes) = (self.now(), self.clock.mono(), asked.takes());
        let taken = self.ask(asked).await;
        if let Some((_, got)) = request.and_then(|n| self.requests.get(&n)).filter(|(until, _)| *until > mono) {
            return self.check_repeat(got, takes, &taken);
        }
        let reserved = taken.reserved;
        let queues = asked.queues().unwrap();
        let open: Vec<_> = queues.iter().filter(|queue| !self.limits_of(queue).paused).cloned().collect();
        let mut expected: Vec<JobId> = Vec::new();
        for queue in &open {
            let begun = expected.iter().filter(|id| self.truths[*id].job.queue == *queue).count();
            let room = self.room(queue, takes).saturating_sub(if takes { 0 } else { begun });
            let window = asked.window().from..=asked.window().to;
            let mut due: Vec<_> =
                self.waiting(queue).filter(|j| j.due_at.0 <= now && window.contains(&j.due_at.0)).collect();
            due.sort_by_key(|job| (job.priority, job.due_at, job.id));
            due.retain(|job| !expected.contains(&job.id));
            due.truncate(room.min(asked.limit() - expected.len()));
            let new: Vec<_> = due.into_iter().map(|job| job.id).collect();
            expected.extend(new);
        }
        assert_eq!(reserved.leases.iter().map(|lease| lease.job.id).collect::<Vec<_>>(), expected);
        let got = self.lease(asked, &reserved);
        if let Some(n) = request.filter(|_| !reserved.leases.is_empty()) {
            self.requests.insert(n, (mono + REQUEST_MS, got));
        }
        // Among jobs that are already due, the due time does not matter.
        let has_room = |queue: &&Arc<str>| self.room(queue, takes) > 0;
        let first = open
            .iter()
            .filter(has_room)
            .flat_map(|queue| self.waiting(queue))
            .map(|job| job.due_at.max(Timestamp(now)))
            .min();
        match first {
            Some(first) => assert!(reserved.next_at.is_some_and(|at| at <= first.0), "{:?} {first}", reserved.next_at),
            // Jobs that may no longer start are skipped at the first look.
            None if asked.window() == Window::ALL && reserved.leases.len() < asked.limit() => {
                assert_eq!(reserved.next_at, None);
            }
            None => {}
        }
        if reserved.leases.len() < asked.limit() {
            self.looks.extend(open.into_iter().map(|queue| (queue, reserved.next_at)));
        }
    }

    /// Checks the leases, and makes them true.
    fn lease(&mut self, asked: HandOut<'_>, reserved: &Reserved) -> Vec<Receipt> {
        let (now, mono, takes) = (self.now(), self.clock.mono(), asked.takes());
        let mut entries = reserved.entries.iter();
        for Lease { job, length: Span(lease_ms) } in &reserved.leases {
            let truth = self.truths.get_mut(&job.id).unwrap();
            assert_eq!(*lease_ms, asked.lease_ms().or(job.lease.map(|span| span.0)).unwrap_or(LEASE_MS_DEFAULT));
            rules::lease(&mut truth.job, now + lease_ms, now, NUMBERS);
            let receipt = truth.job.receipt();
            assert!(!self.receipts.contains(&receipt), "epochs never repeat");
            self.receipts.push(receipt);
            truth.lease =
                Some(ModelLease { ends: mono + lease_ms, lease_ms: *lease_ms, given_ms: *lease_ms, told: None, takes });
            if let Some((known, _)) = &truth.noted {
                let entry = entries.next().unwrap().clone();
                if takes {
                    assert_eq!(entry.job(), known.job());
                } else {
                    self.noted(job.id, entry);
                }
            }
            assert_eq!(*job, self.truths[&job.id].job);
        }
        assert!(entries.next().is_none());
        reserved.leases.iter().map(|lease| lease.job.receipt()).collect()
    }

    pub(super) fn check_repeat(&self, got: &[Receipt], takes: bool, taken: &Taken) {
        let jobs: Vec<_> = taken.reserved.leases.iter().map(|lease| &lease.job).collect();
        if takes {
            return assert_eq!((jobs, &*taken.repeats), (vec![], got));
        }
        let truths = got.iter().map(|receipt| (&self.truths[&receipt.id], receipt));
        let live = truths
            .filter(|(t, receipt)| t.lease.as_ref().is_some_and(|run| !run.takes) && t.job.epoch == receipt.epoch);
        assert_eq!(jobs, live.map(|(t, _)| &t.job).collect::<Vec<_>>());
    }

    pub(super) async fn named(&mut self, jobs: &[usize], right_version: bool, take: bool) {
        let mut ids: Vec<_> = jobs.iter().filter_map(|&job| self.any_job(job)).collect();
        ids.dedup();
        let version = |id| self.truths[&id].job.version + u64::from(!right_version);
        let named = ids.iter().map(|&id| JobRef { id, version: Some(version(id)) }).collect();
        let (to_run, to_take) = (Reserve::new(Pick::Named(Vec::clone(&named)), 10), Take::new(Source::Jobs(named), 10));
        let asked = if take { HandOut::Take(&to_take) } else { HandOut::Reserve(&to_run) };
        let reserved = self.ask(asked).await.reserved;
        let mut begun: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for id in ids {
            let truth = &self.truths[&id];
            let (job, now) = (&truth.job, self.now());
            let begun = begun.entry(job.queue.clone()).or_default();
            let may_start = self.room(&job.queue, take) > if take { 0 } else { *begun }
                && job.state(now) == State::Ready
                && job.start_by().is_none_or(|by| by > now);
            let leased = reserved.leases.iter().any(|lease| lease.job.id == id);
            *begun += usize::from(leased);
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
        self.lease(asked, &reserved);
    }

    pub(super) fn decision(&mut self, id: JobId, how: How) -> Decision {
        let (job, now) = (&self.truths[&id].job, self.now());
        match how {
            How::Success => success(),
            How::Final => finish(Stage::Failed),
            How::Drop => Decision::Finish(Finish { drop: true, ..Finish::new(Stage::Failed) }),
            How::Move => {
                self.last_id += 1;
                let copy = Job { queue: job.queue.clone(), ..due(self.last_id, now) };
                Decision::Finish(Finish { successors: vec![copy], ..Finish::new(Stage::Failed) })
            }
            How::Retry(ms) => Decision::Again(Again {
                due_at: now + ms,
                attempt: job.attempt,
                crashes: job.crashes,
                ..Again::default()
            }),
            How::Release(ms) => rules::after_release(job, &Retry::default(), Release::after(Span(ms)), now, None),
        }
    }

    pub(super) async fn settle(&mut self, receipt: Receipt, decision: Decision) {
        let settled = self.broker.settle(vec![Settle::new(receipt, decision.clone())]).await.unwrap();
        let now = self.now();
        let truth = self.truths.get_mut(&receipt.id).unwrap();
        if truth.lease.is_some() && truth.job.epoch == receipt.epoch {
            let drops = rules::apply(&mut truth.job, decision, now, NUMBERS).is_removed;
            truth.lease = None;
            (truth.held, truth.removed) = (truth.job.is_pending(), drops);
            self.ended.extend(truth.job.stage.end_state().map(|state| (receipt, state)));
            assert_eq!(settled.states, [Some(truth.job.state(now))]);
            assert_eq!(settled.entries.len(), 1);
            assert_eq!(settled.entries[0].removes(), drops);
            self.noted(receipt.id, settled.entries.into_iter().next().unwrap());
            return;
        }
        let same_end = match &decision {
            Decision::Finish(finish) => truth.job.epoch == receipt.epoch && truth.job.stage == finish.stage,
            Decision::Again(_) | Decision::Park(..) => false,
        };
        match settled.states[..] {
            [Some(state)] => {
                // It may have been retried by hand since.
                assert!(same_end || self.ended.contains(&(receipt, state)));
                assert!(settled.entries.len() <= 1);
            }
            [None] => assert!(!(same_end && truth.noted.is_some()), "the end is in the outbox"),
            _ => panic!("{settled:?}"),
        }
    }

    pub(super) async fn extend(&mut self, receipt: usize, lease_ms: Option<u64>) {
        let Some(&receipt) = pick(&self.receipts, receipt) else { return };
        let progress = lease_ms.filter(|lease_ms| lease_ms % 2 == 1).map(|lease_ms| {
            Arc::new(Progress { percent: (lease_ms % 101) as u8, note: None, at: Timestamp(self.now()) })
        });
        let extend = Extend { receipt, lease_ms, progress: progress.clone() };
        let extended = self.broker.extend(vec![extend]).await.unwrap()[0];
        let (now, mono) = (self.now(), self.clock.mono());
        let truth = self.truths.get_mut(&receipt.id).unwrap();
        let Some(run) = truth.lease.as_mut().filter(|_| truth.job.epoch == receipt.epoch) else {
            return assert_eq!(extended, Extended::Lost);
        };
        let lease_ms = lease_ms.unwrap_or(run.lease_ms);
        (run.ends, run.given_ms, run.told) = (mono + lease_ms, lease_ms, None);
        rules::touch(&mut truth.job, now, NUMBERS);
        truth.job.lease_until = Some(Timestamp(now + lease_ms));
        truth.job.progress = progress.or(truth.job.progress.take());
        let Job { version, cancel_asked, .. } = truth.job;
        let lease = truth.noted.is_none().then(|| LeaseRecord::of(&truth.job));
        assert_eq!(extended, Extended::Until { lease_until: now + lease_ms, version, cancel_asked, lease });
        if truth.noted.is_some() {
            let entry = self.broker.outcomes(Outcomes::Of(receipt.id)).await.unwrap().pop().unwrap();
            self.noted(receipt.id, entry);
        }
    }

    pub(super) fn change(&self, what: What) -> Change {
        match what {
            What::Cancel => Change::cancel(Some("stop".into())),
            What::Delete => Change::Delete,
            What::Due(offset) => {
                let due_at = Some(self.now().saturating_add_signed(offset));
                Change::Update(Update { due_at, ..Update::default() })
            }
            What::Payload(byte) => Change::Update(Update { payload: Some([byte].into()), ..Update::default() }),
            What::Expire => Change::expire(),
            What::Retry => Change::RETRY,
        }
    }

    pub(super) async fn edit(&mut self, edit: Edit) {
        let (mut edited, entries) = self.broker.edit(vec![edit.clone()]).await.unwrap();
        let (now, mono) = (self.now(), self.clock.mono());
        let truth = self.truths.get_mut(&edit.id).unwrap();
        if !truth.held {
            if let Some((noted, _)) = &truth.noted {
                assert_eq!(edited[0], rules::edit_ended(noted.job(), edit.version, &edit.change));
                let [entry] = &entries[..] else { panic!("its end is recorded before it is answered: {entries:?}") };
                return assert_eq!(entry.job(), noted.job());
            }
            assert_eq!((edited, entries.len()), (vec![Edited::Unknown], 0));
            let row = self.rows.get(&edit.id).map(|row| row.version);
            let Some(version) = row.filter(|row| edit.version.is_none_or(|version| version == *row)) else { return };
            assert_eq!(self.broker.bar(&[(edit.id, version)]).await.unwrap(), []);
            self.tombstone_until.insert(edit.id, mono + <dyn Broker>::BARRED_MS);
            return self.unseen.push(Unseen { edit, version, since: mono });
        }
        if truth.lease.as_ref().is_some_and(|run| run.takes) {
            assert_eq!((edited, entries.len()), (vec![Edited::Running(truth.job.clone())], 0));
            return;
        }
        let expected = rules::edit(&mut truth.job, edit.version, &edit.change, now, NUMBERS);
        assert_eq!(edited.remove(0), expected);
        let is_changed = matches!(expected, Edited::Changed(_));
        assert_eq!(entries.len(), usize::from(is_changed || matches!(expected, Edited::CancelAsked(_))));
        if is_changed {
            truth.removed = matches!(edit.change, Change::Delete);
            truth.held = truth.job.is_pending() && !truth.removed;
        }
        for entry in entries {
            if matches!(edit.change, Change::Update(_)) {
                assert!(matches!(entry, OutboxEntry::Rewritten(_)));
            }
            self.noted(edit.id, entry);
        }
    }

    /// A verb returned this entry of a job in its current state.
    pub(super) fn noted(&mut self, id: JobId, entry: OutboxEntry) {
        let truth = self.truths.get_mut(&id).unwrap();
        assert_eq!(*entry.job(), truth.job);
        if truth.job.stage != Stage::Pending {
            truth.held = false;
        }
        let was_full = truth.noted.as_ref().is_some_and(|(_, full)| *full);
        let is_full = match &entry {
            OutboxEntry::Changed(_) => {
                assert!(!was_full, "payload and tags are still to be recorded");
                false
            }
            OutboxEntry::Rewritten(_) => true,
            OutboxEntry::Followed(..) | OutboxEntry::Removed(_) => was_full,
        };
        truth.noted = Some((entry.clone(), is_full));
        self.unrecorded.push(entry);
    }

    pub(super) async fn expired(&mut self, limit: usize, acts: bool) {
        let (now, mono) = (self.now(), self.clock.mono());
        let expired = self.broker.expired(limit).await.unwrap();
        let over = |t: &&Truth| t.lease.as_ref().is_some_and(|run| run.tell_at() <= mono);
        let of_leases: Vec<Job> = expired.crashed.iter().chain(&expired.untaken).cloned().collect();
        assert_eq!(of_leases.len(), limit.min(self.truths.values().filter(over).count()));
        for job in &of_leases {
            let truth = self.truths.get_mut(&job.id).unwrap();
            assert!(over(&&*truth) && truth.job == *job);
            let run = truth.lease.as_mut().unwrap();
            assert_eq!(run.takes, expired.untaken.contains(job));
            run.told = Some(mono);
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
            for job in of_leases {
                self.settle(job.receipt(), rules::after_crash(&job, &Default::default(), now, None)).await;
            }
            for job in expired.unstarted {
                self.edit(Edit { version: Some(job.version), ..edit(job.id, Change::expire()) }).await;
            }
        }
    }
}
