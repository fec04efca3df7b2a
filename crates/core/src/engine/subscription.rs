//! A subscription to job events.

use super::events::Subscribers;
use crate::error::Error;
use crate::limits::RESERVE_QUEUES_MAX;
use crate::model::name;
use crate::ports::{Event, Transition, What};
use std::sync::Arc;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio_util::sync::CancellationToken;

/// Ends a pattern that matches many queues.
const ANY: char = '*';

/// The events that a subscriber wants. By default all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Events of these queues, at most 64; `mail.*` means all whose names begin with `mail.`. Empty: of all queues.
    pub queues: Vec<Arc<str>>,
    /// Events of these types. Empty: all.
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

/// The job events since its creation.
#[derive(Debug)]
pub struct Subscription {
    receiver: Receiver<Event>,
    filter: Filter,
    subscribers: Arc<Subscribers>,
    stopping: CancellationToken,
}

impl Subscription {
    pub(super) fn new(
        receiver: Receiver<Event>,
        filter: Filter,
        subscribers: Arc<Subscribers>,
        stopping: CancellationToken,
    ) -> Self {
        Self { receiver, filter, subscribers, stopping }
    }

    /// Waits for the next event. Returns [`Event::Missed`] if events were missed, and `None` once the engine stops. Cancel
    /// safe.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            let event = tokio::select! {
                biased;
                () = self.stopping.cancelled() => return None,
                event = self.receiver.recv() => match event {
                    Ok(event) => event,
                    Err(RecvError::Lagged(_)) => Event::Missed,
                    Err(RecvError::Closed) => return None,
                },
            };
            if self.wants(&event) {
                return Some(event);
            }
        }
    }

    /// Drops the events that are there already.
    pub fn skip(&mut self) {
        self.receiver = self.receiver.resubscribe();
    }

    /// Returns the next event if one is available.
    pub fn try_next(&mut self) -> Option<Event> {
        loop {
            let event = match self.receiver.try_recv() {
                Ok(event) => event,
                Err(TryRecvError::Lagged(_)) => Event::Missed,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return None,
            };
            if self.wants(&event) {
                return Some(event);
            }
        }
    }

    fn wants(&self, event: &Event) -> bool {
        match event {
            Event::Transition(transition) => self.filter.fits(transition),
            Event::Missed => true,
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.subscribers.leave();
    }
}
