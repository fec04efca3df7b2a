//! `duetime list`.

use super::filter::Filter;
use crate::cli::exit::Result;
use crate::cli::output::{self, note};
use crate::cli::target::Target;
use crate::cli::time::now;
use duetime_core::api::Page;
use duetime_core::engine::Listed;
use duetime_core::limits::{PAGE_JOBS_DEFAULT, PAGE_JOBS_MAX};

/// List jobs.
///
/// Jobs that wait come in due order, jobs that have ended with the newest end first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime list --queue orders --state scheduled
  duetime list --tag order:4711 --json")]
pub(crate) struct Args {
    #[command(flatten)]
    filter: Filter,
    /// Maximum number of results
    #[arg(long, short = 'n', value_name = "N", default_value_t = PAGE_JOBS_DEFAULT)]
    limit: usize,
    /// Continue from this cursor, which the previous page printed
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args) -> Result {
    let query = args.filter.query()?;
    let client = args.target.client().await?;
    let mut listed = Listed { jobs: Vec::new(), next_cursor: args.cursor.clone() };
    loop {
        let page = (args.limit - listed.jobs.len()).min(PAGE_JOBS_MAX);
        let next = client.jobs().page(&query, listed.next_cursor.as_deref(), page).await?;
        listed.jobs.extend(next.jobs);
        listed.next_cursor = next.next_cursor;
        if listed.next_cursor.is_none() || listed.jobs.len() >= args.limit {
            break;
        }
    }
    show(&listed, args.target.json)
}

fn show(listed: &Listed, json: bool) -> Result {
    if json {
        return output::json(&Page::new(listed, now()));
    }
    if listed.jobs.is_empty() {
        note!("no jobs found");
        return Ok(());
    }
    output::jobs(&listed.jobs, now())?;
    if let Some(cursor) = &listed.next_cursor {
        note!("there are more: use --cursor '{cursor}' or a higher --limit");
    }
    Ok(())
}
