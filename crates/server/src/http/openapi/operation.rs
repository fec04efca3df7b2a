//! The parts of an operation's description that many share: rights, headers and problems.

use super::super::app::App;
use super::super::problem::CODES;
use super::TOKEN;
use crate::access::Scope;
use duetime_core::api;
use duetime_core::api::schema::literal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::schema::{AllOfBuilder, OneOf, Schema};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{ContentBuilder, Header, Ref, RefOr, Required, Response, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;

/// The extension in which a handler lists the codes of its problems.
const OWN_CODES: &str = "x-codes";
/// Codes that any request may get.
const OF_ALL: [&str; 5] = ["invalid", "foreign_origin", "foreign_host", "head_too_large", "internal"];
/// Codes for a request without the right token, or for too many requests.
const OF_ACCESS: [&str; 3] = ["unauthorized", "forbidden", "too_many_requests"];
/// Codes for a request with a body.
const OF_BODY: [&str; 6] =
    ["malformed_json", "body_unreadable", "media_type", "body_too_large", "timeout", "too_many_bodies"];
/// Codes for a request that reads from a store.
const OF_STORE: [&str; 3] = ["store_unavailable", "store_damaged", "store_unusable"];
/// Further codes for a request that changes something.
const OF_CHANGE: [&str; 2] = ["store_full", "stopping"];

/// Whether many operations have this code, because of what they are and not of what they do.
pub(super) fn is_common(code: &str) -> bool {
    let groups: [&[&str]; 5] = [&OF_ALL, &OF_ACCESS, &OF_BODY, &OF_STORE, &OF_CHANGE];
    groups.iter().any(|codes| codes.contains(&code))
}

/// The header of a request that says which trace it belongs to.
pub(super) const TRACE: &str = "traceparent";
/// The header of every response that names its request.
pub(super) const REQUEST_ID: &str = "request-id";
/// The header of a response that shows a version.
pub(super) const ETAG: &str = "etag";
/// Schemas of objects with a version.
const VERSIONED: [&str; 3] = ["Job", "Queue", "ScheduleShown"];
/// The header of a response that says when to try again.
pub(super) const RETRY_AFTER: &str = "retry-after";

/// Variable segments of paths, each with its schema and description.
const SEGMENTS: [(&str, &str, &str); 5] = [
    ("/queues/{queue}", "QueueName", "The queue."),
    ("/jobs/{id}", "JobId", "The job."),
    ("/leases/{receipt}", "Receipt", "The lease."),
    ("/locks/{name}", "LockName", "The lock."),
    ("/schedules/{name}", "ScheduleName", "The schedule."),
];

/// Responses by their names.
type Problems = BTreeMap<String, RefOr<Response>>;

/// The right that a caller needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Needs {
    /// Nothing; and the store is not asked either.
    Nothing,
    /// A token with this right.
    Token(Scope),
}

/// Says of each operation what follows from its path, and from what its callers need.
pub(in super::super) fn needing(mut routes: OpenApiRouter<App>, needs: Needs) -> OpenApiRouter<App> {
    let document = routes.get_openapi_mut();
    let problems = &mut document.components.get_or_insert_default().responses;
    for (path, item) in &mut document.paths.paths {
        for (is_read, operation) in operations(item) {
            operation.parameters.get_or_insert_default().splice(..0, of_path(path));
            complete(operation, needs, is_read, problems);
        }
    }
    routes
}

/// The operations of a path, and whether each only reads.
pub(super) fn operations(item: &mut PathItem) -> impl Iterator<Item = (bool, &mut Operation)> {
    let PathItem { get, put, post, delete, patch, .. } = item;
    let changes = [put, post, delete, patch].into_iter().flatten().map(|operation| (false, operation));
    get.iter_mut().map(|operation| (true, operation)).chain(changes)
}

