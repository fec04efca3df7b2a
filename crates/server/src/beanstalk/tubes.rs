//! Statistics of tubes in this process: clients that use and watch them, and counts since its start.

use super::command::Tube;
use duetime_core::model::name::QUEUE_DEFAULT;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Above this number of tubes, unused ones are forgotten with their counts.
const TUBES_MAX: usize = 10_000;

/// A tube.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TubeState {
    /// Its place in the order in which tubes came.
    order: u64,
    pub(super) using: u64,
    pub(super) watching: u64,
    pub(super) waiting: u64,
    pub(super) total_jobs: u64,
    pub(super) deletes: u64,
    pub(super) pauses: u64,
    /// The number of seconds for which it was last paused.
    pub(super) pause_s: u64,
}

impl TubeState {
    pub(super) fn is_referenced(&self) -> bool {
        self.using + self.watching > 0
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Tubes(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    by_name: HashMap<Tube, TubeState>,
    last: u64,
    /// The number of tubes at which unused ones are searched for again. It rises if most are used, to avoid a search for
    /// each new tube.
    forgets_at: usize,
}

impl Inner {
    fn get(&mut self, tube: &Tube) -> &mut TubeState {
        if !self.by_name.contains_key(tube) {
            if self.by_name.len() >= self.forgets_at.max(TUBES_MAX) {
                self.by_name.retain(|_, known| known.is_referenced());
                self.forgets_at = 2 * self.by_name.len();
            }
            self.learn(tube);
        }
        self.by_name.get_mut(tube).expect("it was just added")
    }

    fn learn(&mut self, tube: &Tube) {
        if !self.by_name.contains_key(tube) {
            self.last += 1;
            let order = if **tube == *QUEUE_DEFAULT { 0 } else { self.last };
            self.by_name.insert(tube.clone(), TubeState { order, ..TubeState::default() });
        }
    }
}

impl Tubes {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state of a tube.
    pub(super) fn change(&self, tube: &Tube, change: impl FnOnce(&mut TubeState)) {
        change(self.inner().get(tube));
    }

    /// The same for many tubes.
    pub(super) fn change_all(&self, tubes: &[Tube], change: impl Fn(&mut TubeState)) {
        let mut inner = self.inner();
        tubes.iter().for_each(|tube| change(inner.get(tube)));
    }

    /// The statistics of a tube that a client has named.
    pub(super) fn of(&self, tube: &str) -> Option<TubeState> {
        self.inner().by_name.get(tube).copied()
    }

    /// Those of these tubes and of those in use, in order of arrival. Others are forgotten.
    pub(super) fn ordered(&self, with_jobs: Vec<Tube>) -> Vec<Tube> {
        let mut inner = self.inner();
        // Tubes with jobs are all kept, however many there are.
        with_jobs.iter().for_each(|tube| inner.learn(tube));
        let with_jobs: std::collections::HashSet<Tube> = with_jobs.into_iter().collect();
        inner
            .by_name
            .retain(|tube, known| known.is_referenced() || with_jobs.contains(tube) || **tube == *QUEUE_DEFAULT);
        inner.learn(&Tube::from(QUEUE_DEFAULT));
        inner.forgets_at = 2 * inner.by_name.len();
        let mut tubes: Vec<(u64, Tube)> =
            inner.by_name.iter().map(|(tube, known)| (known.order, tube.clone())).collect();
        tubes.sort_unstable();
        tubes.into_iter().map(|(_, tube)| tube).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tubes_come_in_the_order_of_their_creation() {
        let tubes = Tubes::default();
        for name in ["z", "default", "a"] {
            tubes.change(&name.into(), |known| known.using += 1);
        }
        assert_eq!(tubes.ordered(vec!["m".into()]), ["default", "z", "a", "m"].map(Tube::from));
        tubes.change(&"z".into(), |known| known.using -= 1);
        assert_eq!(tubes.ordered(vec![]), ["default", "a"].map(Tube::from));
        assert!(tubes.of("z").is_none());
    }

    #[test]
    fn all_tubes_with_jobs_are_listed() {
        let (tubes, count) = (Tubes::default(), 2 * TUBES_MAX);
        let with_jobs = || (0..count).map(|n| format!("t{n}").into()).collect::<Vec<Tube>>();
        for tube in with_jobs() {
            tubes.change(&tube, |known| known.total_jobs += 1);
        }
        assert_eq!(tubes.ordered(with_jobs()).len(), count + 1, "and `default`");
        tubes.change(&"new".into(), |known| known.using += 1);
        assert_eq!(tubes.ordered(with_jobs()).len(), count + 2);
    }

    /// Each new one would pay for all others.
    #[test]
    fn tubes_in_use_are_not_looked_through_for_each_new_one() {
        let tubes = Tubes::default();
        for n in 0..=TUBES_MAX {
            tubes.change(&format!("t{n}").into(), |known| known.using += 1);
        }
        assert_eq!(tubes.inner().forgets_at, 2 * TUBES_MAX);
    }

    #[test]
    fn tubes_that_nobody_uses_are_bounded() {
        let tubes = Tubes::default();
        tubes.change(&"used".into(), |known| known.watching += 1);
        for n in 0..TUBES_MAX {
            tubes.change(&format!("t{n}").into(), |known| known.deletes += 1);
        }
        assert!(tubes.inner().by_name.len() <= TUBES_MAX && tubes.of("used").is_some());
    }
}
