//! Settings of queues that other processes change, and queues that they delete.
//!
//! A small document names the queues that were changed last; its version counts the changes. A process writes the queue's
//! name there *before* it changes the settings, so if it dies in between, others miss nothing. Others watch that document,
//! and read the settings of these queues repeatedly for half a minute, in which the change is made or given up. All settings
//! are read only if more was changed than the document names, and rarely.

use super::documents::read_one;
use super::{REFRESH_EVERY, Settings};
use crate::api::DegradedCode;
use crate::engine::events::Publisher;
use crate::engine::status::Status;
use crate::error::Error;
use crate::ports::{PutIf, Registry};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The kind and the name of the document that names the last changes.
const CHANGES: &str = "queues";
/// The maximum number of changes that it names.
const NAMED_MAX: usize = 100;
/// How long the settings of a queue are read again after an announced change: longer than a call is retried.
const READ_FOR: Duration = Duration::from_secs(30);
/// How often all settings are read in case a change was missed; and at most how often after a known miss.
const READ_ALL_EVERY: Duration = Duration::from_secs(600);
const READ_ALL_AGAIN: Duration = Duration::from_secs(10);
/// Queues whose settings are read each time; if there are more, all are read.
const RECENT_MAX: usize = 500;

/// A change that is about to be made.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Change {
    /// The settings of this queue change.
    Set(Arc<str>),
    /// This queue is deleted.
    Deleted {
        /// Its name.
        deleted: Arc<str>,
    },
}

impl Change {
    fn queue(&self) -> &Arc<str> {
        let (Self::Set(queue) | Self::Deleted { deleted: queue }) = self;
        queue
    }
}

/// The state of the last read.
#[derive(Debug, Default)]
struct Reading {
    changes: Option<u64>,
    recent: BTreeMap<Arc<str>, Instant>,
    all_at: Option<Instant>,
    /// Something was changed that the document does not name any more.
    has_missed: bool,
}

impl Settings {
    /// Takes over what other processes set, until the process stops.
    pub(in crate::engine) async fn refresh(&self, publisher: &Publisher, status: &Status) {
        let mut reading = Reading::default();
        loop {
            tokio::time::sleep(REFRESH_EVERY).await;
            publisher.announce_subscribers().await;
            // A concurrent change in this process must not be applied first and then overwritten by an older read.
            let _one_at_a_time = self.configuring.lock().await;
            status.set(DegradedCode::QueueSettings, self.read_changes(&mut reading).await.err());
        }
    }

    async fn read_changes(&self, reading: &mut Reading) -> Result<(), Error> {
        let (changes, named) = changes(self.registry.as_ref()).await?;
        let now = Instant::now();
        // It is unknown whether changes from before this process started had been read.
        let new = reading.changes.and_then(|known| changes.checked_sub(known));
        let new = new.map_or(usize::MAX, |new| usize::try_from(new).unwrap_or(usize::MAX));
        reading.has_missed |= new > named.len();
        for change in named.iter().rev().take(new) {
            reading.recent.insert(change.queue().clone(), now + READ_FOR);
            // Only once: it may be used again a moment later.
            if let Change::Deleted { deleted } = change {
                self.forget(deleted);
            }
        }
        reading.changes = Some(changes);
        if reading.recent.len() > RECENT_MAX {
            reading.recent.clear();
            reading.has_missed = true;
        }
        let every = if reading.has_missed { READ_ALL_AGAIN } else { READ_ALL_EVERY };
        if reading.all_at.is_none_or(|at| at + every <= now) {
            self.read_settings().await?;
            reading.all_at = Some(now);
            reading.has_missed = false;
        }
        for queue in reading.recent.keys() {
            match read_one(self.registry.as_ref(), queue).await? {
                Some((settings, version)) => self.take_over(queue, settings, version).await?,
                None => self.unset(queue),
            }
        }
        reading.recent.retain(|_, until| *until > now);
        Ok(())
    }

