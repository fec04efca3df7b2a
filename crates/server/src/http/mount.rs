//! The dashboard and the API inside an application's own server.
//!
//! Requests run on the engine's runtime, as calls of an embedded client do: a handler of the application that blocks its thread
//! delays none of them. The application accepts connections, and bounds and encrypts them. All checks of a request are those of our own
//! server. Answers are not compressed here: the application may do that.

use super::app::App;
use super::listen::handle;
use super::listener_config::ListenerConfig;
use super::middleware::request_id::{self, REQUEST_ID};
use super::middleware::{guard, sending, trace};
use super::prefix::Prefix;
use super::problem::Problem;
use super::routes::{Routes, uncompressed};
use crate::deliver::Policy;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::response::{IntoResponse, Response};
use duetime::Client;
use duetime_core::{Engine, Error};
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tower_service::Service;

/// Answers requests; cheap to clone.
#[derive(Clone)]
pub(crate) struct Mount(Arc<Inner>);

struct Inner {
    app: App,
    routes: Routes,
    runtime: Handle,
    /// Keeps the engine running.
    _client: Client,
}

impl Mount {
    /// For the engine of this client. `stop` releases requests that wait.
    pub(crate) fn new(
        (client, engine, runtime): (&Client, &Engine, &Handle),
        listener_config: ListenerConfig,
        stop: CancellationToken,
    ) -> Self {
        let (watching, reported, until) = (listener_config.clone(), engine.clone(), stop.clone());
        runtime.spawn(async move { until.run_until_cancelled(watching.watch(&reported)).await });
        let mut app = App::new(engine.clone(), listener_config, Policy::default(), Arc::default());
        app.stopping = stop;
        let routes = TowerToHyperService::new(uncompressed(&app));
        Self(Arc::new(Inner { app, routes, runtime: runtime.clone(), _client: client.clone() }))
    }

    async fn answer(self, request: Request) -> Response {
        let Inner { app, routes, .. } = &*self.0;
        let (prefix, peer) = (Prefix::of(&request), peer(&request));
        let (mut parts, body) = request.into_parts();
        // Those of the application's routes would be taken for ours, such as what its paths capture.
        parts.extensions.clear();
        let id = request_id::of(&parts.headers);
        parts.headers.insert(REQUEST_ID, id.clone());
        let (method, path, trace) = (parts.method.clone(), parts.uri.path().to_owned(), trace::of(&parts.headers));
        let (asked, within) = (method.clone(), prefix.clone());
        parts.extensions.insert(prefix);
        let handled = Box::pin(async move {
            let response = handle(app, routes, peer, Request::from_parts(parts, body)).await;
            let response = within.onto(response).await;
            sending::with_share(&app.account, &asked, response).await
        });
        guard::shield(method, path, id, trace, handled).await
    }
}

/// The address that a request comes from, if the application's server gives it.
fn peer(request: &Request) -> SocketAddr {
    let known = request.extensions().get::<ConnectInfo<SocketAddr>>();
    known.map_or_else(|| (Ipv4Addr::UNSPECIFIED, 0).into(), |ConnectInfo(peer)| *peer)
}

impl Service<Request<Body>> for Mount {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answer = self.0.runtime.spawn(self.clone().answer(request));
        // Dropped with its caller, as on a connection.
        let answer = AbortOnDropHandle::new(answer);
        // A panic was answered; what is left is a runtime that has ended.
        Box::pin(async move { Ok(answer.await.unwrap_or_else(|_| Problem::from(Error::Stopping).into_response())) })
    }
}
