//! `duetime peek`.

use crate::cli::exit::Result;
use crate::cli::output::{self, note};
use crate::cli::target::Target;
use crate::cli::time::now;
use duetime_core::api::{Instant, Page};
use duetime_core::engine::Listed;
use duetime_core::limits::TAKE_JOBS_DEFAULT;
use duetime_core::ports::Window;

/// Look at the waiting jobs of a queue in due order, without touching them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  duetime peek orders --limit 3 --due-to 2027-01-31T08:00:00Z")]
pub(crate) struct Args {
    /// The queue
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// At most so many
    #[arg(long, short = 'n', value_name = "N", default_value_t = TAKE_JOBS_DEFAULT)]
    limit: usize,
    /// Only jobs due from this instant on
    #[arg(long, value_name = "INSTANT")]
    due_from: Option<Instant>,
    /// Only jobs due up to this instant
    #[arg(long, value_name = "INSTANT")]
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
        note!("nothing waits there");
        return Ok(());
    }
    output::jobs(&jobs, now())
}
