//! A subscription to job events.

use super::subscribers::Subscribers;
use crate::ports::Event;
use crate::request::Filter;
use std::sync::Arc;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio_util::sync::CancellationToken;

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
