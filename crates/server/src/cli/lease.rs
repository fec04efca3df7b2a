//! `duetime complete`, `fail`, `release`, `park`, `extend` and `progress`: one lease, by its receipt.

use super::exit::{DATA, ERROR, Failure, Result};
use super::jobs::job_args::{list, parse_follow_up};
use super::output::{self, note};
use super::stdin;
use super::target::Target;
use super::time::{now, relative};
use crate::cli::usage::span;
use duetime_core::api::Span;
use duetime_core::engine::Outcome;
use duetime_core::limits::{DELAY_MS_MAX, LEASE_MS_MAX, LEASE_MS_MIN};
use duetime_core::{FollowUp, Receipt, rules};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// Complete a job: it has succeeded.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  duetime complete \"$receipt\" --result '{\"sent\": true}'")]
pub(crate) struct Complete {
    /// Result to keep with the job, up to 1 MiB; `-` reads standard input
    #[arg(long, value_name = "TEXT|-")]
    result: Option<String>,
    /// Job to push in the same step, such as '{"kind": "order.ship", "payload": {"order": 7}}'; may be repeated
    #[arg(long, value_name = "JSON", value_parser = parse_follow_up)]
    then: Vec<FollowUp>,
    #[command(flatten)]
    lease: One,
}

/// Fail an attempt: the job is retried by its retry rule.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  duetime fail \"$receipt\" --message 'the bank is closed' --retry-after 12h")]
pub(crate) struct Fail {
    /// Error message to keep with the job, up to 64 KiB
    #[arg(long, short, value_name = "TEXT", default_value = "")]
    message: Arc<str>,
    /// Fail the job for good: no further attempt
    #[arg(long = "final", conflicts_with = "retry_after")]
    is_final: bool,
    /// Retry after this long, instead of the retry rule's wait
    #[arg(long, value_name = "DURATION", value_parser = span::<0, DELAY_MS_MAX>)]
    retry_after: Option<Span>,
    #[command(flatten)]
    lease: One,
}

/// Release a job: it is handed out again, and the attempt does not count.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  duetime release \"$receipt\" --delay 5m")]
pub(crate) struct Release {
    /// Make the job due after this long; with 0s it keeps its due time
    #[arg(long, short, value_name = "DURATION", default_value = "0s", value_parser = span::<0, DELAY_MS_MAX>)]
    delay: Span,
    /// New priority, 0 is the most urgent [default: unchanged]
    #[arg(long, short, value_name = "NUMBER")]
    priority: Option<u32>,
    #[command(flatten)]
    lease: One,
}

/// Park a job: it has failed, and is kept until it is retried or deleted.
///
/// Unlike a job that fails for good, a parked one is not removed after the retention of its queue.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  duetime park \"$receipt\" --message 'the address is to be checked'")]
pub(crate) struct Park {
    /// Reason to keep with the job, up to 64 KiB [default: parked]
    #[arg(long, short, value_name = "TEXT", default_value = "", hide_default_value = true)]
    message: Arc<str>,
    /// New priority, 0 is the most urgent [default: unchanged]
    #[arg(long, short, value_name = "NUMBER")]
    priority: Option<u32>,
    #[command(flatten)]
    lease: One,
}

/// Extend leases.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  duetime extend \"$receipt\" --lease 10m")]
pub(crate) struct Extend {
    /// Receipts, as `duetime reserve` printed them
    #[arg(value_name = "RECEIPT", required = true)]
    receipts: Vec<Receipt>,
    /// New lease from now, 1s to 12h [default: its original length]
    #[arg(long, value_name = "DURATION", value_parser = span::<LEASE_MS_MIN, LEASE_MS_MAX>)]
    lease: Option<Span>,
    #[command(flatten)]
    target: Target,
}

/// Report the progress of a running job.
///
/// The progress is shown with the job until its next attempt begins. Reporting it extends the lease. A command that
/// `duetime work` runs finds the receipt in DUETIME_RECEIPT and the server in DUETIME_SERVER. This needs a server: no other
/// process can change jobs of a store file that a worker has open.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  duetime progress \"$DUETIME_RECEIPT\" 40 'frames are rendered'")]
pub(crate) struct Progress {
    #[command(flatten)]
    lease: One,
    /// Percentage done, 0 to 100
    #[arg(value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    percent: u8,
    /// Note on the current step, up to 1 KiB
    #[arg(value_name = "NOTE")]
    note: Option<Arc<str>>,
}

