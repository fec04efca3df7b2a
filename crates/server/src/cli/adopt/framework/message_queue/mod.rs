//! `duetime adopt message-queue`: the PHP project message_queue, which keeps delayed jobs in a sorted set, due jobs in a
//! list, and running jobs in another sorted set.
//!
//! Its listener moves due jobs with two commands: it reads the members up to now, and then removes **the same number by
//! rank**. If one of them is gone by then, or another one was added before them, it removes a member that it has not read,
//! and that job is lost. So while a listener may run, only members are removed or added that no listener can have read:
//! those that are due later than now and a safety distance, by which a listener's clock may be ahead of the clock of Redis.
//! The time between its two commands does not matter.

use super::survey::{Selection, Survey};
use super::{Texts, due, instant, tags};
use crate::cli::adopt::layout::{BATCH, Layout, RedisSource};
use crate::cli::adopt::options::Options;
use crate::cli::adopt::redis::{ClaimResult, Redis, check_slot};
use crate::cli::adopt::source::{Done, Look, Step, tag};
use crate::cli::exit::{Failure, Result};
use crate::cli::output::snippet;
use async_trait::async_trait;
use duetime_core::api::Span;
use duetime_core::model::name;
use duetime_core::{Due, NewJob};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

const LAYOUT: &str = "message-queue";
const CLAIM: &str = include_str!("claim.lua");
/// Exactly as it was.
const PUT_BACK: &str = include_str!("put_back.lua");
/// The same beside a listener.
const PUT_BACK_BESIDE: &str = include_str!("put_back_beside.lua");

/// The names of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Naming {
    /// `queue:NAME:delay`, `queue:NAME:job`, `queue:NAME:reserved`
    Code,
    /// `queues:NAME:delayed`, `queues:NAME`, `queues:NAME:reserved`
    Article,
}

