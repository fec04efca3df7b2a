//! `duetime settle`: many leases, from a file.

use super::exit::{Failure, Result};
use super::lease::{ended, refusal};
use super::line_reader::Lines;
use super::output::{self, note};
use super::target::Target;
use duetime::Client;
use duetime_core::Receipt;
use duetime_core::api::{self, Object, Settle};
use duetime_core::engine::Outcome;
use duetime_core::limits::BATCH_JOBS_MAX;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Leases that are settled by one request.
const BATCH: usize = 1_000;

/// Settle many leases, one per line, as in the body of `POST /v1/settle`.
///
/// The exit code is 0 if all were settled, 65 if some were, and 1 if none was. Leases that have expired are refused.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  duetime reserve orders -n 100 --json | jq -c '.leases[] | {receipt, complete: {}}' | duetime settle -")]
pub(crate) struct Args {
    /// File of lines such as {"receipt": "…", "complete": {}}, with `complete`, `fail`, `release` or `park`, up to
    /// 10,000;
    /// `-` reads standard input
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    #[command(flatten)]
    target: Target,
}

/// A line: the lease to settle with its outcome, or why it is invalid.
type Report = std::result::Result<(Receipt, Outcome), String>;

pub(crate) async fn run(args: Args) -> Result {
    let asked = read(&args)?;
    settle(args.target.client().await?, asked, args.target.json).await
}

fn read(args: &Args) -> Result<Vec<Report>> {
    let mut lines = Lines::open(&args.file)?;
    let mut asked = Vec::new();
    while let Some((number, line)) = lines.next()? {
        if line.trim_ascii().is_empty() {
            continue;
        }
        if asked.len() == BATCH_JOBS_MAX {
            return Err(Failure::error(format!(
                "the file has more than {BATCH_JOBS_MAX} lines, so nothing was settled; split it"
            )));
        }
        let body = api::read_bytes::<Object<Settle<'_>>>(line);
        let one = body.map_err(|error| error.to_string());
        let one = one.and_then(|Object(body)| <(Receipt, Outcome)>::try_from(body).map_err(|error| error.to_string()));
        asked.push(one.map_err(|why| format!("line {number}: {why}")));
    }
    Ok(asked)
}

async fn settle(client: &Client, asked: Vec<Report>, json: bool) -> Result {
    let all = asked.len();
    let (mut documents, mut refused) = (Vec::new(), 0);
    let mut tell = |document: Value, text: std::result::Result<String, String>| -> Result {
        refused += usize::from(text.is_err());
        match text {
            _ if json => documents.push(document),
            Ok(text) => output::say(text)?,
            Err(text) => note!("duetime: {text}"),
        }
        Ok(())
    };
    let mut asked = asked.into_iter().peekable();
    while asked.peek().is_some() {
        let mut batch = Vec::new();
        for one in asked.by_ref().take(BATCH) {
            match one {
                Ok(one) => batch.push(one),
                Err(why) => tell(json!({ "code": "invalid", "detail": why }), Err(why))?,
            }
        }
        if batch.is_empty() {
            continue;
        }
        let receipts: Vec<_> = batch.iter().map(|(receipt, _)| *receipt).collect();
        for (receipt, answer) in receipts.into_iter().zip(client.leases().settle(batch).await?) {
            match answer {
                Ok(settled) => {
                    let text = format!("{} is {}", receipt.id, settled.state.word());
                    tell(json!(settled), Ok(text))?;
                }
                Err(error) => tell(refusal(receipt, &error), Err(error.to_string()))?,
            }
        }
    }
    if json {
        output::json(&documents)?;
    }
    ended(refused, all)
}
