//! One who listens to what happens to jobs, and to what of it.

use super::events::Events;
use crate::error::Error;
use crate::limits::RESERVE_QUEUES_MAX;
use crate::name;
use crate::ports::{Told, Transition, What};
use std::sync::Arc;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio_util::sync::CancellationToken;

/// Ends the name of many queues.
const ANY: char = '*';

/// What somebody wants to hear of. By default everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of these queues, at most 64; `mail.*` means all whose names begin with `mail.`. Empty: of all.
    pub queues: Vec<Arc<str>>,
    /// These things. Empty: all.
    pub what: Vec<What>,
}

impl Filter {
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.queues.len() > RESERVE_QUEUES_MAX {
            let got = self.queues.len();
            return Err(Error::invalid("queues", format!("at most {RESERVE_QUEUES_MAX} queues"), got));
        }
        self.queues.iter().try_for_each(|queue| match queue.strip_suffix(ANY) {
            Some("") => Ok(()),
            Some(beginning) => name::check_queue(beginning),
            None => name::check_queue(queue),
        })
    }

    fn fits(&self, transition: &Transition) -> bool {
        let is_named = |queue: &Arc<str>| match queue.strip_suffix(ANY) {
            Some(beginning) => transition.queue.starts_with(beginning),
            None => *queue == transition.queue,
        };
        (self.what.is_empty() || self.what.contains(&transition.what))
            && (self.queues.is_empty() || self.queues.iter().any(is_named))
    }
}

/// Hears what happens to jobs, from when it was made on.
#[derive(Debug)]
pub struct Listener {
    receiver: Receiver<Told>,
    filter: Filter,
    events: Arc<Events>,
    stopping: CancellationToken,
}

impl Listener {
    pub(super) fn new(
        receiver: Receiver<Told>,
        filter: Filter,
        events: Arc<Events>,
        stopping: CancellationToken,
    ) -> Self {
        Self { receiver, filter, events, stopping }
    }

    /// Waits for the next event. Returns [`Told::Missed`] if events were missed, and `None` once the engine stops. Cancel
    /// safe.
    pub async fn next(&mut self) -> Option<Told> {
        loop {
            let told = tokio::select! {
                biased;
                () = self.stopping.cancelled() => return None,
                told = self.receiver.recv() => match told {
                    Ok(told) => told,
                    Err(RecvError::Lagged(_)) => Told::Missed,
                    Err(RecvError::Closed) => return None,
                },
            };
            if self.wants(&told) {
                return Some(told);
            }
        }
    }

    /// The same, where it is there already.
    pub fn try_next(&mut self) -> Option<Told> {
        loop {
            let told = match self.receiver.try_recv() {
                Ok(told) => told,
                Err(TryRecvError::Lagged(_)) => Told::Missed,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return None,
            };
            if self.wants(&told) {
                return Some(told);
            }
        }
    }

    fn wants(&self, told: &Told) -> bool {
        match told {
            Told::Transition(transition) => self.filter.fits(transition),
            Told::Missed => true,
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.events.leave();
    }
}
