//! Options that say what a job is.

use crate::cli::exit::{Failure, Result};
use crate::cli::stdin;
use crate::cli::usage::span;
use crate::deliver;
use crate::retry_rule::{parse_backoff, parse_exhausted};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use duetime_core::api::{Span, complete_follow_ups};
use duetime_core::json::read;
use duetime_core::limits::{DELAY_MS_MAX, LEASE_MS_MAX, LEASE_MS_MIN, PRIORITY_DEFAULT};
use duetime_core::model::{name, trace};
use duetime_core::{
    Backoff, Debounce, Due, FollowUp, FollowUps, JobOptions, KeyUntil, Meta, NewJob, OnConflict, Retry, Target,
    WhenExhausted,
};
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// All of a job but its payload, and when it is due.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct JobArgs {
    /// Queue name
    #[arg(long, short, value_name = "QUEUE", default_value = name::QUEUE_DEFAULT)]
    pub(crate) queue: Arc<str>,
    /// Kind of job, which selects the handler
    #[arg(long, short, value_name = "KIND", default_value = name::KIND_DEFAULT)]
    kind: Arc<str>,
    /// Unique key: at most one live job in the queue has it
    #[arg(long, value_name = "KEY")]
    key: Option<Arc<str>>,
    /// If a live job has the key: keep that job, start it anew as this one, or reject this push
    #[arg(long, value_name = "WHAT", default_value = "keep", requires = "key")]
    #[arg(value_parser = words::<OnConflict>(["keep", "replace", "reject"]))]
    on_conflict: OnConflict,
    /// Make one job of all pushes with the key, which is due this long after the last of them
    #[arg(long, value_name = "DURATION", requires = "key", conflicts_with = "on_conflict")]
    #[arg(value_parser = span::<1, DELAY_MS_MAX>)]
    debounce: Option<Span>,
    /// But no later than this after the first of them
    #[arg(long, value_name = "DURATION", requires = "debounce", value_parser = span::<1, DELAY_MS_MAX>)]
    at_latest: Option<Span>,
    /// Free the key once the job has finished, or once it has started [default: finished; with --debounce started]
    #[arg(long, value_name = "WHEN", requires = "key")]
    #[arg(value_parser = words::<KeyUntil>(["finished", "started"]))]
    key_until: Option<KeyUntil>,
    /// Tag; repeatable
    #[arg(long, short, value_name = "TAG")]
    tag: Vec<Arc<str>>,
    /// Priority among due jobs of the queue; 0 is the most urgent
    #[arg(long, value_name = "N", default_value_t = PRIORITY_DEFAULT)]
    priority: u32,
    /// Lease for each attempt, 1s to 12h; workers extend it while they run [default: the queue's]
    #[arg(long, value_name = "DURATION", value_parser = span::<LEASE_MS_MIN, LEASE_MS_MAX>)]
    lease: Option<Span>,
    /// Maximum number of attempts; 0 for no limit
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// Start no attempt later than this after the first due time
    #[arg(long, value_name = "DURATION", value_parser = span::<0, DELAY_MS_MAX>)]
    max_age: Option<Span>,
    /// Fail the job after this many expired leases (crashed workers)
    #[arg(long, value_name = "N")]
    max_crashes: Option<u32>,
    /// Waits between attempts: `default`, `none`, steps such as `15s,30s,5m`, `fixed:30s`, or JSON as in the HTTP API
    #[arg(long, value_name = "RULE", value_parser = parse_backoff)]
    retry: Option<Backoff>,
    /// Make each wait longer by up to this part of it, so that jobs that failed together do not come back together: 0 to 1
    /// [default: 0.1]
    #[arg(long, value_name = "PART")]
    jitter: Option<f64>,
    /// After the last attempt: `keep` the job as failed, `drop` it with its record, `restart` it from attempt 0, or
    /// `move:QUEUE`, which keeps it as failed and pushes a copy to that queue
    #[arg(long, value_name = "WHAT", value_parser = parse_exhausted)]
    when_exhausted: Option<WhenExhausted>,
    /// Fail the job if it has not started this long after its due time
    #[arg(long, value_name = "DURATION", value_parser = span::<0, DELAY_MS_MAX>)]
    expires: Option<Span>,
    /// Target for this job instead of its queue's: a URL, or JSON as in the HTTP API
    #[arg(long = "target", value_name = "URL|JSON", value_parser = parse_target)]
    delivery: Option<Arc<Target>>,
    /// W3C traceparent of the trace that the job belongs to [default: TRACEPARENT, if it is set and valid]
    #[arg(long, value_name = "TRACEPARENT")]
    trace: Option<Arc<str>>,
    /// Metadata such as tenant=7, which is shown with the job; repeatable. To find jobs, use --tag
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_meta)]
    meta: Vec<(Arc<str>, Arc<str>)>,
    /// A job that is pushed when this one succeeds, as JSON with the fields of a push in the HTTP API; repeatable
    #[arg(long, value_name = "JSON", value_parser = parse_follow_up)]
    then: Vec<FollowUp>,
    /// The same for a job that has failed for good, was cancelled, or has expired
    #[arg(long, value_name = "JSON", value_parser = parse_follow_up)]
    otherwise: Vec<FollowUp>,
}

