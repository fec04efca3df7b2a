//! Patterns and lengths of the API's texts and words in the OpenAPI document, as they are checked.
//!
//! Lengths are checked in bytes and stand here in characters: for text beyond ASCII the description is exact.

use super::{Base64, Object, Span};
use crate::limits::{
    CRON_BYTES_MAX, KEY_BYTES_MAX, KIND_BYTES_MAX, LOCK_NAME_BYTES_MAX, LOCK_OWNER_BYTES_MAX, MESSAGE_BYTES_MAX,
    META_ENTRIES_MAX, META_NAME_BYTES_MAX, META_VALUE_BYTES_MAX, NOTE_BYTES_MAX, QUEUE_BYTES_MAX, REQUEST_ID_BYTES_MAX,
    TAG_BYTES_MAX, TRACE_BYTES, WORKER_BYTES_MAX,
};
use serde_json::{Value, json};
use std::ops::RangeInclusive;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Names of queues and schedules.
const PLAIN: &str = r"^[A-Za-z0-9+/;.$_()][A-Za-z0-9+/;.$_()-]*$";
/// Durations whose numbers have few enough digits to be within the limits.
const SPAN: &str = "^([0-9]{1,4}d)?([0-9]{1,7}h)?([0-9]{1,8}m)?([0-9]{1,9}s)?([0-9]{1,12}ms)?$";
const TRACE: &str = "^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$";
const META_NAME: &str = "^[a-z0-9_.-]+$";
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
pub(crate) use texts;

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

/// The codes of problems. The server lists them in its document.
#[derive(Clone, Copy, Debug)]
pub struct ProblemCode;

impl PartialSchema for ProblemCode {
    fn schema() -> RefOr<Schema> {
        literal(json!({"type": "string", "description": "Stable error code. New codes may be added."}))
    }
}

impl ToSchema for ProblemCode {}

/// A job of `then` or `otherwise`: as it is pushed.
pub struct FollowUp;

impl PartialSchema for FollowUp {
    fn schema() -> RefOr<Schema> {
        Ref::from_schema_name("Push").into()
    }
}

impl ToSchema for FollowUp {}

/// Metadata of a job.
#[derive(Clone, Copy, Debug)]
pub struct Meta;

impl PartialSchema for Meta {
    fn schema() -> RefOr<Schema> {
        literal(json!({
            "type": "object",
            "description": "Metadata of the caller, text by name: at most 2 KiB in all. Values have no hidden characters, such as ends of lines.",
            "propertyNames": {"type": "string", "minLength": 1, "maxLength": META_NAME_BYTES_MAX, "pattern": META_NAME},
            "additionalProperties": {"type": "string", "maxLength": META_VALUE_BYTES_MAX},
            "maxProperties": META_ENTRIES_MAX,
            "examples": [{"tenant": "7", "user": "ada"}],
        }))
    }
}

impl ToSchema for Meta {}

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

pub(crate) fn reference<T: ToSchema>() -> Value {
    json!({"$ref": format!("#/components/schemas/{}", T::name())})
}

pub(crate) fn add<T: ToSchema>(schemas: &mut Vec<(String, RefOr<Schema>)>) {
    schemas.push((T::name().into_owned(), T::schema()));
    T::schemas(schemas);
}
