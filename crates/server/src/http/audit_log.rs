//! The audit log: who did what to queues, schedules and jobs in bulk, and with what outcome.
//!
//! Each call is logged with the target `duetime::audit`. If an audit file is given, the call is also written there as a
//! line of JSON. Changes by commands of the beanstalkd protocol are written, too.

use crate::file_error::FileError;
use duetime_core::api::{Span, Timestamp};
use duetime_core::engine::{BulkCounts, Query};
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Only its owner reads it.
const MODE: u32 = 0o600;

/// Writes calls down.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    file: Option<Mutex<File>>,
}

/// A call.
#[derive(Debug, Serialize)]
pub(super) struct AuditedCall<'a> {
    /// When it was answered.
    pub(super) at: Timestamp,
    /// The name of the token, or `anyone`.
    pub(super) who: &'a str,
    /// From where.
    pub(super) peer: SocketAddr,
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) status: u16,
    pub(super) request_id: &'a str,
    #[serde(flatten)]
    pub(super) jobs: Option<&'a Jobs>,
}

/// A command of beanstalkd's protocol.
#[derive(Debug, Serialize)]
pub(crate) struct AuditedCommand<'a> {
    /// When it was answered.
    pub(crate) at: Timestamp,
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
    pub(crate) due_at: Option<Timestamp>,
    /// `None` if the call failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) counts: Option<BulkCounts>,
}

/// The address that a request came from, attached to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

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
    pub(super) fn note(&self, call: &AuditedCall<'_>) {
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
