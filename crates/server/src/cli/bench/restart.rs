//! `duetime bench restart`: how soon a server serves again, with many jobs pending.

use super::feed::{Feed, Plan};
use super::options::{Shape, Traffic, Where};
use super::report::Report;
use super::subject::{Subject, resident_bytes};
use crate::cli::exit::{Failure, Result};
use crate::cli::progress::Progress;
use duetime::Client;
use duetime_core::api::Span;
use duetime_store::sqlite::Durability;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// The run has failed if the server takes this long.
const TIME_LIMIT: Duration = Duration::from_secs(600);
/// How often it is asked whether it has loaded everything.
const LOOK: Duration = Duration::from_millis(5);
/// What stands in its first lines before its address.
const LISTENING: &str = "listening on ";

/// Start a server on a store with many pending jobs
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Number of pending jobs
    #[arg(long, short = 'n', value_name = "N", default_value_t = 200_000)]
    jobs: usize,
    /// Spread the due times over this time from now
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    within: Span,
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    traffic: Traffic,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args) -> Result {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("bench.db");
    fill(&args, path.clone()).await?;

    let begin = Instant::now();
    let mut server = start(&path, &[])?;
    let address = address(&mut server).await?;
    let client = Client::connect(&address).await?;
    let mut serving = None;
    let loaded = loop {
        if begin.elapsed() > TIME_LIMIT {
            return Err(Failure::error("the server did not load its jobs in time"));
        }
        if let Ok(health) = client.health().await {
            serving.get_or_insert_with(|| begin.elapsed());
            if health.is_loaded {
                break health.loaded;
            }
        }
        tokio::time::sleep(LOOK).await;
    };
    let elapsed = begin.elapsed();
    let memory = server.id().and_then(resident_bytes);
    server.kill().await?;

    let serving = serving.unwrap_or(elapsed);
    let Args { jobs, within, shape, json, .. } = args;
    let setting = format!("{jobs} pending jobs of {} bytes, due within {within}", shape.payload);
    let loading = elapsed.saturating_sub(serving).max(Duration::from_micros(1));
    Report::new("restart", "a new server, SQLite", setting)
        .seconds("until it served", serving)
        .seconds("until all was loaded", elapsed)
        .figure("loaded", loaded as f64, "jobs")
        .rate("loaded after it served", usize::try_from(loaded).unwrap_or(usize::MAX), loading)
        .memory(memory)
        .show(json)
}

async fn fill(args: &Args, path: PathBuf) -> Result {
    // Nothing is measured here.
    let place = Where { store: Some(path), durability: Durability::None, ..Where::default() };
    let subject = Subject::open(&place).await?;
    let progress = Progress::new("push", args.jobs);
    let plan = Plan::spread(args.jobs, args.within.0 / 10, args.within.0);
    Feed::new(&subject, "bench", args.shape, args.traffic).push(&plan, &progress).await?;
    progress.done();
    subject.close().await
}

/// Its own server on this store, with these options.
pub(super) fn start(store: &Path, options: &[&str]) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["serve", "--listen", "127.0.0.1:0", "--log-level", "warn", "--store"]).arg(store).args(options);
    Ok(command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?)
}

/// What the server says of where it listens.
pub(super) async fn address(server: &mut Child) -> Result<String> {
    let stdout = server.stdout.take().ok_or_else(|| Failure::error("the server printed nothing"))?;
    let mut lines = BufReader::new(stdout).lines();
    while let Some(line) = lines.next_line().await? {
        if let Some((_, address)) = line.split_once(LISTENING) {
            // Somebody has to read what else it says.
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return Ok(address.trim().to_owned());
        }
    }
    Err(Failure::error("the server ended before it listened"))
}
