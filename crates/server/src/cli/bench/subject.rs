//! The subject of a benchmark: a server, or an engine in this process.

use super::options::Where;
use crate::cli::exit::{Failure, Result};
use crate::cli::target::MEMORY;
use duetime::{Client, OpenOptions};
use std::path::Path;
use tempfile::TempDir;

/// A client, and its description.
pub(super) struct Subject {
    pub(super) client: Client,
    /// `host:port` of a server.
    pub(super) server: Option<String>,
    /// For the report.
    pub(super) name: String,
    /// The process whose memory is read.
    pid: Option<u32>,
    _folder: Option<TempDir>,
}

impl Subject {
    /// Opens it.
    pub(super) async fn open(place: &Where) -> Result<Self> {
        if let Some(url) = &place.server {
            let client = Client::connect(url).await?;
            client.health().await?;
            let host = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
            let name = format!("server {url}");
            return Ok(Self { client, server: Some(host), name, pid: place.server_pid, _folder: None });
        }
        let pid = Some(std::process::id());
        if place.store.as_deref() == Some(Path::new(MEMORY)) {
            let (client, name) = (Client::memory().await?, "in this process, in memory".to_owned());
            return Ok(Self { client, server: None, name, pid, _folder: None });
        }
        let folder = tempfile::tempdir()?;
        let path = place.store.clone().unwrap_or_else(|| folder.path().join("bench.db"));
        if path.exists() {
            return Err(Failure::usage(format!("{} exists: name a new file", path.display())));
        }
        let client = Client::open_with(&path, OpenOptions::default().durability(place.durability)).await?;
        let name = format!("in this process, SQLite, durability {}", place.durability);
        Ok(Self { client, server: None, name, pid, _folder: Some(folder) })
    }

    /// Resident bytes of the process that holds the jobs, if they can be read.
    pub(super) fn memory_bytes(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid?)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib * 1_024)
    }

    pub(super) async fn close(self) -> Result {
        Ok(self.client.close().await?)
    }
}
