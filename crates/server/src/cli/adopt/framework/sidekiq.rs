//! `duetime adopt sidekiq`: all queues of a Sidekiq.
//!
//! Lists `queue:NAME` contain ready jobs, the next one at their right end; the set `queues` contains their names. The sorted
//! sets `schedule` and `retry` contain jobs for later, whose JSON names their queue. `dead` is not touched.

use super::survey::{Selection, Survey};
use super::{Texts, claimed, due, kind, object, tags};
use crate::cli::adopt::hand_back::{HandBack, check_no_circle};
use crate::cli::adopt::layout::{BATCH, Layout, RedisSource};
use crate::cli::adopt::options::Options;
use crate::cli::adopt::redis::{ClaimResult, Redis, START, is_cluster};
use crate::cli::adopt::source::{Done, Look, Step, tag};
use crate::cli::exit::{Failure, Result};
use crate::deliver::SIDEKIQ;
use async_trait::async_trait;
use duetime::Client;
use duetime_core::api::Span;
use duetime_core::limits::{DELAY_MS_MAX, RETRY_STEPS_MAX, SECOND_MS};
use duetime_core::model::name;
use duetime_core::model::target::RedisList;
use duetime_core::{Backoff, Due, NewJob, Retry};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

const LAYOUT: &str = "sidekiq";
/// The queue of a job that names none.
const QUEUE_DEFAULT: &str = "default";
/// Why jobs of some queues are left.
const NAMELESS: &str = "the name of their queue is not UTF-8";
/// Retries of a job that does not say how many it has.
const RETRIES_DEFAULT: u64 = 25;

/// Takes members. `KEYS` are the log, `queues`, `retry` and `schedule`; `ARGV[2]` is `due` or `all`, `ARGV[3]` the limit, `ARGV[4]`
/// what lists begin with, or empty where these are left, `ARGV[5]` where to go on in `queues`. Then the names of queues that are left.
///
/// It looks at some 1,000 lists at a time: 20,000 would block Redis for 30 ms.
const CLAIM: &str = r"
local function room() return ARGV[3] - #claimed / 2 end
for _, key in ipairs({KEYS[3], KEYS[4]}) do
  take(key, '-inf', ARGV[2] == 'all' and '+inf' or now_ms / 1000, room(), function(...) claim(key, ...) end)
  wait_for(key, 1000)
end
if ARGV[4] ~= '' then
  local instant, left, page = string.format('%.3f', now_ms / 1000), {}, redis.call('SSCAN', KEYS[2], ARGV[5], 'COUNT', 1000)
  for place = 6, #ARGV do left[ARGV[place]] = true end
  for _, name in ipairs(page[2]) do
    local list = ARGV[4] .. name
    if not left[name] then take_list(list, 'right', room(), function(member) claim(list, member, instant) end) end
  end
  go_on = (room() > 0 and not is_full()) and page[1] or ARGV[5]
end
";

/// Puts one back, unless the old code has added it again. `queue:` is as long as `queues`.
const PUT_BACK: &str = r"
if parts[1] == KEYS[3] or parts[1] == KEYS[4] then
  redis.call('ZADD', parts[1], 'NX', parts[3], parts[2])
