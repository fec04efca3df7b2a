//! Responses in JSON.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::http::{Response as HttpResponse, StatusCode};
use axum::response::Response;
use serde::Serialize;

/// Most answers are shorter than this.
const BYTES_USUAL: usize = 512;

/// This status with this body of this media type.
pub(super) fn with_type(status: StatusCode, media_type: &'static str, body: &impl Serialize) -> Response {
    let mut bytes = Vec::with_capacity(BYTES_USUAL);
    serde_json::to_writer(&mut bytes, body).expect("answers have no maps with keys that are no strings");
    // Otherwise the shell prompt follows the answer on the same line.
    bytes.push(b'\n');
    let mut response = HttpResponse::new(Body::from(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}
