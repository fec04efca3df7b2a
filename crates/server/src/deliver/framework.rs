//! Layouts: the ways in which a payload is appended to a Redis list, plainly or as the framework whose workers pop it does that. [`LAYOUTS`]
//! has them all; the core knows only their names.
//!
//! One command does all of it. A script that fails has appended nothing.

use duetime_core::Invalid;
use duetime_core::Millis;
use duetime_core::model::target::{LAYOUT_PLAIN, RedisList, Target};
use redis::Cmd;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use serde_with::base64::Base64;
use serde_with::serde_as;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// `LuaScripts::push` of Laravel: one entry of `:notify` wakes one worker. It looks first whether the list can be pushed to.
const PUSH_TO_LARAVEL: &str = "
redis.call('LLEN', KEYS[1])
redis.call('RPUSH', KEYS[2], 1)
return redis.call('RPUSH', KEYS[1], ARGV[1])
";

/// `Client#atomic_push` of Sidekiq. Its workers take jobs from the right.
const PUSH_TO_SIDEKIQ: &str = "
redis.call('SADD', KEYS[2], ARGV[2])
return redis.call('LPUSH', KEYS[1], ARGV[1])
";

/// Gives a job to BullMQ, or to Bull. `parts` are the start of all keys, the dialect, the place, the scores in it and among Bull's
/// priorities, an instant that is not used, the id, the packed log, and the fields of the hash with their values.
///
/// A job that stands in `delayed` and is due is moved on by the framework's own workers, which know about priorities and pauses.
pub(crate) const ADD_TO_BULLMQ: &str = include_str!("bullmq.lua");
/// A log without lines, in MessagePack.
const NO_LOG: &[u8] = b"\x90";
/// Makes the job due by the clock of Redis, even if it was rescheduled or the clocks differ: a drain takes jobs that are not due yet, and would take it
/// again. A score is milliseconds times 4,096.
const DUE_NOW: &str = "
if redis.replicate_commands then redis.replicate_commands() end
local parts, time = ARGV, redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
parts[4] = string.format('%.0f', math.min(parts[4], now_ms * 4096))
";

/// Fields that a scheduled job no longer has once it is due.
const SCHEDULED: [&str; 2] = ["at", ENQUEUED_AT];
const ENQUEUED_AT: &str = "enqueued_at";

/// The layout of Laravel's driver for Redis: its workers are woken, too.
pub(crate) const LARAVEL: &str = "laravel";
/// The layout of Sidekiq: with the time, onto `queue:NAME`.
pub(crate) const SIDEKIQ: &str = "sidekiq";
/// The layout of BullMQ and Bull: as a delayed job that is due. The key is the start of all keys of the queue, `bull:NAME`, and the payload
/// is the job, as `duetime adopt bullmq --hand-back` writes it.
pub(crate) const BULLMQ: &str = "bullmq";

/// A way to append payloads.
struct Layout {
    name: &'static str,
    /// What a list of this layout is called.
    words: &'static str,
    /// Checks the key of a list.
    check: fn(&RedisList) -> Result<(), Invalid>,
    /// Makes the command that appends a payload. Redis answers with the length of the list. Fails with the reason, if this payload is no job
    /// of the framework.
    command: fn(&RedisList, &[u8], Millis) -> Result<Cmd, String>,
}

static LAYOUTS: [Layout; 4] = [
    Layout { name: LAYOUT_PLAIN, words: "the Redis list", check: |_| Ok(()), command: plain },
    Layout { name: LARAVEL, words: "Laravel's Redis list", check: |_| Ok(()), command: laravel },
    Layout { name: SIDEKIQ, words: "Sidekiq's Redis list", check: |list| of_sidekiq(list).map(drop), command: sidekiq },
    Layout { name: BULLMQ, words: "BullMQ's queue", check: |_| Ok(()), command: bullmq },
];

impl Layout {
    /// # Errors
    /// [`Invalid`] for a name that is not in the table.
    fn of(list: &RedisList) -> Result<&'static Self, Invalid> {
        let known = LAYOUTS.iter().find(|layout| *layout.name == *list.layout);
        known.ok_or_else(|| {
            let names: Vec<String> = layout_names().iter().map(|name| format!("{name:?}")).collect();
            let (last, others) = names.split_last().expect("there are some");
            let expected = format!("{} or {last}", others.join(", "));
            Invalid::new("target.redis_list.as", expected, format!("{:?}", list.layout))
        })
    }
}

