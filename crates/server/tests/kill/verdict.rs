//! Whether what the clients were told is true: of each job, in the order of its leases, and of the records at the end.

use crate::account::{Account, End, HeldLease, Life};
use crate::common::Exchange;
use duetime_core::engine::{CancelOutcome, PushOutcome};
use duetime_core::json::Timestamp;
use duetime_core::{Job, JobId, Millis, State};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The most that two readings of the server's clocks may differ: the wall clock and the monotonic one, cut to milliseconds.
const CLOCKS_MS: u64 = 5;
/// The number of crashes after which a job fails.
const CRASHES_MAX: u32 = 5;

/// Why a job was handed out once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Because {
    /// Its holder gave it back, or failed it.
    GivenBack,
    /// Its holder did so, or completed it, and did not hear whether that got there.
    ReplyLost,
    /// The lease ended by time.
    LeaseEnded,
}

#[derive(Default)]
pub(crate) struct Verdict {
    pub(crate) wrong: Vec<String>,
    /// Hand-outs that were not the first of their job, with why.
    pub(crate) repeated: Vec<(JobId, u64, Because)>,
    counts: BTreeMap<&'static str, u64>,
}

impl Verdict {
    /// `records` are all jobs there are in the end, when everything was worked off.
    pub(crate) fn of(account: &Account, records: &BTreeMap<JobId, Job>) -> Self {
        let mut verdict = Self { wrong: account.wrong.clone(), ..Self::default() };
        verdict.judge_pushes(account, records);
        verdict.judge_keys(account, records);
        verdict.judge_tags(account, records);
        for (&id, life) in &account.jobs {
            verdict.judge_life(id, life, records.get(&id));
        }
        for job in records.values() {
            verdict.count(job.state(0).word());
        }
        verdict
    }

