//! Checks that a lock had one holder at a time, each with a different fence.

use super::span::Span;
use super::{Account, At, CUT_MS, Call, Loss, earlier, later};

/// A lock that was granted.
#[derive(Debug)]
pub(super) struct Hold {
    pub(super) fence: u64,
    pub(super) call: Call,
    pub(super) ttl_ms: u64,
    pub(super) span: Span,
    /// When its release was first requested.
    pub(super) release: Option<At>,
}

impl Account {
    pub(super) fn judge_locks(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (name, holds) in &self.locks {
            let mut holds: Vec<&Hold> = holds.iter().collect();
            holds.sort_by_key(|hold| (hold.fence, hold.call.answered.mono));
            for pair in holds.windows(2) {
                self.judge_holders(name, pair[0], pair[1], &mut wrong);
            }
            for hold in holds {
                self.judge_lost(name, hold, &mut wrong);
            }
        }
        wrong
    }

    fn judge_holders(&self, name: &str, a: &Hold, b: &Hold, wrong: &mut Vec<String>) {
        let (first, last) = (earlier(a.call.asked, b.call.asked), later(a.call.answered, b.call.answered));
        // Without a ledger they come from the broker's clock, and repeat only if its memory is lost, too.
        let is_clock_set = self.is_clock_set(first, last) && !self.has_ledger;
        let may_repeat = is_clock_set && self.befell(&[Loss::Emptied, Loss::FellBack], first, last);
        if a.fence == b.fence && !may_repeat {
            wrong.push(format!("the fence {} of {name} was given twice: {a:?}, {b:?}", a.fence));
        }
        if is_clock_set {
            return;
        }
        if b.call.answered.mono < a.call.asked.mono {
            wrong.push(format!("the fences of {name} fell: {b:?}, then {a:?}"));
            return;
        }
        let granted_at = b.span.first_until().saturating_sub(b.ttl_ms);
        let certain = a.span.certain_until();
        let is_released = a.release.is_some_and(|at| at.mono <= b.call.answered.mono);
        if granted_at + CUT_MS < certain && !is_released && !self.is_memory_lost(&a.span, b.call.answered) {
            wrong.push(format!("{name} had two holders for {} ms: {a:?}, {b:?}", certain - granted_at));
        }
    }

    /// A renewal is not refused while the lock is held.
    fn judge_lost(&self, name: &str, hold: &Hold, wrong: &mut Vec<String>) {
        for call in &hold.span.refused {
            let certain = hold.span.certain_before(call);
            let is_released = hold.release.is_some_and(|at| at.mono <= call.answered.mono);
            let lives = call.answered.wall + CUT_MS < certain;
            if lives && !is_released && !self.is_memory_lost(&hold.span, call.answered) {
                wrong.push(format!("{name} was lost {} ms before its end: {hold:?}", certain - call.answered.wall));
            }
        }
    }
}
