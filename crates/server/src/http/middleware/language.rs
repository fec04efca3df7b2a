//! The language of answers: problems are in the language that the caller prefers. English is the default.

use crate::dashboard::Language;
use crate::http::problem::Sent;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;

/// Tells the problem that an answer is in the language of the request.
pub(crate) async fn tell(request: Request, next: Next) -> Response {
    let language = Language::of(request.headers());
    let answer = next.run(request).await;
    if language == Language::Chinese { Sent::in_chinese(answer) } else { answer }
}
