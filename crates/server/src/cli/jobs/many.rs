//! `duetime cancel`, `retry`, `reschedule`, `run` and `delete`: jobs by id or by filter.

use super::due::When;
use super::filter::Filter;
use super::update::due_words;
use crate::cli::exit::{ERROR, Failure, Result, TRY_LATER};
use crate::cli::output::{self, note};
use crate::cli::target::Target;
use crate::cli::time::now;
use duetime::server::Cause;
use duetime::{Client, Error};
use duetime_core::api::{JobBody, Span};
use duetime_core::engine::{BulkAction, BulkCounts, CancelOutcome, JobRef, Query};
use duetime_core::{Due, Job, JobId};
use serde_json::json;

// Without a doc comment, which would be the help of these commands.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Selected {
    /// Job ids; or select jobs with the filters below
    #[arg(value_name = "ID", conflicts_with_all = ["queue", "state", "tag", "key", "kind", "due_from", "due_to"])]
    ids: Vec<JobId>,
    /// Only if the job still has this version; needs a single id
    #[arg(long, value_name = "N", requires = "ids")]
    version: Option<u64>,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    target: Target,
}

/// Change when waiting jobs are due.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime reschedule 117111681613568 --delay 2h
  duetime reschedule 117111681613568 --delay 0s --version 1795168800250
  duetime reschedule --queue mail --kind welcome --at 2027-01-31T08:00:00Z")]
pub(crate) struct Reschedule {
    #[command(flatten)]
    when: When,
    #[command(flatten)]
    spread: Spread,
}

// Without a doc comment, as above.
#[derive(Debug, clap::Args)]
pub(crate) struct Spread {
    /// Spread the jobs that the filters select over this span, at most 24h, so that they do not run all at once
    #[arg(long, value_name = "DURATION", conflicts_with = "ids")]
    spread: Option<Span>,
    #[command(flatten)]
    selected: Selected,
}

/// Runs `retry`.
pub(crate) async fn retry(Spread { spread, selected }: &Spread) -> Result {
    run(selected, spread.map_or(BulkAction::Retry, BulkAction::RetryOver)).await
}

/// Gives waiting jobs this due time.
pub(crate) async fn due(due: Due, Spread { spread, selected }: &Spread) -> Result {
    let action = match spread {
        Some(spread) => BulkAction::RescheduleOver(due, *spread),
        None => BulkAction::Reschedule(due),
    };
    run(selected, action).await
}

/// Runs `reschedule`.
pub(crate) async fn reschedule(Reschedule { when, spread }: &Reschedule) -> Result {
    let to =
        when.due().ok_or_else(|| Failure::usage("the new due time is missing: use --delay DURATION or --at TIME"))?;
    due(to, spread).await
}

/// Does it with each id, or with all jobs that the filter finds.
pub(crate) async fn run(selected: &Selected, action: BulkAction) -> Result {
    let query = selected.filter.query()?;
    if selected.ids.is_empty() && query == Query::default() {
        return Err(Failure::usage("no jobs are selected: name ids, or use filters such as --tag or --queue"));
    }
    if selected.version.is_some() && selected.ids.len() != 1 {
        return Err(Failure::usage("--version needs a single job id"));
    }
    let json = selected.target.json;
    let client = selected.target.client().await?;
    if selected.ids.is_empty() {
        return counts(&client.jobs().bulk(&query, action).await?, action, json);
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

/// The outcome for a job: a word, or the job with its new due time.
enum ActionResult {
    Word(&'static str),
    Rescheduled(Box<Job>),
}

async fn one(client: &Client, job: JobRef, action: BulkAction) -> std::result::Result<ActionResult, Error> {
    Ok(ActionResult::Word(match action {
        BulkAction::Cancel => match client.jobs().cancel(job).await? {
            CancelOutcome::Cancelled => "cancelled",
            CancelOutcome::CancelRequested => "cancel_requested",
            CancelOutcome::AlreadyFinished => "already_finished",
        },
        BulkAction::Retry | BulkAction::RetryOver(_) => client.jobs().retry(job).await.map(|_| "retried")?,
        BulkAction::Delete => client.jobs().delete(job).await.map(|()| "deleted")?,
        BulkAction::Reschedule(due) | BulkAction::RescheduleOver(due, _) => {
            return Ok(ActionResult::Rescheduled(client.jobs().reschedule(job, due).await?.into()));
        }
    }))
}

fn tell(id: JobId, answer: std::result::Result<ActionResult, Error>, json: bool) -> Result {
    match answer {
        Ok(ActionResult::Word(word)) => {
            let line = format!("{id} {}", word.replace('_', " "));
            output::tell(json, &json!({ "id": id, "outcome": word }), line)
        }
        Ok(ActionResult::Rescheduled(job)) => output::tell(json, &JobBody::new(&job, now()), due_words(&job)),
        // An error of the connection, and not of this job, ends the command.
        Err(error) if !matches!(error.cause(), Cause::Core(_)) => Err(error.into()),
        Err(error) if json => output::json(&json!({ "id": id, "code": error.code(), "detail": error.to_string() })),
        Err(error) => {
            note!("duetime: {error}");
            Ok(())
        }
    }
}

fn counts(counts: &BulkCounts, action: BulkAction, json: bool) -> Result {
    if json {
        return output::json(counts);
    }
    if counts.is_empty() {
        note!("no jobs found");
    }
    for (word, count) in counts.iter() {
        // `run` makes jobs due now; people do not know that as rescheduling.
        let word = if action == BulkAction::Reschedule(Due::Now) && word == "rescheduled" { "due_now" } else { word };
        output::say(format_args!("{count} {}", word.replace('_', " ")))?;
    }
    Ok(())
}