    pub(crate) fn counted(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn check(&mut self, is_right: bool, complaint: impl FnOnce() -> String) {
        if !is_right {
            self.wrong.push(complaint());
        }
    }

    /// Each acknowledged push made the job in its answer; one whose reply was lost made at most one; nothing else made any.
    fn judge_pushes(&mut self, account: &Account, records: &BTreeMap<JobId, Job>) {
        let mut made: BTreeMap<u64, Vec<JobId>> = BTreeMap::new();
        for (&id, job) in records {
            made.entry(number(job)).or_default().push(id);
        }
        for (&number, push) in &account.pushes {
            let made = made.remove(&number).unwrap_or_default();
            match &push.exchange.answer {
                Some((_, pushed)) if pushed.outcome == PushOutcome::Created => {
                    self.count("pushes acknowledged");
                    self.check(made == [pushed.id], || format!("{pushed:?} is recorded as {made:?}"));
                }
                Some(_) => {
                    self.count("pushes that found their key held");
                    self.check(made.is_empty(), || format!("the push {number} kept another job, and made {made:?}"));
                }
                None => {
                    self.count("pushes without a reply");
                    self.check(made.len() <= 1, || format!("the push {number} was sent once, and made {made:?}"));
                }
            }
        }
        self.check(made.is_empty(), || format!("jobs that nobody pushed: {made:?}"));
    }

    /// A key has one live job at a time, and a push that found it held was told the holder.
    fn judge_keys(&mut self, account: &Account, records: &BTreeMap<JobId, Job>) {
        let mut by_key: BTreeMap<&str, Vec<&Job>> = BTreeMap::new();
        for job in records.values() {
            if let Some(key) = &job.key {
                by_key.entry(key).or_default().push(job);
            }
        }
        for (key, mut jobs) in by_key {
            jobs.sort_by_key(|job| (job.created_at, job.id));
            for pair in jobs.windows(2) {
                // A job is made between the sending of its push and the answer.
                let push = account.pushes.get(&number(pair[1])).and_then(|push| push.exchange.answer.as_ref());
                let made_by = push.map_or(Millis::MAX, |(at, _)| *at);
                let is_free = pair[0].finished_at.is_some_and(|at| at <= Timestamp(made_by));
                self.check(is_free, || format!("the key {key} was held twice, by {:?} and {:?}", pair[0], pair[1]));
            }
        }
        for push in account.pushes.values() {
            let Some((at, pushed)) = &push.exchange.answer else { continue };
            if pushed.outcome == PushOutcome::Kept {
                let is_holder = records.get(&pushed.id).is_some_and(|job| {
                    let lived = job.created_at <= Timestamp(*at)
                        && job.finished_at.is_none_or(|end| end >= Timestamp(push.exchange.sent));
                    job.key == push.key && lived
                });
                self.check(is_holder, || format!("{pushed:?} was not the holder of {:?}", push.key));
            }
        }
    }

    /// Jobs that had a tag before it was cancelled are no longer handed out.
    fn judge_tags(&mut self, account: &Account, records: &BTreeMap<JobId, Job>) {
        for (tag, exchange) in &account.tag_cancels {
            let Some((cancelled_at, ())) = exchange.answer else { continue };
            self.count("cancels by tag");
            for push in account.pushes.values().filter(|push| push.tags.contains(tag)) {
                let Some((_, pushed)) = push.exchange.answer.as_ref().filter(|(at, _)| *at < exchange.sent) else {
                    continue;
                };
                if pushed.outcome == PushOutcome::Created {
                    let is_over = records.get(&pushed.id).is_some_and(|job| !job.is_pending());
                    self.check(is_over, || format!("{} with the tag {tag} is not over", pushed.id));
                    self.not_started_after(pushed.id, &account.jobs[&pushed.id], cancelled_at, "its tag's cancel");
                }
            }
        }
    }

    fn not_started_after(&mut self, id: JobId, life: &Life, instant: Millis, what: &str) {
        for (epoch, held) in &life.leases {
            let complaint = || format!("{id}.{epoch} began at {}, after {what} at {instant}", held.started_at);
            self.check(held.started_at <= instant, complaint);
        }
    }

    fn judge_life(&mut self, id: JobId, life: &Life, record: Option<&Job>) {
        let Some(record) = record else {
            return self.wrong.push(format!("the job {id} is gone"));
        };
        let wrong_before = self.wrong.len();
        self.judge_cancels(record, life);
        let mut before: Option<(u64, &HeldLease)> = None;
        for (&epoch, held) in &life.leases {
            self.count("hand-outs");
            let (due_at, started_at) = (held.due_at, held.started_at);
            self.check(due_at <= started_at && started_at <= held.seen_at, || {
                format!("{id}.{epoch}, due at {due_at}, began at {started_at} and was seen at {}", held.seen_at)
            });
            if let Some((last, earlier)) = before {
                self.check(earlier.started_at <= started_at, || format!("{id}.{epoch} began before {id}.{last}"));
                match why_again(earlier, started_at) {
                    Some(because) => self.repeated.push((id, epoch, because)),
                    None => self.wrong.push(format!("{id}.{epoch} began at {started_at} while {id}.{last} lived")),
                }
            }
            self.judge_settles(epoch, held, record);
            before = Some((epoch, held));
        }
        let last = life.leases.keys().max().copied().unwrap_or(0);
        self.check(last <= record.epoch, || format!("{id}.{last} was handed out, the record has {}", record.epoch));
        let is_over = !record.is_pending();
        self.check(is_over, || format!("{record:?} is not worked off"));
        if let Some(end) = record.finished_at {
            self.not_started_after(id, life, end.0, "its end");
        }
        if record.state(0) == State::Failed {
            let mut ends = life.leases.values().flat_map(HeldLease::ends);
            let is_meant = ends.any(|settle| settle.end == End::FailFinally) || record.crashes >= CRASHES_MAX;
            self.check(is_meant, || format!("nobody failed {record:?}"));
        }
        if self.wrong.len() > wrong_before {
            self.wrong.push(format!("    of {life:#?}\n    recorded as {record:?}"));
        }
    }

    fn judge_cancels(&mut self, record: &Job, life: &Life) {
        let (id, state) = (record.id, record.state(0));
        for Exchange { answer, .. } in &life.cancels {
            let Some((at, outcome)) = *answer else { continue };
            self.count("cancels answered");
            let is_kept = match outcome {
                CancelOutcome::Cancelled => state == State::Cancelled,
                CancelOutcome::CancelRequested => matches!(state, State::Cancelled | State::Succeeded),
                CancelOutcome::AlreadyFinished => !record.is_pending(),
            };
            self.check(is_kept, || format!("the cancel of {id} was answered {outcome:?}, and it ended as {state}"));
            self.not_started_after(id, life, at, "its cancel");
        }
    }

    /// Checks the answers that a holder got about its lease.
    fn judge_settles(&mut self, epoch: u64, held: &HeldLease, record: &Job) {
        let receipt = format!("{}.{epoch}", record.id);
        let (mut may_have_ended, mut was_given_back) = (false, false);
        for settle in &held.settles {
            let Some((at, state)) = settle.exchange.answer else {
                self.count("ends without a reply");
                may_have_ended = true;
                continue;
            };
            let Some(state) = state else {
                let is_over = held.until <= at + CLOCKS_MS;
                self.count(match (was_given_back, may_have_ended) {
                    (true, _) => "ends refused after the job was given back",
                    (false, true) => "ends refused after a lost reply",
                    (false, false) => "ends refused",
                });
                self.check(is_over || may_have_ended, || format!("{receipt} was refused at {at} while it lived"));
                let counts = record.epoch == epoch
                    && match settle.end {
                        End::Complete => record.state(0) == State::Succeeded,
                        End::FailFinally => record.state(0) == State::Failed && record.crashes < CRASHES_MAX,
                        End::Again(_) => false,
                    };
                self.check(!counts, || format!("{receipt} {:?} was refused, and counts", settle.end));
                continue;
            };
            self.check(!was_given_back, || format!("{receipt} was given back, and ended once more as {state}"));
            (may_have_ended, was_given_back) = (true, state.is_live());
            self.count("ends acknowledged");
            if settle.exchange.generation > held.generation {
                self.count("ends acknowledged after a restart");
            }
            if state.is_live() {
                self.check(matches!(settle.end, End::Again(_)), || format!("{receipt} {:?}: {state}", settle.end));
                continue;
            }
            let is_kept = record.state(0) == state && record.epoch == epoch;
            self.check(is_kept, || format!("{receipt} ended as {state}, and the record is {record:?}"));
            let expected = match settle.end {
                End::Complete => state == State::Succeeded,
                End::FailFinally => matches!(state, State::Failed | State::Cancelled),
                End::Again(_) => state == State::Cancelled,
            };
            self.check(expected, || format!("{receipt} {:?}: {state}", settle.end));
        }
    }
}

/// Why a job could be handed out at this instant although it had been before.
fn why_again(earlier: &HeldLease, started_at: Millis) -> Option<Because> {
    let mut because = None;
    for settle in earlier.ends().filter(|settle| settle.exchange.sent <= started_at) {
        match (settle.end, settle.exchange.answer) {
            // Not before the delay that it was given back for.
            (End::Again(after_ms), Some(_)) if started_at < settle.exchange.sent + after_ms => return None,
            (End::Again(_), Some(_)) => return Some(Because::GivenBack),
            (_, Some(_)) => return None,
            (_, None) => because = Some(Because::ReplyLost),
        }
    }
    because.or((earlier.until <= started_at + CLOCKS_MS).then_some(Because::LeaseEnded))
}

/// The number in a job's payload.
pub(crate) fn number(job: &Job) -> u64 {
    std::str::from_utf8(&job.payload).ok().and_then(|text| text.parse().ok()).expect("a number")
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, count) in &self.counts {
            writeln!(f, "{count:>8} {what}")?;
        }
        let kinds: BTreeSet<Because> = self.repeated.iter().map(|(.., because)| *because).collect();
        for kind in kinds {
            let count = self.repeated.iter().filter(|(.., because)| *because == kind).count();
            writeln!(f, "{count:>8} handed out again: {kind:?}")?;
        }
        Ok(())
    }
}
