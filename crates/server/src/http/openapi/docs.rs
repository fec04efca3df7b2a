//! `GET /docs`: the document as a page to read.
//!
//! Each operation shows a command to copy, the fields of its body, and its error codes. The end of the page explains each
//! error once, with the text of the book. Everything else comes from the document. The page has no scripts and loads nothing
//! from other servers.

use super::super::app::App;
use super::super::call::NoQuery;
use super::super::prefix::Prefix;
use super::super::problem::CODES;
use super::operation::{documented_status, is_common};
use super::{DOCUMENT, TAGS};
use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

const STYLE: &str = include_str!("docs.css");
/// Loads only our own stylesheet, and forbids framing.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Causes of errors and what to do, under headings. The same as in docs/reference/errors.md, without links.
const ERRORS: &str = include_str!("errors.txt");
/// Parts of the document that only programs need.
const NOISE: [&str; 2] = ["docs_style", "Star"];
/// The address in the commands of the page as it is kept. A reader gets the one that the page was asked for.
const ADDRESS: &str = "http://127.0.0.1:7300";
/// The link to the dashboard, where it is served.
const TO_DASHBOARD: &str = "<p><a href=\"/\">Dashboard</a></p>";

static PAGE: LazyLock<String> = LazyLock::new(|| {
    let document = serde_json::to_value(&*DOCUMENT).expect("a document has only string keys");
    page(&document).into_string()
});

/// This document to read.
#[utoipa::path(
    get, path = "/docs", operation_id = "docs", tag = "server",
    responses((status = 200, description = "A page.", body = String, content_type = "text/html")),
)]
pub(in super::super) async fn docs(
    State(app): State<App>,
    prefix: Option<Extension<Prefix>>,
    headers: HeaderMap,
    _: NoQuery,
) -> Response {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).filter(|host| is_plain(host));
    let scheme = if app.is_https() { "https" } else { "http" };
    let prefix = prefix.as_ref().map_or("", |Extension(prefix)| prefix.as_str());
    let address = host.map_or_else(|| ADDRESS.to_owned(), |host| format!("{scheme}://{host}{prefix}"));
    let mut page = PAGE.replace(ADDRESS, &address);
    if !app.has_dashboard() {
        page = page.replace(TO_DASHBOARD, "");
    }
    answer("text/html; charset=utf-8", page.into())
}

/// Whether a host consists only of what hosts consist of: the page and its commands show it.
fn is_plain(host: &str) -> bool {
    !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte))
}

/// How the page looks.
#[utoipa::path(
    get, path = "/docs/style.css", operation_id = "docs_style", tag = "server",
    responses((status = 200, description = "A style sheet.", body = String, content_type = "text/css")),
)]
pub(in super::super) async fn style(_: NoQuery) -> Response {
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

/// Text as HTML; text between backticks is code.
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

/// The value that a reference points to.
fn resolve<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let reference = value.get("$ref").and_then(Value::as_str);
    reference.and_then(|reference| document.pointer(reference.trim_start_matches('#'))).unwrap_or(value)
}

/// Methods, in the order in which a path shows them.
const METHODS: [&str; 5] = ["post", "get", "put", "patch", "delete"];
/// The tasks that everybody begins with, by their operations.
const FIRST: [(&str, &str); 4] = [
    ("push", "Push a job"),
    ("reserve", "Reserve it when it is due"),
    ("complete", "Complete it"),
    ("fail", "Or fail the attempt"),
];

/// An operation of the document.
#[derive(Clone, Copy)]
struct Operation<'a> {
    document: &'a Value,
    method: &'a str,
    path: &'a str,
    own: &'a Value,
}

/// The operations with this tag, in the order of the routes.
fn of_tag<'a>(document: &'a Value, tag: &str) -> Vec<Operation<'a>> {
    let mut found = Vec::new();
    for path in DOCUMENT.paths.paths.keys() {
        let Some((path, item)) = document["paths"].as_object().and_then(|paths| paths.get_key_value(path)) else {
            continue;
        };
        for method in METHODS {
            let Some(own) = item.get(method) else { continue };
            let is_noise = own["operationId"].as_str().is_some_and(|id| NOISE.contains(&id));
            if !is_noise && items(own, "tags").any(|other| other == tag) {
                found.push(Operation { document, method, path, own });
            }
        }
    }
    found
}