impl Naming {
    /// The keys of delayed jobs, of those that are due, and of those that are being run.
    fn keys(self, name: &str) -> [String; 3] {
        match self {
            Self::Code => ["delay", "job", "reserved"].map(|part| format!("queue:{name}:{part}")),
            Self::Article => [":delayed", "", ":reserved"].map(|part| format!("queues:{name}{part}")),
        }
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
pub(in crate::cli::adopt) struct Args {
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
    pub(in crate::cli::adopt) options: Options,
}

impl Args {
    /// The source that they name.
    pub(in crate::cli::adopt) fn source(&self) -> Result<RedisSource> {
        let Self { from, key, naming, to, safety, listener_stopped, options: _ } = self;
        name::check_queue(to)?;
        let main = format!("queue:{key}");
        check_slot(from, &main, "--key {mail}")?;
        let layout = MessageQueue {
            name: key.clone(),
            naming: *naming,
            to: to.clone(),
            tag: tag(key)?,
            safety: *safety,
            is_stopped: *listener_stopped,
            has_looked: false,
        };
        RedisSource::new(from, &main, Some(to), Box::new(layout))
    }
}

/// A queue of message_queue.
struct MessageQueue {
    name: String,
    /// If it is not given, a look detects it.
    naming: Option<Naming>,
    to: Arc<str>,
    tag: Arc<str>,
    safety: Span,
    is_stopped: bool,
    has_looked: bool,
}

impl MessageQueue {
    fn names(&self) -> [String; 3] {
        self.naming.unwrap_or(Naming::Code).keys(&self.name)
    }

    /// Finds out which keys are there, unless that is known.
    async fn recognise(&mut self, redis: &Redis) -> Done {
        let mut found = Vec::new();
        for naming in [Naming::Code, Naming::Article] {
            if redis.call::<u64>("EXISTS", &naming.keys(&self.name)).await? > 0 {
                found.push(naming);
            }
        }
        if found.len() > 1 && self.naming.is_none() {
            let failure = Failure::usage(format!("the queue {:?} has keys of both namings", self.name));
            return Err(failure.hint("choose with --naming code or --naming article").into());
        }
        self.naming = self.naming.or_else(|| found.pop());
        Ok(())
    }
}

#[async_trait]
impl Layout for MessageQueue {
    async fn look(&mut self, redis: &Redis) -> Done<Look> {
        self.recognise(redis).await?;
        let [delayed, list, reserved] = self.names();
        let safety = self.safety;
        let mut survey = Survey::begin(redis).await?;
        if self.is_stopped {
            survey.set(&delayed, Selection::All).await?;
        } else {
            let why = format!("due within {safety}, left to the listener");
            survey.set(&delayed, Selection::Beyond(safety.0, &why)).await?;
        }
        let overdue = survey.due(&delayed, survey.now.saturating_sub(safety.0)).await?;
        survey.list(&list, None).await?;
        let taken = if self.is_stopped { Selection::Due("running") } else { Selection::None("running") };
        survey.set(&reserved, taken).await?;
        let is_first = !std::mem::replace(&mut self.has_looked, true);
        let others = "Laravel's queues use keys with the same names; see `duetime adopt laravel`";
        let look = survey.end(LAYOUT, is_first, |texts| id(&texts[1]));
        let mut look = look.map_err(|failure| failure.hint(others))?;
        if self.is_stopped {
            look.notes.push("With --listener-stopped, a listener that is still running loses jobs.".to_owned());
            return Ok(look);
        }
        look.notes.push(format!(
            "Its listener may be running, so jobs due within {safety} are left to it. Jobs are taken before they are due: \
             later changes in the source do not reach them."
        ));
        if overdue > 0 {
            look.notes.push(format!(
                "{overdue} jobs are overdue by more than {safety}, so the listener seems to be stopped. If it is, add \
                 --listener-stopped."
            ));
        }
        Ok(look)
    }

    async fn claim(&mut self, redis: &mut Redis, step: Step) -> Done<ClaimResult> {
        redis.claim(CLAIM, &self.keys(), (BATCH, self.safety.0, self.is_stopped, step == Step::Drain)).await
    }

    /// The payload is the whole member, so that the old code for one can run it.
    fn read(&self, texts: &Texts) -> std::result::Result<NewJob, String> {
        let [_, member, score, _] = texts else {
            return Err(format!("a claim must have 4 values; this one has {}", texts.len()));
        };
        Ok(NewJob {
            queue: self.to.clone(),
            due: instant(score).map_or(Due::Now, due),
            tags: tags(self.tag.clone(), "id", &id(member)?),
            ..NewJob::new(member.clone())
        })
    }

    fn put_back(&self) -> &'static str {
        if self.is_stopped { PUT_BACK } else { PUT_BACK_BESIDE }
    }

    fn keys(&self) -> Vec<String> {
        self.names().into()
    }
}

/// The id in `{"job": {"id": …, "attemps": …, "data": …}}`; empty if it has none.
fn id(member: &[u8]) -> std::result::Result<String, String> {
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
        Value::String(id) => id,
        Value::Number(id) => id.to_string(),
        _ => String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use duetime_core::api::Timestamp;
    use duetime_store::testing::RedisServer;

    fn layout(is_stopped: bool) -> MessageQueue {
        MessageQueue {
            name: "mail".to_owned(),
            naming: None,
            to: "mail".into(),
            tag: "adopted:mail".into(),
            safety: Span(60_000),
            is_stopped,
            has_looked: false,
        }
    }

    fn read(member: &str, score: &str) -> std::result::Result<NewJob, String> {
        layout(false).read(&["key", member, score, "60000"].map(|text| text.as_bytes().to_vec()))
    }

    #[test]
    fn a_member_is_kept_as_it_is() {
        let member = r#" {"job": {"id": "a1", "attemps": 2, "data": {"to": 1.10}}}"#;
        let job = read(member, "1800000000.25").unwrap();
        assert_eq!((&job.payload[..], job.due), (member.as_bytes(), Due::At(Timestamp(1_800_000_000_250))));
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
        let mut redis = Redis::new(&server.url(), "queue:mail", None).unwrap();
        let claimed = layout(true).claim(&mut redis, Step::Drain).await.unwrap().logged;
        let ids: Vec<Arc<str>> = claimed.into_iter().map(|(id, _)| id).collect();
        let layout = layout(is_stopped);
        redis.put_back(layout.put_back(), &layout.keys(), &ids).await.unwrap();
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
        let mut redis = Redis::new(&server.url(), "queue:mail", None).unwrap();
        let claimed = layout(true).claim(&mut redis, Step::Drain).await.unwrap().logged;
        server.command(&["ZADD", "queue:mail:delay", "7", "later"]);
        let ids: Vec<Arc<str>> = claimed.into_iter().map(|(id, _)| id).collect();
        redis.put_back(PUT_BACK, &["queue:mail:delay"], &ids).await.unwrap();
        assert_eq!(server.command(&["ZSCORE", "queue:mail:delay", "later"]), "7");
    }
}
