//! Queues as targets: a copy is pushed, and follows the rules of its new queue.
//!
//! The copy holds a key that names the job, so that what is pushed twice, since the process died before the job was
//! completed, is one job while the first copy waits or runs. The key counts the queues that it has passed through, too.

use super::delivery::{Delivery, Sign};
use duetime_core::{Engine, Error, Job, NewJob, OnConflict};
use serde::Serialize;
use std::sync::Arc;

/// What keys of copies begin with.
const PREFIX: &str = "forward-";
/// So often a job may be handed on: beyond that the targets form a circle.
const HOPS_MAX: u32 = 8;

/// What is kept with a job that was handed on.
#[derive(Serialize)]
struct HandedOn {
    job: duetime_core::JobId,
    queue: Arc<str>,
}

/// Pushes a copy into another queue.
pub(super) async fn hand_on(engine: &Engine, job: &Job, queue: &Arc<str>) -> Delivery {
    let hops = hops(job) + 1;
    if hops > HOPS_MAX {
        let said = format!("handed on {HOPS_MAX} times: the targets of the queues form a circle");
        return Delivery::refused(said, Sign::None);
    }
    let copy = NewJob {
        queue: queue.clone(),
        kind: job.kind.clone(),
        priority: job.priority,
        key: Some(Arc::from(format!("{PREFIX}{hops}-{}", job.id))),
        on_conflict: OnConflict::Keep,
        tags: job.tags.to_vec(),
        ..NewJob::new(job.payload.clone())
    };
    let pushed = engine.push(vec![copy]).await.and_then(|mut answers| answers.pop().expect("an answer for each job"));
    match pushed {
        Ok(pushed) => Delivery::taken(&HandedOn { job: pushed.job.id, queue: queue.clone() }),
        Err(error @ Error::Invalid { .. }) => Delivery::refused(format!("not handed on: {error}"), Sign::None),
        Err(error) => Delivery::failed(format!("not handed on: {error}"), Sign::Overloaded { hold_ms: None }),
    }
}

/// How often a job has been handed on.
fn hops(job: &Job) -> u32 {
    let counted = job.key.as_deref().and_then(|key| key.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok());
    counted.unwrap_or(0)
}
