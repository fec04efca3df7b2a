//! `duetime adopt laravel`: a queue of Laravel's driver `redis`.
//!
//! The list has ready jobs, and `:notify` an entry for each that wakes a worker. Sorted sets have delayed jobs and reserved ones; Laravel's
//! workers move members that are due from these to the list. `Illuminate\Queue\LuaScripts` is the model of the scripts here.

use super::survey::{Selection, Survey};
use super::{Texts, claimed, due, kind, object, tags};
use crate::cli::adopt::hand_back::{HandBack, check_no_circle};
use crate::cli::adopt::layout::{BATCH, Layout, RedisSource};
use crate::cli::adopt::options::Options;
use crate::cli::adopt::redis::{ClaimResult, Redis, hashed, is_cluster};
use crate::cli::adopt::source::{Done, Look, Step, tag};
use crate::cli::exit::{Failure, Result};
use crate::deliver::{LARAVEL, check_laravel};
use async_trait::async_trait;
use duetime::Client;
use duetime_core::api::Span;
use duetime_core::limits::{DELAY_MS_MAX, RETRY_STEPS_MAX, SECOND_MS};
use duetime_core::model::name;
use duetime_core::{Backoff, Due, Millis, NewJob, Retry};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::sync::Arc;

const LAYOUT: &str = "laravel";
/// Laravel ends a job that runs longer than its `timeout`. The lease ends a little later.
const LEASE_MARGIN_MS: u64 = 10 * SECOND_MS;

/// Takes members. `KEYS` are the log, the list, `:delayed`, `:reserved` and `:notify`; `ARGV[2]` is `due` or `all`, `ARGV[3]` the limit,
/// `ARGV[4]` is `list` if the list is taken, too.
///
/// Entries of `:notify` only wake workers. So it does not matter if they cannot be removed, or added.
///
/// A drain takes reserved jobs whose time is over, which Laravel's workers would move to the list. Beside a follower they do that.
const CLAIM: &str = r"
local function room() return ARGV[3] - #claimed / 2 end
local function take_due(key, max)
  take(key, '-inf', max, room(), function(member, score) claim(key, member, score) end)
end
if ARGV[4] == 'list' then
  local instant = string.format('%.3f', now_ms / 1000)
  take_list(KEYS[2], 'left', room(), function(member) claim(KEYS[2], member, instant) end)
  if #claimed > 0 then redis.pcall('LTRIM', KEYS[5], #claimed / 2, -1) end
  if ARGV[2] == 'all' then take_due(KEYS[4], now_ms / 1000) end
end
take_due(KEYS[3], ARGV[2] == 'all' and '+inf' or now_ms / 1000)
wait_for(KEYS[3], 1000)
";

/// Puts one back, unless the old code has added it again.
const PUT_BACK: &str = r"
if parts[1] == KEYS[2] then
  redis.pcall('RPUSH', KEYS[5], 1)
  redis.call('LPUSH', KEYS[2], parts[2])
else
  redis.call('ZADD', parts[1], 'NX', parts[3], parts[2])
end
";

/// Take over a queue of Laravel's `redis` driver.
///
/// By default it only looks and changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime adopt laravel --from redis://127.0.0.1 --prefix laravel_database_ --key default --to mail
  duetime adopt laravel --from redis://cache --key mail --to mail --follow --yes laravel
  duetime adopt laravel --from redis://cache --key mail --to mail --hand-back --drain --yes laravel")]
pub(in crate::cli::adopt) struct Args {
    /// Address of Laravel's Redis
    #[arg(long, value_name = "URL")]
    from: String,
    /// Queue name in Laravel; with Redis Cluster including its braces, such as {default}
    #[arg(long, value_name = "NAME")]
    key: String,
    /// Prefix of Laravel's keys: `prefix` in config/database.php, such as laravel_database_
    #[arg(long, default_value = "", hide_default_value = true)]
    prefix: String,
    /// Queue for the jobs
    #[arg(long, value_name = "QUEUE")]
    to: Arc<str>,
    /// Hand delayed jobs back to Laravel's workers once they are due; ready jobs stay
    #[arg(long)]
    hand_back: bool,
    #[command(flatten)]
    pub(in crate::cli::adopt) options: Options,
}

impl Args {
    /// The source that they name.
    pub(in crate::cli::adopt) fn source(&self) -> Result<RedisSource> {
        let Self { from, key, prefix, to, hand_back, options: _ } = self;
        name::check_queue(to)?;
        if key.is_empty() {
            return Err(Failure::usage("--key must be the name of a queue; it is empty"));
        }
        let list = format!("{prefix}queues:{key}");
        if is_cluster(from) && hashed(&list) == list {
            return Err(Failure::usage(format!(
                "in a Redis Cluster, Laravel's queue names have braces: use --key {{{key}}} instead of {key}"
            )));
        }
        let hand_back = hand_back.then(|| HandBack::new(from, to, LARAVEL)).transpose()?;
        let layout = Laravel { list: list.clone(), to: to.clone(), tag: tag(key)?, hand_back, has_looked: false };
        RedisSource::new(from, &list, Some(to), Box::new(layout))
    }
}

