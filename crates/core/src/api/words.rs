//! Patterns and lengths of the API's texts and words in the OpenAPI document, as they are checked.
//!
//! Lengths are checked in bytes and stand here in characters: for text beyond ASCII the description is exact.

use super::{Base64, Object, Span};
use crate::limits::{
    CRON_BYTES_MAX, KEY_BYTES_MAX, KIND_BYTES_MAX, LOCK_NAME_BYTES_MAX, LOCK_OWNER_BYTES_MAX, MESSAGE_BYTES_MAX,
    QUEUE_BYTES_MAX, REQUEST_ID_BYTES_MAX, RETRY_STEPS_MAX, TAG_BYTES_MAX, WORKER_BYTES_MAX,
};
use crate::model::id::{JobId, Receipt};
use crate::model::job::State;
use crate::model::progress::NOTE_BYTES_MAX;
use crate::model::retry::{Backoff, Exponential, Fixed, WhenExhausted};
use crate::model::target::{self, Target};
use crate::model::trace::TRACE_BYTES;
use serde_json::{Value, json};
use std::ops::RangeInclusive;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Names of queues and schedules.
const PLAIN: &str = r"^[A-Za-z0-9+/;.$_()][A-Za-z0-9+/;.$_()-]*$";
/// Durations whose numbers have few enough digits to be within the limits.
const SPAN: &str = "^([0-9]{1,4}d)?([0-9]{1,7}h)?([0-9]{1,8}m)?([0-9]{1,9}s)?([0-9]{1,12}ms)?$";
/// Up to 2^53, and a little more.
const ID: &str = "^[1-9][0-9]{0,15}$";
const RECEIPT: &str = r"^[1-9][0-9]{0,15}\.[0-9]{1,19}$";
const TRACE: &str = "^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$";
const BASE64: &str = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$";
const ETAG: &str = "^\"[0-9]{1,19}\"$";
const IF_MATCH: &str = r#"^("[0-9]{1,19}"|\*)$"#;
const STAR: &str = r"^\*$";
const ANY: &str = "";

/// A string of this form.
pub fn text(description: &str, chars: RangeInclusive<usize>, pattern: &str, example: &str) -> RefOr<Schema> {
    let text = ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(description))
        .min_length((*chars.start() > 0).then_some(*chars.start()))
        .max_length((*chars.end() < usize::MAX).then_some(*chars.end()))
        .pattern((!pattern.is_empty()).then_some(pattern));
    text.examples([example]).into()
}

/// A schema that is written as JSON.
///
/// # Panics
/// If it is not a schema.
pub fn literal(schema: Value) -> RefOr<Schema> {
    RefOr::T(serde_json::from_value(schema).expect("what is written here is a schema"))
}

/// Describes types that are text.
macro_rules! texts {
    ($($type:ty: $description:literal, $chars:expr, $pattern:expr, $example:literal;)*) => {$(
        impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> {
                text($description, $chars, $pattern, $example)
            }
        }
        impl ToSchema for $type {}
    )*};
}

/// Makes types that stand for a text in schemas only.
macro_rules! forms {
    ($($type:ident: $description:literal, $chars:expr, $pattern:expr, $example:literal;)*) => {
        $(
            #[doc = $description]
            #[derive(Clone, Copy, Debug)]
            pub struct $type;
        )*
        texts! { $($type: $description, $chars, $pattern, $example;)* }
    };
}

texts! {
    Base64<'_>: "Bytes that are not JSON, in standard base64 with padding.", 0..=usize::MAX, BASE64, "/wA=";
    JobId: "A job's id: a decimal number from 1 to 2^53 - 1.", 1..=16, ID, "117111681613568";
    Receipt: "The receipt of a lease: the job's id, a dot, and the epoch.", 3..=36, RECEIPT, "117111681613568.1781234567890";
    Span: "A duration: whole numbers with the units d, h, m, s and ms, longest first, each at most once.", 2..=45, SPAN, "1h30m";
}

