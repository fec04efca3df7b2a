//! `duetime cancel`, `retry` and `delete`: jobs by id or by filter.

use super::filter::Filter;
use crate::cli::exit::{ERROR, Failure, Result, TRY_LATER};
use crate::cli::output::{self, note};
use crate::cli::target::Target;
use duetime::{Client, Error};
use duetime_core::JobId;
use duetime_core::engine::{BulkAction, BulkCounts, CancelOutcome, JobRef};
use serde_json::json;

// Without a doc comment, which would be the help of these commands.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Selected {
    /// The jobs; or say which by options
    #[arg(value_name = "ID", conflicts_with_all = ["queue", "state", "tag", "key", "kind", "due_from", "due_to"])]
    ids: Vec<JobId>,
    /// Only where the job still has this version; of one job
    #[arg(long, value_name = "N", requires = "ids")]
    version: Option<u64>,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    target: Target,
}

/// Cancels, retries or deletes each id, or all that the filter finds.
pub(crate) async fn run(selected: &Selected, action: BulkAction) -> Result {
    if selected.ids.is_empty() && selected.filter.is_empty() {
        return Err(Failure::usage("which jobs? Name ids, or choose by --tag, --queue and the like"));
    }
    if selected.version.is_some() && selected.ids.len() != 1 {
        return Err(Failure::usage("--version is of one job: name that by its id"));
    }
    let query = selected.filter.query()?;
    let json = selected.target.json;
    let client = selected.target.client().await?;
    if selected.ids.is_empty() {
        return counts(client.bulk(&query, action).await?, json);
    }
    let mut code = 0;
    for &id in &selected.ids {
        let answer = one(client, JobRef { id, version: selected.version }, action).await;
        if let Err(error) = &answer {
            code = if error.is_retryable() && code != ERROR { TRY_LATER } else { ERROR };
        }
        tell(id, answer, json)?;
    }
    if code == 0 { Ok(()) } else { Err(Failure::quiet(code)) }
}

async fn one(client: &Client, job: JobRef, action: BulkAction) -> std::result::Result<&'static str, Error> {
    Ok(match action {
        BulkAction::Cancel => match client.cancel(job).await? {
            CancelOutcome::Cancelled => "cancelled",
            CancelOutcome::CancelRequested => "cancel_requested",
            CancelOutcome::AlreadyFinished => "already_finished",
        },
        BulkAction::Retry => client.retry(job).await.map(|_| "retried")?,
        BulkAction::Delete => client.delete(job).await.map(|()| "deleted")?,
    })
}

fn tell(id: JobId, answer: std::result::Result<&str, Error>, json: bool) -> Result {
    match answer {
        Ok(word) if json => output::json(&json!({ "id": id, "outcome": word })),
        Ok(word) => output::say(format_args!("{id} {}", word.replace('_', " "))),
        // What concerns the connection, and not this job, ends the command.
        Err(error) if !matches!(error, Error::Core(_)) => Err(error.into()),
        Err(error) if json => output::json(&json!({ "id": id, "code": error.code(), "detail": error.to_string() })),
        Err(error) => {
            note!("duetime: {error}");
            Ok(())
        }
    }
}

fn counts(counts: BulkCounts, json: bool) -> Result {
    if json {
        return output::json(&counts);
    }
    if counts.values().all(|&count| count == 0) {
        note!("no such jobs");
    }
    for (word, count) in counts {
        output::say(format_args!("{count} {}", word.replace('_', " ")))?;
    }
    Ok(())
}
