//! `duetime take`.

use super::exit::Result;
use super::output::{self, note};
use super::target::Target;
use super::time::{instant, now};
use duetime_core::api::{Taken, Timestamp};
use duetime_core::engine::{Source, TakeRequest};
use duetime_core::limits::TAKE_JOBS_DEFAULT;
use duetime_core::model::name;
use std::sync::Arc;

/// Take due jobs: each is handed out at most once, and counts as succeeded.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  duetime take orders --limit 100 --json | jq -c .jobs[].payload")]
pub(crate) struct Args {
    /// Queues, in strict order: an earlier one is emptied first
    #[arg(value_name = "QUEUE", required = true)]
    queues: Vec<Arc<str>>,
    /// Maximum number of results
    #[arg(long, short = 'n', value_name = "N", default_value_t = TAKE_JOBS_DEFAULT)]
    limit: usize,
    /// Only jobs due at or after this time
    #[arg(long, value_name = "TIME", value_parser = instant, allow_hyphen_values = true)]
    due_from: Option<Timestamp>,
    /// Only jobs due at or before this time, which must have passed
    #[arg(long, value_name = "TIME", value_parser = instant, allow_hyphen_values = true)]
    due_to: Option<Timestamp>,
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args) -> Result {
    args.queues.iter().try_for_each(|queue| name::check_queue(queue))?;
    let request = TakeRequest {
        from: Source::Queues(args.queues),
        limit: args.limit,
        due_from: args.due_from,
        due_to: args.due_to,
        request_id: None,
    };
    let client = args.target.client().await?;
    let reservation = client.leases().take(request).await?;
    if args.target.json {
        output::json(&Taken::new(&reservation, Vec::new(), now()))?;
    } else if reservation.leases.is_empty() {
        note!("no job is due");
    } else {
        let jobs: Vec<_> = reservation.leases.into_iter().map(|lease| lease.job).collect();
        output::jobs(&jobs, now())?;
    }
    Ok(())
}