/// The names of all layouts.
pub(crate) fn layout_names() -> Vec<&'static str> {
    LAYOUTS.iter().map(|layout| layout.name).collect()
}

/// Whether its layout is known, and its key one of that layout.
///
/// # Errors
/// [`Invalid`], naming the part.
pub(crate) fn check_list(list: &RedisList) -> Result<(), Invalid> {
    (Layout::of(list)?.check)(list)
}

/// The list in words; one of an unknown layout is only a list.
pub(crate) fn list_words(list: &RedisList) -> String {
    let layout = Layout::of(list).unwrap_or(&LAYOUTS[0]);
    format!("{} {}", layout.words, list.key)
}

/// A target as it is written on the command line: a URL, or JSON.
///
/// # Errors
/// What is expected.
pub(crate) fn parse_target(text: &str) -> Result<Target, String> {
    let target: Target = text.parse()?;
    match &target {
        Target::RedisList(list) => check_list(list).map_err(|error| error.to_string())?,
        Target::Url(_) | Target::Queue(_) => {}
    }
    Ok(target)
}

/// The command that appends a payload.
///
/// # Errors
/// The reason, if the list or the payload is not as its layout needs it.
pub(super) fn command(list: &RedisList, payload: &[u8], now: Millis) -> Result<Cmd, String> {
    let layout = Layout::of(list).map_err(|error| error.to_string())?;
    (layout.command)(list, payload, now)
}

fn plain(list: &RedisList, payload: &[u8], _: Millis) -> Result<Cmd, String> {
    let mut command = redis::cmd("RPUSH");
    command.arg(list.key.as_bytes()).arg(payload);
    Ok(command)
}

fn laravel(list: &RedisList, payload: &[u8], _: Millis) -> Result<Cmd, String> {
    let job = with_attempts(payload);
    check_laravel(&job)?;
    let notify = format!("{}:notify", list.key);
    Ok(eval(PUSH_TO_LARAVEL, &[list.key.as_bytes(), notify.as_bytes()], &[&job]))
}

fn sidekiq(list: &RedisList, payload: &[u8], now: Millis) -> Result<Cmd, String> {
    let (namespace, name) = of_sidekiq(list).map_err(|error| error.to_string())?;
    let expected = "expected a job of Sidekiq, which is a JSON object with `class` and `args`, got another payload";
    let job = enqueued(payload, now).ok().flatten().ok_or(expected)?;
    let queues = format!("{namespace}queues");
    Ok(eval(PUSH_TO_SIDEKIQ, &[list.key.as_bytes(), queues.as_bytes()], &[&job, name.as_bytes()]))
}

fn bullmq(list: &RedisList, payload: &[u8], _: Millis) -> Result<Cmd, String> {
    let job: BullmqJob = serde_json::from_slice(payload).map_err(|error| {
        format!("expected a job as `duetime adopt bullmq --hand-back` writes it, got another payload: {error}")
    })?;
    job.check()?;
    Ok(job.command(&list.key))
}

/// The namespace of Sidekiq's keys, such as `shop:`, and its name of the queue.
///
/// # Errors
/// [`Invalid`] if the list is not Sidekiq's.
fn of_sidekiq(list: &RedisList) -> Result<(&str, &str), Invalid> {
    const LIST: &str = "queue:";
    let namespace = match list.key.find(":queue:") {
        _ if list.key.starts_with(LIST) => Some(""),
        at => at.map(|at| &list.key[..=at]),
    };
    let parts = namespace.and_then(|namespace| Some((namespace, list.key.get(namespace.len() + LIST.len()..)?)));
    parts.filter(|(_, name)| !name.is_empty()).ok_or_else(|| {
        let expected = "a list of Sidekiq, queue:NAME or NAMESPACE:queue:NAME";
        Invalid::new("target.redis_list.key", expected, format!("{:?}", list.key))
    })
}

fn eval(script: &str, keys: &[&[u8]], arguments: &[&[u8]]) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(script).arg(keys.len());
    for text in keys.iter().chain(arguments) {
        command.arg(*text);
    }
    command
}

