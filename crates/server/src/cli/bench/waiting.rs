//! Jobs that wait in the subject meanwhile.

use super::feed::{Feed, Plan};
use super::options::{Shape, Traffic, Where};
use super::subject::Subject;
use crate::cli::exit::Result;
use crate::cli::progress::Progress;
use duetime_core::limits::{HOUR_MS, MINUTE_MS};
use std::num::NonZero;

/// Their queue.
const WAITING_QUEUE: &str = "bench-waiting";
/// When the first of them is due.
const WAITING_FIRST_MS: u64 = 30 * MINUTE_MS;
/// The way in which they are pushed.
const WAITING_TRAFFIC: Traffic = Traffic { batch: 5_000, tasks: NonZero::new(2).expect("not 0") };
const WAITING_SHAPE: Shape = Shape { payload: 100, tags: 0, key: false };

/// Opens the subject, and has jobs wait in it.
pub(super) async fn open(place: &Where) -> Result<Subject> {
    let subject = Subject::open(place).await?;
    if place.waiting > 0 {
        let progress = Progress::new("jobs that wait", place.waiting);
        let plan = Plan::spread(place.waiting, WAITING_FIRST_MS, HOUR_MS - MINUTE_MS);
        Feed::new(&subject, WAITING_QUEUE, WAITING_SHAPE, WAITING_TRAFFIC).push(&plan, &progress).await?;
        progress.done();
    }
    Ok(subject)
}
