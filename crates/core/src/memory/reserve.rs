//! Handing out.

use super::held::{Held, Now};
use super::live::Place;
use super::requests::Got;
use crate::clock::Millis;
use crate::id::JobId;
use crate::job::{Job, Stage};
use crate::limits::{LEASE_MS_DEFAULT, STEP_JOBS_MAX};
use crate::ports::{Edited, Lease, Named, Note, Reserve, Reserved, Source};
use crate::rules::{self, Decision, Finish};
use std::sync::Arc;

/// The message of a taken job.
const TAKEN: &str = "taken";

impl Held {
    /// One step: `None` where more has become due than a step may move, so that the order is not known yet.
    pub(super) fn reserve(&mut self, reserve: &Reserve, now: Now) -> Option<Reserved> {
        if let Some(got) = reserve.request_id.as_ref().and_then(|id| self.requests.get(id)) {
            return Some(self.again(got.clone()));
        }
        let mut reserved = Reserved::default();
        match &reserve.source {
            Source::Queues(queues) => self.reserve_queues(queues, reserve, now, &mut reserved)?,
            Source::Named(named) => {
                for named in named {
                    self.reserve_named(*named, reserve, now, &mut reserved);
                }
            }
        }
        if let Some(id) = &reserve.request_id {
            let got = if reserve.take {
                Got::Taken(reserved.leases.clone())
            } else {
                Got::Leases(reserved.leases.iter().map(|lease| lease.job.receipt()).collect())
            };
            self.requests.remember(id.clone(), got, now.mono);
        }
        Some(reserved)
    }

    fn again(&self, got: Got) -> Reserved {
        let leases = match got {
            Got::Taken(leases) => leases,
            Got::Leases(receipts) => {
                let live = receipts.iter().filter_map(|receipt| {
                    let live = self.live.get(&receipt.id).filter(|live| live.epoch == receipt.epoch)?;
                    Some(Lease { lease_ms: live.run()?.lease_ms, job: live.unpack(receipt.id) })
                });
                live.collect()
            }
        };
        Reserved { leases, ..Reserved::default() }
    }

    fn reserve_queues(
        &mut self,
        queues: &[Arc<str>],
        reserve: &Reserve,
        now: Now,
        reserved: &mut Reserved,
    ) -> Option<()> {
        for name in queues {
            if self.queues.get(name).is_none_or(|queue| queue.paused) {
                continue;
            }
            if self.advance(name, now, STEP_JOBS_MAX) {
                // What was handed out of earlier queues stays handed out: answer that much.
                return (!reserved.leases.is_empty()).then_some(());
            }
            let wanted = reserve.limit - reserved.leases.len();
            for id in self.pick(name, reserve, wanted, now.wall) {
                self.hand_out(id, reserve, now, reserved);
            }
            let queue = self.queues.get_mut(name).expect("it was found above");
            let next_at = queue.next_at();
            queue.look_at = next_at;
            reserved.next_at = [reserved.next_at, next_at].into_iter().flatten().min();
            if reserved.leases.len() == reserve.limit {
                break;
            }
        }
        Some(())
    }

    /// Takes the most urgent jobs out of `ready`. What may not start any more, or is not due after all since the
    /// clock was set back, is put where it belongs.
    fn pick(&mut self, name: &Arc<str>, reserve: &Reserve, wanted: usize, now: Millis) -> Vec<JobId> {
        let queue = self.queues.get_mut(name).expect("the caller found it");
        let (from, to) = (reserve.window.from, reserve.window.to);
        let mut picked = Vec::new();
        let mut seen = 0;
        while picked.len() < wanted && seen < STEP_JOBS_MAX {
            let mut ranks = Vec::new();
            let room = (wanted - picked.len()).min(STEP_JOBS_MAX - seen);
            queue.ready_by_priority((from, JobId::MIN), to, |rank| {
                let fits = ranks.len() < room;
                if fits {
                    ranks.push(rank);
                }
                fits
            });
            if ranks.is_empty() {
                break;
            }
            seen += ranks.len();
            for rank in ranks {
                let (_, due_at, id) = rank;
                queue.ready.remove(&rank);
                let live = self.live.get_mut(&id).expect("what is ready is live");
                if due_at > now {
                    queue.held_back.insert((due_at, id));
                    live.place = Place::HeldBack;
                } else if live.is_indexed() && live.unpack(id).start_by().is_some_and(|by| by <= now) {
                    live.place = Place::Overdue;
                } else {
                    picked.push(id);
                }
            }
        }
        picked
    }

    fn reserve_named(&mut self, named: Named, reserve: &Reserve, now: Now, reserved: &mut Reserved) {
        let Some(job) = self.live.get(&named.id).map(|live| live.unpack(named.id)) else {
            let ended = self.ended(named.id, now.wall);
            let edited = ended.map_or(Edited::Unknown, |state| Edited::Unfit { id: named.id, state });
            return reserved.refused.push((named.id, edited));
        };
        let paused = self.queues.get(&job.queue).is_some_and(|queue| queue.paused);
        let is_due = job.due_at <= now.wall && (reserve.window.from..=reserve.window.to).contains(&job.due_at);
        let refused = if named.version.is_some_and(|version| version != job.version) {
            Some(Edited::Mismatch(job))
        } else if job.lease_until.is_some() {
            Some(Edited::Running(job))
        } else if paused || !is_due || job.start_by().is_some_and(|by| by <= now.wall) {
            Some(Edited::Unfit { id: job.id, state: job.state(now.wall) })
        } else {
            None
        };
        if let Some(refused) = refused {
            reserved.refused.push((named.id, refused));
        } else if reserved.leases.len() < reserve.limit {
            self.unfile(named.id);
            self.hand_out(named.id, reserve, now, reserved);
        }
    }

    /// Takes a waiting job out of its queue's structures, to be handed out.
    fn unfile(&mut self, id: JobId) {
        let live = self.live.get_mut(&id).expect("the caller found it");
        let queue = self.queues.get_mut(&live.queue).expect("a live job's queue exists");
        match std::mem::replace(&mut live.place, Place::Overdue) {
            Place::Scheduled(handle) => drop(queue.wheel.cancel(handle)),
            Place::HeldBack => drop(queue.held_back.remove(&(live.due_at, id))),
            Place::Ready => drop(queue.ready.remove(&(live.priority, live.due_at, id))),
            Place::Overdue | Place::Running(_) => {}
        }
    }

    fn hand_out(&mut self, id: JobId, reserve: &Reserve, now: Now, reserved: &mut Reserved) {
        let live = self.live.get(&id).expect("what is picked is live");
        let of_queue = || reserve.queue_lease_ms.iter().find(|(queue, _)| *queue == live.queue).map(|&(_, ms)| ms);
        let lease_ms = reserve.lease_ms.or(live.lease_ms()).or_else(of_queue).unwrap_or(LEASE_MS_DEFAULT);
        let mut job = self.start(id, lease_ms, now).expect("what is picked is live");
        if reserve.take {
            self.remove(id);
            finish_taken(&mut job, now.wall);
            let note = Note::Changed(job.clone());
            self.end(note.clone(), now);
            reserved.notes.push(note);
        } else {
            reserved.notes.extend(self.note_lease(&job, now));
        }
        reserved.leases.push(Lease { job, lease_ms });
    }
}

fn finish_taken(job: &mut Job, now: Millis) {
    let finish = Finish { message: Some(Arc::from(TAKEN)), ..Finish::new(Stage::Succeeded) };
    rules::apply(job, Decision::Finish(finish), now);
}
