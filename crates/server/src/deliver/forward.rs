//! Queues as targets: a copy is pushed, and follows the rules of its new queue.

use super::result::{DeliveryResult, Sign};
use duetime_core::{Engine, Error, Job};
use serde_json::json;
use std::sync::Arc;

/// Pushes a copy into another queue.
pub(super) async fn hand_on(engine: &Engine, job: &Job, queue: &Arc<str>) -> DeliveryResult {
    match engine.hand_on(job, queue).await {
        Ok(pushed) => DeliveryResult::taken(&json!({ "job": pushed.job.id, "queue": queue })),
        Err(error @ Error::Invalid { .. }) => DeliveryResult::refused(format!("not forwarded: {error}"), Sign::None),
        Err(error) => DeliveryResult::failed(format!("not forwarded: {error}"), Sign::Overloaded { hold_ms: None }),
    }
}
