//! `duetime adopt message-queue`: the PHP project message_queue, which has delayed jobs in a sorted set, those that are due in a list, and those
//! that are being run in another sorted set.
//!
//! Its listener moves what is due with two commands: it reads the members up to now, and then removes **as many by rank**. If one of them is gone by
//! then, or another one stands before them, it removes a member that it has not read, and that job is lost. So while a listener may run, nothing is
//! removed or added that any listener can have read: only members that are due after now and a safety distance. That is as
//! much as a listener's clock may be ahead of the clock of Redis. How long it takes between its two commands does not matter.

mod look;

use super::Options;
use super::layout::{BATCH, Layout, RedisSource};
use super::redis::{Claimed, Redis, check_slot};
use super::source::{Look, Step, Trouble, tag};
use crate::cli::exit::Result;
use crate::cli::output::snippet;
use async_trait::async_trait;
use duetime_core::api::Span;
use duetime_core::limits::{INSTANT_MS_MIN, TAG_BYTES_MAX};
use duetime_core::model::name;
use duetime_core::{Due, Millis, NewJob};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

const CLAIM: &str = include_str!("claim.lua");
/// Exactly as it was.
const PUT_BACK: &str = include_str!("put_back.lua");
/// The same beside a listener.
const PUT_BACK_BESIDE: &str = include_str!("put_back_beside.lua");

type Done<T = ()> = std::result::Result<T, Trouble>;

/// Which names the keys have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Naming {
    /// `queue:NAME:delay`, `queue:NAME:job`, `queue:NAME:reserved`
    Code,
    /// `queues:NAME:delayed`, `queues:NAME`, `queues:NAME:reserved`
    Article,
}

/// The keys of a queue.
struct Keys {
    delayed: String,
    list: String,
    reserved: String,
}

impl Naming {
    fn keys(self, name: &str) -> Keys {
        let (delayed, list, reserved) = match self {
            Self::Code => {
                (format!("queue:{name}:delay"), format!("queue:{name}:job"), format!("queue:{name}:reserved"))
            }
            Self::Article => {
                (format!("queues:{name}:delayed"), format!("queues:{name}"), format!("queues:{name}:reserved"))
            }
        };
        Keys { delayed, list, reserved }
    }
}

/// Take over jobs of the PHP project message_queue.
///
/// While its listener runs, only jobs in its ready list and jobs due later than --safety can be taken. By default it only
/// looks and changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime adopt message-queue --from redis://127.0.0.1:6379 --key orders --to orders
  duetime adopt message-queue --from redis://127.0.0.1:6379 --key orders --to orders --follow --yes message-queue
  duetime adopt message-queue --from redis://127.0.0.1:6379 --key orders --to orders --drain --listener-stopped --yes message-queue")]
pub(super) struct Args {
    /// Address of the Redis with the queue
    #[arg(long, value_name = "URL")]
    from: String,
    /// Queue name in message_queue
    #[arg(long, value_name = "NAME")]
    key: String,
    /// Names of the keys; by default detected
    #[arg(long, value_name = "WHICH")]
    naming: Option<Naming>,
    /// Queue for the jobs
    #[arg(long, value_name = "QUEUE")]
    to: Arc<str>,
    /// Leave jobs due within this time to the listener; must exceed how far its clock is ahead of Redis's
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    safety: Span,
    /// The listener is stopped: take everything
    #[arg(long, conflicts_with = "safety")]
    listener_stopped: bool,
    #[command(flatten)]
    pub(super) options: Options,
}

/// A queue of message_queue.
struct MessageQueue {
    name: String,
    /// A look finds it where it is not given.
    naming: Option<Naming>,
    to: Arc<str>,
    tag: Arc<str>,
    safety: Span,
    is_stopped: bool,
    /// Whether a look has seen that these are its jobs.
    is_known: bool,
}