else
  redis.call('SADD', KEYS[2], string.sub(parts[1], #KEYS[2] + 1))
  redis.call('RPUSH', parts[1], parts[2])
end
";

/// Take over the queues of Sidekiq.
///
/// By default it only looks and changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime adopt sidekiq --from redis://127.0.0.1:6379
  duetime adopt sidekiq --from redis://cache/1 --namespace shop --follow --yes sidekiq
  duetime adopt sidekiq --from redis://cache --to later --hand-back --drain --yes sidekiq")]
pub(in crate::cli::adopt) struct Args {
    /// Address of Sidekiq's Redis
    #[arg(long, value_name = "URL")]
    from: String,
    /// Namespace of Sidekiq's keys, without the colon; by default none
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Queue for the jobs; by default its name in Sidekiq
    #[arg(long, value_name = "QUEUE")]
    to: Option<Arc<str>>,
    /// Hand scheduled jobs and retries back to Sidekiq once they are due; ready jobs stay
    #[arg(long, requires = "to")]
    hand_back: bool,
    #[command(flatten)]
    pub(in crate::cli::adopt) options: Options,
}

impl Args {
    /// The source that they name.
    pub(in crate::cli::adopt) fn source(&self) -> Result<RedisSource> {
        let Self { from, namespace, to, hand_back, options: _ } = self;
        to.as_deref().map_or(Ok(()), name::check_queue)?;
        if is_cluster(from) {
            return Err(Failure::usage(
                "Sidekiq does not run on Redis Cluster: name a single Redis or Sentinel in --from",
            ));
        }
        let namespace =
            namespace.as_deref().filter(|name| !name.is_empty()).map_or_else(String::new, |name| format!("{name}:"));
        let hand_back = match (hand_back, to) {
            (true, Some(to)) => Some(HandBack::new(from, to, SIDEKIQ)?),
            _ => None,
        };
        let main = format!("{namespace}queues");
        let (names, nameless) = (BTreeSet::new(), BTreeSet::new());
        let go_on = START.to_owned();
        let layout = Sidekiq { namespace, to: to.clone(), hand_back, names, nameless, go_on, has_looked: false };
        RedisSource::new(from, &main, to.as_ref(), Box::new(layout))
    }
}

struct Sidekiq {
    /// With its colon.
    namespace: String,
    to: Option<Arc<str>>,
    hand_back: Option<HandBack>,
    /// Sidekiq's queues, as the last look found them.
    names: BTreeSet<String>,
    /// Queues whose names are not text. They stay, since no queue of Duetime can have such a name.
    nameless: BTreeSet<Vec<u8>>,
    /// The place in the set of names from which lists are taken next.
    go_on: String,
    has_looked: bool,
}

impl Sidekiq {
    /// The name of a key, without the namespace.
    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.namespace)
    }

    /// The list of a queue of Sidekiq.
    fn list(&self, name: &str) -> String {
        format!("{}queue:{name}", self.namespace)
    }

    fn is_taken(&self, target: &RedisList) -> bool {
        target.key.starts_with(&self.list(""))
    }
}

#[async_trait]
impl Layout for Sidekiq {
    async fn look(&mut self, redis: &Redis) -> Done<Look> {
        let mut survey = Survey::begin(redis).await?;
        survey.set(&self.key("schedule"), Selection::All).await?;
        survey.set(&self.key("retry"), Selection::All).await?;
        let queues = self.key("queues");
        if survey.has(&queues, "set").await? {
            let names: Vec<Vec<u8>> = redis.call("SMEMBERS", &queues).await?;
            let texts = names.iter().filter_map(|name| Some(std::str::from_utf8(name).ok()?.to_owned()));
            self.names = texts.collect();
            self.nameless = names.into_iter().filter(|name| std::str::from_utf8(name).is_err()).collect();
        }
        for name in &self.nameless {
            survey.leave(&[self.list("").as_bytes(), name].concat(), NAMELESS).await?;
        }
        let why_left = self.hand_back.is_some().then_some("ready, for Sidekiq");
        for name in &self.names {
            survey.list(&self.list(name), why_left).await?;
        }
        survey.set(&self.key("dead"), Selection::None("dead: Sidekiq has given up on them")).await?;
        let is_first = !std::mem::replace(&mut self.has_looked, true);
        let mut look = survey.end(LAYOUT, is_first, |texts| self.read(texts))?;
        if let Some(hand_back) = &self.hand_back {
            hand_back.explain(&self.list(QUEUE_DEFAULT), &mut look);
        }
        Ok(look)
    }

    async fn check(&mut self, client: &Client) -> Result {
        if let Some(hand_back) = &self.hand_back {
            return hand_back.check(client, &self.list(QUEUE_DEFAULT)).await;
        }
        let queues = match &self.to {
            Some(to) => vec![&**to],
            // Jobs of other names are refused one by one.
            None => self.names.iter().map(String::as_str).filter(|queue| name::check_queue(queue).is_ok()).collect(),
        };
        for queue in queues {
            check_no_circle(client, queue, |target| self.is_taken(target)).await?;
        }
        Ok(())
    }

    async fn claim(&mut self, redis: &mut Redis, step: Step) -> Done<ClaimResult> {
        let which = if step == Step::Drain { "all" } else { "due" };
        let lists = if self.hand_back.is_some() { String::new() } else { self.list("") };
        loop {
            let arguments = (which, BATCH, &lists, &self.go_on, &self.nameless);
            let claimed = redis.claim(CLAIM, &self.keys(), arguments).await?;
            self.go_on.clone_from(&claimed.go_on);
            if !claimed.logged.is_empty() || claimed.go_on == START {
                return Ok(claimed);
            }
        }
    }

