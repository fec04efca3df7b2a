//! The OpenAPI document of the API, made from its routes and bodies: `GET /openapi.json`.
//!
//! Handlers describe what is particular to them, with the codes of their problems in `x-codes`. This module adds the parts
//! that many operations share (`operation`), and those that bodies share (`schemas`). The document is the same for
//! everybody.

mod docs;
mod operation;
mod schemas;
#[cfg(test)]
mod tests;

pub(super) use docs::{__path_docs, __path_style, docs, style};
pub(super) use operation::{Needs, needing};

use super::call::NoQuery;
use super::reply;
use super::routes;
use axum::body::Bytes;
use axum::response::Response;
use duetime_core::api::HistorySpan;
use duetime_core::api::schema::{ETag, IfMatch, Star, StateWord, literal};
use serde_json::json;
use std::sync::LazyLock;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The name of the one security scheme: a token.
const TOKEN: &str = "token";

const DESCRIPTION: &str = "A delayed job queue. Durations are text such as `30s`, and instants are RFC 3339; a number has its unit in the \
    name of its field. Unknown fields and query parameters are refused. An error is a problem document (RFC 9457) with a \
    stable `code`. Besides the codes of each operation, there are `no_route` for an unknown path and \
    `method_not_allowed` for a method that the path does not have.";

/// In the order of a job's life, which is also that of the page.
const TAGS: [(&str, &str); 7] = [
    ("push", "Push jobs."),
    ("work", "Reserve due jobs, and settle them."),
    ("jobs", "Find jobs, and change them."),
    ("queues", "Look at queues, and set them up."),
    ("schedules", "Jobs that recur."),
    ("locks", "Locks that one owner holds at a time."),
    ("server", "Health, metrics, and this document."),
];

static DOCUMENT: LazyLock<OpenApi> = LazyLock::new(|| {
    let mut document = routes::documented(None).into_openapi();
    schemas::finish(&mut document);
    document
});

static JSON: LazyLock<Bytes> = LazyLock::new(|| {
    let mut text = serde_json::to_vec(&*DOCUMENT).expect("a document has only string keys");
    text.push(b'\n');
    Bytes::from(text)
});

/// An OpenAPI document, as far as it is described.
struct Document;

impl PartialSchema for Document {
    fn schema() -> RefOr<Schema> {
        let info = json!({"type": "object", "required": ["title", "version"], "properties": {
            "title": {"type": "string"}, "version": {"type": "string"},
        }});
        literal(json!({"type": "object", "description": "A document of OpenAPI 3.1.", "required": ["openapi", "info"],
            "properties": {"openapi": {"type": "string", "pattern": "^3\\.1\\."}, "info": info}}))
    }
}

impl ToSchema for Document {}

/// This document.
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "openapi", tag = "server",
    responses((status = 200, description = "The OpenAPI document.", body = Document)),
)]
pub(super) async fn openapi_json(_: NoQuery) -> Response {
    reply::json(JSON.clone())
}

/// The method and the path of every route.
#[cfg(test)]
pub(crate) fn operations() -> Vec<(String, String)> {
    let document: serde_json::Value = serde_json::from_slice(&JSON).unwrap();
    let paths = document["paths"].as_object().unwrap().iter();
    let of = |(path, item): (&String, &serde_json::Value)| {
        let methods = item.as_object().unwrap().keys().filter(|key| !key.starts_with("x-") && *key != "parameters");
        methods.map(|method| (method.to_uppercase(), path.clone())).collect::<Vec<_>>()
    };
    paths.flat_map(of).collect()
}

/// The document without its paths.
pub(super) fn frame() -> OpenApi {
    let license = LicenseBuilder::new().name("MIT OR Apache-2.0").identifier(Some("MIT OR Apache-2.0")).build();
    let info = InfoBuilder::new()
        .title("Duetime")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(DESCRIPTION))
        .license(Some(license));
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("A token, where the server asks for one."))
        .build();
    let components = ComponentsBuilder::new()
        .security_scheme(TOKEN, SecurityScheme::Http(bearer))
        .parameter(operation::TRACE, operation::trace())
        .header(operation::REQUEST_ID, operation::request_id())
        .header(operation::ETAG, operation::etag())
        .header(operation::RETRY_AFTER, operation::retry_after())
        // Of parameters and headers only, of which schemas are not collected.
        .schema_from::<ETag>()
        .schema_from::<IfMatch>()
        .schema_from::<HistorySpan>()
        .schema_from::<Star>()
        .schema_from::<StateWord>();
    let tags = TAGS.map(|(name, description)| TagBuilder::new().name(name).description(Some(description)).build());
    OpenApiBuilder::new().info(info.build()).components(Some(components.build())).tags(Some(tags)).build()
}
