//! Wrong bodies: for every field of every body in the OpenAPI document, an error that names the field in our own words.

use super::server::Server;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Words of Rust and of its libraries, which mean nothing to a user.
const FOREIGN: [&str; 11] =
    ["struct ", "u8", "u16", "u32", "u64", "f64", "variant", "sequence", "newtype", " map", "deserialize"];

/// A schema behind its references.
fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(reference) => resolved(document, document.pointer(&reference[1..]).expect("references lead somewhere")),
        None => schema,
    }
}

/// The paths of all fields of a body, including those of nested objects.
fn fields(document: &Value, schema: &Value, prefix: &[String], found: &mut BTreeSet<Vec<String>>) {
    let schema = resolved(document, schema);
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let path = [prefix, std::slice::from_ref(name)].concat();
        if found.insert(path.clone()) {
            fields(document, inner, &path, found);
        }
    }
    for key in ["oneOf", "anyOf", "allOf"] {
        for inner in schema[key].as_array().into_iter().flatten() {
            fields(document, inner, prefix, found);
        }
    }
}

fn nested(path: &[String], value: &Value) -> Value {
    path.iter().rev().fold(value.clone(), |inner, name| json!({ name: inner }))
}

/// The problem in an answer to one thing, or to an array of one.
fn problem(body: &str) -> Value {
    let answer: Value = serde_json::from_str(body).unwrap_or(Value::Null);
    if answer.is_array() { answer[0].clone() } else { answer }
}

#[test]
fn every_wrong_field_is_named_in_our_words() {
    let server = Server::start();
    let document = server.get("/openapi.json").ok();
    let wrong = [json!(5), json!(-1.5), json!("\u{1}"), json!(true), json!([[]]), json!({"no such": 1})];
    let (mut refused, mut seen) = (0, BTreeSet::new());
    for (template, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            if schema.is_null() {
                continue;
            }
            let path = template.replace("{queue}", "q").replace("{name}", "n");
            let path = path.replace("{id}", "7").replace("{receipt}", "7.7");
            let schema = resolved(&document, schema);
            // A body that may be one or many is sent as one.
            let is_array = schema["type"] == "array";
            let mut paths = BTreeSet::new();
            fields(&document, if is_array { &schema["items"] } else { schema }, &[], &mut paths);
            for field in &paths {
                for value in &wrong {
                    let body = nested(field, value);
                    let body = if is_array { json!([body]) } else { body };
                    let reply = server.send(&method.to_uppercase(), &path, &[], &body.to_string());
                    let problem = problem(&reply.body);
                    assert_ne!(problem["code"], "malformed_json", "{method} {path} {body}: {problem}");
                    if problem["code"] != "invalid" {
                        continue;
                    }
                    let detail = problem["detail"].as_str().unwrap();
                    assert!(problem["field"].is_string(), "{method} {path} {body}: {problem}");
                    assert!(!FOREIGN.iter().any(|word| detail.contains(word)), "{method} {path} {body}: {detail}");
                    seen.insert(field.last().cloned());
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 500 && seen.len() > 40, "{refused} were refused, of the fields {seen:?}");
}

#[test]
fn a_wrong_retry_rule_says_what_it_may_be() {
    let server = Server::start();
    let refused =
        server.send("POST", "/v1/queues/q/jobs", &[], r#"{"payload": 1, "retry": 5}"#).problem(400, "invalid");
    assert_eq!(refused["field"], "retry");
    assert_eq!(refused["got"], "the number 5");
    assert!(refused["expected"].as_str().unwrap().contains(r#"{"steps": ["#), "{refused}");
    let refused = server.send("PUT", "/v1/queues/q", &[], r#"{"rate": 100}"#).problem(400, "invalid");
    let detail = refused["detail"].as_str().unwrap();
    assert_eq!(detail, r#"`rate` must be an object such as {"per_second": 100}, got the number 100"#);
}