#[derive(Debug, clap::Args)]
struct One {
    /// Receipt of the lease: from `duetime reserve`, or DUETIME_RECEIPT in a worker's command
    #[arg(value_name = "RECEIPT")]
    receipt: Receipt,
    #[command(flatten)]
    target: Target,
}

/// Runs `complete`.
pub(crate) async fn complete(args: Complete) -> Result {
    let result = args.result.as_deref().map(stdin::or_text).transpose()?;
    settle(&args.lease, Outcome::Complete { result, then: list(&args.then) }).await
}

/// Runs `fail`.
pub(crate) async fn fail(args: Fail) -> Result {
    let Fail { message, is_final, retry_after, lease } = args;
    let failure = rules::Failure { message, is_final, retry_after };
    settle(&lease, Outcome::Fail(failure)).await
}

/// Runs `release`.
pub(crate) async fn release(args: Release) -> Result {
    let Release { delay, priority, lease } = args;
    settle(&lease, Outcome::Release(rules::Release { delay, priority })).await
}

/// Runs `park`.
pub(crate) async fn park(args: Park) -> Result {
    let Park { message, priority, lease } = args;
    settle(&lease, Outcome::Park(rules::Park { message, priority })).await
}

async fn settle(One { receipt, target }: &One, outcome: Outcome) -> Result {
    let client = target.client().await?;
    let answer = client.leases().settle(vec![(*receipt, outcome)]).await?.pop();
    let settled = answer.ok_or_else(|| Failure::error("the server did not answer the settle"))??;
    output::tell(target.json, &settled, format_args!("{} is {}", receipt.id, settled.state.word()))
}

/// Runs `progress`.
pub(crate) async fn progress(Progress { lease: One { receipt, target }, percent, note }: Progress) -> Result {
    let extension = target.client().await?.leases().progress(receipt, percent, note).await?;
    match (target.json, extension.cancel_asked) {
        (true, _) => output::json(&extension),
        (false, true) => output::say("the job was cancelled: stop working on it"),
        (false, false) => Ok(()),
    }
}

/// Runs `extend`.
pub(crate) async fn extend(args: Extend) -> Result {
    let leases = args.receipts.iter().map(|&receipt| (receipt, args.lease.map(Duration::from))).collect();
    let answers = args.target.client().await?.leases().extend(leases).await?;
    let refused = answers.iter().filter(|answer| answer.is_err()).count();
    if args.target.json {
        let document = |(receipt, answer): (&Receipt, &_)| match answer {
            Ok(extension) => json!(extension),
            Err(error) => refusal(*receipt, error),
        };
        let documents: Vec<_> = args.receipts.iter().zip(&answers).map(document).collect();
        // One is answered as by the path that has its receipt.
        match &documents[..] {
            [one] => output::json(one)?,
            all => output::json(&all)?,
        }
    } else {
        for (receipt, answer) in args.receipts.iter().zip(&answers) {
            match answer {
                Ok(extension) => {
                    let asked = if extension.cancel_asked { "; it was cancelled: stop working on it" } else { "" };
                    let until = relative(extension.lease_until.0, now());
                    output::say(format_args!("{}: its lease ends {until}{asked}", receipt.id))?;
                }
                Err(error) => note!("duetime: {error}"),
            }
        }
    }
    ended(refused, answers.len())
}

/// The error for a lease that was not settled or extended, in JSON.
pub(super) fn refusal(receipt: Receipt, error: &duetime::Error) -> serde_json::Value {
    json!({ "receipt": receipt, "code": error.code(), "detail": error.to_string() })
}

/// The end of a command on many: whether all, some or none of them went.
pub(super) fn ended(refused: usize, all: usize) -> Result {
    match refused {
        0 => Ok(()),
        refused if refused == all => Err(Failure::quiet(ERROR)),
        _ => Err(Failure::quiet(DATA)),
    }
}
