//! `duetime peek`.

use crate::cli::exit::Result;
use crate::cli::output::{self, note};
use crate::cli::target::Target;
use crate::cli::time::{instant, now};
use duetime_core::State;
use duetime_core::api::{Page, Timestamp};
use duetime_core::engine::{Listed, Query};
use duetime_core::limits::TAKE_JOBS_DEFAULT;
use std::sync::Arc;

/// List the waiting jobs of a queue in due order, without reserving them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  duetime peek orders --limit 3 --due-to 2027-01-31T08:00:00Z")]
pub(crate) struct Args {
    /// Queue name
    #[arg(value_name = "QUEUE")]
    queue: Arc<str>,
    /// Maximum number of results
    #[arg(long, short = 'n', value_name = "N", default_value_t = TAKE_JOBS_DEFAULT)]
    limit: usize,
    /// Only jobs due at or after this time
    #[arg(long, value_name = "TIME", value_parser = instant, allow_hyphen_values = true)]
    due_from: Option<Timestamp>,
    /// Only jobs due at or before this time
    #[arg(long, value_name = "TIME", value_parser = instant, allow_hyphen_values = true)]
    due_to: Option<Timestamp>,
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args) -> Result {
    let waiting = Query {
        queue: Some(args.queue),
        state: vec![State::Scheduled, State::Ready].into(),
        due_from: args.due_from,
        due_to: args.due_to,
        ..Query::default()
    };
    let client = args.target.client().await?;
    let jobs = client.jobs().find(waiting).take(args.limit).await?;
    if args.target.json {
        return output::json(&Page::new(&Listed { jobs, next_cursor: None }, now()));
    }
    if jobs.is_empty() {
        note!("no jobs wait");
        return Ok(());
    }
    output::jobs(&jobs, now())
}
