//! Webhooks: one request for each job, signed, over connections that are kept.
//!
//! Every address is checked before anything is sent to it: those in URLs when they are read, those of names when they are
//! resolved for a connection. Redirects are not followed, and no proxy is used. Other modules decide when to deliver, and
//! how many deliveries run at a time, and how many connections there may be ([`Sender::admit`]): each delivery takes a turn first.

mod address;
mod connections;
mod keys;
mod lookup;
mod reply;
mod resolver;
mod retry_after;
mod route;
mod signature;
mod turns;

pub(crate) use address::Rules;
pub(crate) use keys::Keys;
pub(super) use lookup::Resolver;
pub(crate) use route::Route;
pub(super) use turns::Turn;

use super::result::{DeliveryResult, Sign};
use crate::file_error::FileError;
use bytes::Bytes;
use connections::{CountingConnector, Room, is_full};
use duetime_core::api::{Span, show_bytes};
use duetime_core::error::system_words;
use duetime_core::{Job, Millis};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use resolver::Guarded;
use std::borrow::Cow;
use std::error::Error as StdError;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use turns::Turns;

/// How long a connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long a connection that is not used is kept: less than most servers keep it.
const IDLE_MAX: Duration = Duration::from_secs(20);
/// How often a request is sent again that the receiver refused without looking at it.
const REFUSALS_MAX: usize = 3;
/// How long the body of an answer may take: the job's outcome does not depend on it.
const BODY_MAX: Duration = Duration::from_secs(5);

/// Encoded, it is at most three times as long: many servers take 4 KiB of headers and no more.
const PREVIOUS_BYTES_MAX: usize = 1 << 10;

/// What an operator says of webhooks.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Also deliver to loopback and private addresses, over http or https
    #[arg(long, env = "DUETIME_WEBHOOK_ALLOW_PRIVATE", help_heading = "Webhooks")]
    webhook_allow_private: bool,
    /// Additional root certificates (PEM) to trust for deliveries
    #[arg(long, value_name = "FILE", env = "DUETIME_WEBHOOK_CA", help_heading = "Webhooks")]
    webhook_ca: Option<PathBuf>,
    /// File of signing keys, reloaded when it changes: lines `NAME whsec_BASE64 QUEUES`. A key signs only jobs of its
    /// queues (`orders.*,mail`, or `*` for all). Keys with the same name all sign; `default` is used unless the target
    /// names another
    #[arg(long, value_name = "FILE", env = "DUETIME_WEBHOOK_KEYS", help_heading = "Webhooks")]
    webhook_keys: Option<PathBuf>,
}

impl Args {
    /// The addresses that are allowed.
    pub(crate) fn rules(&self) -> Rules {
        Rules { allow_private: self.webhook_allow_private }
    }
}

