//! One timer for all schedules: sleeps until the next tick of any.
//!
//! Its information may be old: it only says when to look at a schedule's document, which is then read again. If other
//! processes may change schedules, one small document tells that one did. Now and then all are read in any case.

use super::entry::{CLOCK_ERROR_MS, Entry, EntryDocument};
use super::tick::Look;
use super::{CHANGES, KIND};
use crate::api::DegradedCode;
use crate::clock::Millis;
use crate::engine::consumers::waiting::LOOK_AGAIN;
use crate::engine::schedules::Schedules;
use crate::engine::timers::Timer;
use crate::error::Error;
use crate::model::id::JobId;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How often changes by other processes are looked for.
const REFRESH_EVERY: Duration = Duration::from_millis(900);
/// How often all are read, in case a process died between a change and its announcement.
const READ_ALL_EVERY: Duration = Duration::from_secs(30);
/// When to try again after a failure.
const RETRY_AFTER_MS: u64 = 1_000;
/// Schedules that are looked at together.
const LOOKS_AT_ONCE: usize = 64;

/// Schedules that were changed here.
#[derive(Debug, Default)]
pub(super) struct Changes {
    touched: Mutex<Vec<Arc<str>>>,
    pub(super) changed: Notify,
}

impl Changes {
    /// Has the timer look at this schedule now.
    pub(super) fn touch(&self, name: Arc<str>) {
        self.touched.lock().expect("no panic under this lock").push(name);
        self.changed.notify_one();
    }

    pub(super) fn take(&self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.touched.lock().expect("no panic under this lock"))
    }
}

/// When to look at which schedule.
#[derive(Debug, Default)]
struct Agenda {
    by_time: BTreeSet<(Millis, Arc<str>)>,
    waiting: HashMap<Arc<str>, (Millis, Option<JobId>)>,
    /// Those that are being examined, and whether they have changed since.
    busy: HashMap<Arc<str>, bool>,
}

impl Agenda {
    fn set(&mut self, name: Arc<str>, look: Look) {
        if let Some(has_changed) = self.busy.get_mut(&name) {
            *has_changed = true;
            return;
        }
        let seen = self.remove(&name).and_then(|(_, seen)| seen);
        let (at, seen) = match look {
            Look::At(at) => (at, seen),
            Look::Claimed(at, id) => (at, Some(id).filter(|_| seen == Some(id))),
            Look::Never => return,
        };
        self.by_time.insert((at, name.clone()));
        self.waiting.insert(name, (at, seen));
    }

    fn remove(&mut self, name: &Arc<str>) -> Option<(Millis, Option<JobId>)> {
        let place = self.waiting.remove(name)?;
        self.by_time.remove(&(place.0, name.clone()));
        Some(place)
    }

    /// The clock was set back: each is looked at, and calculates its next tick again.
    fn look_at_all(&mut self, now: Millis) {
        for (name, (at, _)) in &mut self.waiting {
            self.by_time.remove(&(*at, name.clone()));
            *at = (*at).min(now);
            self.by_time.insert((*at, name.clone()));
        }
    }

    fn next_at(&self) -> Option<Millis> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// The first that is due, which is looked at now.
    fn begin(&mut self, now: Millis) -> Option<(Arc<str>, Option<JobId>)> {
        let (_, name) = self.by_time.first().filter(|(at, _)| *at <= now)?.clone();
        let (_, seen) = self.remove(&name)?;
        self.busy.insert(name.clone(), false);
        Some((name, seen))
    }

    fn end(&mut self, name: Arc<str>, look: Look, now: Millis) {
        let has_changed = self.busy.remove(&name).unwrap_or_default();
        let (at, seen) = match look {
            _ if has_changed => (now, None),
            Look::At(at) => (at, None),
            Look::Claimed(at, id) => (at, Some(id)),
            Look::Never => return,
        };
        self.by_time.insert((at, name.clone()));
        self.waiting.insert(name, (at, seen));
    }
}

/// The state of the last read of the registry.
#[derive(Debug, Default)]
struct Reading {
    changes: u64,
    all_at: Option<Instant>,
    at: Option<Instant>,
}

impl Schedules {
    /// Pushes due ticks, until the process stops.
    pub(in crate::engine) async fn tick_schedules(self: &Arc<Self>) {
        let (mut agenda, mut reading, mut looks) = (Agenda::default(), Reading::default(), JoinSet::new());
        let mut seen = (self.broker.now(), Instant::now());
        loop {
            let (now, elapsed) = (self.broker.now(), seen.1.elapsed());
            if now.saturating_add(CLOCK_ERROR_MS) < seen.0.saturating_add(millis(elapsed)) {
                agenda.look_at_all(now);
            }
            seen = (now, Instant::now());
            match self.refresh_schedules(&mut agenda, &mut reading).await {
                Ok(true) => self.status.mend(DegradedCode::Schedules),
                Ok(false) => {}
                Err(error) => self.status.degrade(DegradedCode::Schedules, &error),
            }
            for name in self.timer.take() {
                agenda.set(name, Look::At(self.broker.now()));
            }
            while looks.len() < LOOKS_AT_ONCE
                && let Some((name, seen)) = agenda.begin(self.broker.now())
            {
                let schedules = self.clone();
                looks.spawn(async move { schedules.look_carried(name, seen).await });
            }
            let (is_full, is_idle) = (looks.len() == LOOKS_AT_ONCE, looks.is_empty());
            let next_at = agenda.next_at().filter(|_| !is_full);
            let sleep = next_at.map_or(LOOK_AGAIN, |at| self.broker.until(at).min(LOOK_AGAIN));
            tokio::select! {
                biased;
                Some(looked) = looks.join_next() => {
                    let (name, looked) = match looked {
                        Ok(looked) => looked,
                        // Otherwise the schedule would silently never tick again.
                        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                        Err(_) => continue,
                    };
                    let now = self.broker.now();
                    let look = looked.unwrap_or_else(|error| {
                        self.status.degrade(DegradedCode::ScheduleRuns, &error);
                        Look::At(now.saturating_add(RETRY_AFTER_MS))
                    });
                    agenda.end(name, look, now);
                }
                () = self.timer.changed.notified() => {}
                () = self.timers.sleep(Timer::Schedules, next_at, LOOK_AGAIN), if is_idle => {}
                () = tokio::time::sleep(sleep), if !is_idle => {}
            }
        }
    }

