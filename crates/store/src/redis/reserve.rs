//! Handing out jobs.

use super::call::Text;
use super::codec::Decoder;
use super::jobs::{Jobs, bytes};
use super::partitions::HOST_REST;
use super::{fault, scripts};
use duetime_core::json::Span;
use duetime_core::limits::{LEASE_MS_DEFAULT, RESERVE_BYTES_MAX};
use duetime_core::ports::{Detail, Edited, HandOut, Lease, OutboxEntry, Pick, Reserve, Reserved, Take, Taken};
use duetime_core::{Error, JobId, JobRef, Millis, Receipt, rules};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A named job that may be handed out: its version, and the index of its queue in the call.
type Candidate = (JobId, u64, usize);

/// A part of a request, handled by one call. Each part is remembered separately.
struct Part<'a> {
    partition: u16,
    /// Unique in the request.
    name: &'a str,
    queues: &'a [Arc<str>],
    limit: usize,
    candidates: &'a [Candidate],
}

impl Jobs {
    pub(super) async fn next_due(&self, queue: &Arc<str>) -> Result<Option<Millis>, Error> {
        // The script leases none, and measures the limits of the queue as for a reserve.
        let look = Reserve::new(Pick::InOrder(vec![queue.clone()]), 0);
        Ok(self.reserve(look).await?.next_at)
    }

    pub(super) async fn reserve(&self, reserve: Reserve) -> Result<Reserved, Error> {
        Ok(self.hand_out(HandOut::Reserve(&reserve)).await?.reserved)
    }

    pub(super) async fn take(&self, take: Take) -> Result<Taken, Error> {
        self.hand_out(HandOut::Take(&take)).await
    }

    async fn hand_out(&self, request: HandOut<'_>) -> Result<Taken, Error> {
        match request.queues() {
            Some(queues) => self.hand_out_queues(queues, request).await,
            None => self.hand_out_named(request.named(), request).await,
        }
    }

    /// Serves queues in order; consecutive queues in the same partition share a call. A partition whose memory has not begun has nothing
    /// yet, and holds up no other.
    async fn hand_out_queues(&self, queues: &[Arc<str>], request: HandOut<'_>) -> Result<Taken, Error> {
        let mut taken = Taken::default();
        let mut rest = queues;
        while let Some(first) = rest.first() {
            let partition = self.partitions.keys.partition_of(first);
            let count = rest.iter().take_while(|queue| self.partitions.keys.partition_of(queue) == partition).count();
            let (together, later) = rest.split_at(count);
            let left = left(request, &taken);
            let part = Part { partition, name: first, queues: together, limit: left, candidates: &[] };
            match self.hand_out_part(part, request, &mut taken).await {
                Err(error) if fault::is_not_begun(&error) => {
                    let again_at = self.partitions.clock.now() + HOST_REST.as_millis() as u64;
                    let next_at = &mut taken.reserved.next_at;
                    *next_at = Some(next_at.map_or(again_at, |next| next.min(again_at)));
                }
                handed_out => handed_out?,
            }
            rest = later;
            if left == 0 {
                break;
            }
        }
        self.partitions.waker.looked(!taken.reserved.leases.is_empty(), self.partitions.clock.now());
        Ok(taken)
    }

