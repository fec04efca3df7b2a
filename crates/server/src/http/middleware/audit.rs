//! The audit log: who did what to queues, schedules and jobs in bulk, and with what outcome.
//!
//! Each call is logged with the target `duetime::audit`. If an audit file is given, the call is also written there as a
//! line of JSON. The task that makes the change also writes the line, so a caller who hangs up stops neither. Changes by
//! commands of the beanstalkd protocol are written, too.

use super::request_id::REQUEST_ID;
use crate::access::Caller;
use crate::file_error::FileError;
use crate::http::app::App;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::uri::PathAndQuery;
use axum::middleware::Next;
use axum::response::Response;
use duetime_core::api::{Counts, Instant, Span};
use duetime_core::engine::{Query, uninterrupted};
use futures_util::FutureExt;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use tracing::Instrument;

/// Only its owner reads it.
const MODE: u32 = 0o600;

/// Writes calls down.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    file: Option<Mutex<File>>,
}

/// A call.
#[derive(Debug, Serialize)]
struct AuditedCall<'a> {
    /// When it was answered.
    at: Instant,
    /// The name of the token, or `anyone`.
    who: &'a str,
    /// From where.
    peer: SocketAddr,
    method: &'a str,
    path: &'a str,
    status: u16,
    request_id: &'a str,
    #[serde(flatten)]
    jobs: Option<&'a Jobs>,
}

/// A command of beanstalkd's protocol.
#[derive(Debug, Serialize)]
pub(crate) struct AuditedCommand<'a> {
    /// When it was answered.
    pub(crate) at: Instant,
    /// The name of the token, or `anyone`.
    pub(crate) who: &'a str,
    /// From where; a socket in the file system has no address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) command: &'a str,
    /// The queue that it was about.
    pub(crate) queue: &'a str,
    pub(crate) reply: &'a str,
}

/// Which jobs a call was about, and how many came to which outcome.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Jobs {
    pub(crate) selection: Query,
    /// The new due time of rescheduled jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) delay: Option<Span>,
    /// The same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) due_at: Option<Instant>,
    /// `None` if the call failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) counts: Option<Counts>,
}

/// The address that a request came from, attached to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

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
        Caller::Token(known) => Some(known.call().await),
        Caller::Anyone | Caller::Nobody => None,
    };
    let call = async move {
        let _room = room;
        let made = AssertUnwindSafe(next.run(request)).catch_unwind().await;
        let status = made.as_ref().map_or(StatusCode::INTERNAL_SERVER_ERROR, Response::status);
        noting.listener_config.audit.note(&AuditedCall {
            at: Instant(noting.engine.now()),
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

impl Audit {
    /// Appends to a file, or only to the log.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(crate) fn open(file: Option<PathBuf>) -> Result<Self, FileError> {
        let Some(path) = file else { return Ok(Self::default()) };
        let file = OpenOptions::new().append(true).create(true).mode(MODE).open(&path);
        let file = file.map_err(|error| FileError::new("cannot write the audit log", &path, error.to_string()))?;
        Ok(Self { file: Some(Mutex::new(file)) })
    }

    /// Writes a call down.
    fn note(&self, call: &AuditedCall<'_>) {
        let AuditedCall { who, peer, method, path, status, jobs, .. } = call;
        let jobs = jobs.map(|jobs| serde_json::to_string(jobs).expect("a selection has only string keys"));
        tracing::info!(target: "duetime::audit", who, %peer, method, path, status, jobs, "audit");
        self.write(call);
    }

    /// Writes a command down.
    pub(crate) fn note_command(&self, called: &AuditedCommand<'_>) {
        let AuditedCommand { at: _, who, peer, command, queue, reply } = called;
        let peer = peer.map(tracing::field::display);
        tracing::info!(target: "duetime::audit", who, peer, command, queue, reply, "audit");
        self.write(called);
    }

    /// Appends a line to the file. One that cannot be written is an error in the log; the call has been made.
    fn write(&self, call: &impl Serialize) {
        let Some(file) = &self.file else { return };
        let mut line = serde_json::to_vec(call).expect("a call has only string keys");
        line.push(b'\n');
        // In one write, so that servers which share a file do not mix their lines.
        if let Err(error) = file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line) {
            tracing::error!(%error, "the audit log cannot be written");
        }
    }
}