fn page(document: &Value) -> Markup {
    let info = &document["info"];
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { (text(info, "title")) " API" }
                meta name="viewport" content="width=device-width";
                link rel="stylesheet" href="/docs/style.css";
            }
            body {
                nav {
                    (PreEscaped(TO_DASHBOARD))
                    p { a href="#top" { strong { (text(info, "title")) " API" } } " " (text(info, "version")) }
                    h2.label { "Start here" }
                    ol { @for (id, task) in FIRST { li { a href={ "#" (id) } { (task) } } } }
                    @for (tag, _) in TAGS {
                        h2 { a href={ "#tag-" (tag) } { (tag) } }
                        ul.operations { (links(document, tag)) }
                    }
                    h2.label { "Reference" }
                    ul { li { a href="#errors" { "Errors" } } li { a href="#schemas" { "Schemas" } } li { a href="/openapi.json" { "openapi.json" } } }
                }
                main id="top" {
                    h1 { (text(info, "title")) " API" }
                    p { (text(info, "description")) }
                    p {
                        "The commands are for the address at which you have opened this page. If the server requires tokens, add "
                        code { "-H \"authorization: Bearer $TOKEN\"" } "."
                    }
                    @for (tag, description) in TAGS {
                        h2 id={ "tag-" (tag) } { (tag) }
                        p { (description) }
                        // Where there is no room for a sidebar.
                        ul.index { (links(document, tag)) }
                        @for operation in of_tag(document, tag) { (described(operation)) }
                    }
                    h2 id="errors" { "Errors" }
                    p {
                        "Errors are answered with a " a href="#schema-Problem" { "Problem" } ". Its " code { "code" }
                        " is one of these. Operations name only the errors of their own. Any request may get those of the request \
                         as such, of access, and of the store."
                    }
                    @for group in ERRORS.split("## ").filter(|group| !group.is_empty()) { (errors(group)) }
                    h2 id="schemas" { "Schemas" }
                    @for (name, schema) in fields(&document["components"], "schemas").filter(|(name, _)| !NOISE.contains(&name.as_str())) {
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

/// A link to each operation of a tag.
fn links(document: &Value, tag: &str) -> Markup {
    html! {
        @for operation in of_tag(document, tag) {
            li { a href={ "#" (text(operation.own, "operationId")) } { (title(operation.own)) } }
        }
    }
}

/// A group of errors: its title, and a line for each.
fn errors(group: &str) -> Markup {
    let (title, rows) = group.split_once('\n').unwrap_or_default();
    html! {
        h3 { (title) }
        table {
            @for row in rows.lines() {
                @let mut parts = row.split(" | ");
                @let code = parts.next().unwrap_or_default();
                tr id={ "error-" (code) } {
                    td { code { (code) } }
                    td { (statuses(code)) }
                    @for part in parts { td { (said(part)) } }
                }
            }
        }
    }
}

/// The statuses with which a code is answered.
fn statuses(code: &str) -> String {
    let status = CODES.iter().find(|(known, ..)| *known == code).map_or(0, |(_, status, _)| status.as_u16());
    match documented_status(code, status) {
        other if other != status => format!("{status}, {other}"),
        _ => status.to_string(),
    }
}

/// The summary as a title.
fn title(operation: &Value) -> Markup {
    said(operation["summary"].as_str().unwrap_or_default().trim_end_matches('.'))
}

fn described(operation: Operation<'_>) -> Markup {
    let Operation { document, method, path, own } = operation;
    let parameters: Vec<_> = items(own, "parameters").filter(|parameter| parameter.get("$ref").is_none()).collect();
    let body = own.pointer("/requestBody/content/application~1json/schema");
    let (answers, errors): (Vec<_>, Vec<_>) = fields(own, "responses").partition(|(status, _)| status.as_str() < "400");
    html! {
        section id=(text(own, "operationId")) {
            h3 { (title(own)) }
            p { code { b { (method.to_uppercase()) } " " (path) } }
            @for part in own["description"].as_str().unwrap_or_default().split("\n\n") { p { (said(part)) } }
            pre { (curl(operation)) }
            @if !parameters.is_empty() {
                h4 { "Parameters" }
                table { @for parameter in parameters { tr {
                    td { code { (text(parameter, "name")) } }
                    td { (text(parameter, "in")) @if parameter["required"] == true { ", required" } }
                    td { (kind(&parameter["schema"])) }
                    td { (text(parameter, "description")) }
                } } }
            }
            @if let Some(body) = body {
                h4 { "Body" @if own.pointer("/requestBody/required").is_none() { ", optional" } }
                @let (object, is_list) = object(document, body);
                @if is_list { p { "One of these, or an array: " (kind(body)) } }
                (properties(object))
            }
            h4 { "Answers" }
            @for (status, response) in answers {
                @let response = resolve(document, response);
                p {
                    (status) ": " (text(response, "description")) " "
                    @for (_, content) in fields(response, "content") { (kind(&content["schema"])) }
                }
                @for value in fields(response, "content").filter_map(|(_, content)| content.get("example")) { (example(value)) }
            }
            @let own: Vec<&str> = errors.iter().flat_map(|(_, response)| codes(resolve(document, response))).filter(|code| !is_common(code)).collect();
            @if !own.is_empty() {
                p { "Errors:" @for code in own { " " a href={ "#error-" (code) } { code { (code) } } } }
            }
        }
    }
}

/// The codes that an error has.
fn codes(response: &Value) -> impl Iterator<Item = &str> {
    let content = response.get("content").and_then(|content| content.get("application/problem+json"));
    let codes = content.and_then(|content| content.pointer("/schema/allOf/1/properties/code/enum"));
    codes.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// A command that makes a call like this.
fn curl(operation: Operation<'_>) -> String {
    let Operation { document, method, path, own } = operation;
    let mut filled = path.to_owned();
    for parameter in items(own, "parameters").filter(|parameter| parameter["required"] == true) {
        let example = resolve(document, &parameter["schema"]).pointer("/examples/0").and_then(Value::as_str);
        let (name, example) = (parameter["name"].as_str().unwrap_or_default(), example.unwrap_or("1"));
        match parameter["in"].as_str() {
            Some("query") => {
                filled.push(if filled.contains('?') { '&' } else { '?' });
                filled.push_str(&format!("{name}={example}"));
            }
            _ => filled = filled.replace(&format!("{{{name}}}"), example),
        }
    }
    let body = own.pointer("/requestBody/content/application~1json/example").filter(|body| **body != json!({}));
    let method = match (method, body) {
        ("get", None) | ("post", Some(_)) => String::new(),
        _ => format!(" -X {}", method.to_uppercase()),
    };
    let body = body.map_or_else(String::new, |body| {
        let quoted = body.to_string().replace('\'', r"'\''");
        format!(" \\\n  -H 'content-type: application/json' -d '{quoted}'")
    });
    let quote = if filled.contains('?') { "'" } else { "" };
    format!("curl -fsS{method} {quote}{ADDRESS}{filled}{quote}{body}")
}

/// The object that a body is, and whether it may also be a list of these.
fn object<'a>(document: &'a Value, schema: &'a Value) -> (&'a Value, bool) {
    let schema = resolve(document, schema);
    if let Some(item) = schema.get("items") {
        return (object(document, item).0, true);
    }
    let inner = items(schema, "oneOf").chain(items(schema, "allOf")).find(|choice| choice["type"] != "null");
    match inner {
        Some(inner) if schema.get("properties").is_none() => {
            let has_list = items(schema, "oneOf").any(|choice| choice["type"] == "array");
            (object(document, inner).0, has_list)
        }
        _ => (schema, false),
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

/// The type of a value, in words.
fn kind(schema: &Value) -> Markup {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str).and_then(|reference| reference.rsplit('/').next()) {
        if NOISE.contains(&name) {
            return html! { "text" };
        }
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
    let choices = items(schema, "oneOf").chain(items(schema, "allOf")).filter(|choice| choice["type"] != "null");
    html! {
        @for (place, choice) in choices.enumerate() {
            @if place > 0 { " or " } (kind(choice))
        }
        @match &schema["type"] {
            Value::String(word) => { (word) }
            Value::Array(words) => { (words.iter().filter_map(Value::as_str).filter(|word| *word != "null").collect::<Vec<_>>().join(" or ")) }
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
