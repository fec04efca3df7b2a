//! One life of a process, which ends between any two steps, or is frozen for a while.

use crate::error::Error;
use crate::testing::Random;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// One life of a process.
#[derive(Debug)]
pub struct Life {
    state: Mutex<LifeState>,
    died: Notify,
}

#[derive(Debug)]
struct LifeState {
    /// The source of random step lengths; `None`: steps take no time.
    random: Option<Random>,
    steps_left: Option<u64>,
    dies_at: Option<(&'static str, When)>,
    panics_at: Option<&'static str>,
    freezes_at: Option<(&'static str, When, Duration)>,
    frozen_until: Option<Instant>,
    mute: Option<&'static str>,
    is_dead: bool,
    calls: BTreeMap<&'static str, u64>,
}

/// Before or after a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// It did not happen.
    Before,
    /// It happened, but the answer was lost.
    After,
}

impl Life {
    /// A life of this many steps, of random lengths; `None` for one without end.
    pub fn random(seed: u64, steps: Option<u64>) -> Arc<Self> {
        Self::new(Some(Random::new(seed)), steps)
    }

    /// A life without end, whose steps take no time.
    pub fn plain() -> Arc<Self> {
        Self::new(None, None)
    }

    fn new(random: Option<Random>, steps_left: Option<u64>) -> Arc<Self> {
        let state = LifeState {
            random,
            steps_left,
            dies_at: None,
            panics_at: None,
            freezes_at: None,
            frozen_until: None,
            mute: None,
            is_dead: false,
            calls: BTreeMap::new(),
        };
        Arc::new(Self { state: Mutex::new(state), died: Notify::new() })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, LifeState> {
        self.state.lock().expect("no panic under this lock")
    }

    /// Dies at the next call of this verb.
    pub fn die_at(&self, verb: &'static str, when: When) {
        self.state().dies_at = Some((verb, when));
    }

    /// Panics in whichever task calls this verb next; the process lives on.
    pub fn panic_at(&self, verb: &'static str) {
        self.state().panics_at = Some(verb);
    }

    /// Dies now.
    pub fn die(&self) {
        self.state().is_dead = true;
        self.died.notify_one();
    }

    /// No request begins or is answered during this time.
    pub fn freeze(&self, time: Duration) {
        self.state().frozen_until = Some(Instant::now() + time);
    }

    /// Freezes for this long at the next call of this verb.
    pub fn freeze_at(&self, verb: &'static str, when: When, time: Duration) {
        self.state().freezes_at = Some((verb, when, time));
    }

    /// From now on it neither dies nor freezes.
    pub fn calm(&self) {
        let mut state = self.state();
        (state.steps_left, state.dies_at, state.frozen_until, state.mute) = (None, None, None, None);
    }

    /// From now on no answer of this verb arrives.
    pub fn mute(&self, verb: Option<&'static str>) {
        self.state().mute = verb;
    }

    /// The number of its calls of this verb.
    pub fn calls(&self, verb: &str) -> u64 {
        self.state().calls.get(verb).copied().unwrap_or(0)
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        self.state().is_dead
    }

    /// Ends when the process has died.
    pub async fn death(&self) {
        self.died.notified().await;
    }

    /// A step of the process, after which others may run, or at which it dies.
    pub(super) async fn step(&self, verb: &'static str, when: When) {
        if when == When::Before {
            *self.state().calls.entry(verb).or_default() += 1;
        }
        let panics = self.state().panics_at.take_if(|at| *at == verb).is_some();
        assert!(!panics, "{verb}: a panic that a test asked for");
        loop {
            let frozen_until = {
                let mut state = self.state();
                if let Some(left) = state.steps_left.as_mut() {
                    *left = left.saturating_sub(1);
                }
                if state.steps_left == Some(0) || state.dies_at == Some((verb, when)) {
                    state.is_dead = true;
                }
                let freezes = state.freezes_at.take_if(|(at, on, _)| (*at, *on) == (verb, when));
                state.frozen_until = freezes.map(|(.., time)| Instant::now() + time).or(state.frozen_until);
                state.frozen_until
            };
            if self.is_over() {
                self.died.notify_one();
                std::future::pending::<()>().await;
            }
            match frozen_until.filter(|&until| until > Instant::now()) {
                Some(until) => tokio::time::sleep_until(until).await,
                None => break,
            }
        }
        let Some(dice) = self.state().random.as_mut().map(|random| random.within(0..100)) else { return };
        match dice {
            0..50 => {}
            50..90 => tokio::task::yield_now().await,
            _ => tokio::time::sleep(Duration::from_millis(dice - 89)).await,
        }
    }

    /// Runs something as a step of the process.
    pub(super) async fn around<T>(
        &self,
        verb: &'static str,
        act: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.step(verb, When::Before).await;
        let answer = act.await;
        self.step(verb, When::After).await;
        let is_mute = self.state().mute == Some(verb);
        if is_mute { Err(Error::Unavailable("its answer was lost".into())) } else { answer }
    }
}
