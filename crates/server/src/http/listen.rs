//! Connections: accepted within limits, encrypted if configured, served, and closed in order.

use super::app::App;
use super::audit_log::Peer;
use super::limits::{
    ACCEPT_PAUSE, BUFFER_BYTES_MAX, HEAD_FREE_BYTES, HEAD_TIME_MAX, HEADERS_PARSED_MAX, LARGE_BUFFERS_MAX,
    STOP_TIME_MAX, UNACKNOWLEDGED_MS_MAX,
};
use super::middleware::heads::Heads;
use super::middleware::peers::{PeerConnection, Peers};
use super::middleware::request_id::{self, REQUEST_ID};
use super::middleware::sending::{self, SendProgress};
use super::middleware::{guard, language, trace};
use super::remainder;
use super::routes::{self, Routes};
use super::tls::{Encrypted, encrypt};
use super::unreadable::Explained;
use crate::dashboard::{self, Language};
use axum::body::Bytes;
use axum::http::header::{CONNECTION, HeaderValue};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::TcpUserTimeout;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// Serves until `stop`, then releases waiting requests and finishes running ones, within a limit of time.
pub(crate) async fn serve(listener: TcpListener, app: App, stop: CancellationToken) {
    let connections_max = app.listener_config.connections_max;
    let slots = Arc::new(Semaphore::new(connections_max));
    let routes = TowerToHyperService::new(routes::routes(&app));
    let speaker = Speaker { app, routes, http: http(), slots: slots.clone() };
    let app = &speaker.app;
    let peers = Peers::new((connections_max / 2).max(1));
    let connections = GracefulShutdown::new();
    let accepting = async {
        loop {
            let (stream, peer, slot) = match accept(&listener, &slots).await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Some(admitted) = peers.admit(peer.ip()) else {
                tracing::debug!(%peer, "closed: too many connections from this address");
                continue;
            };
            let speaker = speaker.clone();
            tokio::spawn(speaker.converse(stream, peer, (slot, admitted), connections.watcher()));
        }
    };
    tokio::select! {
        () = accepting => {}
        () = app.listener_config.watch(&app.engine) => {}
        () = stop.cancelled() => {}
    }
    drop(listener);
    app.stopping.cancel();
    let calls = async {
        connections.shutdown().await;
        app.calls.close();
        app.calls.wait().await;
    };
    if tokio::time::timeout(STOP_TIME_MAX, calls).await.is_err() {
        tracing::warn!(seconds = STOP_TIME_MAX.as_secs(), "requests were still running and are closed");
    }
}

async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let slot = slots.clone().acquire_owned().await.map_err(std::io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    stream.set_nodelay(true)?;
    // A client that stops reading, or vanishes without closing, does not keep its connection open.
    setsockopt(&stream, TcpUserTimeout, &UNACKNOWLEDGED_MS_MAX)?;
    Ok((stream, peer, slot))
}

fn http() -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        .max_headers(HEADERS_PARSED_MAX);
    http
}

/// Serves new connections; cheap to clone.
#[derive(Clone)]
struct Speaker {
    app: App,
    routes: Routes,
    http: http1::Builder,
    /// Room for connections.
    slots: Arc<Semaphore>,
}

impl Speaker {
    /// Whether so many connections are open that they may not all keep large buffers.
    fn is_crowded(&self) -> bool {
        self.app.listener_config.connections_max - self.slots.available_permits() > LARGE_BUFFERS_MAX
    }

    /// Serves one connection to its end.
    async fn converse(
        self,
        stream: TcpStream,
        peer: SocketAddr,
        _room: (OwnedSemaphorePermit, PeerConnection),
        watcher: Watcher,
    ) {
        match self.app.listener_config.tls_acceptor() {
            None => self.serve(stream, peer, watcher).await,
            Some(acceptor) => {
                if let Some(stream) = self.encrypt(acceptor, stream, peer).await {
                    // In a box, so that plain connections are not as large as these.
                    Box::pin(self.serve(stream, peer, watcher)).await;
                }
            }
        }
    }

    async fn encrypt(
        &self,
        acceptor: TlsAcceptor,
        stream: TcpStream,
        peer: SocketAddr,
    ) -> Option<Encrypted<TcpStream>> {
        let agreed = encrypt(acceptor, stream, &self.app.account);
        let failed = |error: std::io::Error| tracing::debug!(%peer, %error, "the TLS handshake of a connection failed");
        self.app.stopping.run_until_cancelled(agreed).await?.map_err(failed).ok()
    }

    async fn serve<S>(&self, stream: S, peer: SocketAddr, watcher: Watcher)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (speaker, app, routes) = (self.clone(), self.app.clone(), self.routes.clone());
        let progress = Arc::new(SendProgress::default());
        let watched = progress.clone();
        let stream = Heads::new(stream, &self.app.account);
        let head = stream.head();
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            let head = head.clone();
            head.arrived();
            let (app, routes) = (app.clone(), routes.clone());
            let (method, path) = (request.method().clone(), request.uri().path().to_owned());
            let trace = trace::of(request.headers());
            let id = request_id::of(request.headers());
            request.headers_mut().insert(REQUEST_ID, id.clone());
            // Boxed: the wrapping futures would hold it twice, and a long poll waits for a long time.
            let asked = request.method().clone();
            let (request, remainder) = remainder::keep(request);
            let is_large = request.body().size_hint().upper().is_none_or(|bytes| bytes > HEAD_FREE_BYTES as u64);
            let handle = Box::pin(async move {
                let response = handle(&app, &routes, peer, request).await;
                sending::with_share(&app.account, &asked, response).await
            });
            let (progress, speaker) = (progress.clone(), speaker.clone());
            let handled = guard::shield(method, path, id, trace, handle);
            handled.then(|answer| remainder.end(answer)).map(move |mut response| {
                head.next();
                // The HTTP library's buffer does not shrink.
                if is_large && speaker.is_crowded() {
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                Ok::<_, Infallible>(progress.watch(response))
            })
        });
        let connection = self.http.serve_connection(TokioIo::new(Explained::new(stream)), service);
        tokio::select! {
            ended = watcher.watch(connection) => if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended early");
            },
            () = watched.stalled(&self.app.account.answers) => tracing::debug!(%peer, "closed: the client read too slowly"),
        }
    }
}

/// Checks a request and routes it.
pub(super) async fn handle<B>(app: &App, routes: &Routes, peer: SocketAddr, mut request: hyper::Request<B>) -> Response
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    let caller = match guard::check(app, &request) {
        Ok(caller) => caller,
        Err(problem) => {
            let answer = language::told(Language::of(request.headers()), problem.into_response());
            return match dashboard::Browser::of(app, Peer(peer), &request) {
                Some(browser) => browser.answer(app, answer).await,
                None => answer,
            };
        }
    };
    request.extensions_mut().insert(caller);
    request.extensions_mut().insert(Peer(peer));
    match routes.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}
