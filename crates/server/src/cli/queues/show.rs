//! `duetime queues show`.

use super::{One, is_unused};
use crate::cli::exit::{Failure, Result};
use crate::cli::output::{self, say};
use crate::cli::time::exact;
use crate::rate::show_rate;
use crate::retry_rule::{show_backoff, show_exhausted};
use duetime_core::Target;
use duetime_core::api::Span;
use duetime_core::engine::{QueueRetention, QueueSettings, QueueStatus};

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
    let QueueSettings { paused: _, paused_until: _, retry, max_attempts, max_age, max_crashes, when_exhausted, .. } =
        settings;
    let QueueSettings { jitter, lease, max_running, rate, max_waiting, when_full, retention, target, .. } = settings;
    let QueueRetention { succeeded, failed } = retention;
    let span = |span: &Option<Span>| span.map(|span| span.to_string());
    let options = [
        ("retry", retry.as_ref().map(show_backoff)),
        ("jitter", jitter.map(|part| part.to_string())),
        ("max-attempts", max_attempts.map(|count| count.to_string())),
        ("max-age", max_age.map(|span| span.to_string())),
        ("max-crashes", max_crashes.map(|count| count.to_string())),
        ("when-exhausted", when_exhausted.as_ref().map(show_exhausted)),
        ("lease", span(lease)),
        ("max-running", max_running.map(|count| count.to_string())),
        ("rate", rate.as_ref().map(show_rate)),
        ("max-waiting", max_waiting.map(|count| count.to_string())),
        ("when-full", when_full.map(|then| then.word().to_owned())),
        ("keep-succeeded", span(succeeded)),
        ("keep-failed", span(failed)),
        ("target", target.as_ref().map(show_target)),
    ];
    options.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?])).collect()
}

fn show_target(target: &Target) -> String {
    serde_json::to_string(target).expect("a target is JSON")
}
