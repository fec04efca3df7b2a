//! `GET /docs`: the document as a page to read.
//!
//! The page is written here once: no script, nothing from elsewhere, and nothing that a strict policy has to make an
//! exception for. What stands in it comes from the document alone.

use super::DOCUMENT;
use axum::body::Bytes;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};
use std::fmt::{self, Display, Write};
use std::sync::LazyLock;

const STYLE: &str = include_str!("docs.css");
/// Nothing is loaded but our own style, and nobody may frame the page.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static PAGE: LazyLock<Bytes> = LazyLock::new(|| {
    let document = serde_json::to_value(&*DOCUMENT).expect("a document has only string keys");
    Bytes::from(page(&document).expect("text can be written into memory"))
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
struct Html<'a>(&'a str);

impl Display for Html<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut is_code = false;
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '`' => {
                    f.write_str(if is_code { "</code>" } else { "<code>" })?;
                    is_code = !is_code;
                }
                other => f.write_char(other)?,
            }
        }
        if is_code { f.write_str("</code>") } else { Ok(()) }
    }
}

fn text<'a>(value: &'a Value, field: &str) -> Html<'a> {
    Html(value.get(field).and_then(Value::as_str).unwrap_or_default())
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

fn page(document: &Value) -> Result<String, fmt::Error> {
    let info = &document["info"];
    let mut out = String::new();
    let title = text(info, "title");
    write!(out, "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>")?;
    write!(out, "<meta name=\"viewport\" content=\"width=device-width\">")?;
    write!(out, "<link rel=\"stylesheet\" href=\"/docs/style.css\"></head><body><header><h1>{title} ")?;
    write!(out, "<small>{}</small></h1><p>{}</p>", text(info, "version"), text(info, "description"))?;
    write!(out, "<p>For programs: <a href=\"/openapi.json\">openapi.json</a>.</p></header><nav>")?;
    for tag in items(document, "tags") {
        write!(out, "<a href=\"#tag-{0}\">{0}</a> ", text(tag, "name"))?;
    }
    write!(out, "<a href=\"#schemas\">schemas</a></nav><main>")?;
    for tag in items(document, "tags") {
        let name = text(tag, "name");
        write!(out, "<h2 id=\"tag-{name}\">{name}</h2><p>{}</p>", text(tag, "description"))?;
        for (path, item) in fields(document, "paths") {
            for (method, operation) in item.as_object().into_iter().flatten() {
                if items(operation, "tags").any(|other| *other == tag["name"]) {
                    write_operation(&mut out, document, method, path, operation)?;
                }
            }
        }
    }
    write!(out, "<h2 id=\"schemas\">schemas</h2>")?;
    for (name, schema) in fields(&document["components"], "schemas") {
        write!(out, "<section id=\"schema-{name}\"><h3>{name}</h3><p>{}</p>", text(schema, "description"))?;
        write_properties(&mut out, schema)?;
        for example in items(schema, "examples") {
            write_example(&mut out, example)?;
        }
        write!(out, "</section>")?;
    }
    write!(out, "</main></body></html>")?;
    Ok(out)
}

fn write_operation(out: &mut String, document: &Value, method: &str, path: &str, operation: &Value) -> fmt::Result {
    let id = text(operation, "operationId");
    write!(out, "<section id=\"{id}\"><h3><b>{}</b> <code>{}</code></h3>", method.to_uppercase(), Html(path))?;
    write!(out, "<p><strong>{}</strong> {}</p>", text(operation, "summary"), text(operation, "description"))?;
    write!(out, "<table>")?;
    for parameter in items(operation, "parameters") {
        let parameter = resolve(document, parameter);
        let needed = if parameter["required"] == true { ", required" } else { "" };
        write!(out, "<tr><td><code>{}</code><td>{}{needed}<td>", text(parameter, "name"), text(parameter, "in"))?;
        write_kind(out, &parameter["schema"])?;
        write!(out, "<td>{}", text(parameter, "description"))?;
    }
    write!(out, "</table>")?;
    for (_, content) in operation.get("requestBody").into_iter().flat_map(|body| fields(body, "content")) {
        write!(out, "<p>Body: ")?;
        write_content(out, content)?;
    }
    write!(out, "<table>")?;
    for (status, response) in fields(operation, "responses") {
        let response = resolve(document, response);
        write!(out, "<tr><td>{}<td>{} ", Html(status), text(response, "description"))?;
        for (_, content) in fields(response, "content").filter(|_| status.starts_with('2')) {
            write_content(out, content)?;
        }
    }
    write!(out, "</table></section>")
}

fn write_content(out: &mut String, content: &Value) -> fmt::Result {
    write_kind(out, &content["schema"])?;
    content.get("example").map_or(Ok(()), |example| write_example(out, example))
}

fn write_example(out: &mut String, example: &Value) -> fmt::Result {
    let shown = serde_json::to_string_pretty(example).map_err(|_| fmt::Error)?.replace('`', "'");
    write!(out, "<pre>{}</pre>", Html(&shown))
}

fn write_properties(out: &mut String, schema: &Value) -> fmt::Result {
    if schema.get("properties").is_none() {
        write!(out, "<p>")?;
        return write_kind(out, schema);
    }
    write!(out, "<table>")?;
    for (name, property) in fields(schema, "properties") {
        let is_needed = items(schema, "required").any(|needed| needed == name);
        write!(out, "<tr><td><code>{}</code>{}<td>", Html(name), if is_needed { ", required" } else { "" })?;
        write_kind(out, property)?;
        let own = items(property, "oneOf").find_map(|choice| choice.get("description"));
        let described = property.get("description").or(own).and_then(Value::as_str).unwrap_or_default();
        write!(out, "<td>{}", Html(described))?;
    }
    write!(out, "</table>")
}

/// What kind of value it is, in words.
fn write_kind(out: &mut String, schema: &Value) -> fmt::Result {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str).and_then(|reference| reference.rsplit('/').next()) {
        return write!(out, "<a href=\"#schema-{name}\">{name}</a>");
    }
    for (i, choice) in items(schema, "oneOf").chain(items(schema, "allOf")).enumerate() {
        write!(out, "{}", if i > 0 { " or " } else { "" })?;
        write_kind(out, choice)?;
    }
    match &schema["type"] {
        Value::String(kind) => write!(out, "{}", Html(kind))?,
        Value::Array(kinds) => {
            let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
            write!(out, "{}", Html(&kinds.join(" or ")))?;
        }
        _ if schema.get("oneOf").or(schema.get("allOf")).is_none() => write!(out, "any JSON")?,
        _ => {}
    }
    if let Some(item) = schema.get("items") {
        write!(out, " of ")?;
        write_kind(out, item)?;
    }
    for word in items(schema, "enum") {
        write!(out, " <code>{}</code>", Html(word.as_str().unwrap_or_default()))?;
    }
    for (field, said) in [
        ("minimum", "from"),
        ("maximum", "to"),
        ("minLength", "at least"),
        ("maxLength", "at most"),
        ("pattern", "like"),
    ] {
        if let Some(value) = schema.get(field) {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            write!(out, " {said} <code>{}</code>", Html(&value))?;
        }
    }
    // A form with one field names it here.
    if schema.get("additionalProperties") == Some(&Value::Bool(false)) && schema["type"] == "object" {
        for (name, property) in fields(schema, "properties") {
            write!(out, " <code>{}</code>: ", Html(name))?;
            write_kind(out, property)?;
        }
    }
    Ok(())
}
