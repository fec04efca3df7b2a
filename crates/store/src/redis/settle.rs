//! Leases: extended, settled, expired.

use super::call::Text;
use super::change::{ChangeResult, Step};
use super::clock::Late;
use super::codec::{self, Record};
use super::fault;
use super::jobs::{Jobs, bytes, groups, groups_by_size};
use super::partitions::HOST_REST;
use super::reply::Reply;
use super::scripts;
use duetime_core::model::name::KIND_DEFAULT;
use duetime_core::ports::{Expired, Extend, Extended, OutboxEntry, Run, Settle, Settled};
use duetime_core::rules::{self, Decision, Finish};
use duetime_core::{Error, Job, JobId, Receipt, Stage, State};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One of this many searches for expired leases covers all partitions: about every two minutes.
const LOOKS_AT_ALL: u64 = 120;

/// A completion: its position, the lease, and the result.
type Plain = (usize, Receipt, Option<Arc<[u8]>>);

/// The result of a settle.
enum SettleEnd {
    /// The lease is over, or the job has another version.
    Lost,
    /// The decision lacks the jobs that are to begin with the end.
    Undecided,
    /// Nothing is stored of the job except perhaps a tombstone.
    Forgotten,
    /// The same outcome was settled before.
    Before(State),
    /// The outcome was applied; contains the entry to record.
    Now(State, Run, Option<Box<OutboxEntry>>),
}

impl Jobs {
    pub(super) async fn settle_jobs(&self, settles: Vec<Settle>) -> Result<Settled, Error> {
        let mut settled =
            Settled { states: vec![None; settles.len()], runs: vec![None; settles.len()], ..Settled::default() };
        let (mut plain, mut others) = (Vec::new(), Vec::new());
        for (position, settle) in settles.into_iter().enumerate() {
            match settle {
                Settle { receipt, version: None, decision: Decision::Finish(finish), .. } if is_plain(&finish) => {
                    plain.push((position, receipt, finish.result));
                }
                settle => others.push((position, settle)),
            }
        }
        let sizes = plain.iter().map(|(_, receipt, result)| {
            (self.partitions.of(receipt.id), result.as_ref().map_or(0, |result| result.len()))
        });
        for (partition, chosen) in groups_by_size(sizes) {
            let mut left = chosen.as_slice();
            while !left.is_empty() {
                left = &left[self.settle_some(partition, left, &plain, &mut settled).await?..];
            }
        }
        self.decide_others(&others, &mut settled).await?;
        Ok(settled)
    }

    /// Completes the first of these jobs. Returns how many: not all, if they have long histories.
    async fn settle_some(
        &self,
        partition: u16,
        chosen: &[usize],
        plain: &[Plain],
        settled: &mut Settled,
    ) -> Result<usize, Error> {
        let arguments = |text: &mut Text| {
            text.number(self.partitions.options.ended_max as u64);
            text.flag(self.bus.is_wanted());
            for &i in chosen {
                let (_, receipt, result) = &plain[i];
                text.push(&bytes(receipt.id));
                text.push(&receipt.epoch.to_be_bytes()[2..]);
                text.push(&result.as_ref().map(|result| [b"=", &**result].concat()).unwrap_or_default());
            }
        };
        let mut reply = self.partitions.run(partition, &scripts::SETTLE, &[], arguments).await?;
        let (mut stages, mut runs) = (reply.list()?, reply.list()?);
        let chosen = &chosen[..stages.len()];
        let mut last: Option<Arc<str>> = None;
        let mut to_note = HashSet::new();
        for (position, receipt, result) in chosen.iter().map(|&i| &plain[i]) {
            let stage = stages.number()?;
            if stage == i64::from(Stage::Pending.code()) {
                let decision = Decision::Finish(Finish { result: result.clone(), ..Finish::new(Stage::Succeeded) });
                settled.undecided.push((*position, Settle::new(*receipt, decision)));
            } else if stage.unsigned_abs() == u64::from(Stage::Succeeded.code()) {
                settled.states[*position] = Stage::Succeeded.end_state();
                // What only a tombstone says is recorded.
                if stage > 0 {
                    to_note.insert(*receipt);
                }
            }
            settled.runs[*position] = run(&runs.bytes()?, &mut last);
        }
        let noted = reply.list()?.records()?.into_iter().filter_map(|(_, record)| record);
        for record in noted.filter(|record| record.job.stage == Stage::Succeeded) {
            to_note.remove(&record.job.receipt());
            settled.entries.push(entry(record));
        }
        if !self.partitions.is_ledger() {
            self.entry_backlog(partition, reply.number()? as u64);
            // Those that did not fit in the reply.
            let rest = self.outcomes_of(&Vec::from_iter(to_note.iter().map(|receipt| receipt.id))).await?;
            for job in rest.iter().map(OutboxEntry::job).filter(|job| job.stage == Stage::Succeeded) {
                to_note.remove(&job.receipt());
            }
            settled.entries.extend(rest);
            // Without its entry, either the end was recorded or Redis was emptied or fell back. The engine asks the ledger.
            for (position, ..) in chosen.iter().map(|&i| &plain[i]).filter(|(_, receipt, _)| to_note.contains(receipt))
            {
                settled.states[*position] = None;
            }
        }
        Ok(chosen.len())
    }

