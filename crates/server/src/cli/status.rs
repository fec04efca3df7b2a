//! `duetime status`.

use super::exit::{Failure, Result, TRY_LATER};
use super::output::{self, safe};
use super::target::Target;
use super::time::{now, relative};
use duetime_core::engine::{Health, QueueStatus};
use duetime_core::ports::{Counts, Totals};
use serde_json::json;

/// Show an overview: readiness, jobs, totals, queues, workers, and what needs attention.
///
/// Exits with 75 if the server hands out no jobs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime status
  duetime status --server http://queue:7300 --json")]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args) -> Result {
    let client = args.target.client().await?;
    let (health, attention) = (client.health().await?, client.attention().await?);
    let queues = client.queues().list().await?;
    let workers = client.workers().list().await?.len();
    let (counts, totals) = sums(&queues);
    let paused = queues.iter().filter(|queue| queue.counts.paused).count();
    if args.target.json {
        let count = json!({ "all": queues.len(), "paused": paused });
        let Counts { scheduled, ready, running, .. } = counts;
        let jobs = json!({ "scheduled": scheduled, "ready": ready, "running": running });
        let status = json!({ "health": health, "attention": attention, "jobs": jobs, "totals": totals, "queues": count, "workers": workers });
        output::json(&status)?;
    } else {
        let Counts { scheduled, ready, running, oldest_due, .. } = counts;
        let Totals { pushed, succeeded, failed, cancelled } = totals;
        let oldest = oldest_due.map_or_else(String::new, |at| format!(", the oldest due {}", relative(at.0, now())));
        output::say(format_args!("server   {}", readiness(&health)))?;
        output::say(format_args!("jobs     {scheduled} scheduled, {running} running, {ready} ready{oldest}"))?;
        output::say(format_args!(
            "totals   {pushed} pushed, {succeeded} succeeded, {failed} failed, {cancelled} cancelled"
        ))?;
        output::say(format_args!("queues   {}, {paused} paused", queues.len()))?;
        output::say(format_args!("workers  {workers}"))?;
        for item in &attention.items {
            output::say(format_args!("needs attention: {}", safe(&item.detail)))?;
        }
        if attention.omitted > 0 {
            output::say(format_args!("needs attention: {} more", attention.omitted))?;
        }
    }
    if health.ready { Ok(()) } else { Err(Failure::quiet(TRY_LATER)) }
}

fn readiness(health: &Health) -> String {
    match (health.ready, health.is_loaded) {
        (false, _) => "not ready: no jobs are handed out".to_owned(),
        (true, true) => "ready".to_owned(),
        (true, false) => format!("ready, and loading: {} jobs so far", health.loaded),
    }
}

/// Of all queues.
fn sums(queues: &[QueueStatus]) -> (Counts, Totals) {
    let (mut counts, mut totals) = (Counts::default(), Totals::default());
    for queue in queues {
        counts.scheduled += queue.counts.scheduled;
        counts.ready += queue.counts.ready;
        counts.running += queue.counts.running;
        counts.oldest_due = counts.oldest_due.into_iter().chain(queue.counts.oldest_due).min();
        totals.pushed += queue.tally.totals.pushed;
        totals.succeeded += queue.tally.totals.succeeded;
        totals.failed += queue.tally.totals.failed;
        totals.cancelled += queue.tally.totals.cancelled;
    }
    (counts, totals)
}
