//! Decisions: pure functions of (job, event, now). Brokers carry them out and decide nothing.

mod apply;
mod failure;

pub use apply::{Left, apply, edit, lease, touch, unlease};
pub use failure::{Failure, after_crash, after_expiry, after_failure, after_release, after_return, retry_plan};

use crate::clock::Millis;
use crate::model::job::{AttemptError, Job, Payload, Stage};
use std::sync::Arc;

/// What is to become of a job, decided under the epoch (or version) that was read.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// It has ended.
    Finish(Finish),
    /// It is to run again.
    Again(Again),
    /// A client of the beanstalk protocol gives it back: the attempt counts.
    Return(Return),
    /// A client of the beanstalk protocol sets it aside, with this priority: failed, and kept until somebody removes it.
    Bury(u32),
}

/// How a job is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Return {
    /// From when it may run again.
    pub due_at: Millis,
    /// By a release: with which priority and delay in milliseconds. `None` where its client has gone.
    pub release: Option<(u32, u64)>,
}

impl Decision {
    /// The stage that the job ends in.
    pub fn end(&self) -> Option<Stage> {
        match self {
            Self::Finish(finish) => Some(finish.stage),
            Self::Bury(_) => Some(Stage::Failed),
            Self::Again(_) | Self::Return(_) => None,
        }
    }

    /// Whether it changes what ledgers write only with a [rewritten](crate::ports::OutboxEntry::Rewritten) job.
    pub fn rewrites(&self) -> bool {
        matches!(self, Self::Bury(_) | Self::Return(Return { release: Some(_), .. }))
    }
}

/// How a job ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Finish {
    /// Succeeded, failed or cancelled.
    pub stage: Stage,
    /// What is said of it; `None` leaves the message as it is.
    pub message: Option<Arc<str>>,
    /// The error of the attempt that ends with it.
    pub error: Option<AttemptError>,
    /// What the handler answered.
    pub result: Option<Payload>,
    /// Its crashes from now on; `None` leaves them.
    pub crashes: Option<u32>,
    /// Whether its record goes too.
    pub drop: bool,
    /// A copy that starts afresh in another queue.
    pub successor: Option<Box<Job>>,
}

/// The message of a job that was taken.
pub const TAKEN: &str = "taken";

impl Finish {
    /// The end of a job that was taken.
    pub fn taken() -> Self {
        Self { message: Some(Arc::from(TAKEN)), ..Self::new(Stage::Succeeded) }
    }

    /// An end with nothing said.
    pub fn new(stage: Stage) -> Self {
        Self { stage, message: None, error: None, result: None, crashes: None, drop: false, successor: None }
    }
}

/// How a job goes on.
#[derive(Clone, Debug, PartialEq)]
pub struct Again {
    /// From when.
    pub due_at: Millis,
    /// Its attempts from now on.
    pub attempt: u32,
    /// Its crashes from now on.
    pub crashes: u32,
    /// The error of the attempt that ends with it.
    pub error: Option<AttemptError>,
}
