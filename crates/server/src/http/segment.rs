//! Segments of paths.

use super::problem::Problem;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use duetime_core::Error;
use std::str::FromStr;
use std::sync::Arc;

/// The variable segment of a path, decoded.
pub(super) struct Segment<T>(pub(super) T);

impl<S: Send + Sync, T: FromStr<Err: Into<Problem>> + Send> FromRequestParts<S> for Segment<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|_| Error::invalid("path", "UTF-8, percent-encoded", parts.uri.path()))?;
        text.parse().map(Self).map_err(Into::into)
    }
}

/// The name of a queue, lock or schedule; `/` in it comes as `%2F`.
pub(super) struct Name(pub(super) Arc<str>);

impl FromStr for Name {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Ok(Self(Arc::from(text)))
    }
}