fn complete(operation: &mut Operation, needs: Needs, is_read: bool, problems: &mut Problems) {
    let mut codes: Vec<String> = OF_ALL.map(str::to_owned).into();
    if let Needs::Token(scope) = needs {
        let right = format!("If the server requires tokens, this needs the right `{}`.", scope.word());
        let said = operation.description.take().filter(|said| !said.is_empty());
        operation.description = Some(said.map_or_else(|| right.clone(), |said| format!("{said}\n\n{right}")));
        codes.extend(OF_ACCESS.iter().chain(&OF_STORE).map(|&code| code.to_owned()));
        if !is_read {
            codes.extend(OF_CHANGE.map(str::to_owned));
        }
        let anybody = SecurityRequirement::default();
        operation.security = Some(vec![SecurityRequirement::new(TOKEN, [""; 0]), anybody]);
    }
    if let Some(RefOr::T(body)) = &mut operation.request_body {
        codes.extend(OF_BODY.map(str::to_owned));
        let contents = body.content.values_mut().filter_map(|content| match content {
            RefOr::T(content) => content.schema.as_mut(),
            RefOr::Ref(_) => None,
        });
        // An optional body is left out, rather than being `null`.
        let may_be_left_out = contents.map(without_null).fold(false, |any, had_null| any | had_null);
        body.required = (!may_be_left_out).then_some(Required::True);
    }
    let own = operation.extensions.as_mut().and_then(|extensions| extensions.remove(OWN_CODES));
    let own: Vec<String> = own.map_or_else(Vec::new, |own| serde_json::from_value(own).expect("a list of codes"));
    let parameters = operation.parameters.get_or_insert_default();
    if own.iter().any(|code| code == "version_mismatch") {
        let description = "The expected version, as an ETag; if it differs, the answer is 412.";
        parameters.push(parameter("if-match", ParameterIn::Header, schema_of("IfMatch"), description));
    }
    let responses = &mut operation.responses.responses;
    if is_read && responses.values().any(is_versioned) {
        let (text, description) =
            (literal(json!({"type": "string"})), "The ETag of the caller's copy; if it is current, the answer is 304.");
        parameters.push(parameter("if-none-match", ParameterIn::Header, text, description));
        let mut unchanged = Response::new("Not changed.");
        unchanged.headers.insert(ETAG.to_owned(), header_reference(ETAG));
        responses.insert("304".to_owned(), RefOr::T(unchanged));
    }
    parameters.push(RefOr::Ref(Ref::new(format!("#/components/parameters/{TRACE}"))));
    codes.extend(own);
    operation.extensions = operation.extensions.take().filter(|extensions| !extensions.is_empty());

    for response in responses.values_mut() {
        let is_versioned = is_versioned(response);
        if let RefOr::T(response) = response {
            add_headers(response);
            if is_versioned {
                response.headers.insert(ETAG.to_owned(), header_reference(ETAG));
            }
        }
    }
    for (status, codes) in by_status(&codes) {
        // Many operations have the same answers, so each is defined once.
        let name = codes.iter().map(|(code, _)| *code).collect::<Vec<_>>().join(".");
        let reference = RefOr::Ref(Ref::from_response_name(&name));
        problems.entry(name).or_insert_with(|| RefOr::T(problem(status, &codes)));
        // The answer of a server that is not ready is no problem document; the operation itself describes its status.
        responses.entry(status.to_string()).or_insert(reference);
    }
}

/// The parameter for the variable segment of a path.
fn of_path(path: &str) -> Option<RefOr<Parameter>> {
    let is_here = |(segment, ..): &&(&str, &str, &str)| path.contains(segment);
    let (segment, schema, description) = SEGMENTS.iter().find(is_here)?;
    let name = segment.split(['{', '}']).nth(1)?;
    Some(parameter(name, ParameterIn::Path, schema_of(schema), description))
}

fn parameter(name: &str, place: ParameterIn, schema: RefOr<Schema>, description: &str) -> RefOr<Parameter> {
    let required = if place == ParameterIn::Path { Required::True } else { Required::False };
    let parameter = ParameterBuilder::new().name(name).parameter_in(place).required(required);
    RefOr::T(parameter.schema(Some(schema)).description(Some(description)).build())
}

fn schema_of(name: &str) -> RefOr<Schema> {
    RefOr::Ref(Ref::from_schema_name(name))
}

/// Whether an answer is something that has a version.
fn is_versioned(response: &RefOr<Response>) -> bool {
    let RefOr::T(Response { content, .. }) = response else { return false };
    content.values().any(|content| match content {
        RefOr::T(content) => VERSIONED.iter().any(|name| content.schema == Some(schema_of(name))),
        RefOr::Ref(_) => false,
    })
}

