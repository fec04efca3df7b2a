//! `duetime why`.

use super::one::One;
use crate::cli::exit::Result;
use crate::cli::output;
use crate::cli::target::Target;
use crate::cli::time::exact;
use duetime_core::api::Timestamp;

/// Show why a job does not run.
///
/// A server knows only its own requests. Workers of other servers do not count.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime why 117111681613568
  duetime why --key order-4711 --queue orders")]
pub(crate) struct Args {
    #[command(flatten)]
    one: One,
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args) -> Result {
    let client = args.target.client().await?;
    let why = client.jobs().why(args.one.id(client).await?).await?;
    if args.target.json {
        return output::json(&why);
    }
    output::say(format_args!("{} in the queue {} is {}", why.id, why.queue, why.state))?;
    for reason in &why.reasons {
        let until = reason.until.map(|Timestamp(at)| format!(" Until {}.", exact(at)));
        let line = format!("{:<18} {}{}", reason.code.word(), reason.detail, until.unwrap_or_default());
        output::say(line)?;
    }
    if why.reasons.is_empty() {
        output::say("nothing holds it back: a worker gets it with its next request")?;
    }
    Ok(())
}
