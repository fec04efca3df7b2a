//! Request bodies: read within limits of time and size, and parsed in place.

use super::app::App;
use super::gzip::{Flaw, Intake};
use super::limits::{BATCH_BODY_BYTES_MAX, BODY_BYTES_MAX, BODY_TIME_MAX, DISCARD_TIME_MAX};
use super::problem::{Problem, Refusal};
use axum::body::HttpBody;
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, EXPECT};
use duetime::wire::Object;
use http_body_util::BodyExt;
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

/// The text of a body of at most so many bytes.
pub(super) struct Body<const BYTES_MAX: usize> {
    text: String,
    /// Held while a large body is.
    _large: Option<OwnedSemaphorePermit>,
}

/// The body of a request about one thing.
pub(super) type One = Body<BODY_BYTES_MAX>;
/// The body of a request about many things, or with a payload.
pub(super) type Batch = Body<BATCH_BODY_BYTES_MAX>;

impl<const BYTES_MAX: usize> Body<BYTES_MAX> {
    /// The text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// An object; an empty body is an empty one.
    pub(super) fn object<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Problem> {
        let text = if self.text.is_empty() { "{}" } else { &self.text };
        Ok(serde_json::from_str::<Object<T>>(text)?.0)
    }
}

impl<const BYTES_MAX: usize> FromRequest<App> for Body<BYTES_MAX> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let (parts, mut body) = request.into_parts();
        let announced = HttpBody::size_hint(&body).exact();
        let is_gzip = announced != Some(0) && check_media_type(&parts.headers)?;
        let deadline = Instant::now() + BODY_TIME_MAX;
        let (mut intake, mut sent) = (Intake::new(is_gzip, BYTES_MAX), 0);
        let mut large = None;
        match announced.map(usize::try_from) {
            Some(Ok(length)) if length <= BYTES_MAX => {
                if length > BODY_BYTES_MAX {
                    large = Some(permit(app, deadline).await?);
                }
                intake.reserve(length);
            }
            Some(_) => return Err(too_large(parts.headers, body, BYTES_MAX, announced).await),
            None => {}
        }
        loop {
            let frame = timeout_at(deadline, body.frame()).await.map_err(|_| late())?;
            let Some(frame) = frame else { break };
            let frame = frame.map_err(|error| Refusal::Body.because(format!("the body cannot be read: {error}")))?;
            let Ok(data) = frame.into_data() else { continue };
            sent += data.len();
            if sent > BYTES_MAX {
                return Err(too_large(parts.headers, body, BYTES_MAX, None).await);
            }
            for part in intake.parts(&data) {
                if large.is_none() && intake.len() + part.len() > BODY_BYTES_MAX {
                    large = Some(permit(app, deadline).await?);
                }
                match intake.take(part) {
                    Ok(()) => {}
                    Err(Flaw::TooLarge) => return Err(too_large(parts.headers, body, BYTES_MAX, None).await),
                    Err(Flaw::NoGzip(error)) => return Err(no_gzip(&error)),
                }
            }
        }
        let bytes = if is_gzip && sent == 0 { Ok(Vec::new()) } else { intake.finish() };
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(Flaw::TooLarge) => return Err(too_large(parts.headers, body, BYTES_MAX, None).await),
            Err(Flaw::NoGzip(error)) => return Err(no_gzip(&error)),
        };
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            Refusal::MalformedJson.because(format!("in the body: expected UTF-8, got something else at byte {at}"))
        })?;
        Ok(Self { text, _large: large })
    }
}

async fn permit(app: &App, deadline: Instant) -> Result<OwnedSemaphorePermit, Problem> {
    let permit = timeout_at(deadline, app.large_bodies.clone().acquire_owned()).await.map_err(|_| late())?;
    permit.map_err(|_| Refusal::Internal.because("no more bodies are read"))
}

fn late() -> Problem {
    let seconds = BODY_TIME_MAX.as_secs();
    Refusal::Timeout.because(format!("expected the whole body within {seconds} s"))
}

fn no_gzip(error: &std::io::Error) -> Problem {
    Refusal::Body.because(format!("expected a whole body in gzip, as its content-encoding says: {error}"))
}

/// Whether the body is in gzip.
fn check_media_type(headers: &HeaderMap) -> Result<bool, Problem> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("something unreadable"));
    let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
    let encoding = text(CONTENT_ENCODING).filter(|encoding| !encoding.eq_ignore_ascii_case("identity"));
    let is_gzip = encoding.is_some_and(|encoding| encoding.eq_ignore_ascii_case("gzip"));
    if let Some(encoding) = encoding.filter(|_| !is_gzip || encodings.nth(1).is_some()) {
        return Err(Refusal::MediaType.because(format!("expected the content-encoding gzip or none, got {encoding}")));
    }
    let Some(media_type) = text(CONTENT_TYPE) else { return Ok(is_gzip) };
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(is_gzip);
    }
    Err(Refusal::MediaType.because(format!("expected the content-type application/json, got {media_type}")))
}

/// Refuses a body, once its sender had time to finish: one that still writes would lose the answer with the connection.
async fn too_large(
    headers: HeaderMap,
    mut body: axum::body::Body,
    bytes_max: usize,
    announced: Option<u64>,
) -> Problem {
    // Who expects to be told to continue has sent nothing yet.
    if !headers.contains_key(EXPECT) {
        let deadline = Instant::now() + DISCARD_TIME_MAX;
        while let Ok(Some(Ok(_))) = timeout_at(deadline, body.frame()).await {}
    }
    let got = announced.map_or_else(|| "more".to_owned(), |bytes| bytes.to_string());
    Refusal::BodyTooLarge.because(format!("expected a body of at most {bytes_max} bytes, got {got}"))
}

#[cfg(test)]
mod tests {
    use super::super::edge::Edge;
    use super::*;
    use crate::deliver::Policy;
    use duetime_core::engine::{Options, Stores};
    use duetime_core::memory::{Locks, Memory};
    use duetime_core::{Engine, SystemClock};
    use duetime_store::sqlite::Sqlite;
    use futures_util::stream;
    use std::sync::Arc;

    #[tokio::test]
    async fn a_body_that_does_not_come_is_given_up() {
        let sqlite = Arc::new(Sqlite::memory().unwrap());
        let clock = Arc::new(SystemClock::new());
        let broker = Arc::new(Memory::new(clock.clone()));
        let locks = Arc::new(Locks::new(clock, sqlite.clone()));
        let stores = Stores { broker, ledger: sqlite.clone(), registry: sqlite, locks };
        let engine = Engine::start(stores, Options::default()).await.unwrap();
        let app = App::new(engine, Edge::local(), Policy::default(), Arc::default());
        tokio::time::pause();
        let body = axum::body::Body::from_stream(stream::pending::<Result<&[u8], std::io::Error>>());
        let refused = One::from_request(Request::new(body), &app).await.err().map(duetime::wire::Problem::from);
        assert_eq!(refused.map(|problem| (problem.status, problem.code)), Some((408, "timeout".to_owned())));
    }
}