/// The parameter that every operation has.
pub(super) fn trace() -> Parameter {
    ParameterBuilder::new()
        .name(TRACE)
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        // Any text is accepted: an invalid trace does not affect the request.
        .schema(Some(literal(json!({"type": "string"}))))
        .example(Some(json!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")))
        .description(Some("The W3C trace that the request belongs to; ignored if invalid."))
        .build()
}

/// The header that every response has.
pub(super) fn request_id() -> Header {
    let id = literal(json!({"type": "string", "examples": ["4bf92f3577b34da6a3ce929d0e0e4736"]}));
    HeaderBuilder::new().schema(Some(id)).description(Some("The id of the request in the log.")).build()
}

/// The version of the object in the answer.
pub(super) fn etag() -> Header {
    HeaderBuilder::new()
        .schema(Some(schema_of("ETag")))
        .description(Some("The version; of a queue, that of its settings."))
        .build()
}

/// When to try again.
pub(super) fn retry_after() -> Header {
    let seconds = literal(json!({"type": "integer", "minimum": 0, "examples": [1]}));
    HeaderBuilder::new().schema(Some(seconds)).description(Some("Seconds to wait before trying again.")).build()
}

/// Takes `null` out of the choices, and says whether it was one.
pub(super) fn without_null(schema: &mut RefOr<Schema>) -> bool {
    let RefOr::T(Schema::OneOf(OneOf { items, .. })) = schema else { return false };
    let before = items.len();
    items.retain(|item| !matches!(item, RefOr::T(Schema::Object(object)) if is_null(object)));
    let had_null = items.len() < before;
    if had_null && items.len() == 1 {
        *schema = items.remove(0);
    }
    had_null
}

fn is_null(object: &utoipa::openapi::Object) -> bool {
    serde_json::to_value(&object.schema_type).is_ok_and(|kind| kind == "null")
}

/// Codes and their titles, by the status that they have.
fn by_status(codes: &[String]) -> BTreeMap<u16, Vec<(&'static str, &'static str)>> {
    let mut by_status: BTreeMap<u16, Vec<_>> = BTreeMap::new();
    for &(code, status, title) in CODES.iter().filter(|(code, ..)| codes.iter().any(|asked| asked == code)) {
        by_status.entry(documented_status(code, status.as_u16())).or_default().push((code, title));
    }
    let known = by_status.values().map(Vec::len).sum::<usize>();
    assert!(known == codes.len(), "a code is unknown or there twice: {codes:?}");
    by_status
}

/// The status that an operation answers with: of one that is asked for a version, it is a precondition.
pub(super) fn documented_status(code: &str, status: u16) -> u16 {
    if code == "version_mismatch" { 412 } else { status }
}

fn problem(status: u16, codes: &[(&str, &str)]) -> Response {
    let described: Vec<String> = codes.iter().map(|(code, title)| format!("`{code}`: {title}.")).collect();
    let words: Vec<&str> = codes.iter().map(|&(code, _)| code).collect();
    let narrowed = literal(json!({"type": "object", "properties": {
        "code": {"type": "string", "enum": words}, "status": {"type": "integer", "enum": [status]},
    }}));
    let schema = AllOfBuilder::new().item(Ref::from_schema_name("Problem")).item(narrowed);
    let examples =
        codes.iter().map(|&(code, title)| (code, ExampleBuilder::new().value(Some(example(status, code, title)))));
    let content =
        ContentBuilder::new().schema(Some(Schema::AllOf(schema.build()))).examples_from_iter(examples).build();
    let mut response =
        ResponseBuilder::new().description(described.join(" ")).content("application/problem+json", content).build();
    add_headers(&mut response);
    if [429, 503].contains(&status) {
        response.headers.insert(RETRY_AFTER.to_owned(), header_reference(RETRY_AFTER));
    }
    response
}

fn example(status: u16, code: &str, title: &str) -> Value {
    json!(api::Problem::new(code, status, title, "The error."))
}

fn add_headers(response: &mut Response) {
    response.headers.insert(REQUEST_ID.to_owned(), header_reference(REQUEST_ID));
}

fn header_reference(name: &str) -> RefOr<Header> {
    RefOr::Ref(Ref::new(format!("#/components/headers/{name}")))
}
