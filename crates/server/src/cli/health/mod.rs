//! `duetime health` and `duetime metrics`: how a server is.

mod configured;

use super::exit::{Failure, Result, TRY_LATER};
use super::output;
use super::target::Target;
use clap::Command;
use duetime_core::api::Alive;
use duetime_core::engine::Health;
use serde_json::{Map, Value, json};
use std::io::Write;

/// Check whether the server hands out jobs and takes changes; exit with 75 if it does not.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime health
  duetime health --alive --server http://queue:7300
  duetime health --configured")]
pub(crate) struct Args {
    /// Only check that the process answers, and print its version
    #[arg(long)]
    alive: bool,
    /// Check the server that is configured on this machine, with the address and certificate that `duetime serve` reads
    /// from its file and variables; for container health checks
    #[arg(long, conflicts_with_all = ["alive", "server", "store", "ledger", "token_file", "ca"])]
    configured: bool,
    #[command(flatten)]
    target: Target,
}

/// Print metrics of a server or a store in Prometheus text format.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  duetime metrics --json | jq '.[] | select(.name == \"duetime_jobs\")'")]
pub(crate) struct Metrics {
    #[command(flatten)]
    target: Target,
}

/// Runs `health`.
pub(crate) async fn run(args: Args, command: &Command) -> Result {
    let Args { alive, configured, target } = args;
    if configured {
        return tell(&configured::health(command).await?, target.json);
    }
    let client = target.client().await?;
    if alive {
        let version = client.version().await?;
        let text = version.as_deref().map_or_else(|| "alive".to_owned(), |version| format!("alive: {version}"));
        let document = Alive { status: "ok".to_owned(), version };
        return if target.json { output::json(&document) } else { output::say(text) };
    }
    tell(&client.health().await?, target.json)
}

fn tell(health: &Health, json: bool) -> Result {
    let is_ready = health.ready;
    if json {
        output::json(health)?;
    } else {
        output::say(if is_ready {
            "ready: jobs are handed out"
        } else {
            "not ready: no jobs are handed out, or changes are refused"
        })?;
        for what in &health.degraded {
            output::say(format_args!("degraded: {}", output::safe(&what.to_string())))?;
        }
        if !health.is_loaded {
            output::say(format_args!("still loading jobs: {} so far", health.loaded))?;
        }
    }
    if is_ready { Ok(()) } else { Err(Failure::quiet(TRY_LATER)) }
}

/// Runs `metrics`.
pub(crate) async fn metrics(args: Metrics) -> Result {
    let client = args.target.client().await?;
    let text = client.metrics_text().await?;
    if args.target.json {
        return output::json(&text.lines().filter_map(sample).collect::<Vec<_>>());
    }
    Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
}

/// A line such as `name{label="value"} 7`; comments are none.
fn sample(line: &str) -> Option<Value> {
    let (head, value) = line.rsplit_once(' ').filter(|_| !line.starts_with('#'))?;
    let (name, labels) = head.split_once('{').map_or((head, ""), |(name, rest)| (name, rest.trim_end_matches('}')));
    let mut all = Map::new();
    let mut rest = labels;
    while let Some((label, after)) = rest.split_once('=') {
        // Label values are escaped as in JSON.
        let mut texts = serde_json::Deserializer::from_str(after).into_iter::<String>();
        all.insert(label.to_owned(), Value::String(texts.next()?.ok()?));
        rest = after[texts.byte_offset()..].trim_start_matches(',');
    }
    let number = value.parse::<f64>().ok().filter(|number| number.is_finite());
    Some(json!({ "name": name, "labels": all, "value": number.map_or_else(|| json!(value), |number| json!(number)) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_read() {
        assert_eq!(sample("# TYPE a counter"), None);
        assert_eq!(sample("a 7"), Some(json!({"name": "a", "labels": {}, "value": 7.0})));
        let labels = json!({"queue": "a,b\"}", "le": "+Inf"});
        let line = r#"a_bucket{queue="a,b\"}",le="+Inf"} 1.5"#;
        assert_eq!(sample(line), Some(json!({"name": "a_bucket", "labels": labels, "value": 1.5})));
        assert_eq!(sample("a NaN").unwrap()["value"], "NaN");
    }
}
