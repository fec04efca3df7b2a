//! Handing out.

use super::job_table::{JobTable, Now};
use super::live::Whereabouts;
use super::queue::{FIRST, Rank, Walk};
use crate::clock::Millis;
use crate::json::Span;
use crate::limits::{LEASE_MS_DEFAULT, RESERVE_BYTES_MAX, STEP_JOBS_MAX};
use crate::model::id::{JobId, JobRef, Receipt};
use crate::ports::{Edited, HandOut, Lease, Reserved, Taken, Window};
use std::sync::Arc;

/// The queue and the rank at which a reserve goes on if a step did not find anything.
pub(super) type Resume = (usize, Rank);

/// What a reserve has got so far.
#[derive(Default)]
struct Batch {
    reserved: Reserved,
    /// The bytes of its jobs.
    bytes: usize,
}

impl Batch {
    /// Whether it has as many jobs, or as many bytes of them, as one answer may.
    fn is_full(&self, request: HandOut<'_>) -> bool {
        self.reserved.leases.len() == request.limit() || self.bytes > RESERVE_BYTES_MAX
    }
}

impl JobTable {
    /// One step: `None` if there is more to read than a step may, and it found nothing yet.
    pub(super) fn hand_out(&mut self, request: HandOut<'_>, resume: &mut Resume, now: Now) -> Option<Taken> {
        if self.generation.is_none() {
            return Some(Taken::default());
        }
        if let Some(receipts) = request.request_id().and_then(|id| self.requests.get(id, now.mono)) {
            return Some(if request.takes() {
                Taken { repeats: receipts.to_vec(), ..Taken::default() }
            } else {
                Taken { reserved: self.again(receipts), repeats: Vec::new() }
            });
        }
        let mut batch = Batch::default();
        match request.queues() {
            Some(queues) if request.is_merged() => self.most_urgent(queues, request, now, &mut batch)?,
            Some(queues) => self.in_order(queues, request, resume, now, &mut batch)?,
            None => request.named().iter().for_each(|named| self.named(*named, request, now, &mut batch)),
        }
        let Batch { reserved, .. } = batch;
        if let Some(id) = request.request_id() {
            let receipts = reserved.leases.iter().map(|lease| lease.job.receipt()).collect();
            self.requests.remember(id.clone(), receipts, now.mono);
        }
        Some(Taken { reserved, repeats: Vec::new() })
    }

    pub(super) fn next_due(&mut self, name: &str, now: Now) -> Option<Millis> {
        let queue = self.queues.get_mut(name).filter(|queue| self.generation.is_some() && !queue.limits.paused)?;
        queue.free_at(false, now.wall)
    }

    /// The leases of an earlier reserve that have not ended.
    fn again(&self, receipts: &[Receipt]) -> Reserved {
        let live = receipts.iter().filter_map(|receipt| {
            let live = self.live.get(receipt.id)?;
            let run = live.run_of(*receipt).filter(|run| !run.takes)?;
            Some(Lease { job: live.unpack(receipt.id), length: Span(run.lease_ms) })
        });
        Reserved { leases: live.collect(), is_repeat: true, ..Reserved::default() }
    }

    fn in_order(
        &mut self,
        queues: &[Arc<str>],
        request: HandOut<'_>,
        resume: &mut Resume,
        now: Now,
        batch: &mut Batch,
    ) -> Option<()> {
        for (index, name) in queues.iter().enumerate() {
            let Some(queue) = self.queues.get_mut(name).filter(|queue| !queue.limits.paused) else { continue };
            let room = queue.room(request.takes(), now.wall).unwrap_or(0);
            if batch.is_full(request) || room == 0 {
                // Only a hint if there is more. Until then, or until a job has ended, no caller needs to look.
                batch.reserved.next_at = earliest(batch.reserved.next_at, queue.free_at(request.takes(), now.wall));
                queue.look_at = if room == 0 { Some(0) } else { queue.look_at };
                continue;
            }
            let mut more = self.advance(name, now, STEP_JOBS_MAX);
            if !more {
                let start = if resume.0 == index { resume.1 } else { FIRST };
                let wanted = room.min(request.limit() - batch.reserved.leases.len());
                let (picked, rest) = self.pick(name, start, request.window(), wanted, now.wall);
                for id in picked {
                    if batch.is_full(request) {
                        batch.reserved.next_at = Some(now.wall);
                        return Some(());
                    }
                    self.lease_for(id, request, now, batch);
                }
                if rest.is_some() || resume.0 == index {
                    *resume = (index, rest.unwrap_or(FIRST));
                }
                more = rest.is_some();
            }
            if more {
                // Jobs that were handed out stay so: return these.
                batch.reserved.next_at = Some(now.wall);
                return (!batch.reserved.leases.is_empty()).then_some(());
            }
            let queue = self.queues.get_mut(name).expect("it was found above");
            let free_at = queue.free_at(request.takes(), now.wall);
            let is_limited = queue.room(request.takes(), now.wall).is_err();
            queue.look_at = if is_limited { Some(0) } else { free_at };
            batch.reserved.next_at = earliest(batch.reserved.next_at, free_at);
        }
        Some(())
    }