/// A job of Laravel as its Redis driver writes it: other drivers leave out the count of attempts.
fn with_attempts(payload: &[u8]) -> Cow<'_, [u8]> {
    let fields: BTreeMap<String, IgnoredAny> = serde_json::from_slice(payload).unwrap_or_default();
    match payload.trim_ascii_end().strip_suffix(b"}") {
        Some(begin) if fields.contains_key("job") && !fields.contains_key("attempts") => {
            Cow::Owned([begin, br#","attempts":0}"#].concat())
        }
        _ => Cow::Borrowed(payload),
    }
}

/// Checks that Laravel's workers can run this payload. They lose one that they cannot parse, or that lacks these fields.
///
/// # Errors
/// What is expected.
pub(crate) fn check_laravel(payload: &[u8]) -> Result<(), &'static str> {
    let fields: BTreeMap<String, Value> = serde_json::from_slice(payload).unwrap_or_default();
    match (fields.get("job"), fields.get("attempts")) {
        (Some(Value::String(_)), Some(Value::Number(_))) => Ok(()),
        _ => Err("expected a job of Laravel, which is a JSON object with `job` and `attempts`, got another payload"),
    }
}

/// A delayed job of BullMQ or Bull, as a payload.
#[serde_as]
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BullmqJob {
    pub(crate) id: String,
    /// In `delayed`.
    pub(crate) score: f64,
    /// The hash.
    pub(crate) fields: BTreeMap<String, String>,
    /// Its log, in MessagePack.
    #[serde_as(as = "Base64")]
    #[serde(default = "no_log", skip_serializing_if = "is_no_log")]
    pub(crate) log: Vec<u8>,
}

fn no_log() -> Vec<u8> {
    NO_LOG.to_vec()
}

fn is_no_log(log: &[u8]) -> bool {
    log == NO_LOG
}

/// Keys of a queue beside its jobs: a job with such an id would overwrite one.
const NO_JOBS: [&str; 20] = [
    "active",
    "completed",
    "de",
    "delayed",
    "events",
    "failed",
    "id",
    "limiter",
    "marker",
    "meta",
    "meta-paused",
    "paused",
    "pc",
    "prioritized",
    "priority",
    "repeat",
    "stalled",
    "stalled-check",
    "wait",
    "waiting-children",
];

impl BullmqJob {
    /// Says why it is no job.
    fn check(&self) -> Result<(), String> {
        if self.id.is_empty() || NO_JOBS.contains(&&*self.id) {
            return Err(format!("expected the id of a job, got {:?}, which is another key of a queue", self.id));
        }
        match ["name", "data"].iter().find(|&&field| !self.fields.contains_key(field)) {
            Some(field) => Err(format!("expected a job of BullMQ with `name` and `data`, got one without `{field}`")),
            None => Ok(()),
        }
    }

    /// Adds it to the queue whose keys begin with this.
    fn command(&self, queue: &str) -> Cmd {
        let script = format!(
            "{DUE_NOW}local length = redis.call('ZCARD', KEYS[1])\nlocal function add()\n{ADD_TO_BULLMQ}\nend\nadd()\nreturn length + 1"
        );
        let (start, delayed, score) = (format!("{queue}:"), format!("{queue}:delayed"), format!("{:.0}", self.score));
        let mut parts =
            vec![start.as_bytes(), b"", b"delayed", score.as_bytes(), b"", b"", self.id.as_bytes(), &self.log];
        parts.extend(self.fields.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]));
        eval(&script, &[delayed.as_bytes()], &parts)
    }
}

/// A job of Sidekiq as its poller pushes it: with the time, in seconds. All else is kept as it is written. `None` if a worker
/// could not run it.
fn enqueued(payload: &[u8], now: Millis) -> Result<Option<Vec<u8>>, serde_json::Error> {
    let Fields(mut fields) = serde_json::from_slice(payload)?;
    let begins = |name: &str, with: char| {
        let mut values = fields.iter().filter(|(field, _)| field == name).map(|(_, value)| value.get());
        matches!((values.next(), values.next()), (Some(value), None) if value.starts_with(with) && value != "\"\"")
    };
    if !(begins("class", '"') && begins("args", '[')) {
        return Ok(None);
    }
    fields.retain(|(name, _)| !SCHEDULED.contains(&&**name));
    let at = to_raw_value(&(now as f64 / 1_000.0))?;
    fields.push((ENQUEUED_AT.to_owned(), &at));
    serde_json::to_vec(&Fields(fields)).map(Some)
}