/// Why nothing can be sent.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[non_exhaustive]
pub(crate) enum Error {
    /// The keys.
    Keys(#[from] FileError),
    /// The root certificates.
    Roots(#[from] duetime::Error),
}

type Tcp = CountingConnector<HttpConnector<Guarded>>;

/// Sends webhooks.
pub(crate) struct Sender {
    encrypted: Clients<HttpsConnector<Tcp>>,
    plain: Clients<Tcp>,
    keys: Arc<Keys>,
    kept: Room,
    once: Room,
    turns: Turns,
}

impl Sender {
    /// Must be called in a tokio runtime, which carries the connections. It waits until connections are admitted.
    ///
    /// # Errors
    /// If a given file cannot be used.
    pub(crate) fn new(args: &Args) -> Result<Self, Error> {
        let keys = Arc::new(Keys::open(args.webhook_keys.clone())?);
        let tls = duetime::server::tls_config(args.webhook_ca.as_deref())?;
        let (rules, resolver, kept, once) = (args.rules(), Resolver::of_system(), Room::none(true), Room::none(false));
        let tcp =
            |is_plain, room: &Room| CountingConnector::new(connector(resolver.clone(), rules, is_plain), room.clone());
        let plain = Clients::new(tcp(true, &kept), tcp(true, &once));
        let https = |room| {
            let builder = HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_only().enable_all_versions();
            builder.wrap_connector(tcp(false, room))
        };
        let encrypted = Clients::new(https(&kept), https(&once));
        Ok(Self { encrypted, plain, keys, kept, once, turns: Turns::none() })
    }

    /// Makes room for this many connections that are kept for later deliveries, and for this many deliveries at a time.
    pub(crate) fn admit(&self, kept: usize, turns: usize) {
        self.kept.admit(kept);
        self.once.admit(turns);
        self.turns.admit(turns);
    }

    /// Waits until a job of the queue may be delivered to this URL.
    pub(in crate::deliver) async fn turn(&self, queue: &str, url: &str) -> Turn {
        self.turns.take(queue, url).await
    }

    /// The keys that it signs with.
    pub(crate) fn keys(&self) -> Arc<Keys> {
        self.keys.clone()
    }

    /// Delivers a job in its turn, at `now` by the wall clock.
    pub(crate) async fn send(&self, route: &Route, job: &Job, now: Millis) -> DeliveryResult {
        let request = match self.request(route, job, now) {
            Ok(request) => request,
            Err(why) => return DeliveryResult::failed(why, Sign::None),
        };
        let end = Instant::now() + route.timeout;
        let is_kept = self.turns.has_answered(&job.queue, &route.url);
        let sent = async {
            if route.is_plain {
                self.plain.exchange(request, is_kept).await
            } else {
                self.encrypted.exchange(request, is_kept).await
            }
        };
        let sent = timeout_at(end, lookup::on_behalf_of(&job.queue, sent)).await;
        self.turns.ended(&job.queue, &route.url, matches!(sent, Ok(Ok(_))));
        match sent {
            Ok(Ok(response)) => {
                let (status, headers, body) = reply::read(response, end.min(Instant::now() + BODY_MAX)).await;
                reply::judge(route, status, &headers, &body, now)
            }
            Ok(Err(error)) => not_sent(&error),
            Err(_) => {
                let limit = Span(u64::try_from(route.timeout.as_millis()).unwrap_or(u64::MAX));
                let said = format!("timeout: no answer within {limit}");
                DeliveryResult::failed(said, Sign::Silent)
            }
        }
    }

    fn request(&self, route: &Route, job: &Job, now: Millis) -> Result<Request<Full<Bytes>>, String> {
        let ring = self.keys.of(route.key.as_deref(), &job.queue)?;
        // The payload is shared with the store, not copied.
        let body = if route.method == Method::GET { Bytes::new() } else { Bytes::from_owner(job.payload.clone()) };
        let (id, seconds) = (job.id.to_string(), (now / 1_000).to_string());
        let mut headers = route.headers.clone();
        if !body.is_empty() && !headers.contains_key(CONTENT_TYPE) {
            let is_json = show_bytes(&body).0.is_some();
            let kind = if is_json { "application/json" } else { "application/octet-stream" };
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        if let Some(ring) = ring {
            set(&mut headers, "webhook-signature", &signature::sign(&ring, &id, &seconds, &body));
        }
        set(&mut headers, "webhook-id", &id);
        set(&mut headers, "webhook-timestamp", &seconds);
        set(&mut headers, "duetime-queue", &job.queue);
        set(&mut headers, "duetime-kind", &job.kind);
        set(&mut headers, "duetime-attempt", &job.attempt.to_string());
        set(&mut headers, "duetime-due-at", &job.due_at.to_string());
        if let Some(trace) = &job.options().trace {
            set(&mut headers, "traceparent", trace);
        }
        if let Some(meta) = &job.options().meta {
            set(&mut headers, "duetime-meta", &serde_json::to_string(meta).expect("its names are text"));
        }
        if let Some(previous) = &job.options().previous {
            set(&mut headers, "duetime-previous", &previous.within(PREVIOUS_BYTES_MAX));
        }
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = route.method.clone();
        *request.uri_mut() = route.uri.clone();
        *request.headers_mut() = headers;
        Ok(request)
    }
}

/// The clients of one kind of connection: one that keeps its connections, and one that uses each once.
struct Clients<C> {
    kept: Client<C, Full<Bytes>>,
    once: Client<C, Full<Bytes>>,
}

impl<C> Clients<C>
where
    C: legacy::connect::Connect + Clone + Send + Sync + 'static,
{
    fn new(kept: C, once: C) -> Self {
        let mut client = Client::builder(TokioExecutor::new());
        client.timer(TokioTimer::new()).pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE_MAX);
        let kept = client.build(kept);
        Self { kept, once: client.pool_max_idle_per_host(0).build(once) }
    }

    /// Sends a request over a connection that is kept, if it is to be and there is room, and returns the answer.
    async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        is_kept: bool,
    ) -> Result<Response<Incoming>, legacy::Error> {
        if is_kept {
            match exchange(&self.kept, request.clone()).await {
                Err(error) if is_full(&error) => {}
                ended => return ended,
            }
        }
        exchange(&self.once, request).await
    }
}

/// Sends a request and returns the answer. A request that the receiver did not process is sent again: that is no attempt.
async fn exchange<C>(
    client: &Client<C, Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Result<Response<Incoming>, legacy::Error>
where
    C: legacy::connect::Connect + Clone + Send + Sync + 'static,
{
    let mut refusals = 0;
    loop {
        match client.request(request.clone()).await {
            Err(error) if refusals < REFUSALS_MAX && is_unprocessed(&error) => refusals += 1,
            ended => return ended,
        }
    }
}

/// Whether the receiver says that it did not process the request: by REFUSED_STREAM, or by a GOAWAY that names an earlier one
/// as the last. HTTP/2 allows to send such a request again, whatever it does (RFC 9113, 8.7).
fn is_unprocessed(error: &legacy::Error) -> bool {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(error) = inner.downcast_ref::<h2::Error>() {
            let is_refused = error.reason() == Some(h2::Reason::REFUSED_STREAM);
            return error.is_remote() && (error.is_go_away() || is_refused);
        }
        cause = inner.source();
    }
    false
}

fn connector(resolver: Resolver, rules: Rules, is_plain: bool) -> HttpConnector<Guarded> {
    let mut connector = HttpConnector::new_with_resolver(Guarded::new(resolver, rules.reach(is_plain)));
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_MAX));
    connector
}

