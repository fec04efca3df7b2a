//! OpenAPI schemas of bodies that have no single type, or that are parsed by hand.

pub use super::words::StateWord;
pub use crate::json::schema::*;

use super::{HistorySpan, Problem, Push, Pushed, Reserve, Take, Timestamp};
use crate::json::schema::{add, reference};
use crate::limits::BATCH_JOBS_MAX;
use crate::request::{BulkCounts, Extension, QueueSettings, Settlement};
use crate::{State, States};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

impl PartialSchema for Timestamp {
    fn schema() -> RefOr<Schema> {
        literal(json!({
            "type": "string",
            "format": "date-time",
            "description": "A time in RFC 3339, from 1970 on. Answers have milliseconds and Z. Finer input is rounded up.",
            "examples": ["2026-11-20T10:00:00.250Z"],
        }))
    }
}

impl ToSchema for Timestamp {}

impl PartialSchema for HistorySpan {
    fn schema() -> RefOr<Schema> {
        let words = HistorySpan::ALL.map(HistorySpan::word);
        literal(
            json!({"type": "string", "enum": words, "description": "The period: the last hour or the last day.", "examples": ["hour"]}),
        )
    }
}

impl ToSchema for HistorySpan {}

impl PartialSchema for States {
    fn schema() -> RefOr<Schema> {
        let words: Vec<&str> = State::ALL.into_iter().map(State::word).collect();
        let any = [&words[..], &["retrying"]].concat();
        literal(json!({
            "description": "One or more states, or `retrying`: waiting jobs with at least one attempt.",
            "oneOf": [
                {"type": "string", "enum": any},
                {"type": "array", "items": {"type": "string", "enum": words}},
                {"type": "array", "items": {"type": "string", "enum": ["retrying"]}, "minItems": 1},
            ],
            "examples": ["failed", ["failed", "cancelled"]],
        }))
    }
}

impl ToSchema for States {}

/// The words of [`BulkCounts`].
const COUNTED: [&str; 21] = [
    "cancelled",
    "cancel_requested",
    "already_finished",
    "retried",
    "rescheduled",
    "deleted",
    "invalid",
    "not_found",
    "key_conflict",
    "version_mismatch",
    "lease_lost",
    "job_running",
    "not_due",
    "held_back",
    "job_live",
    "store_full",
    "store_unavailable",
    "store_damaged",
    "stopping",
    "backlog",
    "other",
];

impl PartialSchema for BulkCounts {
    fn schema() -> RefOr<Schema> {
        let counter = |word: &&str| ((*word).to_owned(), json!({"type": "integer", "format": "uint64", "minimum": 0}));
        let counters: Map<String, Value> = COUNTED.iter().map(counter).collect();
        let description =
            "The number of jobs by outcome. Outcomes without jobs are left out. Errors are counted by their codes.";
        literal(json!({"type": "object", "description": description, "properties": counters}))
    }
}

impl ToSchema for BulkCounts {
    fn name() -> Cow<'static, str> {
        "Counts".into()
    }
}

impl PartialSchema for super::QueueChanges {
    fn schema() -> RefOr<Schema> {
        let mut schema = serde_json::to_value(QueueSettings::schema()).expect("a schema is JSON");
        schema["additionalProperties"] = json!(false);
        schema["description"] = json!(
            "New settings of a queue. Settings that are left out keep their values; `null` resets one to its default."
        );
        literal(schema)
    }
}

impl ToSchema for super::QueueChanges {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        QueueSettings::schemas(schemas);
    }
}

/// Makes types that stand for one of several forms.
macro_rules! choices {
    ($($name:ident: $description:literal, $json:expr, [$($part:ty),*];)*) => {$(
        #[doc = $description]
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let mut schema: Value = $json;
                schema["description"] = json!($description);
                literal(schema)
            }
        }

        impl ToSchema for $name {
            fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
                $(add::<$part>(schemas);)*
            }
        }
    )*};
}

/// One answer for each element, in order.
fn answers<T: ToSchema>() -> Value {
    json!({"type": "array", "items": {"oneOf": [reference::<T>(), reference::<Problem>()]}, "maxItems": BATCH_JOBS_MAX})
}

