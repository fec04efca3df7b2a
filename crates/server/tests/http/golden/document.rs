//! The shape of the OpenAPI document, compared with `tests/golden/http/openapi.txt`: paths, parameters, bodies and fields with their
//! types, without descriptions.

use crate::golden::Golden;
use crate::http::server::Server;
use serde_json::Value;

/// A schema in one line.
fn shape(schema: &Value) -> String {
    let name = |reference: &str| reference.rsplit('/').next().unwrap_or_default().to_owned();
    if let Some(reference) = schema["$ref"].as_str() {
        return name(reference);
    }
    for (key, between) in [("oneOf", " | "), ("anyOf", " | "), ("allOf", " & ")] {
        if let Some(parts) = schema[key].as_array() {
            return parts.iter().map(shape).collect::<Vec<_>>().join(between);
        }
    }
    let mut text = match &schema["type"] {
        Value::String(word) => word.clone(),
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | "),
        _ => "any".to_owned(),
    };
    if !schema["items"].is_null() {
        text += &format!(" of {}", shape(&schema["items"]));
    }
    if let Some(fields) = schema["properties"].as_object().filter(|fields| !fields.is_empty()) {
        text += &format!(
            " {{ {} }}",
            fields.iter().map(|(name, field)| format!("{name}: {}", shape(field))).collect::<Vec<_>>().join(", ")
        );
    }
    for limit in [
        "enum",
        "const",
        "format",
        "pattern",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
    ] {
        if !schema[limit].is_null() {
            text += &format!(" {limit} {}", schema[limit]);
        }
    }
    text
}

#[test]
fn the_document_has_the_same_shape() {
    let document = Server::start().get("/openapi.json").ok();
    let mut golden = Golden::new("http/openapi");
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            golden.add(&format!(
                "{} {path}  {}",
                method.to_uppercase(),
                operation["operationId"].as_str().unwrap_or("-")
            ));
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let parameter =
                    parameter["$ref"].as_str().and_then(|to| document.pointer(&to[1..])).unwrap_or(parameter);
                let required = if parameter["required"] == true { "" } else { "?" };
                golden.add(&format!(
                    "  {} {}{required}: {}",
                    parameter["in"].as_str().unwrap(),
                    parameter["name"].as_str().unwrap(),
                    shape(&parameter["schema"])
                ));
            }
            let body = &operation["requestBody"]["content"]["application/json"]["schema"];
            if !body.is_null() {
                golden.add(&format!("  body: {}", shape(body)));
            }
            let mut refusals = Vec::new();
            for (status, answer) in operation["responses"].as_object().unwrap() {
                match answer["content"].as_object().and_then(|content| content.iter().next()) {
                    Some((kind, content)) => golden.add(&format!("  → {status}  {kind} {}", shape(&content["schema"]))),
                    None => refusals.push(status.as_str()),
                }
            }
            golden.add(&format!("  → {}", refusals.join(" ")));
        }
    }
    golden.blank();
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        match schema["properties"].as_object() {
            Some(fields) => {
                golden.add(name);
                for (field, schema) in fields {
                    let optional = if required.contains(&field.as_str()) { "" } else { "?" };
                    golden.add(&format!("  {field}{optional}: {}", shape(schema)));
                }
            }
            None => golden.add(&format!("{name}: {}", shape(schema))),
        }
    }
    golden.finish();
}