pub(super) fn source(args: &Args) -> Result<RedisSource> {
    name::check_queue(&args.to)?;
    let main = format!("queue:{}", args.key);
    check_slot(&args.from, &main, "--key {mail}")?;
    let layout = MessageQueue {
        name: args.key.clone(),
        naming: args.naming,
        to: args.to.clone(),
        tag: tag(&args.key)?,
        safety: args.safety,
        is_stopped: args.listener_stopped,
        is_known: false,
    };
    RedisSource::new(&args.from, &main, Box::new(layout))
}

impl MessageQueue {
    fn keys(&self) -> Keys {
        self.naming.unwrap_or(Naming::Code).keys(&self.name)
    }
}

#[async_trait]
impl Layout for MessageQueue {
    async fn look(&mut self, redis: &Redis) -> Done<Look> {
        self.survey(redis).await
    }

    async fn claim(&mut self, redis: &mut Redis, step: Step) -> Done<Claimed> {
        let Keys { delayed, list, reserved } = self.keys();
        let keys = [&delayed, &list, &reserved].map(|key| key.as_bytes());
        let flag = |is_so: bool| if is_so { "1" } else { "0" };
        let (batch, safety_ms) = (BATCH.to_string(), self.safety.0.to_string());
        let arguments = [&*batch, &*safety_ms, flag(self.is_stopped), flag(step == Step::Drain)].map(str::as_bytes);
        redis.claim(CLAIM, &keys, &arguments).await
    }

    /// The payload is the whole member, so that the old code for one can run it.
    fn read(&self, texts: &[Vec<u8>]) -> std::result::Result<NewJob, String> {
        let [_, member, score, _] = texts else {
            return Err(format!("a claim must have 4 values; this one has {}", texts.len()));
        };
        let of_id = id(member)?.map(|id| format!("id:{id}").into());
        let tags = [Some(self.tag.clone()), of_id].into_iter().flatten().filter(|tag| tag.len() <= TAG_BYTES_MAX);
        Ok(NewJob {
            queue: self.to.clone(),
            due: due_at(score).map_or(Due::Now, Due::At),
            tags: tags.collect(),
            ..NewJob::new(member.clone())
        })
    }

    fn put_back(&self) -> (&'static str, Vec<Vec<u8>>) {
        let Keys { delayed, list, reserved } = self.keys();
        let script = if self.is_stopped { PUT_BACK } else { PUT_BACK_BESIDE };
        (script, [delayed, list, reserved].map(String::into_bytes).into())
    }
}

