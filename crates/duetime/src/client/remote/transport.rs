//! HTTP/1.1 over pooled connections. It tells apart requests that were never sent, requests that may have been carried out,
//! and requests that were answered. No proxies, no redirects; every call has a time limit.

use super::connector::{Connector, SCHEMES, connector};
use super::token::Token;
use crate::client::connect_options::ConnectOptions;
use crate::error::{Cause, Error};
use bytes::Bytes;
use duetime_core::Redacted;
use duetime_core::api::Problem;
use duetime_core::error::system_words;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, IF_MATCH};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client as Http;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde::{Deserialize, Serialize};
use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long an idle connection is kept.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// Maximum bytes of an answer. Pages or reserves of a thousand jobs of maximum size are not requested.
const ANSWER_BYTES_MAX: usize = 512 << 20;

pub(super) struct Transport {
    address: Arc<str>,
    options: ConnectOptions,
    connector: Connector,
    http: Http<Connector, Full<Bytes>>,
}

/// A request.
pub(super) struct Call {
    method: Method,
    path: String,
    body: Bytes,
    version: Option<u64>,
    idempotency_key: Option<Arc<str>>,
    wait: Duration,
    repeats: bool,
}

impl Call {
    pub(super) fn new(method: Method, path: impl Into<String>) -> Self {
        let repeats = method == Method::GET;
        let (path, body, wait) = (path.into(), Bytes::new(), Duration::ZERO);
        Self { method, path, body, version: None, idempotency_key: None, wait, repeats }
    }

    pub(super) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    pub(super) fn post(path: impl Into<String>) -> Self {
        Self::new(Method::POST, path)
    }

    /// Sets the body.
    pub(super) fn json(mut self, body: &impl Serialize) -> Result<Self, Error> {
        let body = serde_json::to_vec(body).map_err(Error::payload)?;
        self.body = Bytes::from(body);
        Ok(self)
    }

    /// Applies only if the job has this version.
    pub(super) fn version(mut self, version: Option<u64>) -> Self {
        self.version = version;
        self
    }

    /// Sets the idempotency key: a push is carried out once, however often it is sent with this key.
    pub(super) fn idempotency_key(self, key: Arc<str>) -> Self {
        Self { idempotency_key: Some(key), repeats: true, ..self }
    }

    /// Allows the server this much more time.
    pub(super) fn wait(mut self, wait: impl Into<Duration>) -> Self {
        self.wait = wait.into();
        self
    }

    /// Whether the request is idempotent.
    pub(super) fn repeats(mut self, repeats: bool) -> Self {
        self.repeats = repeats;
        self
    }

    fn request(&self, address: &str, token: Option<&Token>) -> Result<Request<Full<Bytes>>, Error> {
        let mut request = Request::builder().method(&self.method).uri(format!("{address}{}", self.path));
        if !self.body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(version) = self.version {
            request = request.header(IF_MATCH, format!("\"{version}\""));
        }
        if let Some(key) = &self.idempotency_key {
            request = request.header("idempotency-key", &**key);
        }
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, token.header());
        }
        request.body(Full::new(self.body.clone())).map_err(|error| Error::protocol(error.to_string()))
    }
}

impl Transport {
    pub(super) fn new(address: &str, options: ConnectOptions) -> Result<Self, Error> {
        let (address, connector) = (base(address)?, connector(&options)?);
        Ok(Self { address, options, http: http(connector.clone()), connector })
    }

    /// A copy with its own connections.
    pub(super) fn detached(&self) -> Self {
        let (address, options, connector) = (self.address.clone(), self.options.clone(), self.connector.clone());
        Self { address, options, http: http(connector.clone()), connector }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Sends a request. If the connection is lost and the request is idempotent, it is sent once more.
    pub(super) async fn send(&self, call: Call) -> Result<Reply, Error> {
        match self.send_once(&call).await {
            Err(Failed { error, is_lost: true }) if call.repeats => {
                // If the repeat fails too, the outcome of the first attempt is still unknown.
                self.send_once(&call).await.map_err(|_| error)
            }
            result => result.map_err(|failed| failed.error),
        }
    }

    /// Sends a request whose answer is streamed.
    pub(super) async fn open(&self, call: Call) -> Result<Incoming, Error> {
        let opened = async {
            let response = self.request(&call).await?;
            if response.status().is_success() {
                return Ok(Ok(Incoming(response.into_body())));
            }
            Ok(Err(self.reply(response).await?))
        };
        let opened = self.within(self.options.time_limit, opened).await;
        opened.map_err(|failed| failed.error)?.or_else(|reply| {
            reply.done()?;
            Err(Error::protocol(format!("status {}", reply.status)))
        })
    }

    async fn send_once(&self, call: &Call) -> Result<Reply, Failed> {
        let exchange = async { self.reply(self.request(call).await?).await };
        self.within(self.options.time_limit + call.wait, exchange).await
    }

    async fn within<T>(&self, limit: Duration, work: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
        let late =
            || Failed { error: self.unknown(format!("none came within {} ms", limit.as_millis())), is_lost: false };
        timeout(limit, work).await.unwrap_or_else(|_| Err(late()))
    }

    async fn request(&self, call: &Call) -> Result<Response<hyper::body::Incoming>, Failed> {
        let request = call.request(&self.address, self.options.token.as_ref());
        let request = request.map_err(|error| Failed { error, is_lost: false })?;
        self.http.request(request).await.map_err(|error| {
            let is_lost = !error.is_connect();
            Failed { error: self.failed(is_lost, &error), is_lost }
        })
    }

    async fn reply(&self, response: Response<hyper::body::Incoming>) -> Result<Reply, Failed> {
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| Failed { error: self.unknown(error.to_string()), is_lost: true })?;
        Ok(Reply { status, body: body.to_bytes() })
    }

