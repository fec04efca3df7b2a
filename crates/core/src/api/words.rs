//! OpenAPI schemas of the model's words and forms.

use crate::json::Span;
use crate::json::schema::{QueueName, add, literal, reference, text, texts};
use crate::limits::RETRY_STEPS_MAX;
use crate::model::id::{JobId, Receipt};
use crate::model::job::State;
use crate::model::retry::{Backoff, Exponential, Fixed, WhenExhausted};
use crate::model::target::{self, Target};
use serde_json::{Value, json};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Up to 2^53, and a little more.
const ID: &str = "^[1-9][0-9]{0,15}$";
const RECEIPT: &str = r"^[1-9][0-9]{0,15}\.[0-9]{1,19}$";

texts! {
    JobId: "A job's id: a decimal number from 1 to 2^53 - 1.", 1..=16, ID, "117111681613568";
    Receipt: "The receipt of a lease: the job's id, a dot, and the epoch.", 3..=36, RECEIPT, "117111681613568.1781234567890";
}

/// A filter for jobs: a state, or `retrying`.
#[derive(Clone, Copy, Debug)]
pub struct StateWord;

impl PartialSchema for StateWord {
    fn schema() -> RefOr<Schema> {
        let words: Vec<&str> = State::ALL.into_iter().map(State::word).chain(["retrying"]).collect();
        let description = "A state; or `retrying` alone: scheduled or ready jobs with at least one attempt.";
        literal(json!({"type": "string", "enum": words, "description": description, "examples": ["failed"]}))
    }
}

impl ToSchema for StateWord {}

/// An object with one field, which says which of several forms it is.
fn form(field: &str, description: &str, schema: &Value) -> Value {
    json!({"type": "object", "description": description, "properties": {field: schema}, "required": [field],
        "additionalProperties": false})
}

impl PartialSchema for Backoff {
    fn schema() -> RefOr<Schema> {
        let steps = json!({"type": "array", "items": reference::<Span>(), "minItems": 1, "maxItems": RETRY_STEPS_MAX});
        literal(json!({
            "description": "How long to wait before each retry.",
            "oneOf": [
                {"type": "string", "enum": ["default", "none"], "description": "The default steps, or no retry."},
                form("steps", "The waits, one after the other; further failures use the last one.", &steps),
                form("fixed", "The same wait every time.", &reference::<Fixed>()),
                form("exponential", "Exponential backoff.", &reference::<Exponential>()),
            ],
            "examples": [{"exponential": {"first": "1s", "factor": 2, "max": "1h", "jitter": 0.1}}],
        }))
    }
}

impl ToSchema for Backoff {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        add::<Span>(schemas);
        add::<Fixed>(schemas);
        add::<Exponential>(schemas);
    }
}

impl PartialSchema for WhenExhausted {
    fn schema() -> RefOr<Schema> {
        let words = "Keep it as a dead letter, drop it with its record, or restart it from attempt 0.";
        literal(json!({
            "description": "What to do with a job whose attempts are used up.",
            "oneOf": [
                {"type": "string", "enum": ["keep", "drop", "restart"], "description": words},
                form("move", "Keep it as failed, and push a copy to this queue.", &reference::<QueueName>()),
            ],
            "examples": [{"move": "orders-dead"}],
        }))
    }
}

impl ToSchema for WhenExhausted {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        add::<QueueName>(schemas);
    }
}

impl PartialSchema for Target {
    fn schema() -> RefOr<Schema> {
        let text = |pattern: &str| json!({"type": "string", "pattern": pattern, "minLength": 1, "maxLength": target::TEXT_BYTES_MAX});
        let list = json!({"type": "object", "additionalProperties": false, "required": ["url", "key"], "properties": {
            "url": text("^rediss?://."), "key": text("."),
            "as": {"type": "string", "pattern": "^[a-z0-9-]{1,32}$", "default": target::LAYOUT_PLAIN,
                "description": "How payloads are appended: as they are, or in another layout that the server knows."},
        }});
        let value = json!({"type": "string", "pattern": "^[ -~]*$", "maxLength": target::TEXT_BYTES_MAX});
        literal(json!({
            "description": "Where due jobs are delivered instead of being handed to workers; one of three forms.",
            "oneOf": [
                {"type": "object", "description": "An HTTP endpoint.", "additionalProperties": false, "required": ["url"],
                    "properties": {
                        "url": text("^https?://."),
                        "method": {"type": "string", "enum": ["POST", "PUT", "PATCH", "GET", "DELETE"], "default": "POST"},
                        "headers": {"type": "object", "description": "Headers to send, at most 32.",
                            "maxProperties": target::HEADERS_MAX, "additionalProperties": value},
                        "timeout": {"description": "Time limit of one delivery: 1 ms to 30 min; 30 s by default.",
                            "allOf": [reference::<Span>()]},
                        "final_statuses": {"type": "array", "description": "HTTP statuses that fail the job for good; 410 \
                         and 422 by default.",
                            "items": {"type": "integer", "minimum": 300, "maximum": 599}},
                        "key": {"type": "string", "description": "The name of the signing keys; `default` by default.",
                            "minLength": 1, "maxLength": target::TEXT_BYTES_MAX},
                    }},
                form("redis_list", "A Redis list to append to.", &list),
                form("queue", "Another queue, where a new job is pushed.", &reference::<QueueName>()),
            ],
            "examples": [{"url": "https://shop.example/hook", "timeout": "30s"}],
        }))
    }
}

impl ToSchema for Target {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        add::<QueueName>(schemas);
        add::<Span>(schemas);
    }
}
