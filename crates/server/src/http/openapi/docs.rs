//! `GET /docs`: the document as a page to read.
//!
//! The page is written here once: no script, nothing from elsewhere, and nothing that a strict policy has to make an
//! exception for. What stands in it comes from the document alone.

use super::DOCUMENT;
use axum::body::Bytes;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};
use serde_json::{Map, Value};
use std::sync::LazyLock;

const STYLE: &str = include_str!("docs.css");
/// Nothing is loaded but our own style, and nobody may frame the page.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static PAGE: LazyLock<Bytes> = LazyLock::new(|| {
    let document = serde_json::to_value(&*DOCUMENT).expect("a document has only string keys");
    Bytes::from(page(&document).into_string())
});

/// This document to read.
#[utoipa::path(
    get, path = "/docs", operation_id = "docs", tag = "server",
    responses((status = 200, description = "A page.", body = String, content_type = "text/html")),
)]
pub(in super::super) async fn docs() -> Response {
    answer("text/html; charset=utf-8", PAGE.clone())
}

/// How the page looks.
#[utoipa::path(
    get, path = "/docs/style.css", operation_id = "docs_style", tag = "server",
    responses((status = 200, description = "A style sheet.", body = String, content_type = "text/css")),
)]
pub(in super::super) async fn style() -> Response {
    answer("text/css; charset=utf-8", Bytes::from_static(STYLE.as_bytes()))
}

fn answer(media_type: &'static str, body: Bytes) -> Response {
    let headers: [(HeaderName, &str); 4] = [
        (CONTENT_TYPE, media_type),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    (headers, body).into_response()
}

/// Text as HTML; what stands between backticks is code.
fn said(text: &str) -> Markup {
    html! { @for (place, part) in text.split('`').enumerate() { @if place % 2 == 0 { (part) } @else { code { (part) } } } }
}

fn text(value: &Value, field: &str) -> Markup {
    said(value.get(field).and_then(Value::as_str).unwrap_or_default())
}

fn fields<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    value.get(field).and_then(Value::as_object).map(Map::iter).into_iter().flatten()
}

fn items<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}

/// What a reference stands for.
fn resolve<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let reference = value.get("$ref").and_then(Value::as_str);
    reference.and_then(|reference| document.pointer(reference.trim_start_matches('#'))).unwrap_or(value)
}

fn page(document: &Value) -> Markup {
    let info = &document["info"];
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { (text(info, "title")) }
                meta name="viewport" content="width=device-width";
                link rel="stylesheet" href="/docs/style.css";
            }
            body {
                header {
                    h1 { (text(info, "title")) " " small { (text(info, "version")) } }
                    p { (text(info, "description")) }
                    p { "For programs: " a href="/openapi.json" { "openapi.json" } "." }
                }
                nav {
                    @for tag in items(document, "tags") { a href={ "#tag-" (text(tag, "name")) } { (text(tag, "name")) } " " }
                    a href="#schemas" { "schemas" }
                }
                main {
                    @for tag in items(document, "tags") {
                        h2 id={ "tag-" (text(tag, "name")) } { (text(tag, "name")) }
                        p { (text(tag, "description")) }
                        @for (path, item) in fields(document, "paths") {
                            @for (method, operation) in item.as_object().into_iter().flatten() {
                                @if items(operation, "tags").any(|other| *other == tag["name"]) {
                                    (described(document, method, path, operation))
                                }
                            }
                        }
                    }
                    h2 id="schemas" { "schemas" }
                    @for (name, schema) in fields(&document["components"], "schemas") {
                        section id={ "schema-" (name) } {
                            h3 { (name) }
                            p { (text(schema, "description")) }
                            (properties(schema))
                            @for value in items(schema, "examples") { (example(value)) }
                        }
                    }
                }
            }
        }
    }
}

/// An operation.
fn described(document: &Value, method: &str, path: &str, operation: &Value) -> Markup {
    html! {
        section id=(text(operation, "operationId")) {
            h3 { b { (method.to_uppercase()) } " " code { (path) } }
            p { strong { (text(operation, "summary")) } " " (text(operation, "description")) }
            table {
                @for parameter in items(operation, "parameters").map(|parameter| resolve(document, parameter)) {
                    tr {
                        td { code { (text(parameter, "name")) } }
                        td { (text(parameter, "in")) @if parameter["required"] == true { ", required" } }
                        td { (kind(&parameter["schema"])) }
                        td { (text(parameter, "description")) }
                    }
                }
            }
            @for (_, content) in operation.get("requestBody").into_iter().flat_map(|body| fields(body, "content")) {
                p { "Body: " (kind(&content["schema"])) }
                @if let Some(value) = content.get("example") { (example(value)) }
            }
            table {
                @for (status, response) in fields(operation, "responses") {
                    @let response = resolve(document, response);
                    tr {
                        td { (status) }
                        td {
                            (text(response, "description")) " "
                            @for (_, content) in fields(response, "content").filter(|_| status.starts_with('2')) {
                                (kind(&content["schema"]))
                                @if let Some(value) = content.get("example") { (example(value)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn example(value: &Value) -> Markup {
    html! { pre { (serde_json::to_string_pretty(value).expect("JSON has only string keys")) } }
}

fn properties(schema: &Value) -> Markup {
    if schema.get("properties").is_none() {
        return html! { p { (kind(schema)) } };
    }
    html! {
        table {
            @for (name, property) in fields(schema, "properties") {
                @let own = items(property, "oneOf").find_map(|choice| choice.get("description"));
                @let needed = items(schema, "required").any(|needed| needed == name);
                tr {
                    td { code { (name) } @if needed { ", required" } }
                    td { (kind(property)) }
                    td { (said(property.get("description").or(own).and_then(Value::as_str).unwrap_or_default())) }
                }
            }
        }
    }
}

/// What kind of value it is, in words.
fn kind(schema: &Value) -> Markup {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str).and_then(|reference| reference.rsplit('/').next()) {
        return html! { a href={ "#schema-" (name) } { (name) } };
    }
    let limits = [
        ("minimum", "from"),
        ("maximum", "to"),
        ("minLength", "at least"),
        ("maxLength", "at most"),
        ("pattern", "like"),
    ];
    // A form with one field names it here.
    let is_form = schema.get("additionalProperties") == Some(&Value::Bool(false)) && schema["type"] == "object";
    html! {
        @for (place, choice) in items(schema, "oneOf").chain(items(schema, "allOf")).enumerate() {
            @if place > 0 { " or " } (kind(choice))
        }
        @match &schema["type"] {
            Value::String(word) => { (word) }
            Value::Array(words) => { (words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")) }
            _ if schema.get("oneOf").or(schema.get("allOf")).is_none() => { "any JSON" }
            _ => {}
        }
        @if let Some(item) = schema.get("items") { " of " (kind(item)) }
        @for word in items(schema, "enum") { " " code { (word.as_str().unwrap_or_default()) } }
        @for (field, words) in limits {
            @if let Some(value) = schema.get(field) {
                " " (words) " " code { (value.as_str().map_or_else(|| value.to_string(), str::to_owned)) }
            }
        }
        @for (name, property) in fields(schema, "properties").filter(|_| is_form) {
            " " code { (name) } ": " (kind(property))
        }
    }
}
