//! What there is in a queue of BullMQ.

use super::{Bullmq, DELAYED, Done, PLACES, Place, SCORES_PER_MS, WHY_LEFT, job};
use crate::cli::adopt::redis::Redis;
use crate::cli::adopt::source::{Look, Part, SAMPLES_MAX, Sample, Trouble};
use crate::cli::exit::Failure;
use crate::cli::output::snippet;
use duetime_core::Millis;
use std::collections::BTreeMap;

/// Ids of a place that are looked at one by one.
const LOOKED_AT_MAX: usize = 10_000;
/// Samples of one place.
const SAMPLES_OF_A_PLACE: usize = SAMPLES_MAX / 2;
/// Places that are never touched, and what becomes of their jobs.
const UNTOUCHED: [(&str, &str); 4] = [
    ("active", "being run by workers"),
    ("waiting-children", "waiting for children"),
    ("failed", "have failed"),
    ("completed", "have ended"),
];
/// Answers why each job stays; nothing for one that may be taken.
const WHY_EACH: &str = "
local reasons = {}
for n = 2, #ARGV do reasons[n - 1] = why_left(ARGV[n], ARGV[1] .. ARGV[n]) or '' end
return reasons
";
/// What the script says of an id that has no readable job.
const WITHOUT_DATA: &str = "without data";

/// Said before anything is taken.
const NOTE: &str = "Jobs that were taken can no longer be changed or removed through BullMQ. Jobs with a parent, children, a \
 scheduler or a deduplication id stay: let BullMQ workers run them.";

/// Who has written the queue.
#[derive(Clone, Copy)]
enum Dialect {
    Bullmq,
    Bull,
}

impl Dialect {
    /// The layout's name, and the dialect's in a claim.
    fn name(self) -> &'static str {
        match self {
            Self::Bullmq => "bullmq",
            Self::Bull => "bull",
        }
    }
}

impl Bullmq {
    /// Counts jobs by place, and reads some.
    pub(super) async fn survey(&self, redis: &Redis) -> Done<Look> {
        let (dialect, why) = self.recognise(redis).await?;
        let mut look = Look {
            layout: dialect.name().to_owned(),
            why,
            parts: Vec::new(),
            samples: Vec::new(),
            unread: 0,
            notes: vec![NOTE.to_owned()],
        };
        for place in PLACES {
            self.survey_place(redis, dialect, place, &mut look).await?;
        }
        for (name, why) in UNTOUCHED {
            let key = self.key(name);
            let left = size(redis, &key).await?;
            if left > 0 {
                look.parts.push(Part { name: key, left, why_left: Some(why.to_owned()), ..Part::default() });
            }
        }
        Ok(look)
    }

    async fn recognise(&self, redis: &Redis) -> Done<(Dialect, String)> {
        let (meta, id) = (self.key("meta"), self.key("id"));
        let mut command = redis::cmd("HMGET");
        command.arg(&meta).arg("version").arg("opts.maxLenEvents");
        let (version, events_max): (Option<String>, Option<String>) = redis.ask(&command).await?;
        let place = redis.place();
        if let Some(version) = version {
            return Ok((Dialect::Bullmq, format!("{meta} at {place} says {version}")));
        }
        if events_max.is_some() {
            return Ok((Dialect::Bullmq, format!("{meta} at {place} has opts.maxLenEvents")));
        }
        let has_id: bool = redis.ask(redis::cmd("EXISTS").arg(&id)).await?;
        if has_id {
            return Ok((Dialect::Bull, format!("there is {id} at {place}, and no {meta} of BullMQ")));
        }
        if redis.count().await? > 0 {
            return Ok((Dialect::Bullmq, format!("at {place} there are only claims of an earlier run")));
        }
        let failure =
            Failure::error(format!("there is no queue of BullMQ or Bull at {place}: neither {meta} nor {id} exists"));
        Err(Trouble::Failed(failure.hint("check --key, --prefix and the database number at the end of --from")))
    }

