//! Queues as targets: a copy is pushed, and follows the rules of its new queue.

use super::delivered::{Delivered, Sign};
use duetime_core::{Engine, Error, Job};
use serde::Serialize;
use std::sync::Arc;

/// What is kept with a job that was handed on.
#[derive(Serialize)]
struct HandedOn {
    job: duetime_core::JobId,
    queue: Arc<str>,
}

/// Pushes a copy into another queue.
pub(super) async fn hand_on(engine: &Engine, job: &Job, queue: &Arc<str>) -> Delivered {
    match engine.hand_on(job, queue).await {
        Ok(pushed) => Delivered::taken(&HandedOn { job: pushed.job.id, queue: queue.clone() }),
        Err(error @ Error::Invalid { .. }) => Delivered::refused(format!("not handed on: {error}"), Sign::None),
        Err(error) => Delivered::failed(format!("not handed on: {error}"), Sign::Overloaded { hold_ms: None }),
    }
}
