//! All JSON: the bodies of the HTTP API, what the command line prints and reads, and documents that stores keep.
//!
//! Requests refuse unknown fields; answers do not, so that an older client can read a newer server. Reading borrows:
//! a payload is copied once, into the job. Nothing is decided here, and nothing is checked that the engine checks;
//! values that the engine's types cannot express are refused.
//!
//! Most request and answer types serialize themselves. A separate body type exists only where the conversion changes the
//! meaning, or refuses a combination of fields: such a refusal names the field, which an error of serde cannot.
//!
//! | body | becomes, or shows | what changes |
//! |---|---|---|
//! | `Push`, `Patch`, `Reschedule` | `NewJob`, `request::Patch`, `Due` | four ways to say when, two to give a payload |
//! | `JobBody`, `LeaseBody`, `Page`, `Reservation`, `Taken` | `Job`, `Lease` and lists of them | the state is that of an instant; bytes are borrowed, as JSON or base64 |
//! | `Pushed` | `request::Pushed` | some fields of the job, at an instant |
//! | `Reserve`, `Take` | `ReserveRequest`, `TakeRequest` | queues, or jobs, or the queue of the path |
//! | `Complete`, `Settle`, `ExtendOne` | `Outcome`, with a receipt | one field names the outcome; a result is JSON or base64 |
//! | `Lock`, `LockBody` | `LockOperation`, `Holding` | with a fence it renews; a free lock is shown, too |
//! | `Queue` | `QueueStatus` | counts, tally and pause stand side by side |
//! | `PauseBody`, `ScheduleBody` | `Pause`, `Schedule` | fields that exclude each other become one choice |

mod answer;
mod attention;
mod clock;
mod due;
mod event;
#[cfg(test)]
mod extras_tests;
mod failures;
mod follow_up;
mod health;
mod history;
mod job;
mod lease;
mod lock;
mod parameters;
mod patch;
mod problem;
mod push;
mod query_string;
mod queue;
mod reserve;
mod schedule;
#[cfg(feature = "openapi")]
pub mod schema;
mod select;
mod settle;
#[cfg(test)]
mod tests;
mod why;
#[cfg(feature = "openapi")]
mod words;
mod worker;

pub use crate::json::{
    Base64, Object, Span, Timestamp, Unread, bytes_of, object, or_default, read, read_bytes, show_bytes, unread,
};
pub use crate::model::retry::{Backoff, Exponential, Fixed};
pub use answer::Answer;
pub use attention::{Attention, AttentionItem, AttentionKind};
pub use clock::{Advance, Now};
pub use due::{DueBucket, DueCounts};
pub use event::{ACTIVITY, EventQuery, LOST, STOPPING, SUBSCRIBED};
pub use failures::{FailureGroup, Failures};
pub use follow_up::complete_follow_ups;
pub(crate) use follow_up::{check_follow_ups, each_follow_up};
pub use health::{Alive, Degraded, DegradedCode, Health};
pub use history::{History, HistoryPoint, HistorySpan, Lateness};
pub use job::{JobBody, Page};
pub use lease::LeaseBody;
pub use lock::{Lock, LockBody, LockOperation};
pub use parameters::Parameters;
pub use patch::{Patch, Reschedule, spread};
pub use problem::Problem;
pub use push::{Push, Pushed};
pub use queue::{DeletedQueue, PauseBody, Purged, Queue, QueueChanges, Queues, SETTINGS};
pub use reserve::{Reservation, Reserve, Take, Taken};
pub use schedule::{Runs, ScheduleBody, Schedules, dry_run};
pub use select::{Find, path_segment};
pub use settle::{Cancelled, Complete, Extend, ExtendOne, Nothing, Progress, Settle};
pub use why::{Reason, ReasonCode, Why};
pub use worker::{HeldLease, WorkerStatus, Workers};
