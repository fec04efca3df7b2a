//! `duetime events`.

use super::exit::{Failure, Result};
use super::output::{self, note};
use super::target::Target;
use super::terminal::is_colourful;
use super::time::{now, relative};
use comfy_table::Color;
use duetime_core::State;
use duetime_core::api::LOST;
use duetime_core::engine::events::{Event, Filter, Transition, What};
use serde_json::json;
use std::sync::Arc;

/// Print job events as they happen, until stopped.
///
/// The stream is for watching, not for accounting. Under load events may be dropped, and a line says so.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime events --queue orders --queue 'mail.*'
  duetime events --what failed --what expired --json")]
pub(crate) struct Args {
    /// Only events of this queue, or of queues with this prefix (`mail.*`); repeatable
    #[arg(long, short, value_name = "QUEUE")]
    queue: Vec<Arc<str>>,
    /// Only events of this type: pushed, imported, started, succeeded, taken, retrying, crashed, released, failed, expired,
    /// cancelled, changed, retried or deleted; repeatable
    #[arg(long, short, value_name = "WORD", value_delimiter = ',')]
    what: Vec<What>,
    /// Stop after this many events
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<u64>,
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args) -> Result {
    let Args { queue, what, limit, target } = args;
    if target.store.is_some() {
        return Err(Failure::usage("events of a store file are visible only to the process that has it open")
            .hint("ask its server: use --server instead of --store"));
    }
    let filter = Filter { queues: queue, what };
    let client = target.client().await?;
    let mut events = client.events(filter).await?;
    let mut left = limit.unwrap_or(u64::MAX);
    while left > 0 {
        match events.next().await? {
            Some(Event::Transition(transition)) => {
                show(&transition, target.json)?;
                left -= 1;
            }
            Some(Event::Missed) if target.json => output::json(&json!({ "what": LOST }))?,
            Some(Event::Missed) => note!("some events were missed"),
            None => return Err(Failure::error("the server is stopping")),
        }
    }
    Ok(())
}

fn show(transition: &Transition, json: bool) -> Result {
    if json {
        return output::json(transition);
    }
    let Transition { at, what, id, queue, kind, state, attempt, due_at, .. } = transition;
    let word = painted(&format!("{what:<9}"), *state);
    let kind = output::snippet(kind.as_bytes());
    let due = match due_at {
        Some(due_at) if due_at > at => format!("  due {}", relative(due_at.0, now())),
        _ => String::new(),
    };
    let queue = output::safe(queue);
    output::say_styled(format_args!("{}  {word}  {id}  {queue}  {kind}  {state}  attempt {attempt}{due}", at))
}

/// A text in the colour of a state.
fn painted(text: &str, state: State) -> String {
    if !is_colourful(&std::io::stdout()) {
        return text.to_owned();
    }
    let code = match output::state_color(state) {
        Color::Blue => 34,
        Color::Cyan => 36,
        Color::Yellow => 33,
        Color::Green => 32,
        Color::Red => 31,
        _ => 90,
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}