    /// Announces a change to other processes, before it is made.
    pub(super) async fn announce(&self, change: Change) -> Result<(), Error> {
        if !self.broker.is_shared() {
            return Ok(());
        }
        loop {
            let (version, mut named) = changes(self.registry.as_ref()).await?;
            named.push(change.clone());
            let excess = named.len().saturating_sub(NAMED_MAX);
            let body = serde_json::to_string(&named[excess..]).expect("names are strings");
            if let PutIf::Stored(_) = self.registry.put_if(CHANGES, CHANGES, &body, version).await? {
                return Ok(());
            }
        }
    }
}

/// The number of changes, and the last ones.
async fn changes(registry: &dyn Registry) -> Result<(u64, Vec<Change>), Error> {
    let Some(document) = registry.document(CHANGES, CHANGES).await? else { return Ok((0, Vec::new())) };
    let named = serde_json::from_str(&document.body);
    let named =
        named.map_err(|error| Error::Damaged(format!("cannot read which queues were changed last: {error}")))?;
    Ok((document.version, named))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{Fixture, QUEUE, pass};
    use crate::request::{Pause, QueueSettings};
    use crate::testing::{ModelLedger, Shared, TokioClock};

    /// Two processes, of which the first one has changed the queue [`QUEUE`].
    async fn changed() -> (Shared, Fixture, Fixture) {
        let (broker, ledger) = (Shared::new(Arc::new(TokioClock::new())), ModelLedger::default());
        let one = Fixture::sharing(&broker, &ledger).await;
        let other = Fixture::sharing(&broker, &ledger).await;
        other.services.queues.settings.read_changes(&mut Reading::default()).await.unwrap();
        one.services.queues.settings.pause(QUEUE, Pause::UntilResumed, None).await.unwrap();
        (broker, one, other)
    }

    #[tokio::test(start_paused = true)]
    async fn what_another_process_has_set_is_taken_over() {
        let (_broker, _one, other) = changed().await;
        let mut reading = Reading { changes: Some(0), all_at: Some(Instant::now()), ..Reading::default() };
        other.services.queues.settings.read_changes(&mut reading).await.unwrap();
        assert!(other.services.queues.settings.of(QUEUE).paused, "though not all were read");
    }

    /// It has died between the two, or its settings come a moment later.
    #[tokio::test(start_paused = true)]
    async fn a_change_that_was_announced_is_looked_for_again_and_again() {
        let (_broker, one, other) = changed().await;
        let mut reading = Reading { changes: Some(0), all_at: Some(Instant::now()), ..Reading::default() };
        other.services.queues.settings.read_changes(&mut reading).await.unwrap();
        let settings = QueueSettings { max_running: Some(7), ..QueueSettings::default() };
        let body = crate::request::Configured::new(QUEUE.into(), settings);
        let registry = &one.base.stores.registry;
        let (_, version) = read_one(registry.as_ref(), QUEUE).await.unwrap().unwrap();
        registry.put_if("queue", QUEUE, &serde_json::to_string(&body).unwrap(), version).await.unwrap();
        pass(READ_FOR).await;
        other.services.queues.settings.read_changes(&mut reading).await.unwrap();
        assert_eq!(other.services.queues.settings.of(QUEUE).max_running, Some(7));
        assert!(reading.recent.is_empty(), "now it is over");
    }

    #[tokio::test(start_paused = true)]
    async fn all_settings_are_read_if_more_was_changed_than_is_named() {
        let (_broker, one, other) = changed().await;
        for n in 0..NAMED_MAX {
            one.services.queues.settings.announce(Change::Set(format!("q{n}").into())).await.unwrap();
        }
        let now = Instant::now();
        let mut reading = Reading { changes: Some(0), all_at: Some(now), ..Reading::default() };
        other.services.queues.settings.read_changes(&mut reading).await.unwrap();
        assert!(reading.has_missed && !other.services.queues.settings.of(QUEUE).paused, "not at once");
        pass(READ_ALL_AGAIN).await;
        other.services.queues.settings.read_changes(&mut reading).await.unwrap();
        assert!(!reading.has_missed && other.services.queues.settings.of(QUEUE).paused);
    }
}
