//! The language of answers: words for people are in the language that the caller prefers. English is the default. Problems
//! are translated here. Handlers that answer with other words take the [`Language`], and call `reply::told`.

use crate::dashboard::Language;
use crate::http::problem::Sent;
use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;
use std::convert::Infallible;

/// Tells the problem that an answer is in the language of the request.
pub(crate) async fn tell(request: Request, next: Next) -> Response {
    let language = Language::of(request.headers());
    told(language, next.run(request).await)
}

/// An answer with its problem in this language, if it is one.
pub(crate) fn told(language: Language, answer: Response) -> Response {
    if language == Language::Chinese { Sent::in_chinese(answer) } else { answer }
}

impl<S: Sync> FromRequestParts<S> for Language {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.headers))
    }
}
