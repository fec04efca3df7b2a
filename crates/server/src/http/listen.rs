//! Connections: accepted within a limit, served, and let go in order.

use super::app::App;
use super::limits::{
    ACCEPT_PAUSE, BUFFER_BYTES_MAX, CONNECTIONS_MAX, HEAD_TIME_MAX, HEADERS_PARSED_MAX, STOP_TIME_MAX,
};
use super::{guard, routes, trace};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

type Routes = TowerToHyperService<axum::Router>;

/// Serves until `stop`, then lets go of those who wait and finishes what is under way, within a limit of time.
pub(crate) async fn serve(listener: TcpListener, app: App, stop: CancellationToken) {
    let routes = TowerToHyperService::new(routes::routes(app.clone()));
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let connections = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        .max_headers(HEADERS_PARSED_MAX);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &slots) => accepted,
            () = stop.cancelled() => break,
        };
        let (stream, slot) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (app, routes) = (app.clone(), routes.clone());
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let (app, routes) = (app.clone(), routes.clone());
            let (method, path) = (request.method().clone(), request.uri().path().to_owned());
            let trace = trace::of(request.headers());
            let handled = guard::shield(method, path, trace, async move { handle(&app, &routes, request).await });
            handled.map(Ok::<_, Infallible>)
        });
        let connection = connections.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
            drop(slot);
        });
    }
    drop(listener);
    app.stopping.cancel();
    if tokio::time::timeout(STOP_TIME_MAX, connections.shutdown()).await.is_err() {
        tracing::warn!(seconds = STOP_TIME_MAX.as_secs(), "requests were still running and are cut off");
    }
}

async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let slot = slots.clone().acquire_owned().await.map_err(std::io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, slot))
}

async fn handle(app: &App, routes: &Routes, request: hyper::Request<Incoming>) -> Response {
    if let Err(problem) = guard::check(app, &request) {
        return problem.into_response();
    }
    match routes.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}
