//! Handing out.

use super::held::{Held, Now};
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
struct Got {
    reserved: Reserved,
    /// The bytes of its jobs.
    bytes: usize,
}

impl Got {
    /// Whether it has as many jobs, or as many bytes of them, as one answer may.
    fn is_full(&self, asked: HandOut<'_>) -> bool {
        self.reserved.leases.len() == asked.limit() || self.bytes > RESERVE_BYTES_MAX
    }
}

impl Held {
    /// One step: `None` if there is more to read than a step may, and it found nothing yet.
    pub(super) fn hand_out(&mut self, asked: HandOut<'_>, resume: &mut Resume, now: Now) -> Option<Taken> {
        if self.generation.is_none() {
            return Some(Taken::default());
        }
        if let Some(got) = asked.request_id().and_then(|id| self.requests.get(id, now.mono)) {
            return Some(if asked.takes() {
                Taken { repeats: got.to_vec(), ..Taken::default() }
            } else {
                Taken { reserved: self.again(got), repeats: Vec::new() }
            });
        }
        let mut got = Got::default();
        match asked.queues() {
            Some(queues) if asked.is_merged() => self.most_urgent(queues, asked, now, &mut got)?,
            Some(queues) => self.in_order(queues, asked, resume, now, &mut got)?,
            None => asked.named().iter().for_each(|named| self.named(*named, asked, now, &mut got)),
        }
        let Got { reserved, .. } = got;
        if let Some(id) = asked.request_id() {
            let got = reserved.leases.iter().map(|lease| lease.job.receipt()).collect();
            self.requests.remember(id.clone(), got, now.mono);
        }
        Some(Taken { reserved, repeats: Vec::new() })
    }

    pub(super) fn next_due(&mut self, name: &str, now: Now) -> Option<Millis> {
        let queue = self.queues.get_mut(name).filter(|queue| self.generation.is_some() && !queue.limits.paused)?;
        queue.free_at(false, now.wall)
    }

    /// The leases of an earlier reserve that have not ended.
    fn again(&self, got: &[Receipt]) -> Reserved {
        let live = got.iter().filter_map(|receipt| {
            let live = self.live.get(receipt.id)?;
            let run = live.run_of(*receipt).filter(|run| !run.takes)?;
            Some(Lease { job: live.unpack(receipt.id), length: Span(run.lease_ms) })
        });
        Reserved { leases: live.collect(), is_repeat: true, ..Reserved::default() }
    }

    fn in_order(
        &mut self,
        queues: &[Arc<str>],
        asked: HandOut<'_>,
        resume: &mut Resume,
        now: Now,
        got: &mut Got,
    ) -> Option<()> {
        for (index, name) in queues.iter().enumerate() {
            let Some(queue) = self.queues.get_mut(name).filter(|queue| !queue.limits.paused) else { continue };
            let room = queue.room(asked.takes(), now.wall).unwrap_or(0);
            if got.is_full(asked) || room == 0 {
                // Only a hint if there is more. Until then, or until a job has ended, no caller needs to look.
                got.reserved.next_at = earliest(got.reserved.next_at, queue.free_at(asked.takes(), now.wall));
                queue.look_at = if room == 0 { Some(0) } else { queue.look_at };
                continue;
            }
            let mut more = self.advance(name, now, STEP_JOBS_MAX);
            if !more {
                let start = if resume.0 == index { resume.1 } else { FIRST };
                let wanted = room.min(asked.limit() - got.reserved.leases.len());
                let (picked, rest) = self.pick(name, start, asked.window(), wanted, now.wall);
                for id in picked {
                    if got.is_full(asked) {
                        got.reserved.next_at = Some(now.wall);
                        return Some(());
                    }
                    self.lease_for(id, asked, now, got);
                }
                if rest.is_some() || resume.0 == index {
                    *resume = (index, rest.unwrap_or(FIRST));
                }
                more = rest.is_some();
            }
            if more {
                // Jobs that were handed out stay so: return these.
                got.reserved.next_at = Some(now.wall);
                return (!got.reserved.leases.is_empty()).then_some(());
            }
            let queue = self.queues.get_mut(name).expect("it was found above");
            let free_at = queue.free_at(asked.takes(), now.wall);
            let is_limited = queue.room(asked.takes(), now.wall).is_err();
            queue.look_at = if is_limited { Some(0) } else { free_at };
            got.reserved.next_at = earliest(got.reserved.next_at, free_at);
        }
        Some(())
    }

