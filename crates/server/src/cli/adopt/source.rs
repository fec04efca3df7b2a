//! A queue elsewhere, as the loop sees it.

use crate::cli::exit::{Failure, Result, TRY_LATER};
use async_trait::async_trait;
use duetime::Client;
use duetime_core::limits::TAG_BYTES_MAX;
use duetime_core::{Error, Millis, NewJob};
use serde::Serialize;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

/// A step of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Claim jobs that are due by the source's clock, until stopped.
    Follow,
    /// Claim everything, then end.
    Drain,
}

/// Why a source failed.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The connection broke, or the source is busy: connecting again may help.
    Away(String),
    /// Trying again does not help.
    Failed(Failure),
}

impl Trouble {
    /// From an error of a store. Its text would call the source a store of Duetime, so this names the place instead.
    pub(super) fn with(place: &str, error: Error) -> Self {
        let is_retryable = error.is_retryable();
        let failure = match error {
            Error::Unavailable(why) | Error::Full(why) | Error::Damaged(why) | Error::Unusable(why) => {
                Failure::error(format!("{place}: {why}"))
            }
            error => error.into(),
        };
        if is_retryable { Self::Away(failure.to_string()) } else { Self::Failed(failure) }
    }
}

/// The result of an operation on a source.
pub(super) type Done<T = ()> = std::result::Result<T, Trouble>;

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Self::Away(error.to_string())
    }
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Away(why) => Self::new(TRY_LATER, why),
            Trouble::Failed(failure) => failure,
        }
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// A job that was claimed.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    /// Never used before: the origin of the job. See [`fresh_id`].
    pub(super) id: Arc<str>,
    /// The job, without an origin; or why the member cannot be read.
    pub(super) job: std::result::Result<NewJob, String>,
    /// The instant of this machine's clock when it is due, from a source that tells only how long is left. It goes before `job.due`.
    pub(super) due_here: Option<Millis>,
    /// How long it has been due, in milliseconds, if the source shows that.
    pub(super) late_ms: Option<u64>,
    /// Whether an earlier run, or an earlier connection, may have pushed it.
    pub(super) is_replay: bool,
}

/// The result of a look.
#[derive(Debug, Default, Serialize)]
pub(super) struct Look {
    /// The name that `--yes` must repeat.
    pub(super) layout: String,
    /// Why this layout was recognised.
    pub(super) why: String,
    /// Parts of the source: tubes, lists, sorted sets.
    pub(super) parts: Vec<Part>,
    /// Up to [`SAMPLES_MAX`] jobs.
    pub(super) samples: Vec<Sample>,
    /// Members that cannot be read, of those examined.
    pub(super) unread: u64,
    /// Facts that the user must know before going on.
    pub(super) notes: Vec<String>,
    /// What must be done before jobs can be taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) first: Option<String>,
    /// Whether a sorted set or tube that was named is not there. Queues of frameworks come and go with their jobs.
    #[serde(skip)]
    pub(super) is_missing: bool,
    /// Whether jobs cannot be followed.
    #[serde(skip)]
    pub(super) only_drains: bool,
}

/// The number of samples that a look shows.
pub(super) const SAMPLES_MAX: usize = 10;

/// A part of a source.
#[derive(Debug, Default, Serialize)]
pub(super) struct Part {
    pub(super) name: String,
    /// Members that are due.
    pub(super) due: u64,
    /// Members that are due later.
    pub(super) later: u64,
    /// Members that are not taken.
    pub(super) left: u64,
    /// Members that were not looked at.
    pub(super) unchecked: u64,
    /// Why members are not taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why_left: Option<String>,
}

impl Part {
    /// True if nothing is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.due + self.later + self.left + self.unchecked == 0
    }
}

/// A job that is shown.
#[derive(Debug, Serialize)]
pub(super) struct Sample {
    pub(super) part: String,
    /// When it is due, in milliseconds since 1970; `None`: now.
    pub(super) due_at_ms: Option<Millis>,
    /// The due time as the source has it, and how that was read.
    pub(super) due_as: String,
    /// The start of its payload, or why it cannot be read.
    pub(super) payload: String,
}

/// A queue elsewhere. `docs/internals/adopt.md` has the contract of each method.
#[async_trait]
pub(super) trait Source: Send {
    async fn connect(&mut self) -> Done;
    async fn look(&mut self) -> Done<Look>;
    async fn check(&mut self, _client: &Client) -> Result {
        Ok(())
    }
    async fn replay(&mut self) -> Done<Vec<Claim>>;
    async fn claim(&mut self, step: Step) -> Done<Vec<Claim>>;
    async fn wait(&mut self) -> Done;
    async fn done(&mut self, claims: &[Arc<str>]) -> Done;
    async fn put_back(&mut self, claims: &[Arc<str>]) -> Done;
    fn skip(&mut self, _queue: &str) -> bool {
        false
    }
}

/// An id that no other claim has, in 32 letters.
pub(super) fn fresh_id() -> String {
    let random = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", random(), random())
}

/// The start of the tag that names where a job was adopted from.
pub(super) const ADOPTED: &str = "adopted:";

/// The tag of all jobs that were adopted from there.
pub(super) fn tag(key: &str) -> Result<Arc<str>> {
    let tag = format!("{ADOPTED}{key}");
    if tag.len() > TAG_BYTES_MAX {
        let max = TAG_BYTES_MAX - ADOPTED.len();
        return Err(Failure::usage(format!(
            "the key must have at most {max} bytes, because jobs are tagged with it; it has {}",
            key.len()
        )));
    }
    Ok(tag.into())
}