    /// The most urgent jobs of all these queues, one after the other.
    fn most_urgent(&mut self, queues: &[Arc<str>], request: HandOut<'_>, now: Now, batch: &mut Batch) -> Option<()> {
        while !batch.is_full(request) {
            let mut first: Option<Rank> = None;
            for name in queues {
                let Some(queue) = self.queues.get_mut(name).filter(|queue| !queue.limits.paused) else { continue };
                if queue.room(request.takes(), now.wall).unwrap_or(0) == 0 {
                    continue;
                }
                let mut more = self.advance(name, now, STEP_JOBS_MAX);
                if !more {
                    let (picked, rest) = self.pick(name, FIRST, request.window(), 1, now.wall);
                    let rank = picked.first().map(|&id| (id, self.live.get(id).expect("what is picked is live")));
                    let rank = rank.map(|(id, live)| (live.priority, live.due_at, id));
                    first = [first, rank].into_iter().flatten().min();
                    more = rest.is_some();
                }
                if more {
                    batch.reserved.next_at = Some(now.wall);
                    return (!batch.reserved.leases.is_empty()).then_some(());
                }
            }
            let Some((.., id)) = first else { break };
            self.lease_for(id, request, now, batch);
        }
        for name in queues {
            let Some(queue) = self.queues.get_mut(name).filter(|queue| !queue.limits.paused) else { continue };
            let free_at = queue.free_at(request.takes(), now.wall);
            let is_limited = queue.room(request.takes(), now.wall).is_err();
            queue.look_at = if is_limited { Some(0) } else { free_at };
            batch.reserved.next_at = earliest(batch.reserved.next_at, free_at);
        }
        Some(())
    }

    /// The most urgent jobs in `ready` from a rank on, and where to continue if more than a step was to be read. Jobs that
    /// may no longer start are moved to `overdue`.
    fn pick(
        &mut self,
        name: &Arc<str>,
        start: Rank,
        window: Window,
        wanted: usize,
        now: Millis,
    ) -> (Vec<JobId>, Option<Rank>) {
        let queue = self.queues.get_mut(name).expect("the caller found it");
        let window = ((window.from, JobId::MIN), window.to);
        let mut picked = Vec::new();
        let mut late = Vec::new();
        let mut rest = queue.walk(start, window, |rank| {
            let id = rank.2;
            match self.live.get(id).expect("what is ready is live").start_by(id).filter(|&by| by <= now) {
                Some(start_by) => late.push((rank, start_by)),
                None => picked.push(id),
            }
            if picked.len() < wanted { Walk::On } else { Walk::Stop }
        });
        if picked.len() == wanted {
            rest = None;
        }
        for (rank, start_by) in late {
            let id = rank.2;
            queue.ready.remove(&rank);
            queue.overdue.insert((start_by, id));
            self.live.get_mut(id).expect("what is ready is live").place = Whereabouts::Overdue(start_by);
        }
        (picked, rest)
    }

    fn named(&mut self, named: JobRef, request: HandOut<'_>, now: Now, batch: &mut Batch) {
        let Some(job) = self.live.get(named.id).map(|live| live.unpack(named.id)) else {
            batch.reserved.refused.push((named.id, self.ended(named.id).unwrap_or(Edited::Unknown)));
            return;
        };
        let is_held =
            self.queues.get_mut(&job.queue).is_some_and(|queue| queue.room(request.takes(), now.wall).is_err());
        let held_back = || is_held.then(|| Edited::Unfit { id: job.id, state: job.state(now.wall) });
        let refused = request.refusal(&job, named.version, now.wall).or_else(held_back);
        if let Some(refused) = refused {
            batch.reserved.refused.push((named.id, refused));
        } else if !batch.is_full(request) {
            self.lease_for(named.id, request, now, batch);
        }
    }

    fn lease_for(&mut self, id: JobId, request: HandOut<'_>, now: Now, batch: &mut Batch) {
        let live = self.live.get(id).expect("what is picked is live");
        debug_assert!(request.is_early() || live.due_at <= now.wall, "nothing is handed out early");
        debug_assert!(live.run().is_none(), "a job has one lease");
        let of_queue = || request.queue_lease_ms(live.queue());
        let lease_ms = request.lease_ms().or(live.lease_ms()).or_else(of_queue).unwrap_or(LEASE_MS_DEFAULT);
        let job = self.lease(id, lease_ms, request.takes(), now);
        // Otherwise a restart would restore the lease of a take as that of a worker.
        let noted = if request.takes() { self.outbox.get(id).cloned() } else { self.lease_entry(&job, now) };
        batch.reserved.entries.extend(noted);
        batch.bytes += job.held_bytes();
        batch.reserved.leases.push(Lease { job, length: Span(lease_ms) });
        debug_assert!(batch.reserved.leases.len() <= request.limit(), "a reserve gets what it asked for, or less");
    }
}

fn earliest(a: Option<Millis>, b: Option<Millis>) -> Option<Millis> {
    [a, b].into_iter().flatten().min()
}
