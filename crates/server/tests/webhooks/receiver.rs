//! An HTTP server that gives prepared answers, and keeps the requests.

use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

/// The time limit for a request that never comes.
const LIMIT: Duration = Duration::from_secs(60);

/// An answer to give.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Status(u16, &'static str),
    With(u16, &'static str, &'static str),
    /// Nothing, ever.
    Silence,
    /// The connection is closed.
    Hangup,
    /// A body without an end.
    Endless,
    /// Once the receiver is opened.
    WhenOpened(u16),
}

/// A request that came.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: hyper::HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) at: Instant,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// The requests by number, from 0.
type Answers = dyn Fn(usize, &Received) -> Answer + Send + Sync;

struct Shared {
    answer: Box<Answers>,
    received: watch::Sender<Vec<Received>>,
    opened: watch::Sender<bool>,
    /// Requests that wait for an answer, now and at most.
    waiting: Mutex<(usize, usize)>,
}

/// A receiver; gone when it is dropped.
pub(crate) struct Receiver {
    address: SocketAddr,
    shared: Arc<Shared>,
    _task: AbortOnDropHandle<()>,
}

/// A port that is not in use yet.
pub(crate) struct Closed(TcpSocket);

impl Closed {
    pub(crate) fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        Self(socket)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.0.local_addr().unwrap())
    }

    pub(crate) fn listen(self, answer: impl Fn(usize, &Received) -> Answer + Send + Sync + 'static) -> Receiver {
        Receiver::on(self.0.listen(64).unwrap(), answer)
    }
}

impl Receiver {
    /// Answers the n-th request (from 0) as this function says.
    pub(crate) fn start(answer: impl Fn(usize, &Received) -> Answer + Send + Sync + 'static) -> Self {
        Closed::new().listen(answer)
    }

    fn on(listener: TcpListener, answer: impl Fn(usize, &Received) -> Answer + Send + Sync + 'static) -> Self {
        let shared = Arc::new(Shared {
            answer: Box::new(answer),
            received: watch::Sender::new(Vec::new()),
            opened: watch::Sender::new(false),
            waiting: Mutex::default(),
        });
        let address = listener.local_addr().unwrap();
        let serving = shared.clone();
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let shared = serving.clone();
                let service = service_fn(move |request| {
                    let shared = shared.clone();
                    async move { shared.serve(request).await }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        }));
        Self { address, shared, _task: task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Answers those that wait for it, from now on.
    pub(crate) fn open(&self) {
        self.shared.opened.send_replace(true);
    }

    /// The requests so far.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.shared.received.borrow().clone()
    }

    /// Waits for this many requests.
    pub(crate) async fn after(&self, count: usize) -> Vec<Received> {
        let mut received = self.shared.received.subscribe();
        let came = timeout(LIMIT, received.wait_for(|received| received.len() >= count)).await;
        came.unwrap_or_else(|_| panic!("{count} requests never came")).unwrap().clone()
    }

    /// The maximum number of requests that waited for an answer at the same time.
    pub(crate) fn at_once(&self) -> usize {
        self.shared.waiting.lock().unwrap().1
    }
}

impl Shared {
    async fn serve(&self, request: Request<Incoming>) -> Result<Response<BoxBody<Bytes, Infallible>>, std::io::Error> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
        let (method, path) = (head.method.to_string(), head.uri.path().to_owned());
        let received = Received { method, path, headers: head.headers, body, at: Instant::now() };
        {
            let mut waiting = self.waiting.lock().unwrap();
            waiting.0 += 1;
            waiting.1 = waiting.1.max(waiting.0);
        }
        let mut number = 0;
        self.received.send_modify(|all| {
            number = all.len();
            all.push(received.clone());
        });
        let answer = self.answer(number, &received).await;
        self.waiting.lock().unwrap().0 -= 1;
        answer
    }

    async fn answer(
        &self,
        number: usize,
        received: &Received,
    ) -> Result<Response<BoxBody<Bytes, Infallible>>, std::io::Error> {
        let full = |text: &'static str| Full::new(Bytes::from_static(text.as_bytes())).boxed();
        let response = Response::builder();
        let response = match (self.answer)(number, received) {
            Answer::Status(status, body) => response.status(status).body(full(body)),
            Answer::With(status, name, value) => response.status(status).header(name, value).body(full("")),
            Answer::Silence => std::future::pending().await,
            Answer::Hangup => return Err(std::io::Error::other("hangs up")),
            Answer::Endless => {
                let frame = || Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[b'x'; 1_000])));
                let endless = futures_util::stream::repeat_with(frame).boxed();
                response.status(500).body(BodyExt::boxed(SyncBody(Mutex::new(StreamBody::new(endless)))))
            }
            Answer::WhenOpened(status) => {
                self.opened.subscribe().wait_for(|is_open| *is_open).await.unwrap();
                response.status(status).body(full(""))
            }
        };
        Ok(response.unwrap())
    }
}

/// A body that may be shared, as a boxed one must.
struct SyncBody<B>(Mutex<B>);

impl<B: hyper::body::Body + Unpin> hyper::body::Body for SyncBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        std::pin::Pin::new(self.get_mut().0.get_mut().unwrap()).poll_frame(context)
    }
}
