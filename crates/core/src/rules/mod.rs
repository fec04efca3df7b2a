//! Decisions: pure functions of (job, event, now). Brokers carry them out and decide nothing.

mod apply;
mod failure;

pub use apply::{
    Remains, apply, as_asked, edit, edit_ended, ended, has_lapsed, is_whole, lapse, lease, touch, unlease,
};
pub use failure::{
    Failure, Park, Release, after_abandonment, after_crash, after_expiry, after_failure, after_release, after_return,
    after_unclaimed, retry_plan,
};

use crate::clock::Millis;
use crate::model::job::{AttemptError, Job, Payload, Stage};
use crate::model::marks::Marks;
use std::sync::Arc;

/// The next state of a job, decided under the epoch (or version) that was read.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// It ends.
    Finish(Finish),
    /// It runs again.
    Again(Again),
    /// It is set aside, and has these marks of a port from now on; `None` leaves them.
    Park(Park, Option<Arc<Marks>>),
}

impl Decision {
    /// The stage that the job ends in.
    pub fn end(&self) -> Option<Stage> {
        match self {
            Self::Finish(finish) => Some(finish.stage),
            Self::Park(..) => Some(Stage::Failed),
            Self::Again(_) => None,
        }
    }

    /// Whether it changes fields that ledgers write only with a [rewritten](crate::ports::OutboxEntry::Rewritten) job.
    pub fn rewrites(&self) -> bool {
        match self {
            Self::Park(..) => true,
            Self::Again(again) => again.priority.is_some() || again.marks.is_some(),
            Self::Finish(_) => false,
        }
    }
}

/// The way in which a job ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Finish {
    /// Succeeded, failed or cancelled.
    pub stage: Stage,
    /// The new message; `None` leaves the message as it is.
    pub message: Option<Arc<str>>,
    /// The error of the attempt that ends with it.
    pub error: Option<AttemptError>,
    /// The handler's result.
    pub result: Option<Payload>,
    /// Its crashes from now on; `None` leaves them.
    pub crashes: Option<u32>,
    /// Whether its record is removed, too.
    pub drop: bool,
    /// New jobs that begin with this end: those that the job names for it, or a copy in another queue.
    pub successors: Vec<Job>,
}

/// The message of a job that was taken.
pub const TAKEN: &str = "taken";
/// The message of a job that was parked without a reason.
pub const PARKED: &str = "parked";

impl Finish {
    /// The end of a job that was taken.
    pub fn taken() -> Self {
        Self { message: Some(Arc::from(TAKEN)), ..Self::new(Stage::Succeeded) }
    }

    /// An end without a message.
    pub fn new(stage: Stage) -> Self {
        Self { stage, message: None, error: None, result: None, crashes: None, drop: false, successors: Vec::new() }
    }
}

/// The next run of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Again {
    /// Its due time.
    pub due_at: Millis,
    /// Its attempts from now on.
    pub attempt: u32,
    /// Its crashes from now on.
    pub crashes: u32,
    /// The error of the attempt that ends with it.
    pub error: Option<AttemptError>,
    /// Whether the job was released, which is counted.
    pub is_release: bool,
    /// Its priority from now on; `None` leaves it.
    pub priority: Option<u32>,
    /// What a port keeps with it from now on; `None` leaves it.
    pub marks: Option<Arc<Marks>>,
}
