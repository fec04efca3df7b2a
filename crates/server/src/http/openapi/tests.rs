//! Walks through the document: it has everything, and says it exactly.

use super::super::problem::CODES;
use super::operation::documented_status;
use super::schemas::examples;
use super::{DOCUMENT, TAGS};
use duetime_core::api::{self, Object};
use duetime_core::engine;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Codes that no operation answers as a whole: for unknown paths and methods, and for single jobs reserved by id.
const OF_NO_OPERATION: [&str; 4] = ["no_route", "method_not_allowed", "not_due", "held_back"];

fn document() -> Value {
    serde_json::to_value(&*DOCUMENT).unwrap()
}

/// Each operation, with its method and path.
fn operations(document: &Value) -> Vec<(String, &Value)> {
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            operations.push((format!("{method} {path}"), operation));
        }
    }
    operations
}

/// The value that a reference points to.
fn resolve<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let Some(reference) = value.get("$ref").and_then(Value::as_str) else { return value };
    document.pointer(reference.trim_start_matches('#')).unwrap_or_else(|| panic!("{reference} is not there"))
}

/// Every value in it, with its place.
fn walk<'a>(value: &'a Value, place: &str, look: &mut dyn FnMut(&str, &'a Value)) {
    look(place, value);
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, inner)| walk(inner, &format!("{place}/{name}"), look)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, inner)| walk(inner, &format!("{place}/{i}"), look));
        }
        _ => {}
    }
}

/// Every schema of a schema, itself included.
fn schemas<'a>(schema: &'a Value, place: &str, look: &mut dyn FnMut(&str, &'a Value)) {
    look(place, schema);
    for (name, inner) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        schemas(inner, &format!("{place}.{name}"), look);
    }
    for (name, inner) in ["items", "additionalProperties"].iter().filter_map(|name| Some((name, schema.get(name)?))) {
        if inner.is_object() {
            schemas(inner, &format!("{place}.{name}"), look);
        }
    }
    for inner in ["oneOf", "allOf", "anyOf"].iter().filter_map(|name| schema.get(name)?.as_array()).flatten() {
        schemas(inner, place, look);
    }
}

/// Every schema of the document.
fn all_schemas<'a>(document: &'a Value, look: &mut dyn FnMut(&str, &'a Value)) {
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        schemas(schema, name, look);
    }
    walk(document, "", &mut |place, value| {
        if place.ends_with("/schema") {
            schemas(value, place, look);
        }
    });
}

#[test]
fn no_route_is_left_out() {
    let routes = include_str!("../routes.rs");
    for other in [".route(", ".route_service(", ".nest", ".any("] {
        assert!(!routes.contains(other), "what {other} routes is not in the document: use routes!");
    }
    let document = document();
    let count = routes.matches("routes!(").count();
    assert!(operations(&document).len() >= count && count > 30, "{count}");
    for path in ["/v1/queues/{queue}/jobs", "/v1/leases/{receipt}/progress", "/healthz", "/metrics", "/openapi.json"] {
        assert!(document["paths"][path].is_object(), "{path}");
    }
}

#[test]
fn references_lead_somewhere() {
    let document = document();
    walk(&document, "", &mut |_, value| {
        resolve(&document, value);
    });
}

#[test]
fn every_operation_says_what_it_is() {
    let document = document();
    let mut ids = BTreeSet::new();
    for (name, operation) in operations(&document) {
        let text = |field: &str| operation[field].as_str().unwrap_or_default().to_owned();
        assert!(!text("summary").is_empty(), "{name} has no summary");
        assert!(ids.insert(text("operationId")) && !text("operationId").is_empty(), "{name}");
        let tags: Vec<_> = operation["tags"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(matches!(tags[..], [tag] if TAGS.iter().any(|(known, _)| *known == tag)), "{name}: {tags:?}");
        assert!(operation.get("x-codes").is_none(), "{name}");
        let is_open = operation.get("security").is_none();
        let open = ["/healthz", "/readyz", "/openapi.json", "/docs", "/docs/style.css"];
        assert_eq!(is_open, open.iter().any(|path| name == format!("get {path}")), "{name}");
        assert_eq!(operation["responses"].get("401").is_none(), is_open, "{name}");
        for parameter in operation["parameters"].as_array().unwrap() {
            let parameter = resolve(&document, parameter);
            assert!(parameter["description"].is_string() && parameter["schema"].is_object(), "{name}: {parameter}");
        }
        for (status, response) in operation["responses"].as_object().unwrap() {
            let response = resolve(&document, response);
            assert!(response["headers"].get("request-id").is_some(), "{name}: {status}");
        }
    }
}

/// Comments are written for readers of the code, too: no link or path of Rust reaches a reader of the API.
#[test]
fn no_description_links_into_the_code() {
    let document = document();
    let mut read = 0;
    walk(&document, "", &mut |place, value| {
        let is_text = ["description", "summary", "title"].iter().any(|field| place.ends_with(&format!("/{field}")));
        if let (true, Some(text)) = (is_text, value.as_str()) {
            read += 1;
            for word in ["[`", "`]", "](", "::", "Self"] {
                assert!(!text.contains(word), "{place}: {text}");
            }
        }
    });
    assert!(read > 500, "{read}");
    // What is read from text is not described by what it becomes.
    all_schemas(&document, &mut |place, schema| {
        for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let is_span = field.to_string().contains("#/components/schemas/Span\"");
            let says = field["description"].as_str().unwrap_or_default();
            assert!(!is_span || !says.contains("millisecond"), "{place}.{name}: {says}");
        }
    });
}

