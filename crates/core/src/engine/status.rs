//! The engine's health.

use crate::api::{Degraded, DegradedCode};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::watch;

/// A background task of the engine that ended although the engine was not stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the background task `{0}` ended unexpectedly; see the log, then restart this process")]
pub struct Fault(&'static str);

impl Fault {
    /// The fault of the task with this name.
    pub fn of(task: &'static str) -> Self {
        Self(task)
    }
}

#[derive(Debug, Default)]
pub(super) struct Status {
    /// The first one.
    fault: watch::Sender<Option<Fault>>,
    loaded: AtomicU64,
    is_loaded: AtomicBool,
    is_degraded: AtomicBool,
    degraded: Mutex<BTreeMap<DegradedCode, String>>,
}

impl Status {
    /// Marks a part as degraded, for this reason; logged when it begins.
    pub(super) fn degrade(&self, what: DegradedCode, error: &impl Display) {
        let mut degraded = self.degraded.lock().expect("no panic under this lock");
        if degraded.insert(what, error.to_string()).is_none() {
            tracing::error!(%error, "{}", what.detail());
        }
        self.is_degraded.store(true, Ordering::Relaxed);
    }

    /// Marks it as working again; logged if it was degraded.
    pub(super) fn mend(&self, what: DegradedCode) {
        if !self.is_degraded() {
            return;
        }
        let mut degraded = self.degraded.lock().expect("no panic under this lock");
        if degraded.remove(&what).is_some() {
            tracing::info!("resolved: {}", what.detail());
        }
        self.is_degraded.store(!degraded.is_empty(), Ordering::Relaxed);
    }

    /// Marks a part as working, or as degraded for this reason.
    pub(super) fn set(&self, what: DegradedCode, trouble: Option<impl Display>) {
        match trouble {
            Some(error) => self.degrade(what, &error),
            None => self.mend(what),
        }
    }

    /// Whether this degradation is active.
    pub(super) fn is(&self, what: DegradedCode) -> bool {
        self.is_degraded() && self.degraded.lock().expect("no panic under this lock").contains_key(&what)
    }

    pub(super) fn is_degraded(&self) -> bool {
        self.is_degraded.load(Ordering::Relaxed)
    }

    pub(super) fn degraded(&self) -> Vec<Degraded> {
        let ended = self.fault().map(|fault| Degraded {
            code: DegradedCode::TaskEnded,
            detail: fault.to_string(),
            error: None,
        });
        let degraded = self.degraded.lock().expect("no panic under this lock");
        let others = degraded.iter().map(|(&code, error)| Degraded {
            code,
            detail: code.detail().to_owned(),
            error: Some(error.clone()),
        });
        ended.into_iter().chain(others).collect()
    }

    /// A background task has ended.
    pub(super) fn fail(&self, fault: Fault) {
        tracing::error!("{fault}");
        self.fault.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert(fault);
            is_first
        });
    }

    pub(super) fn fault(&self) -> Option<Fault> {
        *self.fault.borrow()
    }

    /// Waits for the first fault.
    pub(super) async fn faulted(&self) -> Fault {
        let mut fault = self.fault.subscribe();
        let found = fault.wait_for(Option::is_some).await.ok().and_then(|fault| *fault);
        found.expect("the sender lives as long as `self`")
    }

    pub(super) fn count_loaded(&self, jobs: u64) {
        self.loaded.fetch_add(jobs, Ordering::Relaxed);
    }

    /// Whether all that is due soon is in the broker.
    pub(super) fn set_loaded(&self, is_loaded: bool) {
        self.is_loaded.store(is_loaded, Ordering::Relaxed);
    }

    /// The number of loaded jobs, and whether all are loaded for now.
    pub(super) fn progress(&self) -> (u64, bool) {
        (self.loaded.load(Ordering::Relaxed), self.is_loaded.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_degraded_until_it_is_mended_and_an_ended_task_comes_first() {
        let status = Status::default();
        status.mend(DegradedCode::Recording);
        assert!(!status.is_degraded());
        status.set(DegradedCode::Recording, Some("no route"));
        status.degrade(DegradedCode::Recording, &"no answer");
        status.degrade(DegradedCode::BrokerFull, &"gone");
        assert!(status.is(DegradedCode::Recording) && status.is_degraded());
        status.fail(Fault::of("first"));
        status.fail(Fault::of("second"));
        assert_eq!(status.fault(), Some(Fault::of("first")));
        let errors: Vec<_> = status.degraded().into_iter().map(|part| (part.code, part.error)).collect();
        let of = |code, error: &str| (code, Some(error.to_owned()));
        let expected = [
            (DegradedCode::TaskEnded, None),
            of(DegradedCode::Recording, "no answer"),
            of(DegradedCode::BrokerFull, "gone"),
        ];
        assert_eq!(errors.len(), 3);
        assert!(expected.iter().all(|part| errors.contains(part)) && errors[0] == expected[0], "{errors:?}");
        status.set(DegradedCode::Recording, None::<&str>);
        assert!(!status.is(DegradedCode::Recording) && status.is_degraded(), "the broker still is");
        status.mend(DegradedCode::BrokerFull);
        assert!(!status.is_degraded() && status.degraded().len() == 1);
    }

    #[tokio::test]
    async fn whoever_waits_for_a_fault_gets_the_first_also_afterwards() {
        let status = Status::default();
        let waits = status.faulted();
        status.fail(Fault::of("first"));
        assert_eq!(waits.await, Fault::of("first"));
        assert_eq!(status.faulted().await, Fault::of("first"));
    }
}
