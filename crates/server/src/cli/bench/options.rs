//! Options that the loads share.

use duetime_core::limits::BATCH_JOBS_MAX;
use duetime_store::sqlite::Durability;
use std::fmt;
use std::path::PathBuf;

/// The measurement.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Where {
    /// Server to measure
    #[arg(long, value_name = "URL", help_heading = "What is measured")]
    pub(super) server: Option<String>,
    /// Measure the engine in this process on this new store file, or `memory`
    #[arg(long, value_name = "PATH", conflicts_with = "server", help_heading = "What is measured")]
    pub(super) store: Option<PathBuf>,
    /// Write changes to disk: `commit`, `interval` or `none`, as `duetime serve` does; does not apply to --server
    #[arg(long, value_name = "WHEN", default_value = "commit", help_heading = "What is measured")]
    pub(super) durability: Durability,
    /// Number of other jobs that wait meanwhile, due within the hour
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "What is measured")]
    pub(super) waiting: usize,
    /// Process id of the server, to measure its memory
    #[arg(long, value_name = "PID", requires = "server", help_heading = "What is measured")]
    pub(super) server_pid: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Options of every load.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Load {
    #[command(flatten)]
    pub(super) shape: Shape,
    #[command(flatten)]
    pub(super) traffic: Traffic,
    #[command(flatten)]
    pub(super) place: Where,
}

/// The content of the jobs.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Shape {
    /// Size of each payload in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 100, help_heading = "The jobs")]
    pub(super) payload: usize,
    /// Number of tags per job, all different
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=16), help_heading = "The jobs")]
    pub(super) tags: u8,
    /// Give each job a key
    #[arg(long, help_heading = "The jobs")]
    pub(super) key: bool,
}

impl Shape {
    /// Whether all jobs may be the same.
    pub(super) fn is_uniform(&self) -> bool {
        self.tags == 0 && !self.key
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = if self.key { ", a key" } else { "" };
        write!(f, "{} bytes, {} tags{key}", self.payload, self.tags)
    }
}

/// The way in which jobs are sent.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Traffic {
    /// Jobs per push, reserve and settle
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = batch, help_heading = "The traffic")]
    pub(super) batch: usize,
    /// Concurrent pushes: tasks, or connections to a server
    #[arg(long, visible_alias = "connections", value_name = "N", default_value = "4", help_heading = "The traffic")]
    pub(super) tasks: std::num::NonZero<u16>,
}

fn batch(text: &str) -> Result<usize, String> {
    let batch: usize = text.parse().map_err(|_| "expected a number".to_owned())?;
    let within = (1..=BATCH_JOBS_MAX).contains(&batch);
    if within { Ok(batch) } else { Err(format!("expected a number from 1 to {BATCH_JOBS_MAX}")) }
}
