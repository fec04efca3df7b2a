//! An app over stores in memory whose registry can be made to fail, for tests of the edge.

use super::app::App;
use super::audit_log::Peer;
use super::listener_config::ListenerConfig;
use super::middleware::request_id::REQUEST_ID;
use super::routes::routes;
use crate::access::Caller;
use crate::deliver::Policy;
use async_trait::async_trait;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::Response;
use duetime_core::engine::{Options, Stores};
use duetime_core::ports::{Document, Ledger, PutIf, Registry};
use duetime_core::{Engine, Error, SystemClock};
use duetime_store::sqlite::Sqlite;
use http_body_util::BodyExt;
use serde_json::Value;
use std::sync::{Arc, Mutex};
use tower_service::Service;

/// The stores of an app. The registry fails with an error on request.
pub(super) struct Faulty {
    inner: Arc<Sqlite>,
    error: Mutex<Option<Error>>,
}

impl Faulty {
    /// From now on it answers this.
    pub(super) fn fail(&self, error: Error) {
        *self.error.lock().unwrap() = Some(error);
    }

    /// Nothing can be recorded any more.
    pub(super) async fn close_ledger(&self) {
        Ledger::close(&*self.inner).await.unwrap();
    }

    fn check(&self) -> Result<(), Error> {
        self.error.lock().unwrap().clone().map_or(Ok(()), Err)
    }
}

#[async_trait]
impl Registry for Faulty {
    async fn document(&self, kind: &str, name: &str) -> Result<Option<Document>, Error> {
        self.check()?;
        self.inner.document(kind, name).await
    }

    async fn documents(&self, kind: &str) -> Result<Vec<Document>, Error> {
        self.check()?;
        self.inner.documents(kind).await
    }

    async fn put_if(&self, kind: &str, name: &str, body: &str, version: u64) -> Result<PutIf, Error> {
        self.check()?;
        self.inner.put_if(kind, name, body, version).await
    }

    async fn remove(&self, kind: &str, name: &str, version: Option<u64>) -> Result<bool, Error> {
        self.check()?;
        self.inner.remove(kind, name, version).await
    }
}

/// An app, and its registry.
pub(super) async fn app(options: Options) -> (App, Arc<Faulty>) {
    let sqlite = Arc::new(Sqlite::memory().unwrap());
    let registry = Arc::new(Faulty { inner: sqlite.clone(), error: Mutex::default() });
    let stores = Stores { registry: registry.clone(), ..Stores::one_process(Arc::new(SystemClock::new()), sqlite) };
    let engine = Engine::start(stores, options).await.unwrap();
    (App::new(engine, ListenerConfig::plain(), Policy::default(), Arc::default()), registry)
}

/// The answer to a request.
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Reply {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }
}

/// Asks as anyone does who needs no token.
pub(super) async fn ask(app: &App, asked: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Reply {
    ask_as(Caller::Anyone, app, asked, headers, body).await
}

pub(super) async fn ask_as(
    caller: Caller,
    app: &App,
    asked: &str,
    headers: &[(&str, &str)],
    body: impl Into<Body>,
) -> Reply {
    let (parts, body) = answer(caller, app, asked, headers, body.into()).await.into_parts();
    Reply { status: parts.status, headers: parts.headers, body: body.collect().await.unwrap().to_bytes() }
}

/// The body of an answer, as it comes.
pub(super) async fn stream_as(caller: Caller, app: &App, asked: &str) -> Body {
    let response = answer(caller, app, asked, &[], Body::empty()).await;
    assert_eq!(response.status(), StatusCode::OK);
    response.into_body()
}

async fn answer(caller: Caller, app: &App, asked: &str, headers: &[(&str, &str)], body: Body) -> Response {
    let (method, path) = asked.split_once(' ').unwrap();
    let mut request = Request::builder().method(method).uri(path).extension(caller);
    request = request.extension(Peer(([127, 0, 0, 1], 1).into())).header(REQUEST_ID, "r-1");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let Ok(response) = routes(app).call(request.body(body).unwrap()).await;
    response
}
