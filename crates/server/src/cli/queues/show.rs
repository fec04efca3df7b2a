//! `duetime queues show`.

use super::{One, is_unused};
use crate::cli::exit::{Failure, Result};
use crate::cli::output::{self, say};
use crate::cli::time::exact;
use crate::queue_settings::values;
use duetime_core::engine::{QueueSettings, QueueStatus};

pub(super) async fn run(one: &One) -> Result {
    let queue = one.target.client().await?.queues().get(&one.queue).await?;
    let QueueStatus { queue: name, counts, tally, settings, target_held_until, lately } = &queue;
    if one.target.json {
        output::json(&queue)?;
    }
    // Its name may have a typo.
    if is_unused(&queue) {
        let why = format!("nobody has used the queue {name}: it has no jobs and no settings");
        return Err(Failure::error(why).hint("`duetime queues` lists all queues"));
    }
    if one.target.json {
        return Ok(());
    }
    say(format_args!("queue       {name}"))?;
    if settings.paused {
        let end = settings
            .paused_until
            .map_or_else(|| "until it is resumed".to_owned(), |at| format!("until {}", exact(at.0)));
        say(format_args!("paused      {end}"))?;
    }
    if let Some(at) = counts.oldest_due {
        say(format_args!("oldest due  {}", exact(at.0)))?;
    }
    if let Some(at) = target_held_until {
        say(format_args!("target      held back until {}", exact(at.0)))?;
    }
    if let Some(at) = &lately.target_down_since {
        say(format_args!("target      has taken no job since {}", exact(at.0)))?;
    }
    say(format_args!("workers     {} within the last minute", lately.workers))?;
    say(format_args!("started     {} in the last minute", lately.started))?;
    if let Some(late) = lately.lateness_p99 {
        say(format_args!("late        99 % of starts at most {late}"))?;
    }
    let totals = &tally.totals;
    let states = [
        ("scheduled", counts.scheduled, None),
        ("ready", counts.ready, None),
        ("running", counts.running, None),
        ("succeeded", tally.succeeded, Some(totals.succeeded)),
        ("failed", tally.failed, Some(totals.failed)),
        ("cancelled", tally.cancelled, Some(totals.cancelled)),
    ];
    let number = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
    let rows = states.map(|(state, now, total)| [state.to_owned(), number(Some(now)), number(total)]);
    let pushed = ["pushed".to_owned(), String::new(), number(Some(totals.pushed))];
    say("")?;
    output::rows(&["STATE", "JOBS", "TOTAL"], rows.into_iter().chain([pushed]).collect::<Vec<_>>().into_iter(), "")?;
    let rows = rows_of(settings);
    if rows.is_empty() {
        return Ok(());
    }
    say("")?;
    output::rows(&["SETTING", "VALUE"], rows.into_iter(), "")
}

/// The settings that differ from the defaults, spelled as the options of `queues set`.
fn rows_of(settings: &QueueSettings) -> Vec<[String; 2]> {
    let option = |name: &str| match name {
        "succeeded" | "failed" => format!("keep-{name}"),
        name => name.replace('_', "-"),
    };
    values(settings).into_iter().filter_map(|(name, value)| Some([option(name), value?])).collect()
}