    /// Applies outcomes that require reading the job.
    async fn decide_others(&self, others: &[(usize, Settle)], settled: &mut Settled) -> Result<(), Error> {
        let ids: Vec<JobId> = others.iter().map(|(_, settle)| settle.receipt.id).collect();
        let now = self.partitions.clock.now();
        let decide = |i: usize, record: Option<&Record>| {
            let Settle { receipt, version, decision, .. } = &others[i].1;
            let Some(record) = record else { return Step::Answer(SettleEnd::Forgotten) };
            if record.job.receipt() != *receipt || record.job.is_pending() && record.job.lease_until.is_none() {
                return Step::Answer(SettleEnd::Lost);
            }
            if !record.is_live() {
                let is_this = decision.end() == Some(record.job.stage);
                let state = record.job.stage.end_state().filter(|_| is_this);
                return Step::Answer(state.map_or(SettleEnd::Lost, SettleEnd::Before));
            }
            if version.is_some_and(|version| version != record.job.version) {
                return Step::Answer(SettleEnd::Lost);
            }
            if !rules::is_whole(&record.job, decision) {
                return Step::Answer(SettleEnd::Undecided);
            }
            let mut changed = record.clone();
            changed.rewritten |= decision.rewrites();
            let remains = rules::apply(&mut changed.job, decision.clone(), now, self.partitions.numbers(receipt.id));
            let run = Run::of(&changed.job);
            changed.removed = remains.is_removed;
            let state = changed.job.state(now);
            let noted = noted(&changed, &remains.successors, self.partitions.is_ledger());
            Step::Write(Box::new(changed), remains.successors, SettleEnd::Now(state, run, noted.map(Box::new)))
        };
        let heads = others.iter().map(|(_, settle)| settle.read.as_deref().cloned().map(Record::new)).collect();
        let came = self.change(&ids, heads, decide).await?;
        for ((position, settle), came) in others.iter().zip(came) {
            let Settle { receipt, decision, .. } = settle;
            // A leased job already holds its key, or has none.
            let ChangeResult::Of(end) = came else { continue };
            settled.states[*position] = match end {
                SettleEnd::Lost => None,
                SettleEnd::Undecided => {
                    settled.undecided.push((*position, Settle { read: None, ..settle.clone() }));
                    None
                }
                SettleEnd::Forgotten => self.tombstone_end(*receipt, decision).await?,
                SettleEnd::Now(state, run, noted) => {
                    settled.runs[*position] = Some(run);
                    settled.entries.extend(noted.map(|noted| *noted));
                    Some(state)
                }
                SettleEnd::Before(state) if self.partitions.is_ledger() => Some(state),
                SettleEnd::Before(state) => {
                    let entries = self.outcomes_of(&[receipt.id]).await?;
                    // Without its entry, either the end was recorded or Redis was emptied or fell back. The engine asks the ledger.
                    let is_this = |job: &Job| job.receipt() == *receipt && decision.end() == Some(job.stage);
                    let state = entries.iter().any(|entry| is_this(entry.job())).then_some(state);
                    settled.entries.extend(entries);
                    state
                }
            };
        }
        Ok(())
    }