/// Sets a header. Characters of its value other than visible ASCII are percent-encoded.
fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    let value = HeaderValue::from_str(&encoded(value)).expect("it is visible ASCII");
    headers.insert(HeaderName::from_static(name), value);
}

fn encoded(value: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'%';
    if value.bytes().all(is_plain) && value.trim_ascii().len() == value.len() {
        return Cow::Borrowed(value);
    }
    let is_kept = |byte: u8| is_plain(byte) && byte != b' ';
    let encode = |byte: u8| if is_kept(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    Cow::Owned(value.bytes().map(encode).collect())
}

/// The result if there is no answer.
fn not_sent(error: &legacy::Error) -> DeliveryResult {
    if let Some(refused) = resolver::refusal(error) {
        return DeliveryResult::refused(refused.to_string(), Sign::None);
    }
    let causes = std::iter::successors(error.source(), |&cause: &&dyn StdError| cause.source());
    let causes: Vec<String> = causes.map(ToString::to_string).collect();
    let cause = causes.last().map(|cause| system_words(cause)).unwrap_or_default();
    let why = if cause.contains("invalid peer certificate") {
        "its certificate is expired, for another host name, or not signed by a trusted root".to_owned()
    } else if cause.contains("InvalidContentType") {
        "it does not speak TLS; use http://".to_owned()
    } else if causes.iter().any(|cause| cause == "dns error") {
        format!("its host name is not resolved ({cause}); check the URL of the target")
    } else if cause.contains("closed before message completed") {
        "the receiver closed the connection".to_owned()
    } else if cause.contains("HTTP version parsed") {
        "it does not speak HTTP; check the URL of the target".to_owned()
    } else if error.is_connect() {
        format!("{cause}; check that the receiver runs and that this server can reach it")
    } else {
        cause
    };
    let said = format!("{}: {why}", if error.is_connect() { "not connected" } else { "no answer" });
    DeliveryResult::failed(said, Sign::Away)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    #[test]
    fn header_values_are_visible() {
        for (value, shown) in [
            ("order.cancel", "order.cancel"),
            ("two words", "two words"),
            ("100%", "100%25"),
            (" a\nb ", "%20a%0Ab%20"),
            ("größe", "gr%C3%B6%C3%9Fe"),
        ] {
            assert_eq!(encoded(value), shown);
        }
    }

    /// One frame of HTTP/2 on the stream 0, as RFC 9113 writes it.
    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, 0, 0, 0, 0, 0], payload].concat()
    }

    /// Answers on the third connection. On the first it says that it processed nothing; on the second it refuses one request.
    async fn refusing(listener: TcpListener) {
        const SETTINGS: u8 = 4;
        const GOAWAY: u8 = 7;
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(&frame(SETTINGS, &[])).await.unwrap();
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).await.unwrap();
        // Nothing was processed, without an error.
        stream.write_all(&frame(GOAWAY, &[0; 8])).await.unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        let mut connection = h2::server::handshake(listener.accept().await.unwrap().0).await.unwrap();
        let (_, mut refused) = connection.accept().await.unwrap().unwrap();
        refused.send_reset(h2::Reason::REFUSED_STREAM);
        let (_, mut taken) = connection.accept().await.unwrap().unwrap();
        taken.send_response(Response::builder().status(204).body(()).unwrap(), true).unwrap();
        while connection.accept().await.is_some() {}
    }

    #[tokio::test]
    async fn a_request_that_was_not_processed_is_sent_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let receiver = tokio::spawn(refusing(listener));
        let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
        let request = Request::post(url).body(Full::new(Bytes::from_static(b"x"))).unwrap();
        let sent = tokio::time::timeout(Duration::from_secs(60), exchange(&client, request)).await.unwrap();
        assert_eq!(sent.unwrap().status(), 204);
        drop(client);
        receiver.await.unwrap();
    }

    #[tokio::test]
    async fn a_receiver_that_refuses_each_request_is_not_asked_for_ever() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let receiver = tokio::spawn(async move {
            let mut connection = h2::server::handshake(listener.accept().await.unwrap().0).await.unwrap();
            let mut asked = 0;
            while let Some(Ok((_, mut refused))) = connection.accept().await {
                refused.send_reset(h2::Reason::REFUSED_STREAM);
                asked += 1;
            }
            asked
        });
        let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
        let request = Request::post(url).body(Full::new(Bytes::new())).unwrap();
        assert!(is_unprocessed(&exchange(&client, request).await.unwrap_err()));
        drop(client);
        assert_eq!(receiver.await.unwrap(), 1 + REFUSALS_MAX);
    }
}
