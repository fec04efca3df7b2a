//! `duetime queues set`.

use super::super::exit::{Failure, Result};
use super::super::output;
use super::super::target::Target as Server;
use crate::cli::usage::span;
use crate::deliver;
use crate::rate;
use crate::retry_rule::{parse_backoff, parse_exhausted};
use duetime_core::api::{QueueChanges, Span};
use duetime_core::engine::{QueueSettings, WhenFull};
use duetime_core::limits::{DELAY_MS_MAX, LEASE_MS_MAX, LEASE_MS_MIN};
use duetime_core::ports::Rate;
use duetime_core::{Target, WhenExhausted};

/// The value that resets a setting to its default.
const RESET: &str = "default";

#[derive(Debug, clap::Args)]
#[command(after_help = "The value `default` resets a setting. Examples:
  duetime queues set orders --retry steps:15s,15s,30s --max-attempts 5 --when-exhausted move:orders-dead
  duetime queues set mail --max-running 20 --rate 100/s,burst=20
  duetime queues set hooks --target https://shop.example/hooks --lease default")]
pub(super) struct Set {
    /// Queue name
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// Waits between attempts: `default`, `none`, steps such as `15s,30s,5m`, `fixed:30s`, or JSON as in the HTTP API
    #[arg(long, value_name = "RULE", value_parser = parse_backoff)]
    retry: Option<duetime_core::Backoff>,
    /// Maximum number of attempts; 0 for no limit
    #[arg(long, value_name = "N|default", value_parser = or_default::<u32>)]
    max_attempts: Option<Setting<u32>>,
    /// Start no attempt later than this after the first due time
    #[arg(long, value_name = "DURATION|default", value_parser = or_default_span)]
    max_age: Option<Setting<Span>>,
    /// Fail a job after this many expired leases (crashed workers)
    #[arg(long, value_name = "N|default", value_parser = or_default::<u32>)]
    max_crashes: Option<Setting<u32>>,
    /// Make each wait longer by up to this part of it, so that jobs that failed together do not come back together: 0 to 1
    #[arg(long, value_name = "PART|default", value_parser = or_default::<f64>)]
    jitter: Option<Setting<f64>>,
    /// After the last attempt: `keep` the job as failed, `drop` it with its record, `restart` it from attempt 0, or
    /// `move:QUEUE`, which keeps it as failed and pushes a copy to that queue
    #[arg(long, value_name = "END", value_parser = parse_exhausted)]
    when_exhausted: Option<WhenExhausted>,
    /// Lease of jobs that set none, 1s to 12h
    #[arg(long, value_name = "DURATION|default", value_parser = or_default_lease)]
    lease: Option<Setting<Span>>,
    /// Maximum number of jobs running at once, across all workers
    #[arg(long, value_name = "N|default", value_parser = or_default::<u32>)]
    max_running: Option<Setting<u32>>,
    /// Maximum starts per second, across all workers: `100/s` or `100/s,burst=20`
    #[arg(long, value_name = "RATE|default", value_parser = parse_rate)]
    rate: Option<Setting<Rate>>,
    /// Maximum number of jobs that wait, for their time or for a worker
    #[arg(long, value_name = "N|default", value_parser = or_default::<u32>)]
    max_waiting: Option<Setting<u32>>,
    /// When `--max-waiting` jobs wait: `refuse` a new job with an error, or `drop` it
    #[arg(long, value_name = "refuse|drop|default", value_parser = parse_when_full)]
    when_full: Option<Setting<WhenFull>>,
    /// Keep records of succeeded and cancelled jobs this long
    #[arg(long, value_name = "DURATION|default", value_parser = or_default_span)]
    keep_succeeded: Option<Setting<Span>>,
    /// Keep failed jobs this long
    #[arg(long, value_name = "DURATION|default", value_parser = or_default_span)]
    keep_failed: Option<Setting<Span>>,
    /// Deliver jobs to this target: a URL, or JSON as in the HTTP API. Start no workers for the queue: they would take some
    #[arg(long, value_name = "TARGET|default", value_parser = or_default_target)]
    target: Option<Setting<Target>>,
    #[command(flatten)]
    server: Server,
}

/// A new value, or none: the default.
type Setting<T> = std::result::Result<T, Default>;