/// Reads `{"job": {"id": …, "attemps": …, "data": …}}`.
fn id(member: &[u8]) -> std::result::Result<Option<String>, String> {
    #[derive(Deserialize)]
    struct Member {
        job: Job,
    }
    #[derive(Deserialize)]
    struct Job {
        #[serde(default)]
        id: Value,
    }
    let Member { job } = serde_json::from_slice(member).map_err(|_| {
        format!(r#"not a job of message_queue, such as {{"job":{{"id":…,"attemps":…,"data":…}}}}: {}"#, snippet(member))
    })?;
    Ok(match job.id {
        Value::String(id) => Some(id),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    })
}

/// When a score is due; `None` for what is in no sorted set, and for what has been due for ages.
fn due_at(score: &[u8]) -> Option<Millis> {
    let seconds: f64 = std::str::from_utf8(score).ok()?.parse().ok()?;
    let at = (seconds * 1e3).ceil();
    (at >= INSTANT_MS_MIN as f64).then_some(at as Millis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use duetime_store::testing::RedisServer;

    fn layout(is_stopped: bool) -> MessageQueue {
        MessageQueue {
            name: "mail".to_owned(),
            naming: None,
            to: "mail".into(),
            tag: "adopted:mail".into(),
            safety: Span(60_000),
            is_stopped,
            is_known: false,
        }
    }

    fn read(member: &str, score: &str) -> std::result::Result<NewJob, String> {
        layout(false).read(&["key", member, score, "60000"].map(|text| text.as_bytes().to_vec()))
    }

    #[test]
    fn a_member_is_kept_as_it_is() {
        let member = r#" {"job": {"id": "a1", "attemps": 2, "data": {"to": 1.10}}}"#;
        let job = read(member, "1800000000.25").unwrap();
        assert_eq!((&job.payload[..], job.due), (member.as_bytes(), Due::At(1_800_000_000_250)));
        assert_eq!(job.tags.iter().map(|tag| &**tag).collect::<Vec<_>>(), ["adopted:mail", "id:a1"]);
        assert_eq!(read(member, "").unwrap().due, Due::Now);
        assert_eq!(read(member, "0").unwrap().due, Due::Now);
        assert_eq!(read(r#"{"job":{"id":7}}"#, "").unwrap().tags[1].as_ref(), "id:7");
        assert_eq!(read(r#"{"job":{"id":null}}"#, "").unwrap().tags.len(), 1);
        for other in ["", "1", "{}", r#"{"job":"a class","data":[]}"#, "O:8:\"stdClass\""] {
            let why = read(other, "").unwrap_err();
            assert!(why.contains("attemps"), "{why}");
        }
        let deep = format!(r#"{{"job":{{"id":"d","data":{}{}}}}}"#, "[".repeat(400), "]".repeat(400));
        assert!(read(&deep, "").is_ok(), "PHP nests 512 levels");
    }

    /// Claims everything as a listener does not run, and puts it back in one way or the other.
    async fn put_back(server: &RedisServer, is_stopped: bool) {
        let mut redis = Redis::new(&server.url(), "queue:mail").unwrap();
        let claimed = layout(true).claim(&mut redis, Step::Drain).await.unwrap().logged;
        let ids: Vec<Arc<str>> = claimed.into_iter().map(|(id, _)| id).collect();
        let (script, keys) = layout(is_stopped).put_back();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        redis.put_back(script, &keys, &ids).await.unwrap();
        assert_eq!(redis.count().await.unwrap(), 0);
    }

    #[tokio::test]
    async fn what_is_put_back_beside_a_listener_is_behind_all_that_it_can_have_read() {
        let server = RedisServer::start();
        let now: u64 = server.command(&["TIME"]).lines().next().unwrap().parse().unwrap();
        let (soon, later) = ((now + 30).to_string(), (now + 5_000).to_string());
        server.command(&["ZADD", "queue:mail:delay", "1.5", "over", &soon, "soon", &later, "later"]);
        server.command(&["RPUSH", "queue:mail:job", "first", "second", "third"]);
        let scores = || server.command(&["ZRANGE", "queue:mail:delay", "0", "-1", "WITHSCORES"]);
        let before = scores();
        put_back(&server, true).await;
        assert_eq!(scores(), before, "exactly");
        assert_eq!(server.command(&["LRANGE", "queue:mail:job", "0", "-1"]), "first\nsecond\nthird");
        put_back(&server, false).await;
        let words = scores();
        let words: Vec<&str> = words.lines().collect();
        assert_eq!((words[0], words[2], words[4], words[5]), ("over", "soon", "later", &*later));
        let safe: u64 = words[1].parse().unwrap();
        assert!((now + 61..now + 90).contains(&safe) && words[3] == words[1], "{words:?}");
        assert_eq!(server.command(&["LRANGE", "queue:mail:job", "0", "-1"]), "first\nsecond\nthird");
        // One that is there again stays as it is.
        let mut redis = Redis::new(&server.url(), "queue:mail").unwrap();
        let claimed = layout(true).claim(&mut redis, Step::Drain).await.unwrap().logged;
        server.command(&["ZADD", "queue:mail:delay", "7", "later"]);
        let ids: Vec<Arc<str>> = claimed.into_iter().map(|(id, _)| id).collect();
        redis.put_back(PUT_BACK, &[b"queue:mail:delay"], &ids).await.unwrap();
        assert_eq!(server.command(&["ZSCORE", "queue:mail:delay", "later"]), "7");
    }
}
