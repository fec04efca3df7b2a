//! Calls of the API's routes, within the process.

use super::language::Language;
use crate::access::Caller;
use crate::http::{Peer, REQUEST_ID};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::{ACCEPT_LANGUAGE, CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderValue, Method};
use axum::response::Response;
use duetime_core::api::{self, read_bytes};
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::Value;
use std::fmt::Write;
use tower_service::Service;

/// A refusal of the API.
pub(super) type Problem = Box<api::Problem>;

/// The API, as the reader of a page may use it.
#[derive(Clone)]
pub(super) struct Api {
    pub(super) routes: Router,
    pub(super) caller: Caller,
    pub(super) peer: Peer,
    pub(super) request_id: HeaderValue,
    /// Of the words of problems.
    pub(super) language: Language,
}

/// A call of the API.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) method: Method,
    /// With its query.
    pub(super) path: String,
    /// The version that the object must have for the change.
    pub(super) version: Option<u64>,
    /// JSON.
    pub(super) body: Option<String>,
    /// Whether there must be nothing yet.
    is_new: bool,
    /// The key of a push that may be repeated.
    idempotency_key: Option<String>,
}

/// An answer of the API.
pub(super) struct Answer {
    /// The version of the object that was read; 0 if it has none.
    pub(super) version: u64,
    bytes: Bytes,
}

impl Answer {
    /// The body.
    pub(super) fn read<'a, T: Deserialize<'a>>(&'a self) -> T {
        read_bytes(&self.bytes).expect("the API's answers read back")
    }

    /// The word for what the call did, if the API says one.
    pub(super) fn outcome(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Said {
            outcome: Option<String>,
        }
        serde_json::from_slice::<Said>(&self.bytes).ok()?.outcome
    }
}

impl Api {
    /// Reads the object at a path.
    ///
    /// # Errors
    /// The API's problem.
    pub(super) async fn get(&self, path: impl Into<String>) -> Result<Answer, Problem> {
        self.call(Call::new(Method::GET, path)).await
    }

    /// Makes a call.
    ///
    /// # Errors
    /// The API's problem.
    pub(super) async fn call(&self, call: Call) -> Result<Answer, Problem> {
        let response = self.send(call).await?;
        let status = response.status();
        let version = response.headers().get(ETAG).and_then(|etag| etag.to_str().ok()?.trim_matches('"').parse().ok());
        let bytes = match response.into_body().collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return Err(api::Problem::new("internal", 500, "Internal error", error.to_string()).into()),
        };
        // `/readyz` answers with 503 what it would with 200. To look for a problem in a success, too, cost a quarter of a page.
        match (!status.is_success()).then(|| read_bytes::<api::Problem>(&bytes)) {
            Some(Ok(problem)) => Err(problem.into()),
            _ => Ok(Answer { version: version.unwrap_or_default(), bytes }),
        }
    }

    /// Makes a call, and does not wait for the end of its answer.
    ///
    /// # Errors
    /// If it is too long to be one.
    pub(super) async fn send(&self, call: Call) -> Result<Response, Problem> {
        let Call { method, path, version, body, is_new, idempotency_key } = call;
        let mut request = Request::new(Body::from(body.unwrap_or_default()));
        *request.method_mut() = method;
        // Segments and queries are encoded, but may be too long.
        *request.uri_mut() = path.parse().map_err(|_| {
            let detail = format!("expected names and filters of at most 65,534 bytes together, got {}", path.len());
            api::Problem::new("invalid", 400, "The request is not valid", detail)
        })?;
        let headers = request.headers_mut();
        headers.insert(REQUEST_ID, self.request_id.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT_LANGUAGE, HeaderValue::from_static(self.language.tag()));
        if let Some(version) = version {
            headers.insert(IF_MATCH, HeaderValue::try_from(format!("\"{version}\"")).expect("digits"));
        }
        if let Some(key) = idempotency_key.and_then(|key| HeaderValue::try_from(key).ok()) {
            headers.insert("idempotency-key", key);
        }
        if is_new {
            headers.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
        request.extensions_mut().insert(self.caller.clone());
        request.extensions_mut().insert(self.peer);
        match self.routes.clone().call(request).await {
            Ok(response) => Ok(response),
            Err(never) => match never {},
        }
    }
}

impl Call {
    pub(super) fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), version: None, body: None, is_new: false, idempotency_key: None }
    }

    pub(super) fn post(path: impl Into<String>) -> Self {
        Self::new(Method::POST, path)
    }

    /// Only if the object still has this version.
    pub(super) fn at(self, version: Option<u64>) -> Self {
        Self { version, ..self }
    }

    /// A push that may be repeated under this key.
    pub(super) fn named(self, key: &str) -> Self {
        Self { idempotency_key: Some(key.to_owned()).filter(|key| !key.is_empty()), ..self }
    }

    /// If there is nothing yet.
    pub(super) fn if_new(self) -> Self {
        Self { is_new: true, ..self }
    }

    pub(super) fn with(self, body: &Value) -> Self {
        self.with_text(body.to_string())
    }

    /// With this JSON, each digit unchanged.
    pub(super) fn with_text(self, body: String) -> Self {
        Self { body: Some(body), ..self }
    }

    /// The same as a shell command, for the server with this address.
    pub(super) fn curl(&self, origin: &str, asks_for_tokens: bool) -> String {
        // curl posts if there is a body, and reads otherwise.
        let usual = if self.body.is_some() { Method::POST } else { Method::GET };
        let mut text = "curl -fsS".to_owned();
        if self.method != usual {
            let _ = write!(text, " -X {}", self.method);
        }
        let _ = write!(text, " {}", quoted(&format!("{origin}{}", self.path)));
        if asks_for_tokens {
            text.push_str(" -H \"authorization: Bearer $DUETIME_TOKEN\"");
        }
        if let Some(version) = self.version {
            let _ = write!(text, " -H 'if-match: \"{version}\"'");
        }
        if let Some(body) = &self.body {
            let _ = write!(text, " -H 'content-type: application/json' -d {}", quoted(&super::untrusted::json(body)));
        }
        text
    }
}

/// As one word of a shell.
pub(super) fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=%@,".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_call_is_a_shell_command() {
        let call = Call::post("/v1/jobs/7/cancel").at(Some(3)).with(&json!({"note": "it's $HOME"}));
        let text = r#"curl -fsS http://h:1/v1/jobs/7/cancel -H 'if-match: "3"' -H 'content-type: application/json' -d '{"note":"it'\''s $HOME"}'"#;
        assert_eq!(call.curl("http://h:1", false), text);
        let call = Call::post("/v1/jobs/7/run");
        assert_eq!(call.curl("http://h:1", false), "curl -fsS -X POST http://h:1/v1/jobs/7/run");
        let call = Call::new(Method::GET, "/v1/jobs?tag=a&key=b");
        let text = "curl -fsS 'http://h:1/v1/jobs?tag=a&key=b' -H \"authorization: Bearer $DUETIME_TOKEN\"";
        assert_eq!(call.curl("http://h:1", true), text);
    }
}
