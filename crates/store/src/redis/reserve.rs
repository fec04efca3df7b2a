//! Handing out jobs.

use super::call::Text;
use super::codec::Decoder;
use super::jobs::{Jobs, bytes};
use super::partitions::HOST_REST;
use super::{fault, scripts};
use duetime_core::limits::{LEASE_MS_DEFAULT, RESERVE_BYTES_MAX};
use duetime_core::ports::{Detail, Edited, Lease, OutboxEntry, Pick, Reserve, Reserved};
use duetime_core::{Error, JobId, JobRef, Millis, Receipt, rules};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A named job that may be handed out: its version, and the index of its queue in the call.
type Candidate = (JobId, u64, usize);

/// A part of a request, handled by one call. Each part is remembered separately.
struct Part<'a> {
    partition: u16,
    takes: bool,
    /// Unique in the request.
    name: &'a str,
    queues: &'a [Arc<str>],
    limit: usize,
    candidates: &'a [Candidate],
}

impl Jobs {
    pub(super) async fn next_due(&self, queue: &Arc<str>) -> Result<Option<Millis>, Error> {
        // The script looks, and leases none.
        let look = Reserve::new(Pick::InOrder(vec![queue.clone()]), 0);
        Ok(self.reserve(look, false).await?.next_at)
    }

    pub(super) async fn reserve(&self, reserve: Reserve, takes: bool) -> Result<Reserved, Error> {
        match reserve.pick.queues() {
            Some(queues) => match self.reserve_queues(queues, &reserve, takes).await {
                Err(error) if fault::is_not_begun(&error) => {
                    let again_at = self.partitions.clock.now() + HOST_REST.as_millis() as u64;
                    Ok(Reserved { next_at: Some(again_at), ..Reserved::default() })
                }
                reserved => reserved,
            },
            None => self.reserve_named(reserve.pick.named(), &reserve, takes).await,
        }
    }

    /// Serves queues in order; consecutive queues in the same partition share a call.
    async fn reserve_queues(&self, queues: &[Arc<str>], reserve: &Reserve, takes: bool) -> Result<Reserved, Error> {
        let mut reserved = Reserved::default();
        let mut rest = queues;
        while let Some(first) = rest.first() {
            let partition = self.partitions.keys.partition_of(first);
            let count = rest.iter().take_while(|queue| self.partitions.keys.partition_of(queue) == partition).count();
            let (together, later) = rest.split_at(count);
            let left = left(reserve, &reserved);
            let part = Part { partition, takes, name: first, queues: together, limit: left, candidates: &[] };
            self.reserve_part(part, reserve, &mut reserved).await?;
            rest = later;
            if left == 0 {
                break;
            }
        }
        self.partitions.waker.looked(!reserved.leases.is_empty(), self.partitions.clock.now());
        Ok(reserved)
    }

    async fn reserve_part(&self, part: Part<'_>, reserve: &Reserve, reserved: &mut Reserved) -> Result<(), Error> {
        let Part { partition, takes, name: part, queues, limit, candidates } = part;
        self.uses(partition);
        let names: Vec<&str> = queues.iter().map(AsRef::as_ref).collect();
        let own = self.partitions.requests.begin();
        let (key, name) = match &reserve.request_id {
            Some(id) => (format!("id:{part}:{id}"), format!("{id}:{part}")),
            None => (own.key.clone(), own.name.clone()),
        };
        let had = AtomicU64::new(0);
        let arguments = |text: &mut Text| {
            text.number(limit as u64);
            text.number(reserve.window.from);
            text.number(reserve.window.to);
            text.push(if takes { own.name.as_bytes() } else { b"" });
            text.number(reserve.lease_ms.unwrap_or(0));
            text.push(name.as_bytes());
            text.number(self.partitions.options.ended_max as u64);
            text.number(LEASE_MS_DEFAULT);
            text.push(way(&reserve.pick));
            text.number(had.load(Ordering::Relaxed));
            text.number(names.len() as u64);
            for queue in &names {
                text.push(queue.as_bytes());
                text.number(reserve.queue_leases.of(queue).unwrap_or(0));
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
                reserved.repeats.push(Receipt { id, epoch });
            }
            let next = reply.number()? as u64;
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
                reserved.leases.push(Lease { job: record.job, lease_ms: record.lease_ms });
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

    async fn reserve_named(&self, named: &[JobRef], reserve: &Reserve, takes: bool) -> Result<Reserved, Error> {
        let mut reserved = Reserved::default();
        if reserve.request_id.is_some() {
            // The leases of an earlier call of this request: without named jobs, a call only returns what is remembered.
            for &JobRef { id, .. } in named {
                let part = Part {
                    partition: self.partitions.of(id),
                    takes,
                    name: &id.to_string(),
                    queues: &[],
                    limit: 1,
                    candidates: &[],
                };
                self.reserve_part(part, reserve, &mut reserved).await?;
            }
            if !(reserved.leases.is_empty() && reserved.repeats.is_empty()) {
                return Ok(reserved);
            }
        }
        for &JobRef { id, version } in named {
            let record = self.records(&[id], Detail::Whole).await?.pop().flatten();
            let Some(record) = record else {
                reserved.refused.push((id, Edited::Unknown));
                continue;
            };
            let (is_live, job) = (record.is_live(), record.job);
            let now = self.partitions.clock.now();
            let queue = job.queue.clone();
            let refused = if is_live { reserve.refusal(&job, version, now) } else { Some(rules::ended(&job)) };
            if let Some(refused) = refused {
                reserved.refused.push((id, refused));
            } else if left(reserve, &reserved) > 0 {
                let before = reserved.leases.len();
                let candidates = [(id, job.version, 0)];
                let (name, queues) = (id.to_string(), [queue]);
                let part = Part {
                    partition: self.partitions.of(id),
                    takes,
                    name: &name,
                    queues: &queues,
                    limit: 1,
                    candidates: &candidates,
                };
                self.reserve_part(part, reserve, &mut reserved).await?;
                if reserved.leases.len() == before {
                    // Paused, or another process was faster.
                    let state = job.state(self.partitions.clock.now());
                    reserved.refused.push((id, Edited::Unfit { id, state }));
                }
            }
        }
        reserved.next_at = None;
        Ok(reserved)
    }
}

/// What the script calls this pick.
fn way(pick: &Pick) -> &'static [u8] {
    match pick {
        Pick::MostUrgent(queues) if queues.len() > 1 => b"urgent",
        Pick::InOrder(_) | Pick::MostUrgent(_) => b"order",
        Pick::Named(_) => b"named",
        Pick::Early(_) => b"early",
    }
}

/// How many more jobs may be handed out. Each part of a request has its own bound in bytes, and their sum has the same.
fn left(reserve: &Reserve, reserved: &Reserved) -> usize {
    let bytes: usize = reserved.leases.iter().map(|lease| lease.job.held_bytes()).sum();
    if bytes > RESERVE_BYTES_MAX {
        return 0;
    }
    reserve.limit.saturating_sub(reserved.leases.len() + reserved.repeats.len())
}