struct Laravel {
    /// The list of ready jobs. The names of other keys begin with it.
    list: String,
    to: Arc<str>,
    tag: Arc<str>,
    hand_back: Option<HandBack>,
    has_looked: bool,
}

impl Laravel {
    fn names(&self) -> [String; 4] {
        ["", ":delayed", ":reserved", ":notify"].map(|suffix| format!("{}{suffix}", self.list))
    }
}

#[async_trait]
impl Layout for Laravel {
    async fn look(&mut self, redis: &Redis) -> Done<Look> {
        let [list, delayed, reserved, _] = self.names();
        let mut survey = Survey::begin(redis).await?;
        let is_handed_back = self.hand_back.is_some();
        survey.list(&list, is_handed_back.then_some("ready, for Laravel's workers")).await?;
        survey.set(&delayed, Selection::All).await?;
        let why = "reserved by Laravel's workers";
        survey.set(&reserved, if is_handed_back { Selection::None(why) } else { Selection::Due(why) }).await?;
        let is_first = !std::mem::replace(&mut self.has_looked, true);
        let mut look = survey.end(LAYOUT, is_first, |texts| self.read(texts))?;
        if let Some(hand_back) = &self.hand_back {
            hand_back.explain(&list, &mut look);
        } else if look.parts.iter().any(|part| part.name == reserved && part.due > 0) {
            look.notes.push(
                "A drain also takes reserved jobs whose `retry_after` has passed. Stop Laravel's workers first: one may \
                 still run such a job."
                    .to_owned(),
            );
        }
        Ok(look)
    }

    async fn check(&mut self, client: &Client) -> Result {
        match &self.hand_back {
            Some(hand_back) => hand_back.check(client, &self.list).await,
            None => check_no_circle(client, &self.to, |target| *target.key == *self.list).await,
        }
    }

    async fn claim(&mut self, redis: &mut Redis, step: Step) -> Done<ClaimResult> {
        let which = if step == Step::Drain { "all" } else { "due" };
        let parts = if self.hand_back.is_some() { "delayed" } else { "list" };
        redis.claim(CLAIM, &self.names(), (which, BATCH, parts)).await
    }

    fn read(&self, texts: &Texts) -> std::result::Result<NewJob, String> {
        let (key, member, at) = claimed(texts)?;
        let payload: Payload =
            object(member).map_err(|error| format!("not a job of Laravel (JSON with `job` and `data`): {error}"))?;
        let job = NewJob {
            queue: self.to.clone(),
            kind: payload.kind(),
            due: if key == self.list.as_bytes() { Due::Now } else { due(at) },
            tags: payload.tags(&self.tag),
            ..NewJob::new(member)
        };
        let Some(hand_back) = &self.hand_back else {
            return Ok(NewJob { lease: payload.lease_ms().map(Span), options: payload.retry(at).into(), ..job });
        };
        check_laravel(member)?;
        Ok(NewJob { options: hand_back.options(&self.list), ..job })
    }

    fn put_back(&self) -> &'static str {
        PUT_BACK
    }

    fn keys(&self) -> Vec<String> {
        self.names().into()
    }
}

/// The fields that are read of a job. An unexpected value counts as missing, except for `job` and `data`, which every job
/// has.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload {
    job: String,
    #[serde(rename = "data")]
    _data: IgnoredAny,
    #[serde(default)]
    uuid: Value,
    #[serde(default)]
    id: Value,
    #[serde(default)]
    display_name: Value,
    #[serde(default)]
    attempts: Value,
    #[serde(default)]
    max_tries: Value,
    #[serde(default)]
    backoff: Value,
    #[serde(default)]
    timeout: Value,
    #[serde(default)]
    retry_until: Value,
}

impl Payload {
    fn kind(&self) -> Arc<str> {
        let class = self.display_name.as_str().filter(|name| !name.is_empty());
        kind(class.unwrap_or_else(|| self.job.split('@').next().unwrap_or_default()))
    }

    fn tags(&self, source: &Arc<str>) -> Vec<Arc<str>> {
        let (name, id) = match (self.uuid.as_str(), self.id.as_str()) {
            (Some(uuid), _) => ("uuid", uuid),
            (None, id) => ("id", id.unwrap_or_default()),
        };
        tags(source.clone(), name, id)
    }