/// The fields of an object in their order, as they were written.
#[serde_as]
#[derive(Serialize, Deserialize)]
struct Fields<'a>(
    #[serde(borrow)]
    #[serde_as(as = "serde_with::Map<_, _>")]
    Vec<(String, &'a RawValue)>,
);

#[cfg(test)]
mod tests {
    use super::*;

    /// As its drivers for other queues write them.
    #[test]
    fn a_job_of_laravel_without_a_count_of_attempts_gets_one() {
        for (payload, expected) in [
            (r#"{"job":"A","data":{"attempts":7}} "#, r#"{"job":"A","data":{"attempts":7},"attempts":0}"#),
            (r#"{"job":"A","attempts":2}"#, r#"{"job":"A","attempts":2}"#),
            (r#"{"data":{}}"#, r#"{"data":{}}"#),
            ("[1]", "[1]"),
            ("}", "}"),
        ] {
            assert_eq!(String::from_utf8_lossy(&with_attempts(payload.as_bytes())), expected);
        }
    }

    fn list(key: &str, layout: &str) -> RedisList {
        RedisList { url: "redis://a".into(), key: key.into(), layout: layout.into() }
    }

    #[test]
    fn a_layout_is_one_of_the_table() {
        for layout in &LAYOUTS {
            assert_eq!(check_list(&list("queue:mail", layout.name)), Ok(()), "{}", layout.name);
        }
        let error = check_list(&list("queue:mail", "resque")).unwrap_err().to_string();
        let expected = r#"`target.redis_list.as` must be "list", "laravel", "sidekiq" or "bullmq", got "resque""#;
        assert_eq!(error, expected);
        assert!(
            command(&list("queue:mail", "resque"), b"1", 0).unwrap_err().contains(expected),
            "also if it is delivered"
        );
        assert!(
            parse_target(r#"{"redis_list":{"url":"redis://a","key":"b","as":"resque"}}"#)
                .unwrap_err()
                .contains(expected)
        );
    }

    #[test]
    fn a_list_of_sidekiq_names_its_queue() {
        for (key, expected) in [
            ("queue:mail", Some(("", "mail"))),
            ("queue:a:queue:b", Some(("", "a:queue:b"))),
            ("shop:queue:mail", Some(("shop:", "mail"))),
            ("a:b:queue:x:y", Some(("a:b:", "x:y"))),
            ("queue:", None),
            ("shop:queue:", None),
            ("myqueue:mail", None),
            ("queues:mail", None),
        ] {
            let list = list(key, SIDEKIQ);
            assert_eq!(of_sidekiq(&list).ok(), expected, "{key}");
            assert_eq!(check_list(&list).is_ok(), expected.is_some(), "{key}");
        }
    }

    #[test]
    fn a_job_of_sidekiq_gets_the_time_and_keeps_the_rest() {
        let now = 1_700_000_000_123;
        for (payload, expected) in [
            (
                r#"{"retry":true,"queue":"mail", "args":[1e400, 12345678901234567890123, 0.10, "\ud800é"],"class":"A","at":5,"jid":"x"}"#,
                r#"{"retry":true,"queue":"mail","args":[1e400, 12345678901234567890123, 0.10, "\ud800é"],"class":"A","jid":"x","enqueued_at":1700000000.123}"#,
            ),
            (r#"{"enqueued_at":1.5,"class":"A","args":[]}"#, r#"{"class":"A","args":[],"enqueued_at":1700000000.123}"#),
        ] {
            let job = enqueued(payload.as_bytes(), now).unwrap().unwrap();
            assert_eq!(String::from_utf8(job).unwrap(), expected);
        }
        for payload in ["", "[]", "7", r#"{"class":"#, "\"\u{0}\""] {
            assert!(enqueued(payload.as_bytes(), now).is_err(), "{payload:?}");
        }
        for payload in ["{}", r#"{"order":4711}"#, r#"{"class":"A"}"#, r#"{"args":[]}"#] {
            assert_eq!(enqueued(payload.as_bytes(), now).unwrap(), None, "{payload:?}");
        }
    }
}