forms! {
    QueueName: "A queue's name: 1 to 200 of A-Z a-z 0-9 - + / ; . $ _ ( ), not starting with -. In a path, / is %2F.", 1..=QUEUE_BYTES_MAX, PLAIN, "orders";
    ScheduleName: "A schedule's name, of the same form as a queue's.", 1..=QUEUE_BYTES_MAX, PLAIN, "nightly";
    Kind: "The kind of a job, which selects its handler: 1 to 128 bytes.", 1..=KIND_BYTES_MAX, ANY, "order.cancel";
    Key: "A name that is unique among the live jobs of the queue: 1 to 255 bytes.", 1..=KEY_BYTES_MAX, ANY, "cancel-202010250100";
    Tag: "A tag: 1 to 255 bytes.", 1..=TAG_BYTES_MAX, ANY, "order:202010250100";
    LockName: "A lock's name: 1 to 255 bytes. In a path, / is %2F.", 1..=LOCK_NAME_BYTES_MAX, ANY, "stock-42";
    Owner: "The owner of a lock: 1 to 255 bytes, different for each holder.", 1..=LOCK_OWNER_BYTES_MAX, ANY, "worker-7-a81f";
    WorkerName: "The name of a worker: 1 to 255 bytes.", 1..=WORKER_BYTES_MAX, ANY, "host-3:4711";
    RequestId: "Identifies a request, so that a repeat gets the same answer: 1 to 64 bytes.", 1..=REQUEST_ID_BYTES_MAX, ANY, "worker-7-a81f-19";
    Message: "A message about an outcome: at most 64 KiB.", 0..=MESSAGE_BYTES_MAX, ANY, "no route to host";
    Note: "A note on the current step: at most 1 KiB.", 0..=NOTE_BYTES_MAX, ANY, "half of it";
    Trace: "A W3C traceparent. Trace id and parent id must not be all zeros.", TRACE_BYTES..=TRACE_BYTES, TRACE, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    Cron: "A cron expression of 5 fields, or 6 with seconds first; or @daily and the like; or @every and a duration.", 1..=CRON_BYTES_MAX, ANY, "0 3 * * *";
    TimeZone: "A name of the IANA time zone database.", 1..=CRON_BYTES_MAX, ANY, "Europe/Berlin";
    ETag: "A version in quotes.", 3..=22, ETAG, "\"1795168800250\"";
    IfMatch: "The expected version in quotes, or * for any.", 1..=22, IF_MATCH, "\"1795168800250\"";
    Star: "An asterisk.", 1..=1, STAR, "*";
    Cursor: "The `next_cursor` of the previous page.", 0..=usize::MAX, ANY, "a-0-117111681613568";
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

/// The description of the wrapped type.
impl<T: PartialSchema> PartialSchema for Object<T> {
    fn schema() -> RefOr<Schema> {
        T::schema()
    }
}

impl<T: ToSchema> ToSchema for Object<T> {
    fn name() -> std::borrow::Cow<'static, str> {
        T::name()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        T::schemas(schemas);
    }
}

pub(super) fn reference<T: ToSchema>() -> Value {
    json!({"$ref": format!("#/components/schemas/{}", T::name())})
}

/// An object with one field, which says which of several forms it is.
fn form(field: &str, description: &str, schema: &Value) -> Value {
    json!({"type": "object", "description": description, "properties": {field: schema}, "required": [field],
        "additionalProperties": false})
}

pub(super) fn add<T: ToSchema>(schemas: &mut Vec<(String, RefOr<Schema>)>) {
    schemas.push((T::name().into_owned(), T::schema()));
    T::schemas(schemas);
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
            "as": {"type": "string", "enum": ["list", "laravel", "sidekiq", "bullmq"], "default": "list",
                "description": "How payloads are appended: as they are, or as this framework pushes its own jobs."},
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