#[test]
fn every_body_has_an_example() {
    let document = document();
    for (name, operation) in operations(&document) {
        let responses = operation["responses"].as_object().unwrap().iter();
        let bodies = responses.map(|(status, response)| (&**status, resolve(&document, response)));
        let bodies = bodies.chain(operation.get("requestBody").map(|body| ("request", body)));
        for (which, body) in bodies {
            for (media_type, content) in body.get("content").and_then(Value::as_object).into_iter().flatten() {
                let is_json = media_type.contains("json");
                assert!(!is_json || content.get("example").or(content.get("examples")).is_some(), "{name}: {which}");
            }
            let is_empty = body.get("content").is_none();
            assert_eq!(is_empty, which == "204" || which == "304", "{name}: {which}");
        }
    }
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        let is_object = schema["type"] == "object";
        assert!(!is_object || schema["examples"].is_array(), "{name} has no example");
    }
    for name in examples().keys() {
        let place = if name.starts_with('/') { &document["paths"] } else { &document["components"]["schemas"] };
        assert!(place.get(name).is_some(), "there is no {name} for its example");
    }
}

/// The server's own parser reads the examples of requests, and the library those of answers.
#[test]
fn examples_are_what_they_say() {
    fn reads<T: DeserializeOwned>(value: &Value) -> Result<(), String> {
        serde_json::from_value::<Object<T>>(value.clone()).map(drop).map_err(|error| error.to_string())
    }
    let examples = examples();
    let mut read = 0;
    for (name, example) in &examples {
        let text = example.to_string();
        let borrowed = |result: Result<(), serde_json::Error>| result.map_err(|error| error.to_string());
        let result = match &**name {
            "Reserve" | "ReserveOfQueue" => reads::<api::Reserve>(example),
            "Take" | "TakeOfQueue" => reads::<api::Take>(example),
            "Fail" => reads::<duetime_core::rules::Failure>(example),
            "Release" => reads::<duetime_core::rules::Release>(example),
            "Park" => reads::<duetime_core::rules::Park>(example),
            "Extend" => reads::<api::Extend>(example),
            "Progress" => reads::<api::Progress>(example),
            "Reschedule" => reads::<api::Reschedule>(example),
            "Selection" => reads::<engine::Query>(example),
            "LockRequest" => reads::<api::Lock>(example),
            "QueueChanges" => reads::<api::QueueChanges>(example),
            "Pause" => reads::<api::PauseBody>(example),
            "Queue" => reads::<engine::QueueStatus>(example),
            "QueuePage" => reads::<api::Queues>(example),
            "DueCounts" => reads::<api::DueCounts>(example),
            "Failures" => reads::<api::Failures>(example),
            "History" => reads::<api::History>(example),
            "Configured" => reads::<engine::Configured>(example),
            "Previous" => reads::<duetime_core::Previous>(example),
            "Pushed" => reads::<api::Pushed>(example),
            "Settled" => reads::<engine::Settlement>(example),
            "Extended" => reads::<engine::Extension>(example),
            "Problem" => reads::<api::Problem>(example),
            "Degraded" => reads::<api::Degraded>(example),
            "Health" => reads::<engine::Health>(example),
            "LockPage" => reads::<engine::LockList>(example),
            "Push" | "PushToQueue" | "ScheduleJob" | "Pushes" | "PushesAnywhere" => {
                borrowed(serde_json::from_str::<api::Push<'_>>(&text).map(drop))
            }
            "Patch" => borrowed(serde_json::from_str::<api::Patch<'_>>(&text).map(drop)),
            "Complete" => borrowed(serde_json::from_str::<api::Complete<'_>>(&text).map(drop)),
            "Schedule" => borrowed(serde_json::from_str::<api::ScheduleBody<'_>>(&text).map(drop)),
            "Settles" => borrowed(serde_json::from_str::<Vec<api::Settle<'_>>>(&text).map(drop)),
            "Extensions" => borrowed(serde_json::from_str::<Vec<api::ExtendOne>>(&text).map(drop)),
            "Job" => borrowed(serde_json::from_str::<api::JobBody<'_>>(&text).map(drop)),
            "WorkerPage" => reads::<api::Workers>(example),
            "Why" => reads::<api::Why>(example),
            "JobPage" => borrowed(serde_json::from_str::<api::Page<'_>>(&text).map(drop)),
            "Reservation" => borrowed(serde_json::from_str::<api::Reservation<'_>>(&text).map(drop)),
            "Taken" => borrowed(serde_json::from_str::<api::Taken<'_>>(&text).map(drop)),
            "Runs" => reads::<api::Runs>(example),
            "SchedulePage" => borrowed(serde_json::from_str::<api::Schedules>(&text).map(drop)),
            _ => continue,
        };
        assert_eq!(result, Ok(()), "{name}");
        read += 1;
    }
    assert_eq!(read, 46);
}

/// Except payloads and results, which may be any value.
#[test]
fn nothing_is_free_form() {
    let document = document();
    let mut free = BTreeSet::new();
    all_schemas(&document, &mut |place, schema| {
        let says = |field: &str| schema.get(field).is_some();
        let is_any = !["type", "$ref", "oneOf", "allOf", "anyOf", "enum"].into_iter().any(says);
        let is_free = schema["type"] == "object" && !says("properties") && !says("additionalProperties");
        let is_open = schema.get("additionalProperties") == Some(&json!(true));
        if is_any || is_free || is_open {
            free.insert(place.to_owned());
        }
    });
    let fields: BTreeSet<_> = free.iter().map(|place| place.rsplit('.').next().unwrap()).collect();
    assert_eq!(fields, BTreeSet::from(["payload", "result"]), "{free:?}");
}

#[test]
fn requests_are_closed() {
    let document = document();
    let mut names = BTreeSet::new();
    let mut waiting: Vec<&Value> = Vec::new();
    for (_, operation) in operations(&document) {
        waiting.extend(operation.get("requestBody").map(|body| &body["content"]["application/json"]["schema"]));
    }
    while let Some(schema) = waiting.pop() {
        schemas(schema, "", &mut |_, inner| {
            let is_object = inner.get("type").is_some_and(|kind| kind == "object");
            assert!(!is_object || inner.get("additionalProperties").is_some(), "{inner}");
            if let Some(reference) = inner.get("$ref").and_then(Value::as_str)
                && names.insert(reference.to_owned())
            {
                waiting.push(resolve(&document, inner));
            }
        });
    }
    assert!(names.iter().any(|name| name.ends_with("/Target")), "{names:?}");
}

#[test]
fn every_code_is_there_and_no_other() {
    let document = document();
    let known: BTreeMap<&str, u16> = CODES.iter().map(|&(code, status, _)| (code, status.as_u16())).collect();
    assert_eq!(known.len(), CODES.len(), "a code is there twice");
    let listed = document["components"]["schemas"]["ProblemCode"]["enum"].as_array().unwrap();
    assert!(listed.iter().filter_map(Value::as_str).eq(CODES.iter().map(|(code, ..)| *code)));
    let mut said = BTreeSet::from(OF_NO_OPERATION);
    for (name, operation) in operations(&document) {
        for (status, response) in operation["responses"].as_object().unwrap() {
            let response = resolve(&document, response);
            let Some(content) = response["content"].get("application/problem+json") else {
                assert!(status.starts_with('2') || status == "304" || name == "get /readyz", "{name}: {status}");
                continue;
            };
            let codes = content["schema"]["allOf"][1]["properties"]["code"]["enum"].as_array().unwrap();
            for code in codes.iter().map(|code| code.as_str().unwrap()) {
                let found = known.keys().find(|known| **known == code).unwrap_or_else(|| panic!("{name}: {code}"));
                assert_eq!(documented_status(code, known[code]).to_string(), *status, "{name}: {code}");
                assert!(content["examples"][code].is_object(), "{name}: {code}");
                said.insert(found);
            }
        }
    }
    assert_eq!(said, known.keys().copied().collect());
    // Only the start of a process finds a store that another one holds.
    let of_core = duetime_core::Error::CODES.iter().copied().filter(|&code| code != "store_held");
    for code in of_core {
        assert!(known.contains_key(code), "the engine's code {code} has no status");
    }
}
