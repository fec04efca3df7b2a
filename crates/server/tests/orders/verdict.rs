//! Whether each order that was not cancelled ran once in effect, none before it was due, and none that was cancelled.

use crate::common::Kill;
use crate::orders::runs::Run;
use crate::orders::shop::Shop;
use duetime_core::json::Timestamp;
use duetime_core::{Job, JobId, Millis, State};
use std::collections::BTreeMap;
use std::fmt;

#[derive(Default)]
pub(crate) struct Verdict {
    pub(crate) wrong: Vec<String>,
    repeated: Vec<String>,
    by_worker: BTreeMap<&'static str, u64>,
    counts: BTreeMap<&'static str, u64>,
    late_ms: Vec<Millis>,
    span_ms: Millis,
}

impl Verdict {
    pub(crate) fn of(shop: &Shop, runs: Vec<Run>, records: &BTreeMap<JobId, Job>, kills: &[Kill]) -> Self {
        let mut verdict = Self::default();
        let mut by_job: BTreeMap<JobId, Vec<Run>> = BTreeMap::new();
        for run in runs {
            *verdict.by_worker.entry(run.by).or_default() += 1;
            by_job.entry(run.receipt.id).or_default().push(run);
        }
        let pushed = shop.pushed.borrow();
        verdict.check(pushed.len() as u64 == shop.orders, || format!("{} orders were pushed", pushed.len()));
        verdict.check(records.len() as u64 == shop.orders, || format!("{} orders are recorded", records.len()));
        for (&order, pushed) in pushed.iter() {
            let mut runs = by_job.remove(&pushed.id).unwrap_or_default();
            runs.sort_by_key(|run| run.receipt.epoch);
            match records.get(&pushed.id) {
                Some(record) => verdict.judge(shop, order, record, &runs, kills),
                None => verdict.wrong.push(format!("the order {order}, {pushed:?}, is gone")),
            }
        }
        verdict.check(by_job.is_empty(), || format!("nobody pushed {by_job:?}"));
        verdict.late_ms.sort_unstable();
        verdict
    }

    fn check(&mut self, is_right: bool, complaint: impl FnOnce() -> String) {
        if !is_right {
            self.wrong.push(complaint());
        }
    }

    fn judge(&mut self, shop: &Shop, order: u64, record: &Job, runs: &[Run], kills: &[Kill]) {
        let (due_at, state) = (shop.due_at(order), record.state(0));
        *self.counts.entry(state.word()).or_default() += 1;
        let is_itself = *record.payload == *order.to_string().as_bytes() && record.due_at == Timestamp(due_at);
        self.check(is_itself, || format!("the order {order} is recorded as {record:?}"));
        for run in runs {
            let is_early = run.started_at() < due_at || run.seen_at.is_some_and(|at| at < due_at);
            self.check(!is_early, || format!("the order {order}, due at {due_at}: {run:?} was early"));
            self.span_ms = self.span_ms.max(run.started_at().saturating_sub(shop.due_at(0)));
        }
        if self.is_cancelled(shop, order, record, runs) {
            return;
        }
        self.late_ms.extend(runs.first().map(|run| run.started_at().saturating_sub(due_at)));
        self.check(state == State::Succeeded, || format!("the order {order} ended as {record:?}"));
        let has_run = runs.iter().any(|run| run.receipt == record.receipt());
        self.check(has_run, || format!("the order {order} did not run under the lease that {record:?} ended with"));
        for pair in runs.windows(2) {
            let what = format!("order {order}: {}, then {}", pair[0], pair[1]);
            match why_again(&pair[0], &pair[1], kills) {
                Some(because) => self.repeated.push(format!("{what}: {because}")),
                None => self.wrong.push(format!("{what}, while the first one lived")),
            }
        }
    }

    /// Checks the outcome of the cancel, if there was one; returns whether the order was cancelled.
    fn is_cancelled(&mut self, shop: &Shop, order: u64, record: &Job, runs: &[Run]) -> bool {
        let cancels = shop.cancels.borrow();
        let Some(cancel) = cancels.get(&order) else {
            self.check(!Shop::is_to_be_cancelled(order), || format!("the order {order} was not cancelled"));
            return false;
        };
        let is_cancelled = record.state(0) == State::Cancelled;
        let is_in_time = cancel.answered_at < shop.due_at(order);
        let what = match (is_in_time, cancel.was_reply_lost) {
            (true, false) => "cancels answered before the order was due",
            (true, true) => "cancels answered before the order was due, after a lost reply",
            (false, _) => "cancels answered later",
        };
        *self.counts.entry(what).or_default() += 1;
        let was_cancelled = cancel.counts.cancelled == 1;
        let is_told = was_cancelled || cancel.was_reply_lost || !is_in_time;
        self.check(is_told, || format!("the cancel of the order {order} was answered {:?}", cancel.counts));
        if is_in_time || was_cancelled {
            let is_kept = is_cancelled && (runs.is_empty() || !is_in_time);
            self.check(is_kept, || format!("the order {order} was cancelled: {record:?}, {runs:?}"));
        }
        is_cancelled
    }
}

/// Why a job could be handed out again.
fn why_again(earlier: &Run, later: &Run, kills: &[Kill]) -> Option<String> {
    if later.started_at() >= earlier.until {
        return Some("the lease had ended".to_owned());
    }
    let kill = kills.iter().find(|kill| earlier.started_at() <= kill.end && kill.end <= later.started_at())?;
    let is_last = kill.instant < earlier.seen_at.unwrap_or(earlier.started_at());
    is_last.then(|| format!("leased {} ms before the server was gone", kill.end - earlier.started_at()))
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, count) in self.counts.iter().chain(&self.by_worker) {
            writeln!(f, "{count:>8} {what}")?;
        }
        writeln!(f, "{:>8} repeated hand-outs", self.repeated.len())?;
        for repeated in &self.repeated {
            writeln!(f, "    {repeated}")?;
        }
        let at = |percent: usize| self.late_ms.get(self.late_ms.len() * percent / 100).copied().unwrap_or(0);
        let max = self.late_ms.last().copied().unwrap_or(0);
        writeln!(f, "late by {} ms (half), {} ms (99 of 100), {max} ms (all)", at(50), at(99))?;
        write!(f, "{:>8} ms from the first due time to the last hand-out", self.span_ms)
    }
}
