//! The audit log: who did what to queues, schedules and jobs in bulk, with what came of it.
//!
//! Each call is a line of the log, with the target `duetime::audit`, and where a file is named, a line of JSON there.

use axum::response::Response;
use duetime::wire::Instant;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Only its owner reads it.
const MODE: u32 = 0o600;

/// An audit log that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("the audit log {}: {error}", file.display())]
pub(crate) struct Error {
    file: PathBuf,
    error: std::io::Error,
}

/// Takes calls down.
#[derive(Debug, Default)]
pub(super) struct Audit {
    file: Option<Mutex<File>>,
}

/// A call.
#[derive(Debug, Serialize)]
pub(super) struct Call<'a> {
    /// When it was answered.
    pub(super) at: Instant,
    /// The name of the token, or `anyone`.
    pub(super) who: &'a str,
    /// From where.
    pub(super) peer: SocketAddr,
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) status: u16,
    pub(super) request_id: &'a str,
}

/// What the response to an audited call is known by.
#[derive(Clone, Copy, Debug)]
struct Audited;

/// Marks the response to a call that is to be taken down.
pub(super) async fn mark(mut response: Response) -> Response {
    response.extensions_mut().insert(Audited);
    response
}

/// Whether the call that this answers is to be taken down.
pub(super) fn is_marked(response: &Response) -> bool {
    response.extensions().get::<Audited>().is_some()
}

impl Audit {
    /// Appends to a file, or only to the log.
    ///
    /// # Errors
    /// Where the file cannot be opened.
    pub(super) fn open(file: Option<PathBuf>) -> Result<Self, Error> {
        let Some(path) = file else { return Ok(Self::default()) };
        let file = OpenOptions::new().append(true).create(true).mode(MODE).open(&path);
        let file = file.map_err(|error| Error { file: path, error })?;
        Ok(Self { file: Some(Mutex::new(file)) })
    }

    /// Takes a call down. That it cannot be written is said in the log; the call has been made.
    pub(super) fn note(&self, call: &Call<'_>) {
        let Call { who, peer, method, path, status, .. } = call;
        tracing::info!(target: "duetime::audit", who, %peer, method, path, status, "audit");
        let Some(file) = &self.file else { return };
        let mut line = serde_json::to_vec(call).expect("a call has no maps");
        line.push(b'\n');
        // In one write, so that servers which share a file do not mix their lines.
        if let Err(error) = file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line) {
            tracing::error!(%error, "the audit log cannot be written");
        }
    }
}
