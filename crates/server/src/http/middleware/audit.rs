//! Audits the calls that change queues, schedules, or jobs in bulk, or free the locks of an owner. The task that makes the change also writes the line, so
//! a caller who hangs up stops neither.

use super::request_id::REQUEST_ID;
use crate::access::Caller;
use crate::http::app::App;
use crate::http::audit_log::{AuditedCall, Peer};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::uri::PathAndQuery;
use axum::middleware::Next;
use axum::response::Response;
use duetime_core::api::Timestamp;
use duetime_core::engine::uninterrupted;
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use tracing::Instrument;

/// Makes a call in its own task, and audits it when it is done.
pub(crate) async fn record_call(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let (caller, peer): (Option<Caller>, Option<Peer>) =
        (request.extensions().get().cloned(), request.extensions_mut().remove());
    let (Some(caller), Some(Peer(peer))) = (caller, peer) else { unreachable!("every request has both") };
    let (method, path) =
        (request.method().clone(), request.uri().path_and_query().map_or("/", PathAndQuery::as_str).to_owned());
    let id = request.headers()[REQUEST_ID].clone();
    let noting = app.clone();
    // A client that hangs up again and again leaves only a limited number of these behind.
    let room = match &caller {
        Caller::Token(holder) => Some(holder.call().await),
        Caller::Anyone | Caller::Nobody => None,
    };
    let call = async move {
        let _room = room;
        let made = AssertUnwindSafe(next.run(request)).catch_unwind().await;
        let status = made.as_ref().map_or(StatusCode::INTERNAL_SERVER_ERROR, Response::status);
        noting.listener_config.audit.note(&AuditedCall {
            at: Timestamp(noting.engine.now()),
            who: caller.name(),
            peer,
            method: method.as_str(),
            path: &path,
            status: status.as_u16(),
            request_id: id.to_str().unwrap_or_default(),
            jobs: made.as_ref().ok().and_then(|response| response.extensions().get()),
        });
        made
    };
    match app.calls.spawn(uninterrupted(call.in_current_span())).await {
        Ok(Ok(response)) => response,
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        // The runtime is going down, and this caller with it.
        Err(_) => std::future::pending().await,
    }
}