    async fn survey_place(&self, redis: &Redis, dialect: Dialect, place: Place, look: &mut Look) -> Done {
        let key = self.key(place.name);
        let now = redis.now().await?;
        let size = size(redis, &key).await?;
        let due: u64 = if place.name == DELAYED {
            let end = format!("({}", (now + 1) as f64 * SCORES_PER_MS);
            redis.ask(redis::cmd("ZCOUNT").arg(&key).arg("-inf").arg(end)).await?
        } else {
            size
        };
        // Ids of sorted sets come by their scores, so those that are due come first.
        let (mut reasons, mut due_left, mut at, mut samples) = (BTreeMap::<String, u64>::new(), 0, 0, 0);
        while at < LOOKED_AT_MAX {
            let ids = self.page(redis, place, at).await?;
            if ids.is_empty() {
                break;
            }
            let mut command = redis::cmd("EVAL");
            command.arg([WHY_LEFT, WHY_EACH].concat()).arg(1).arg(&key).arg(&self.base).arg(&ids);
            let found: Vec<String> = redis.ask(&command).await?;
            for (id, reason) in ids.iter().zip(found) {
                if !reason.is_empty() {
                    *reasons.entry(reason).or_default() += 1;
                    due_left += u64::from((at as u64) < due);
                } else if samples < SAMPLES_OF_A_PLACE && look.samples.len() < SAMPLES_MAX {
                    samples += 1;
                    self.sample(redis, dialect, place, id, now, look).await?;
                }
                at += 1;
            }
        }
        let left: u64 = reasons.values().sum();
        look.unread += reasons.get(WITHOUT_DATA).copied().unwrap_or(0);
        if size > at as u64 {
            look.notes
                .push(format!("Only the first {at} of {size} jobs in {key} were checked; others may have to stay."));
        }
        let why = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect::<Vec<_>>().join(", ");
        if size > 0 {
            look.parts.push(Part {
                name: key,
                due: due.saturating_sub(due_left),
                later: (size - due.min(size)).saturating_sub(left - due_left),
                left,
                why_left: (left > 0).then_some(why),
            });
        }
        Ok(())
    }

    /// Reads a job as a claim would.
    async fn sample(
        &self,
        redis: &Redis,
        dialect: Dialect,
        place: Place,
        id: &[u8],
        now: Millis,
        look: &mut Look,
    ) -> Done {
        let job_key = [self.base.as_bytes(), id].concat();
        let fields: Vec<(Vec<u8>, Vec<u8>)> = redis.ask(redis::cmd("HGETALL").arg(job_key)).await?;
        if fields.is_empty() {
            // It has been taken since.
            return Ok(());
        }
        let score: Option<f64> = if place.is_list {
            None
        } else {
            redis.ask(redis::cmd("ZSCORE").arg(self.key(place.name)).arg(id)).await?
        };
        let (score, now) = (score.map_or_else(String::new, |score| score.to_string()), now.to_string());
        let mut texts: Vec<Vec<u8>> =
            [&*self.base, dialect.name(), place.name, &*score, "", &*now].map(|text| text.as_bytes().to_vec()).into();
        texts.extend([id.to_vec(), Vec::new()]);
        texts.extend(fields.into_iter().flat_map(|(name, value)| [name, value]));
        let is_delayed = place.name == DELAYED;
        let (due_at_ms, payload) = match job::read(&texts, &self.to, &self.tag) {
            Ok(job) => (
                job::at_score(score.as_bytes()).ok(),
                format!("{}: {}", snippet(job.kind.as_bytes()), snippet(&job.payload)),
            ),
            Err(why) => {
                look.unread += 1;
                (None, why)
            }
        };
        look.samples.push(Sample {
            part: self.key(place.name),
            due_at_ms: due_at_ms.filter(|_| is_delayed),
            due_as: if is_delayed { format!("score {score} / 4096") } else { format!("in {}", place.name) },
            payload,
        });
        Ok(())
    }
}

/// How many members a list or a set has.
async fn size(redis: &Redis, key: &str) -> Done<u64> {
    let kind: String = redis.ask(redis::cmd("TYPE").arg(key)).await?;
    let command = match &*kind {
        "list" => "LLEN",
        "zset" => "ZCARD",
        "set" => "SCARD",
        _ => return Ok(0),
    };
    redis.ask(redis::cmd(command).arg(key)).await
}
