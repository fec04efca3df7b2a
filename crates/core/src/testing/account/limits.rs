//! Checks that pauses, `max_running` and rates were kept.

use super::{Account, CUT_MS, Call, HeldLease, Loss, earlier, later};
use crate::clock::Millis;
use crate::ports::{Limits, Rate};
use std::sync::Arc;

/// The settings of a queue.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) limits: Limits,
    pub(super) call: Call,
    /// Whether it was answered: otherwise it may or may not hold.
    pub(super) is_known: bool,
}

/// A hand-out of a queue: when it began, how long it ran at least, and when its holder knew of it.
struct HandOut<'a> {
    began: Millis,
    until: Millis,
    held: &'a HeldLease,
}

impl Account {
    pub(super) fn judge_limits(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (queue, settings) in &self.settings {
            let runs = self.runs(queue);
            for (i, setting) in settings.iter().enumerate() {
                let end = settings.get(i + 1).map(|next| next.call.asked);
                // If a request was not answered, both its settings and the earlier ones may hold from then on.
                if !setting.is_known || (i > 0 && !settings[i - 1].is_known && !self.follows(settings, i)) {
                    continue;
                }
                let from = setting.call.answered;
                let within = |run: &&HandOut<'_>| {
                    let call = &run.held.span.call;
                    let to = end.unwrap_or(call.answered);
                    let is_before_end = end.is_none_or(|end| run.began + CUT_MS < end.wall);
                    let is_after = run.began > from.wall + CUT_MS;
                    // Without a ledger, a loss of the broker's memory also loses the setting.
                    let lost = [Loss::ClockSet, Loss::Emptied, Loss::FellBack];
                    let lost = if self.has_ledger { &lost[..1] } else { &lost };
                    let (first, last) = (earlier(setting.call.asked, call.asked), later(to, call.answered));
                    is_after && is_before_end && !self.befell(lost, first, last)
                };
                let these: Vec<&HandOut<'_>> = runs.iter().filter(within).collect();
                let before = wrong.len();
                self.judge_setting(queue, &setting.limits, &these, &runs, &mut wrong);
                if wrong.len() > before {
                    wrong.push(format!("    of {queue}: {:?}", &settings[i..settings.len().min(i + 2)]));
                }
            }
        }
        wrong
    }

    /// The caller of a queue's settings sends one request after the other, so the last answered one holds.
    fn follows(&self, settings: &[Setting], i: usize) -> bool {
        settings[i - 1].call.answered.mono <= settings[i].call.asked.mono
    }

    /// The leases of a queue, by when they began.
    fn runs(&self, queue: &Arc<str>) -> Vec<HandOut<'_>> {
        let all = self.jobs.values().flat_map(|life| life.leases.values()).filter(|held| held.queue == *queue);
        let run = |held| HandOut { began: HeldLease::began(held), until: HeldLease::runs_until(held), held };
        let mut runs: Vec<HandOut<'_>> = all.map(run).collect();
        runs.sort_by_key(|run| run.began);
        runs
    }

    fn judge_setting(
        &self,
        queue: &str,
        limits: &Limits,
        these: &[&HandOut<'_>],
        all: &[HandOut<'_>],
        wrong: &mut Vec<String>,
    ) {
        if limits.paused
            && let Some(run) = these.first()
        {
            wrong.push(format!("{queue} was paused, and handed out {:?} and {} more", run.held, these.len() - 1));
        }
        if let Some(max) = limits.max_running {
            for run in these.iter().filter(|run| !run.held.is_take) {
                let others = all.iter().filter(|other| self.runs_beside(other, run));
                let count = others.count() + 1;
                if count > max as usize {
                    wrong.push(format!("{queue} ran {count} jobs at once, of {max}, at {}", run.began));
                }
            }
        }
        if let Some(rate) = &limits.rate {
            self.judge_rate(queue, rate, these, wrong);
        }
    }

    /// Whether one certainly runs when another begins.
    fn runs_beside(&self, one: &HandOut<'_>, beginner: &HandOut<'_>) -> bool {
        let is_there = one.began <= beginner.began && beginner.began < one.until && !one.held.is_take;
        let is_other = !std::ptr::eq(one.held, beginner.held);
        is_there && is_other && !self.is_memory_lost(&one.held.span, beginner.held.span.call.answered)
    }

    /// A limiter like the queue's own, reset when the broker loses its memory.
    fn judge_rate(&self, queue: &str, rate: &Rate, these: &[&HandOut<'_>], wrong: &mut Vec<String>) {
        let (period_ms, mut full_at) = (rate.period() / 1_000.0, 0.0_f64);
        let mut before: Option<&HandOut<'_>> = None;
        for run in these {
            let began = run.began as f64;
            let lost = [Loss::Emptied, Loss::FellBack, Loss::Killed, Loss::ClockSet];
            if before.is_some_and(|before| self.befell(&lost, before.held.span.call.asked, run.held.span.call.answered))
            {
                full_at = 0.0;
            }
            full_at = full_at.max(began) + period_ms;
            let room_ms = period_ms * f64::from(rate.burst()) + (CUT_MS + 1) as f64;
            if full_at - began > room_ms {
                wrong.push(format!("{queue} was faster than {rate:?} at {}: {:?}", run.began, run.held));
                full_at = 0.0;
            }
            before = Some(run);
        }
    }
}

impl HeldLease {
    fn began(&self) -> Millis {
        self.started_at
    }

    /// The minimum length of the run: until its holder first asked for its end, or until its certain end.
    fn runs_until(&self) -> Millis {
        let first_end = self.ends.iter().map(|end| end.call.asked.wall).min();
        self.span.certain_until().min(first_end.unwrap_or(Millis::MAX))
    }
}