    /// The end of a job of which only a tombstone remains.
    async fn tombstone_end(&self, receipt: Receipt, decision: &Decision) -> Result<Option<State>, Error> {
        let Some(end) = decision.end() else { return Ok(None) };
        let arguments = |text: &mut Text| {
            text.number(0);
            text.flag(false);
            text.push(&bytes(receipt.id));
            text.push(&receipt.epoch.to_be_bytes()[2..]);
            text.push(b"?");
        };
        let mut reply = self.partitions.run(self.partitions.of(receipt.id), &scripts::SETTLE, &[], arguments).await?;
        let answer = reply.list()?.number()?;
        // Above 0 the job is here again.
        let stage = Stage::from_code(answer.unsigned_abs() as u8).filter(|_| answer < 0);
        Ok(stage.filter(|stage| *stage == end).and_then(Stage::end_state))
    }

    pub(super) async fn extend_leases(&self, leases: Vec<Extend>) -> Result<Vec<Extended>, Error> {
        let mut extended = vec![Extended::Lost; leases.len()];
        for (partition, chosen) in groups(leases.iter().map(|lease| self.partitions.of(lease.receipt.id))) {
            let mut left = chosen.as_slice();
            while !left.is_empty() {
                let request = self.partitions.requests.begin();
                let arguments = |text: &mut Text| {
                    text.push(request.name.as_bytes());
                    for &i in left {
                        let Extend { receipt, lease_ms, progress } = &leases[i];
                        text.push(&bytes(receipt.id));
                        text.number(receipt.epoch);
                        text.number(lease_ms.unwrap_or(0));
                        text.push(&progress.as_deref().map(codec::progress).unwrap_or_default());
                    }
                };
                let reply = self.partitions.run_request(partition, &scripts::EXTEND, &request.key, &[], arguments);
                let mut answers = reply.await?.list()?;
                let (now, later) = left.split_at(answers.len());
                for &i in now {
                    if let Err(mut answer) = answers.number_or_list()? {
                        let lease_until = answer.optional()?.unwrap_or(0);
                        let version = answer.optional()?.unwrap_or(0);
                        let cancel_asked = answer.number()? != 0;
                        extended[i] = Extended::Until { lease_until, version, cancel_asked, lease: None };
                    }
                }
                left = later;
            }
        }
        Ok(extended)
    }

    /// Finds what has expired in the partitions that this process uses.
    pub(super) async fn expired_jobs(&self, limit: usize) -> Result<Expired, Error> {
        let mut expired = Expired::default();
        // Occasionally also in partitions that only other processes used, which may be gone.
        let looks_at_all = self.looks.fetch_add(1, Ordering::Relaxed).is_multiple_of(LOOKS_AT_ALL);
        let mut partitions = if looks_at_all { (0..self.partitions.keys.partitions()).collect() } else { self.used() };
        if partitions.is_empty() {
            // The call also shows whether Redis is available.
            partitions.push(0);
        }
        for partition in partitions {
            let next_ms = match self.expired_in(partition, limit, &mut expired).await {
                // No lease ends there yet; those of other partitions do.
                Err(error) if fault::is_not_compared(&error) => Some(HOST_REST.as_millis() as u64),
                next_ms => next_ms?,
            };
            expired.next_ms = [expired.next_ms, next_ms].into_iter().flatten().min();
        }
        expired.is_full |= self.partitions.is_ledger() && self.make_room().await.is_err();
        Ok(expired)
    }