    async fn hand_out_part(&self, part: Part<'_>, request: HandOut<'_>, taken: &mut Taken) -> Result<(), Error> {
        let Part { partition, name: part, queues, limit, candidates } = part;
        self.uses(partition);
        let names: Vec<&str> = queues.iter().map(AsRef::as_ref).collect();
        let own = self.partitions.requests.begin();
        let (key, name) = match request.request_id() {
            Some(id) => (format!("id:{part}:{id}"), format!("{id}:{part}")),
            None => (own.key.clone(), own.name.clone()),
        };
        let had = AtomicU64::new(0);
        let arguments = |text: &mut Text| {
            text.number(limit as u64);
            text.number(request.window().from);
            text.number(request.window().to);
            text.push(if request.takes() { own.name.as_bytes() } else { b"" });
            text.number(request.lease_ms().unwrap_or(0));
            text.push(name.as_bytes());
            text.number(self.partitions.options.ended_max as u64);
            text.number(LEASE_MS_DEFAULT);
            text.push(way(request));
            text.number(had.load(Ordering::Relaxed));
            text.number(names.len() as u64);
            for queue in &names {
                text.push(queue.as_bytes());
                text.number(request.queue_lease_ms(queue).unwrap_or(0));
            }
            for (id, version, queue) in candidates {
                text.push(&bytes(*id));
                text.number(*version);
                text.number(*queue as u64 + 1);
            }
        };
        loop {
            let mut reply = self.partitions.run_request(partition, &scripts::RESERVE, &key, &names, arguments).await?;
            let (mut leases, mut noted) = (reply.list()?, reply.list()?);
            let (next_at, is_to_repeat) = (reply.optional()?, reply.number()? != 0);
            let backlog = reply.number()? as u64;
            if !self.partitions.is_ledger() {
                self.entry_backlog(partition, backlog);
            }
            let mut repeats = reply.list()?;
            while repeats.len() > 0 {
                let (id, epoch) = (repeats.id()?, repeats.bytes()?);
                let epoch = epoch.iter().fold(0, |epoch, &byte| epoch << 8 | u64::from(byte));
                taken.repeats.push(Receipt { id, epoch });
            }
            let is_repeat = reply.number()? != 0;
            let next = reply.number()? as u64;
            let reserved = &mut taken.reserved;
            reserved.is_repeat |= is_repeat;
            let mut ids = HashSet::new();
            while noted.len() > 0 {
                ids.insert(noted.id()?);
            }
            let mut decoder = Decoder::default();
            let is_none = leases.len() == 0;
            while leases.len() > 0 {
                let (id, body, meta) = (leases.id()?, leases.bytes()?, leases.bytes()?);
                let record = decoder.record(id, &body, &meta, &[])?;
                if !self.partitions.is_ledger() && ids.contains(&id) {
                    let job = record.job.clone();
                    reserved.entries.push(if record.rewritten {
                        OutboxEntry::Rewritten(job)
                    } else {
                        OutboxEntry::Changed(job)
                    });
                }
                reserved.leases.push(Lease::new(record.job, Span(record.lease_ms)));
            }
            if next > 0 {
                // A repeat whose answer does not fit in one reply.
                had.store(next, Ordering::Relaxed);
                continue;
            }
            if is_to_repeat && is_none {
                continue;
            }
            reserved.next_at = [reserved.next_at, next_at].into_iter().flatten().min();
            return Ok(());
        }
    }

    async fn hand_out_named(&self, named: &[JobRef], request: HandOut<'_>) -> Result<Taken, Error> {
        let mut taken = Taken::default();
        if request.request_id().is_some() {
            // The leases of an earlier call of this request: without named jobs, a call only returns what is remembered.
            for &JobRef { id, .. } in named {
                let part = Part {
                    partition: self.partitions.of(id),
                    name: &id.to_string(),
                    queues: &[],
                    limit: 1,
                    candidates: &[],
                };
                self.hand_out_part(part, request, &mut taken).await?;
            }
            if !(taken.reserved.leases.is_empty() && taken.repeats.is_empty()) {
                return Ok(taken);
            }
        }
        for &JobRef { id, version } in named {
            let record = self.records(&[id], Detail::Whole).await?.pop().flatten();
            let Some(record) = record else {
                taken.reserved.refused.push((id, Edited::Unknown));
                continue;
            };
            let (is_live, job) = (record.is_live(), record.job);
            let now = self.partitions.clock.now();
            let queue = job.queue.clone();
            let refused = if is_live { request.refusal(&job, version, now) } else { Some(rules::ended(&job)) };
            if let Some(refused) = refused {
                taken.reserved.refused.push((id, refused));
            } else if left(request, &taken) > 0 {
                let before = taken.reserved.leases.len();
                let candidates = [(id, job.version, 0)];
                let (name, queues) = (id.to_string(), [queue]);
                let part = Part {
                    partition: self.partitions.of(id),
                    name: &name,
                    queues: &queues,
                    limit: 1,
                    candidates: &candidates,
                };
                match self.hand_out_part(part, request, &mut taken).await {
                    // Those that were leased must reach the caller.
                    Err(error) if fault::is_not_begun(&error) && before > 0 => {}
                    handed_out => handed_out?,
                }
                if taken.reserved.leases.len() == before {
                    // Paused, or another process was faster.
                    let state = job.state(self.partitions.clock.now());
                    taken.reserved.refused.push((id, Edited::Unfit { id, state }));
                }
            }
        }
        taken.reserved.next_at = None;
        Ok(taken)
    }
}

/// What the script calls this way to pick.
fn way(request: HandOut<'_>) -> &'static [u8] {
    match request.queues() {
        Some(_) if request.is_merged() => b"urgent",
        Some(_) => b"order",
        None if request.is_early() => b"early",
        None => b"named",
    }
}

/// How many more jobs may be handed out. Each part of a request has its own bound in bytes, and their sum has the same.
fn left(request: HandOut<'_>, taken: &Taken) -> usize {
    let leases = &taken.reserved.leases;
    let bytes: usize = leases.iter().map(|lease| lease.job.held_bytes()).sum();
    if bytes > RESERVE_BYTES_MAX {
        return 0;
    }
    request.limit().saturating_sub(leases.len() + taken.repeats.len())
}
