//! The callers that wait for the end of a job, by job. An end costs one look into a map, however many wait for other jobs.

use crate::model::id::JobId;
use crate::ports::Event;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Mutex;
use tokio::sync::watch;

/// The jobs whose end is waited for, each with what tells it.
#[derive(Debug, Default)]
pub(super) struct Ends(Mutex<HashMap<JobId, watch::Sender<()>>>);

impl Ends {
    pub(super) fn join(&self, id: JobId) -> watch::Receiver<()> {
        let mut ends = self.0.lock().expect("no panic under this lock");
        ends.entry(id).or_insert_with(|| watch::channel(()).0).subscribe()
    }

    /// Called while the receiver that leaves still exists.
    pub(super) fn leave(&self, id: JobId) {
        let mut ends = self.0.lock().expect("no panic under this lock");
        if let Entry::Occupied(end) = ends.entry(id)
            && end.get().receiver_count() <= 1
        {
            end.remove();
        }
    }

    pub(super) fn deliver(&self, event: &Event) {
        match event {
            Event::Transition(transition) if !transition.what.is_end() => {}
            Event::Transition(transition) => {
                let ends = self.0.lock().expect("no panic under this lock");
                ends.get(&transition.id).inspect(|end| end.send_replace(()));
            }
            // Any job may have ended.
            Event::Missed => {
                let ends = self.0.lock().expect("no panic under this lock");
                for end in ends.values() {
                    end.send_replace(());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_forgotten_with_the_last_who_waits_for_it() {
        let (ends, id) = (Ends::default(), JobId::from_sequence(7));
        let (first, mut second) = (ends.join(id), ends.join(id));
        ends.leave(id);
        drop(first);
        ends.deliver(&Event::Missed);
        assert!(second.has_changed().unwrap(), "one still waits");
        second.mark_unchanged();
        ends.leave(id);
        drop(second);
        assert!(ends.0.lock().unwrap().is_empty());
    }
}