    /// A change that spans two stores must not be dropped halfway, so a look that has begun runs to completion.
    async fn look_carried(self: &Arc<Self>, name: Arc<str>, seen: Option<JobId>) -> (Arc<str>, Result<Look, Error>) {
        let of = name.clone();
        let look = self
            .supervisor
            .complete(self, |schedules| async move { schedules.look_at_schedule(&of, seen).await })
            .await;
        if look.is_ok() {
            self.status.mend(DegradedCode::ScheduleRuns);
        }
        (name, look)
    }

    /// Takes over changes by other processes, at intervals; returns whether it read any.
    async fn refresh_schedules(&self, agenda: &mut Agenda, reading: &mut Reading) -> Result<bool, Error> {
        let is_past = |at: Option<Instant>, every| at.is_none_or(|at| at.elapsed() >= every);
        // In one process nobody else changes anything.
        let is_known = !self.broker.is_shared() && reading.all_at.is_some();
        if is_known || !is_past(reading.at, REFRESH_EVERY) {
            return Ok(false);
        }
        reading.at = Some(Instant::now());
        let changes = self.registry.document(CHANGES, CHANGES).await?.map_or(0, |document| document.version);
        if changes == reading.changes && !is_past(reading.all_at, READ_ALL_EVERY) {
            return Ok(true);
        }
        for document in self.registry.documents(KIND).await? {
            let name: Arc<str> = Arc::from(document.name.as_str());
            let entry = Entry::parse(&name, &document.body);
            // The clock may have been set back while no process ran.
            let is_ahead = || {
                EntryDocument::read(&document, self.broker.now()).is_ok_and(|stored| stored.is_ahead(self.broker.now()))
            };
            match entry {
                Ok(_) if reading.all_at.is_none() && is_ahead() => agenda.set(name, Look::At(self.broker.now())),
                Ok(entry) => agenda.set(name, self.next_look(&entry)),
                Err(error) => tracing::warn!(%error, "a schedule pushes no jobs"),
            }
        }
        (reading.changes, reading.all_at) = (changes, Some(Instant::now()));
        Ok(true)
    }
}

fn millis(span: Duration) -> Millis {
    Millis::try_from(span.as_millis()).unwrap_or(Millis::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures::id;

    fn name(name: &str) -> Arc<str> {
        name.into()
    }

    #[test]
    fn schedules_are_looked_at_in_the_order_of_their_times() {
        let mut agenda = Agenda::default();
        agenda.set(name("b"), Look::At(20));
        agenda.set(name("a"), Look::At(30));
        agenda.set(name("a"), Look::At(10));
        agenda.set(name("never"), Look::Never);
        assert_eq!(agenda.begin(9), None);
        assert_eq!(agenda.begin(20), Some((name("a"), None)));
        assert_eq!((agenda.begin(20), agenda.begin(99)), (Some((name("b"), None)), None));
    }

    /// The look may have read what was there before the change.
    #[test]
    fn a_schedule_that_changes_during_a_look_is_looked_at_again() {
        let mut agenda = Agenda::default();
        agenda.set(name("a"), Look::At(1));
        agenda.begin(1);
        agenda.set(name("a"), Look::Never);
        assert_eq!(agenda.next_at(), None, "not before the first look ends");
        agenda.end(name("a"), Look::At(99), 5);
        assert_eq!(agenda.next_at(), Some(5));
    }

    #[test]
    fn a_claim_is_known_at_the_next_look_unless_another_has_come_meanwhile() {
        let mut agenda = Agenda::default();
        let claimed = |n| Look::Claimed(5, id(n));
        agenda.set(name("a"), claimed(1));
        assert_eq!(agenda.begin(5), Some((name("a"), None)), "it was not seen by a look");
        agenda.end(name("a"), claimed(1), 5);
        agenda.set(name("a"), claimed(1));
        assert_eq!(agenda.begin(5), Some((name("a"), Some(id(1)))));
        agenda.end(name("a"), claimed(1), 5);
        agenda.set(name("a"), claimed(2));
        assert_eq!(agenda.begin(5), Some((name("a"), None)));
    }

    #[test]
    fn all_are_looked_at_once_the_clock_was_set_back() {
        let mut agenda = Agenda::default();
        agenda.set(name("a"), Look::At(50));
        agenda.set(name("b"), Look::At(3));
        agenda.look_at_all(10);
        assert_eq!((agenda.next_at(), agenda.begin(3)), (Some(3), Some((name("b"), None))));
        assert_eq!(agenda.begin(10), Some((name("a"), None)));
    }
}