    fn lease_ms(&self) -> Option<u64> {
        let timeout = whole(&self.timeout).filter(|&seconds| seconds > 0)?;
        Some(timeout.saturating_mul(SECOND_MS).saturating_add(LEASE_MARGIN_MS))
    }

    /// The rest of the job's own rule, for a job that is due then.
    fn retry(&self, due_at: Millis) -> Retry {
        let made = whole(&self.attempts).unwrap_or(0);
        let until = whole(&self.retry_until);
        let max_attempts = match (until, whole(&self.max_tries)) {
            (Some(_), _) | (None, Some(0)) => Some(0),
            (None, Some(tries)) => Some(u32::try_from(tries.saturating_sub(made).max(1)).unwrap_or(u32::MAX)),
            (None, None) => None,
        };
        let left = |until: u64| until.saturating_mul(SECOND_MS).saturating_sub(due_at).min(DELAY_MS_MAX);
        Retry { backoff: self.backoff(made), max_attempts, max_age: until.map(left).map(Span), ..Retry::INHERITED }
    }

    /// The waits after this many attempts. Further failures wait for the last one, as in Laravel.
    fn backoff(&self, made: u64) -> Option<Backoff> {
        let waits: Vec<u64> = match &self.backoff {
            Value::String(list) => list.split(',').map(|wait| wait.trim().parse().ok()).collect::<Option<_>>()?,
            single => vec![whole(single)?],
        };
        let first = usize::try_from(made).unwrap_or(usize::MAX).min(waits.len() - 1);
        let span = |&seconds: &u64| Span(seconds.saturating_mul(SECOND_MS).min(DELAY_MS_MAX));
        Some(Backoff::Steps(waits[first..].iter().take(RETRY_STEPS_MAX).map(span).collect()))
    }
}

/// A whole number as PHP may write it.
fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        number => number.as_u64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn payload(own: &Value) -> Payload {
        let mut job =
            json!({"job": "Illuminate\\Queue\\CallQueuedHandler@call", "data": {"command": "O:8:\"stdClass\":0:{}"}});
        job.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        serde_json::from_value(job).unwrap()
    }

    #[test]
    fn a_rule_is_what_is_left_of_it() {
        let at = 1_700_000_000_000;
        let steps = |seconds: &[u64]| Some(Backoff::Steps(seconds.iter().map(|s| Span(s * 1_000)).collect()));
        for (own, backoff, max_attempts, max_age) in [
            (json!({}), None, None, None),
            (json!({"maxTries": null, "backoff": null, "retryUntil": null, "attempts": 0}), None, None, None),
            (json!({"maxTries": 3}), None, Some(3), None),
            (json!({"maxTries": 3, "attempts": 2}), None, Some(1), None),
            (json!({"maxTries": 3, "attempts": 7}), None, Some(1), None),
            (json!({"maxTries": "5", "attempts": "1", "backoff": 10}), steps(&[10]), Some(4), None),
            (json!({"maxTries": 0, "backoff": "1,5,10", "attempts": 1}), steps(&[5, 10]), Some(0), None),
            (json!({"backoff": "1,5", "attempts": 9}), steps(&[5]), None, None),
            (json!({"backoff": "soon", "maxTries": [1]}), None, None, None),
            (json!({"maxTries": 2, "retryUntil": 1_700_000_060}), None, Some(0), Some(Span(60_000))),
            (json!({"retryUntil": 5}), None, Some(0), Some(Span(0))),
        ] {
            let retry = payload(&own).retry(at);
            assert_eq!(
                (retry.backoff.clone(), retry.max_attempts, retry.max_age),
                (backoff, max_attempts, max_age),
                "{own}"
            );
            retry.check("mail").unwrap();
        }
    }

    #[test]
    fn names_and_leases_are_read() {
        let of = |own: Value| payload(&own);
        assert_eq!(&*of(json!({"displayName": "App\\Jobs\\Ship"})).kind(), "App\\Jobs\\Ship");
        assert_eq!(&*of(json!({"displayName": null})).kind(), "Illuminate\\Queue\\CallQueuedHandler");
        let source: Arc<str> = "adopted:mail".into();
        assert_eq!(&*of(json!({"uuid": "u", "id": "i"})).tags(&source)[1], "uuid:u");
        assert_eq!(&*of(json!({"id": "i"})).tags(&source)[1], "id:i");
        assert_eq!(of(json!({"id": 7})).tags(&source), std::slice::from_ref(&source));
        assert_eq!(of(json!({"timeout": 60})).lease_ms(), Some(70_000));
        assert_eq!(of(json!({"timeout": null})).lease_ms(), None);
        assert_eq!(of(json!({"timeout": 0})).lease_ms(), None);
    }
}
