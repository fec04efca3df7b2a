//! Outcomes to be settled, in groups. Outcomes that arrive while a group is in flight form the next group, so an idle worker
//! settles at once and a busy one in bulk.

use super::backoff::Backoff;
use duetime_core::Receipt;
use duetime_core::engine::Outcome;
use tokio::time::Instant;

/// Maximum number of outcomes in a group.
const GROUP_JOBS_MAX: usize = 1_000;
/// Maximum bytes of results in a group of more than one outcome.
const GROUP_BYTES_MAX: usize = 8 << 20;
/// Groups in flight at a time: while one becomes durable, the next is processed.
const GROUPS_MAX: usize = 2;
/// With this many unsettled outcomes, no more jobs are reserved.
const UNSETTLED_MAX: usize = 10_000;

pub(super) type Group = Vec<(Receipt, Outcome)>;

#[derive(Default)]
pub(super) struct Outbox {
    waiting: Group,
    groups: usize,
    backoff: Backoff,
    not_before: Option<Instant>,
}

impl Outbox {
    pub(super) fn push(&mut self, receipt: Receipt, outcome: Outcome) {
        self.waiting.push((receipt, outcome));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.groups == 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= UNSETTLED_MAX
    }

    /// When to check again, if that is later than now.
    pub(super) fn not_before(&self, now: Instant) -> Option<Instant> {
        self.not_before.filter(|&at| at > now && !self.waiting.is_empty())
    }

    /// The next group, if one may be sent.
    pub(super) fn next(&mut self, now: Instant) -> Option<Group> {
        let is_early = self.not_before.is_some_and(|at| now < at);
        if self.waiting.is_empty() || self.groups >= GROUPS_MAX || is_early {
            return None;
        }
        self.not_before = None;
        self.groups += 1;
        let mut bytes = 0;
        let fits = self.waiting.iter().take(GROUP_JOBS_MAX).take_while(|(_, outcome)| {
            bytes += size(outcome);
            bytes <= GROUP_BYTES_MAX
        });
        let count = fits.count().max(1);
        if count == self.waiting.len() {
            return Some(std::mem::take(&mut self.waiting));
        }
        Some(self.waiting.drain(..count).collect())
    }

    /// A group was answered.
    pub(super) fn answered(&mut self) {
        self.groups -= 1;
        self.backoff.reset();
    }

    /// A group failed at `now`. Returns whether it is the first failure in a row.
    pub(super) fn failed(&mut self, now: Instant) -> bool {
        self.groups -= 1;
        let is_news = self.backoff.is_calm();
        self.not_before = Some(now + self.backoff.next());
        is_news
    }
}

fn size(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Complete { result, then } => {
            let then = then.iter().flat_map(|list| list.iter()).map(|next| next.get().len());
            result.as_ref().map_or(0, |result| result.len()) + then.sum::<usize>()
        }
        Outcome::Fail(failure) => failure.message.len(),
        Outcome::Release(_) => 0,
        Outcome::Park(park) => park.message.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duetime_core::{JobId, Payload};

    fn outcome(n: u64, result_bytes: usize) -> (Receipt, Outcome) {
        let result = (result_bytes > 0).then(|| Payload::from(vec![b'0'; result_bytes]));
        (Receipt { id: JobId::from_sequence(n), epoch: 1 }, Outcome::complete(result))
    }

    #[test]
    fn a_first_outcome_goes_at_once_and_the_rest_in_groups() {
        let (mut outbox, now) = (Outbox::default(), Instant::now());
        let mut sizes = Vec::new();
        for n in 1..=2_500 {
            let (receipt, outcome) = outcome(n, 0);
            outbox.push(receipt, outcome);
            sizes.extend(outbox.next(now).map(|group| group.len()));
        }
        assert_eq!(sizes, [1, 1]);
        outbox.answered();
        assert_eq!(outbox.next(now).unwrap().len(), GROUP_JOBS_MAX);
    }

    #[test]
    fn large_results_make_small_groups() {
        let (mut outbox, now) = (Outbox::default(), Instant::now());
        for n in 1..=20 {
            let (receipt, outcome) = outcome(n, 1 << 20);
            outbox.push(receipt, outcome);
        }
        assert_eq!(outbox.next(now).unwrap().len(), 8);
    }

    #[test]
    fn after_a_failure_it_waits() {
        let (mut outbox, now) = (Outbox::default(), Instant::now());
        let (receipt, outcome) = outcome(1, 0);
        outbox.push(receipt, outcome.clone());
        outbox.next(now).unwrap();
        assert!(outbox.failed(now));
        outbox.push(receipt, outcome);
        assert!(outbox.next(now).is_none());
        assert!(outbox.next(outbox.not_before(now).unwrap()).is_some());
        assert!(!outbox.failed(now));
    }
}
