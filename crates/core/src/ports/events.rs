//! Job events as they are published to subscribers: for watching, not for accounting.

use crate::error::Error;
use crate::json::Timestamp;
use crate::model::id::JobId;
use crate::model::job::State;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};
use strum::VariantArray;

/// The type of a job event. It also tells the job's state after the event.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", parse_err_ty = Error, parse_err_fn = unknown)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum What {
    /// It is new, and waits. Also a copy that is made when a rule moves a job.
    Pushed,
    /// It was imported, in whatever state.
    Imported,
    /// It was handed out, and runs.
    Started,
    /// A worker completed it.
    Succeeded,
    /// It was handed out and has succeeded in one step.
    Taken,
    /// A worker failed it, and it waits for another attempt.
    Retrying,
    /// Its lease ended unsettled, and it waits for another attempt.
    Crashed,
    /// A worker gave it back, and it waits.
    Released,
    /// It failed for good: by a worker, or by its last crash.
    Failed,
    /// It was not started in time, and has failed.
    Expired,
    /// It was cancelled, at once or when its worker released it.
    Cancelled,
    /// It waits, with new values: another due time, priority, payload or tags.
    Changed,
    /// It had ended, and waits again.
    Retried,
    /// It is gone, with its record.
    Deleted,
}

impl What {
    /// All of them, in the order of a job's life.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// Whether a job has ended by it, or is no longer stored.
    pub(crate) fn is_end(self) -> bool {
        matches!(self, Self::Succeeded | Self::Taken | Self::Failed | Self::Expired | Self::Cancelled | Self::Deleted)
    }

    /// The word for it, as in JSON.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

fn unknown(text: &str) -> Error {
    let words: Vec<&str> = What::ALL.iter().map(|what| what.word()).collect();
    Error::invalid("what", format!("one of {}", words.join(", ")), text)
}

/// An event of a job, and the job's state after it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Transition {
    /// The type of the event; also its name.
    pub what: What,
    /// The job.
    pub id: JobId,
    /// Its queue.
    pub queue: Arc<str>,
    /// The handler that it is for.
    pub kind: Arc<str>,
    /// Its state; of a deleted job, its last one.
    pub state: State,
    /// Its attempts so far.
    pub attempt: u32,
    /// When it was seen, by the broker's clock.
    pub at: Timestamp,
    /// The earliest time at which it may run, if it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    /// Encoded by the first reader that asks.
    #[serde(skip)]
    pub(crate) json: OnceLock<Box<str>>,
}

impl Transition {
    /// The transition as JSON, encoded once for all readers.
    #[must_use]
    pub fn json(&self) -> &str {
        self.json.get_or_init(|| serde_json::to_string(self).expect("a transition has no maps").into())
    }
}

/// An item of a subscription.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum Event {
    /// A job event.
    Transition(Arc<Transition>),
    /// Events were lost. Their number is not given: it would count jobs which the subscriber may not see.
    Missed,
}

/// Receives the events that other processes publish.
pub type EventSink = Arc<dyn Fn(Event) + Send + Sync>;

/// Carries job events between processes that share a broker. Events may be lost on their way, arrive twice, or in another
/// order; a loss is published as [`Event::Missed`].
#[async_trait]
pub trait EventBus: Send + Sync {
    /// Sends what other processes publish to this sink, while this process [has subscribers](Self::announce). Called
    /// once, before anything else.
    fn subscribe(&self, sink: EventSink);

    /// Announces whether this process has subscribers; answers whether another process has. An announcement lapses after
    /// three seconds, so it is repeated.
    async fn announce(&self, has_subscribers: bool) -> Result<bool, Error>;

    /// Publishes to other processes that have subscribers. It does not wait.
    fn publish(&self, transitions: Vec<Arc<Transition>>);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_json() {
        for &what in What::ALL {
            assert_eq!(serde_json::to_string(&what).unwrap(), format!("{:?}", what.word()));
            assert_eq!(what.word().parse::<What>().unwrap(), what);
        }
        assert!("gone".parse::<What>().unwrap_err().to_string().contains("retrying, crashed"));
    }
}