    /// The most urgent jobs of all these queues, one after the other.
    fn most_urgent(&mut self, queues: &[Arc<str>], asked: HandOut<'_>, now: Now, got: &mut Got) -> Option<()> {
        while !got.is_full(asked) {
            let mut first: Option<Rank> = None;
            for name in queues {
                let Some(queue) = self.queues.get_mut(name).filter(|queue| !queue.limits.paused) else { continue };
                if queue.room(asked.takes(), now.wall).unwrap_or(0) == 0 {
                    continue;
                }
                let mut more = self.advance(name, now, STEP_JOBS_MAX);
                if !more {
                    let (picked, rest) = self.pick(name, FIRST, asked.window(), 1, now.wall);
                    let rank = picked.first().map(|&id| (id, self.live.get(id).expect("what is picked is live")));
                    let rank = rank.map(|(id, live)| (live.priority, live.due_at, id));
                    first = [first, rank].into_iter().flatten().min();
                    more = rest.is_some();
                }
                if more {
                    got.reserved.next_at = Some(now.wall);
                    return (!got.reserved.leases.is_empty()).then_some(());
                }
            }
            let Some((.., id)) = first else { break };
            self.lease_for(id, asked, now, got);
        }
        for name in queues {
            let Some(queue) = self.queues.get_mut(name).filter(|queue| !queue.limits.paused) else { continue };
            let free_at = queue.free_at(asked.takes(), now.wall);
            let is_limited = queue.room(asked.takes(), now.wall).is_err();
            queue.look_at = if is_limited { Some(0) } else { free_at };
            got.reserved.next_at = earliest(got.reserved.next_at, free_at);
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

    fn named(&mut self, named: JobRef, asked: HandOut<'_>, now: Now, got: &mut Got) {
        let Some(job) = self.live.get(named.id).map(|live| live.unpack(named.id)) else {
            got.reserved.refused.push((named.id, self.ended(named.id).unwrap_or(Edited::Unknown)));
            return;
        };
        let is_held = self.queues.get_mut(&job.queue).is_some_and(|queue| queue.room(asked.takes(), now.wall).is_err());
        let held_back = || is_held.then(|| Edited::Unfit { id: job.id, state: job.state(now.wall) });
        let refused = asked.refusal(&job, named.version, now.wall).or_else(held_back);
        if let Some(refused) = refused {
            got.reserved.refused.push((named.id, refused));
        } else if !got.is_full(asked) {
            self.lease_for(named.id, asked, now, got);
        }
    }

    fn lease_for(&mut self, id: JobId, asked: HandOut<'_>, now: Now, got: &mut Got) {
        let live = self.live.get(id).expect("what is picked is live");
        debug_assert!(asked.is_early() || live.due_at <= now.wall, "nothing is handed out early");
        debug_assert!(live.run().is_none(), "a job has one lease");
        let of_queue = || asked.queue_lease_ms(live.queue());
        let lease_ms = asked.lease_ms().or(live.lease_ms()).or_else(of_queue).unwrap_or(LEASE_MS_DEFAULT);
        let job = self.lease(id, lease_ms, asked.takes(), now);
        // Otherwise a restart would restore the lease of a take as that of a worker.
        let noted = if asked.takes() { self.outbox.get(id).cloned() } else { self.lease_entry(&job, now) };
        got.reserved.entries.extend(noted);
        got.bytes += job.held_bytes();
        got.reserved.leases.push(Lease { job, length: Span(lease_ms) });
        debug_assert!(got.reserved.leases.len() <= asked.limit(), "a reserve gets what it asked for, or less");
    }
}

fn earliest(a: Option<Millis>, b: Option<Millis>) -> Option<Millis> {
    [a, b].into_iter().flatten().min()
}
