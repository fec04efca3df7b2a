//! `duetime top`.

use super::exit::Result;
use super::output::{self, safe};
use super::target::Target;
use super::time::{now, relative};
use crate::cli::usage::span;
use duetime::Client;
use duetime_core::api::{Span, Timestamp};
use duetime_core::engine::QueueStatus;
use duetime_core::limits::{HOUR_MS, SECOND_MS};
use std::io::IsTerminal;
use tokio::time::sleep;

/// Queues that are shown: those in which a job has waited longest, then those with most jobs.
const QUEUES_SHOWN: usize = 30;
/// Clears the screen, and goes to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Watch what needs attention and the queues, until stopped.
///
/// If the output is no terminal, it is printed once.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime top
  duetime top --every 5s --server http://queue:7300")]
pub(crate) struct Args {
    /// How often it is refreshed, 1 s to 1 h
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = span::<SECOND_MS, HOUR_MS>)]
    every: Span,
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args) -> Result {
    let client = args.target.client().await?;
    if args.target.json || !std::io::stdout().is_terminal() {
        return show(client, args.target.json, "").await;
    }
    loop {
        show(client, false, CLEAR).await?;
        sleep(args.every.into()).await;
    }
}

async fn show(client: &Client, json: bool, before: &str) -> Result {
    let (attention, mut queues) = (client.attention().await?, client.queues().list().await?);
    if json {
        return output::json(&serde_json::json!({ "attention": attention, "queues": queues }));
    }
    let jobs = |status: &QueueStatus| status.counts.ready + status.counts.running + status.counts.scheduled;
    queues.sort_by_key(|status| (status.counts.oldest_due.map_or(u64::MAX, |at| at.0), u64::MAX - jobs(status)));
    output::say_styled(format_args!(
        "{before}{}  {}, the longest wait is {}",
        Timestamp(now()),
        output::count(queues.len() as u64, "queue"),
        attention.longest_wait
    ))?;
    for item in &attention.items {
        output::say(format_args!("! {}", safe(&item.detail)))?;
    }
    if attention.items.is_empty() {
        output::say("nothing needs attention")?;
    }
    output::say("")?;
    let header =
        ["QUEUE", "OLDEST READY", "READY", "RUNNING", "SCHEDULED", "FAILED", "WORKERS", "STARTS/MIN", "LATE", ""];
    output::rows(&header, queues.iter().take(QUEUES_SHOWN).map(row), "no queues yet; `duetime push` creates one")
}

fn row(status: &QueueStatus) -> Vec<String> {
    let QueueStatus { queue, counts, tally, settings, lately, .. } = status;
    let since = counts.oldest_due.map_or_else(String::new, |at| relative(at.0, now()));
    let numbers = [counts.ready, counts.running, counts.scheduled, tally.failed, lately.workers, lately.started];
    let late = lately.lateness_p99.map_or_else(String::new, |late| late.to_string());
    let mark = match settings.max_running {
        _ if settings.paused => "paused".to_owned(),
        _ if lately.target_down_since.is_some() => "target down".to_owned(),
        Some(max) if counts.running >= u64::from(max) => format!("limited {}/{max}", counts.running),
        _ if settings.max_waiting.is_some_and(|max| counts.scheduled + counts.ready >= u64::from(max)) => {
            "full".to_owned()
        }
        _ => String::new(),
    };
    let numbers = numbers.map(|number| number.to_string());
    [queue.to_string(), since].into_iter().chain(numbers).chain([late, mark]).collect()
}