/// See [`RESET`].
#[derive(Clone, Copy, Debug)]
struct Default;

fn or_default<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> std::result::Result<Setting<T>, String> {
    if text == RESET { Ok(Err(Default)) } else { text.parse().map(Ok).map_err(|error: T::Err| error.to_string()) }
}

fn or_default_target(text: &str) -> std::result::Result<Setting<Target>, String> {
    if text == RESET { Ok(Err(Default)) } else { deliver::parse_target(text).map(Ok) }
}

fn or_default_span(text: &str) -> std::result::Result<Setting<Span>, String> {
    if text == RESET { Ok(Err(Default)) } else { span::<0, DELAY_MS_MAX>(text).map(Ok) }
}

fn or_default_lease(text: &str) -> std::result::Result<Setting<Span>, String> {
    if text == RESET { Ok(Err(Default)) } else { span::<LEASE_MS_MIN, LEASE_MS_MAX>(text).map(Ok) }
}

fn parse_rate(text: &str) -> std::result::Result<Setting<Rate>, String> {
    if text == RESET { Ok(Err(Default)) } else { rate::parse_rate(text).map(Ok) }
}

fn parse_when_full(text: &str) -> std::result::Result<Setting<WhenFull>, String> {
    match text {
        RESET => Ok(Err(Default)),
        "refuse" => Ok(Ok(WhenFull::Refuse)),
        "drop" => Ok(Ok(WhenFull::Drop)),
        _ => Err("expected `refuse`, `drop` or `default`".to_owned()),
    }
}

fn set<T>(setting: &mut Option<T>, new: Option<Setting<T>>) {
    if let Some(new) = new {
        *setting = new.ok();
    }
}

impl Set {
    pub(super) async fn run(self) -> Result {
        let client = self.server.client().await?;
        let old = client.queues().get(&self.queue).await?.settings;
        let new = self.apply(old.clone());
        if new == old && !self.server.json {
            return Err(Failure::usage("nothing to change: name a setting, such as `--max-running 20`"));
        }
        client.queues().change(&self.queue, QueueChanges::between(&old, &new)).await?;
        if self.server.json {
            return output::json(&client.queues().get(&self.queue).await?);
        }
        output::say(format_args!("{} is set", self.queue))
    }

    fn apply(&self, old: QueueSettings) -> QueueSettings {
        let mut new = old;
        if let Some(rule) = &self.retry {
            new.retry = Some(rule.clone());
        }
        if let Some(end) = &self.when_exhausted {
            new.when_exhausted = Some(end.clone());
        }
        set(&mut new.max_attempts, self.max_attempts);
        set(&mut new.max_age, self.max_age);
        set(&mut new.max_crashes, self.max_crashes);
        set(&mut new.jitter, self.jitter);
        set(&mut new.lease, self.lease);
        set(&mut new.max_running, self.max_running);
        set(&mut new.rate, self.rate);
        set(&mut new.max_waiting, self.max_waiting);
        set(&mut new.when_full, self.when_full);
        set(&mut new.retention.succeeded, self.keep_succeeded);
        set(&mut new.retention.failed, self.keep_failed);
        set(&mut new.target, self.target.clone());
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_read() {
        for (text, per_second, burst) in
            [("100/s", 100.0, None), ("0.5/s", 0.5, None), ("100/s,burst=20", 100.0, Some(20))]
        {
            assert_eq!(parse_rate(text).unwrap().ok(), Some(Rate { per_second, burst }));
        }
        assert!(parse_rate("default").unwrap().is_err());
        for text in ["100", "x/s", "100/m", "100/s,20", "100/s,burst=", ""] {
            assert!(parse_rate(text).unwrap_err().starts_with("expected a rate"), "{text}");
        }
    }

    #[test]
    fn targets_read() {
        let target = or_default::<Target>("https://a.example/x").unwrap().unwrap();
        assert!(matches!(target, Target::Url(endpoint) if &*endpoint.url == "https://a.example/x"));
        assert_eq!(or_default::<Target>(r#"{"queue":"b"}"#).unwrap().ok(), Some(Target::Queue("b".into())));
        assert!(or_default::<Target>(r#"{"link":"b"}"#).unwrap_err().contains("`link` is unknown"));
    }
}