pub(in crate::cli) fn parse_follow_up(text: &str) -> std::result::Result<FollowUp, String> {
    read(text).map_err(|error| error.to_string())
}

/// The list of the jobs that follow, if there are any.
pub(in crate::cli) fn list(follow_ups: &[FollowUp]) -> FollowUps {
    (!follow_ups.is_empty()).then(|| follow_ups.into())
}

fn parse_meta(text: &str) -> std::result::Result<(Arc<str>, Arc<str>), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("expected NAME=VALUE, got {text}"))?;
    Ok((name.into(), value.into()))
}

fn parse_target(text: &str) -> std::result::Result<Arc<Target>, String> {
    deliver::parse_target(text).map(Arc::new)
}

/// Takes one of these words, as they are in JSON.
pub(crate) fn words<T>(words: impl Into<PossibleValuesParser>) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    words.into().map(|word| serde_json::from_value(word.into()).expect("each of the words is one"))
}

impl JobArgs {
    /// The trace that is named, or that this command was started in.
    pub(crate) fn trace(&self) -> Option<Arc<str>> {
        let of_environment = || std::env::var("TRACEPARENT").ok().filter(|trace| trace::check(trace).is_ok());
        self.trace.clone().or_else(|| of_environment().map(Arc::from))
    }

    /// The job with this payload, time and origin; `-` is what standard input has.
    pub(crate) fn job(&self, payload: &str, due: Due, origin: Option<Arc<str>>) -> Result<NewJob> {
        let retry = Retry {
            backoff: self.retry.clone(),
            jitter: self.jitter,
            max_attempts: self.max_attempts,
            max_age: self.max_age,
            max_crashes: self.max_crashes,
            when_exhausted: self.when_exhausted.clone(),
        };
        let mut options = JobOptions {
            then: list(&self.then),
            otherwise: list(&self.otherwise),
            ..JobOptions::given(retry, self.delivery.clone(), self.trace(), self.meta()?)
        };
        complete_follow_ups(&mut options, &self.queue).map_err(|error| Failure::usage(error.to_string()))?;
        let debounce = |debounce| OnConflict::Debounce(Debounce { debounce, at_latest: self.at_latest });
        let on_conflict = self.debounce.map_or(self.on_conflict, debounce);
        Ok(NewJob {
            queue: self.queue.clone(),
            kind: self.kind.clone(),
            payload: stdin::or_text(payload)?,
            due,
            priority: self.priority,
            key: self.key.clone(),
            on_conflict,
            key_until: self.key_until.unwrap_or(on_conflict.key_until()),
            origin,
            tags: self.tag.clone(),
            lease: self.lease,
            expires: self.expires,
            options,
        })
    }

    /// The metadata, each name once.
    fn meta(&self) -> Result<Option<Arc<Meta>>> {
        let mut meta = Meta::default();
        for (name, value) in &self.meta {
            if meta.get(name).is_some() {
                return Err(Failure::usage(format!("--meta must name each value once, got {name:?} twice")));
            }
            meta.set(name.clone(), value.clone());
        }
        Ok(Some(Arc::new(meta)))
    }
}