/// Makes types that stand for an object without some of its fields.
macro_rules! narrowed {
    ($($name:ident: $description:literal, $whole:ty, $refused:expr;)*) => {$(
        #[doc = $description]
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                without::<$whole>(&$refused, $description)
            }
        }

        impl ToSchema for $name {
            fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
                add::<$whole>(schemas);
            }
        }
    )*};
}

/// An object without these of its fields.
fn without<T: ToSchema>(refused: &[&str], description: &str) -> RefOr<Schema> {
    let mut schema = T::schema();
    if let RefOr::T(Schema::Object(object)) = &mut schema {
        object.properties.retain(|name, _| !refused.contains(&&**name));
        object.description = Some(description.to_owned());
    }
    schema
}

narrowed! {
    PushToQueue: "A job to push to the queue in the path.", Push<'_>, ["queue"];
    ScheduleJob: "A job to push, without its due time.", Push<'_>, ["delay", "delay_ms", "due_at", "due_at_ms"];
    ReserveOfQueue: "A reserve of jobs of the queue in the path.", Reserve, ["queues"];
    TakeOfQueue: "A take of jobs of the queue in the path.", Take, ["queues"];
}

choices! {
    Pushes: "One job, or an array of jobs, for the queue in the path.",
        json!({"oneOf": [
            reference::<PushToQueue>(), {"type": "array", "items": reference::<PushToQueue>(), "maxItems": BATCH_JOBS_MAX},
        ]}),
        [PushToQueue];
    PushesAnywhere: "One job, or an array of jobs. Each names its queue; the default is `default`.",
        json!({"oneOf": [
            reference::<Push<'_>>(), {"type": "array", "items": reference::<Push<'_>>(), "maxItems": BATCH_JOBS_MAX},
        ]}),
        [Push<'_>];
    PushAnswers: "The result of a push. For an array, one result per job, in order: what was done, or the problem.",
        json!({"oneOf": [reference::<Pushed>(), answers::<Pushed>()]}), [Pushed, Problem];
    Settles: "The leases to settle.",
        json!({"type": "array", "items": reference::<super::Settle<'_>>(), "maxItems": BATCH_JOBS_MAX}), [super::Settle<'_>];
    SettleAnswers: "One result per lease, in order: the state of its job, or the problem.",
        answers::<Settlement>(), [Settlement, Problem];
    Extensions: "The leases to extend.",
        json!({"type": "array", "items": reference::<super::ExtendOne>(), "maxItems": BATCH_JOBS_MAX}), [super::ExtendOne];
    ExtendAnswers: "One result per lease, in order: when it now expires, or the problem.",
        answers::<Extension>(), [Extension, Problem];
}

#[cfg(test)]
mod tests {
    use super::super::JobBody;
    use super::*;

    #[test]
    fn what_a_path_says_is_not_in_the_body() {
        fn fields<T: ToSchema>() -> Vec<String> {
            let RefOr::T(Schema::Object(object)) = T::schema() else { panic!("an object") };
            object.properties.keys().cloned().collect()
        }
        let has = |fields: Vec<String>, field: &str| fields.iter().any(|known| known == field);
        assert!(has(fields::<Reserve>(), "queues") && !has(fields::<ReserveOfQueue>(), "queues"));
        assert!(has(fields::<Take>(), "queues") && !has(fields::<TakeOfQueue>(), "queues"));
        assert!(has(fields::<Push<'_>>(), "queue") && !has(fields::<PushToQueue>(), "queue"));
        assert_eq!(fields::<ScheduleJob>().len() + 4, fields::<Push<'_>>().len());
    }

    #[test]
    fn schemas_have_the_names_that_are_referred_to() {
        let mut schemas = Vec::new();
        add::<PushAnswers>(&mut schemas);
        add::<JobBody<'_>>(&mut schemas);
        let names: Vec<_> = schemas.iter().map(|(name, _)| &**name).collect();
        for name in ["PushAnswers", "Pushed", "Problem", "Job", "Target", "Backoff", "Exponential", "QueueName"] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
    }
}