    /// Adds what has expired in a partition. Returns when the next lease ends there.
    async fn expired_in(&self, partition: u16, limit: usize, expired: &mut Expired) -> Result<Option<u64>, Error> {
        self.bound_leases(partition).await?;
        let arguments = |text: &mut Text| text.number(limit as u64);
        let mut reply = self.partitions.run(partition, &scripts::EXPIRED, &[], arguments).await?;
        let live = |reply: Reply| -> Result<Vec<Record>, Error> {
            let records = reply.records()?.into_iter().filter_map(|(_, record)| record);
            Ok(records.filter(|record| record.job.is_pending()).collect())
        };
        let (untaken, crashed): (Vec<Record>, Vec<Record>) =
            live(reply.list()?)?.into_iter().partition(|record| record.takes);
        expired.untaken.extend(untaken.into_iter().map(|record| record.job));
        expired.crashed.extend(crashed.into_iter().map(|record| record.job));
        expired.unstarted.extend(live(reply.list()?)?.into_iter().map(|record| record.job));
        let next_ms = u64::try_from(reply.number()?).ok();
        self.entry_backlog(partition, reply.number()? as u64);
        expired.is_full |= reply.number()? != 0;
        // If this reply was the first to show that the clock was set back, there may be more to end.
        Ok(if self.bound_leases(partition).await? { Some(0) } else { next_ms })
    }

    /// If the clock was set back, leases that it gave before, when it was ahead, end within their length from now. Returns
    /// whether it was.
    async fn bound_leases(&self, partition: u16) -> Result<bool, Error> {
        let was_set_back = self.partitions.clock.was_set_back(partition, Late::Leases);
        let mut cursor = was_set_back.then(|| b"0".to_vec());
        while let Some(from) = cursor {
            let arguments = |text: &mut Text| text.push(&from);
            let next = match self.partitions.run(partition, &scripts::SET_BACK, &[], arguments).await {
                Ok(mut reply) => reply.bytes()?,
                Err(error) => {
                    self.partitions.clock.is_set_back(partition, Late::Leases);
                    return Err(error);
                }
            };
            cursor = Some(next).filter(|next| next != b"0");
        }
        Ok(was_set_back)
    }
}

/// Whether it is a success with only a result, which does not require reading the job.
fn is_plain(finish: &Finish) -> bool {
    let Finish { stage, message, error, result: _, crashes, drop, successors } = finish;
    *stage == Stage::Succeeded
        && message.is_none()
        && error.is_none()
        && crashes.is_none()
        && !drop
        && successors.is_empty()
}

/// The run in a script's answer: when it began, its due time and attempts, its queue, and its kind if requested; `None` if
/// no run ended.
fn run(bytes: &[u8], last: &mut Option<Arc<str>>) -> Option<Run> {
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
    let (began, rest) = bytes.split_first_chunk::<6>()?;
    let (due_at, rest) = rest.split_first_chunk::<6>()?;
    let (attempt, rest) = rest.split_first_chunk::<4>()?;
    let (&length, rest) = rest.split_first()?;
    let (queue, rest) = rest.split_at_checked(length.into())?;
    let queue = match last {
        Some(last) if last.as_bytes() == queue => last.clone(),
        _ => last.insert(Arc::from(std::str::from_utf8(queue).ok()?)).clone(),
    };
    let kind = match rest.split_first() {
        None => None,
        Some((_, [])) => Some(Arc::from(KIND_DEFAULT)),
        Some((_, kind)) => Some(Arc::from(std::str::from_utf8(kind).ok()?)),
    };
    let (due_at, started_at) = (number(due_at), number(began));
    Some(Run { queue, kind, attempt: u32::from_be_bytes(*attempt), due_at, started_at })
}

/// The entry that a change writes to the outbox: beside a ledger each does, and in a Redis that is the ledger one that new jobs
/// begin with.
pub(super) fn noted(record: &Record, successors: &[Job], is_ledger: bool) -> Option<OutboxEntry> {
    let is_noted = !is_ledger || !successors.is_empty();
    is_noted.then(|| entry(record.clone()).followed_by(successors.to_vec()))
}

/// Converts a stored job to an outbox entry.
pub(super) fn entry(record: Record) -> OutboxEntry {
    match (record.removed, record.rewritten) {
        (true, _) => OutboxEntry::Removed(record.job),
        (_, true) => OutboxEntry::Rewritten(record.job),
        _ => OutboxEntry::Changed(record.job),
    }
}