    fn read(&self, texts: &Texts) -> std::result::Result<NewJob, String> {
        let (key, member, at) = claimed(texts)?;
        let payload: Payload = object(member)
            .map_err(|error| format!("not a job of Sidekiq (JSON with `class`, `args` and `jid`): {error}"))?;
        let ready_in = std::str::from_utf8(key).map_err(|_| NAMELESS)?.strip_prefix(&self.list(""));
        let name = ready_in.unwrap_or_else(|| payload.queue());
        let queue = self.to.clone().unwrap_or_else(|| name.into());
        name::check_queue(&queue).map_err(|error| format!("{error}; name a queue with --to"))?;
        let job = NewJob {
            queue,
            kind: kind(payload.wrapped.as_str().unwrap_or(&payload.class)),
            due: if ready_in.is_some() { Due::Now } else { due(at) },
            tags: tags(tag(name).map_err(|failure| failure.to_string())?, "jid", &payload.jid),
            ..NewJob::new(member)
        };
        let options = match &self.hand_back {
            Some(hand_back) => hand_back.options(&self.list(name)),
            None => payload.retry().into(),
        };
        Ok(NewJob { options, ..job })
    }

    fn put_back(&self) -> &'static str {
        PUT_BACK
    }

    fn keys(&self) -> Vec<String> {
        ["queues", "retry", "schedule"].map(|name| self.key(name)).into()
    }
}

/// The fields that are read of a job. An unexpected value counts as missing, except for the three that every job has.
#[derive(Deserialize)]
struct Payload {
    class: String,
    #[serde(rename = "args")]
    _args: Vec<IgnoredAny>,
    jid: String,
    /// The class of Active Job that it runs.
    #[serde(default)]
    wrapped: Value,
    #[serde(default)]
    queue: Value,
    #[serde(default)]
    retry: Value,
    #[serde(default)]
    retry_count: Value,
}

impl Payload {
    fn queue(&self) -> &str {
        self.queue.as_str().filter(|name| !name.is_empty()).unwrap_or(QUEUE_DEFAULT)
    }

    /// The rest of the job's own rule. `retry_count` is 0 once it has failed the first time.
    fn retry(&self) -> Retry {
        let retries = match &self.retry {
            Value::Bool(false) => 0,
            own => own.as_u64().unwrap_or(RETRIES_DEFAULT),
        };
        let made = self.retry_count.as_u64().map_or(0, |count| count + 1);
        let wait =
            |count: u64| Span(count.saturating_pow(4).saturating_add(15).saturating_mul(SECOND_MS).min(DELAY_MS_MAX));
        let waits: Vec<Span> = (made..retries).take(RETRY_STEPS_MAX).map(wait).collect();
        let attempts = retries.saturating_sub(made).saturating_add(1);
        Retry {
            backoff: Some(if waits.is_empty() { Backoff::None } else { Backoff::Steps(waits) }),
            max_attempts: Some(u32::try_from(attempts).unwrap_or(u32::MAX)),
            ..Retry::INHERITED
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_rule_is_what_is_left_of_it() {
        let of = |own: Value| {
            let mut job = json!({"class": "Ship", "args": [], "jid": "x"});
            job.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
            let retry = serde_json::from_value::<Payload>(job).unwrap().retry();
            retry.check("mail").unwrap();
            let waits = match retry.backoff.unwrap() {
                Backoff::Steps(waits) => waits.into_iter().map(|Span(ms)| ms / 1_000).collect(),
                _ => Vec::new(),
            };
            (waits, retry.max_attempts.unwrap())
        };
        let (waits, attempts) = of(json!({}));
        assert_eq!((waits.len(), &waits[..4], waits[24], attempts), (25, &[15, 16, 31, 96][..], 331_791, 26));
        assert_eq!(of(json!({"retry": true, "retry_count": 22})), (vec![279_856, 331_791], 3));
        assert_eq!(of(json!({"retry": 2})), (vec![15, 16], 3));
        assert_eq!(of(json!({"retry": 2, "retry_count": 0})), (vec![16], 2));
        assert_eq!(of(json!({"retry": 2, "retry_count": 1})), (Vec::new(), 1));
        assert_eq!(of(json!({"retry": 2, "retry_count": 9})), (Vec::new(), 1));
        assert_eq!(of(json!({"retry": false})), (Vec::new(), 1));
        assert_eq!(of(json!({"retry": 1_000})).0.len(), RETRY_STEPS_MAX);
        assert_eq!(of(json!({"retry": 1_000_000, "retry_count": 500_000})).1, 500_000);
    }
}