    fn failed(&self, is_lost: bool, error: &hyper_util::client::legacy::Error) -> Error {
        let mut cause: &dyn StdError = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        let (server, message) = (self.address.clone(), system_words(&cause.to_string()));
        if let Some((_, reason)) = message.split_once("invalid peer certificate: ") {
            Cause::Untrusted { server, why: untrusted(reason) }.into()
        } else if message.contains("InvalidContentType") {
            Cause::Scheme(format!("{server} does not speak TLS; use http://")).into()
        } else if message.contains("invalid HTTP version") {
            Cause::Scheme(format!("{server} does not speak plain HTTP; use https:// if the server has a certificate"))
                .into()
        } else if message.starts_with("connection closed") {
            self.unknown("the connection was closed".to_owned())
        } else if is_lost {
            self.unknown(message)
        } else {
            Cause::Unreachable { server, message }.into()
        }
    }

    pub(super) fn unknown(&self, message: String) -> Error {
        Cause::OutcomeUnknown { server: self.address.clone(), message }.into()
    }
}

/// Explains a certificate error of rustls.
fn untrusted(reason: &str) -> String {
    let said = reason.to_lowercase().replace(' ', "");
    let words = [
        ("unknownissuer", "it is not signed by a trusted root"),
        ("signature", "it is not signed by a trusted root"),
        ("notvalidforname", "it is for another host name"),
        ("expired", "it has expired"),
        ("notvalidyet", "it is not valid yet"),
        ("causedasendentity", "it is a root certificate; a server needs one with CA:FALSE"),
    ];
    let known = words.iter().find(|(word, _)| said.contains(word));
    known.map_or_else(|| reason.to_owned(), |(_, words)| (*words).to_owned())
}

/// A streamed body.
#[derive(Debug)]
pub(super) struct Incoming(hyper::body::Incoming);

impl Incoming {
    /// The next chunk; `None` at the end. There is no time limit.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            match self.0.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(error.to_string()),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }
}

/// A request that was not answered.
struct Failed {
    error: Error,
    /// The connection was lost; another one may work.
    is_lost: bool,
}

/// An answer.
pub(super) struct Reply {
    status: StatusCode,
    body: Bytes,
}

impl Reply {
    /// The result, or the problem that the server reported.
    pub(super) fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Error> {
        if self.status.is_success() {
            return self.read_any();
        }
        Err(match serde_json::from_slice::<Problem>(&self.body) {
            Ok(problem) => of_problem(&problem),
            Err(_) => {
                const SHOWN_BYTES: usize = 200;
                let shown = String::from_utf8_lossy(&self.body[..self.body.len().min(SHOWN_BYTES)]);
                Error::protocol(format!("status {} with {shown:?}", self.status))
            }
        })
    }

    /// The result, whatever the status.
    pub(super) fn read_any<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| Error::protocol(error.to_string()))
    }

    /// The answer as text.
    pub(super) fn text(&self) -> Result<String, Error> {
        self.done()?;
        String::from_utf8(self.body.to_vec()).map_err(|error| Error::protocol(error.to_string()))
    }

    /// Checks that the request succeeded.
    pub(super) fn done(&self) -> Result<(), Error> {
        if self.status.is_success() { Ok(()) } else { self.read::<serde_json::Value>().map(drop) }
    }
}

/// Converts a problem to an error.
pub(super) fn of_problem(problem: &Problem) -> Error {
    problem.error().map_or_else(
        || {
            Cause::Refused { status: problem.status, code: problem.code.clone(), message: problem.detail.clone() }
                .into()
        },
        Error::from,
    )
}

fn http(connector: Connector) -> Http<Connector, Full<Bytes>> {
    Http::builder(TokioExecutor::new()).pool_idle_timeout(IDLE_MAX).pool_timer(TokioTimer::new()).build(connector)
}

/// `http://host:port` or `https://host:port`, and the path under which the server is mounted, without a trailing slash.
fn base(address: &str) -> Result<Arc<str>, Error> {
    let base = address.trim_end_matches('/');
    let uri: Option<Uri> = base.parse().ok();
    let is_base = uri.is_some_and(|uri| {
        let is_plain = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
        let is_known = uri.scheme_str().is_some_and(|scheme| SCHEMES.contains(&scheme));
        // A number after the last colon that is too large is not a port.
        let has_port = |host: &str| uri.port().is_some() || !host.rsplit(']').next().unwrap_or_default().contains(':');
        let is_host = uri.authority().is_some_and(|authority| has_port(authority.as_str()));
        // A fragment is not in the parsed address.
        is_known && is_host && is_plain && uri.query().is_none() && !base.contains('#')
    });
    if is_base { Ok(Arc::from(base)) } else { Err(Cause::Address(Redacted(address).to_string()).into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for right in ["http://127.0.0.1:7300", "http://queue.example/", "http://[::1]:7300", "http://shop/a/duetime/"] {
            assert_eq!(&*base(right).unwrap(), right.trim_end_matches('/'));
        }
        assert_eq!(base("https://queue.example").is_ok(), cfg!(feature = "tls"));
        let wrong = [
            "",
            "127.0.0.1:7300",
            "ftp://queue.example",
            "http://a/b?c",
            "http://a?b",
            "http://a/b#c",
            "http://u@a",
            "http://",
        ];
        for wrong in wrong.into_iter().chain(["http://a:99999", "http://[::1]:99999"]) {
            assert_eq!(base(wrong).unwrap_err().code(), "address", "{wrong}");
        }
        let shown = base("http://app:secret@queue.example").unwrap_err().to_string();
        assert!(shown.contains("http://***@queue.example") && !shown.contains("secret"), "{shown}");
    }
}
