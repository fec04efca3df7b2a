//! `duetime peek`.

use crate::cli::exit::Result;
use crate::cli::output::{self, note};
use crate::cli::target::Target;
use crate::cli::time::now;
use duetime_core::api::{Instant, Page};
use duetime_core::engine::Listed;
use duetime_core::limits::TAKE_JOBS_DEFAULT;
use duetime_core::ports::Window;

/// List the waiting jobs of a queue in due order, without reserving them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  duetime peek orders --limit 3 --due-to 2027-01-31T08:00:00Z")]
pub(crate) struct Args {
    /// Queue name
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// Maximum number of results
    #[arg(long, short = 'n', value_name = "N", default_value_t = TAKE_JOBS_DEFAULT)]
    limit: usize,
    /// Only jobs due at or after this time
    #[arg(long, value_name = "TIME")]
    due_from: Option<Instant>,
    /// Only jobs due at or before this time
    #[arg(long, value_name = "TIME")]
    due_to: Option<Instant>,
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args) -> Result {
    let window = Window {
        from: args.due_from.map_or(Window::ALL.from, |instant| instant.0),
        to: args.due_to.map_or(Window::ALL.to, |instant| instant.0),
    };
    let client = args.target.client().await?;
    let jobs = client.peek(&args.queue, window, args.limit).await?;
    if args.target.json {
        return output::json(&Page::new(&Listed { jobs, next_cursor: None }, now()));
    }
    if jobs.is_empty() {
        note!("no jobs wait");
        return Ok(());
    }
    output::jobs(&jobs, now())
}
