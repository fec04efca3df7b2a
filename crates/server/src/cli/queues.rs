//! `duetime queues`.

use super::exit::Result;
use super::output;
use super::target::Target;
use super::time::{now, relative};
use duetime::Client;
use duetime::wire::{Purged, Queue, Queues};
use duetime_core::engine::QueueStatus;

/// Show queues; pause, resume or purge one.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  duetime queues
  duetime queues pause orders")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Stop handing out a queue's jobs; what runs goes on
    Pause(One),
    /// Hand out a queue's jobs again
    Resume(One),
    /// Cancel every waiting job of a queue
    Purge(One),
}

#[derive(Debug, clap::Args)]
struct One {
    /// The queue
    #[arg(value_name = "QUEUE")]
    queue: String,
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args) -> Result {
    match args.action {
        None => args.target.with(async |client| list(client, args.target.json).await).await,
        Some(Action::Pause(one)) => pause(&one, true).await,
        Some(Action::Resume(one)) => pause(&one, false).await,
        Some(Action::Purge(one)) => purge(&one).await,
    }
}

async fn list(client: &Client, json: bool) -> Result {
    let queues = client.queues().await?;
    if json {
        return output::json(&Queues { queues: queues.iter().map(Queue::from).collect() });
    }
    if queues.is_empty() {
        eprintln!("no queues yet: `duetime push` makes one");
        return Ok(());
    }
    let header =
        ["QUEUE", "SCHEDULED", "READY", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED", "OLDEST READY", "PAUSED"];
    let mut table = output::table(&header);
    queues.iter().for_each(|queue| {
        table.add_row(row(queue));
    });
    output::print(&table)
}

fn row(queue: &QueueStatus) -> Vec<String> {
    let QueueStatus { queue, counts, tally, settings } = queue;
    let counted = [counts.scheduled, counts.ready, counts.running, tally.succeeded, tally.failed, tally.cancelled];
    let mut row = vec![queue.to_string()];
    row.extend(counted.map(|count| count.to_string()));
    row.push(counts.oldest_due.map_or_else(String::new, |at| format!("due {}", relative(at, now()))));
    row.push(if settings.paused { "paused".to_owned() } else { String::new() });
    row
}

async fn pause(one: &One, paused: bool) -> Result {
    one.target
        .with(async |client| {
            if paused {
                client.pause(&one.queue).await?
            } else {
                client.resume(&one.queue).await?
            };
            if one.target.json {
                return output::json(&Queue::from(&client.queue(&one.queue).await?));
            }
            output::say(format_args!("{} {}", one.queue, if paused { "is paused" } else { "goes on" }))
        })
        .await
}

async fn purge(one: &One) -> Result {
    one.target
        .with(async |client| {
            let purged = client.purge(&one.queue).await?;
            if one.target.json {
                return output::json(&Purged { purged });
            }
            output::say(format_args!("{purged} cancelled"))
        })
        .await
}
