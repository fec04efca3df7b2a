//! The contents of a BullMQ queue.

use super::{BULL, Bullmq, DELAYED, Done, Place, SCORES_PER_MS, job};
use crate::cli::adopt::layout::BATCH;
use crate::cli::adopt::redis::Redis;
use crate::cli::adopt::source::{Look, Part, SAMPLES_MAX, Sample, Trouble};
use crate::cli::exit::Failure;
use crate::cli::output::snippet;
use std::collections::BTreeMap;

/// Ids of a list or set that are examined one by one, unless a drain has just gone through all of them.
const LOOKED_AT_MAX: u64 = 10_000;
/// Samples of one place.
const SAMPLES_OF_A_PLACE: usize = SAMPLES_MAX / 2;
/// Places that are never touched, and what happens to their jobs.
const UNTOUCHED: [(&str, &str); 4] = [
    ("active", "being run by workers"),
    ("waiting-children", "waiting for children"),
    ("failed", "have failed"),
    ("completed", "have ended"),
];
/// Answers why each of a page of ids stays, or nothing for one that may be taken; and some of these, as they would be claimed.
const WHY_EACH: &str = "
local base, is_list, first, count, reasons, samples = ARGV[1], ARGV[2] == '1', tonumber(ARGV[3]), tonumber(ARGV[4]), {}, {}
local is_deep = is_list and pass_ns(KEYS[1], first, count) > PASS_NS_MAX
for n, id in ipairs(page(KEYS[1], is_list, first, count)) do
  reasons[n] = why_left(id, base .. id) or is_deep and 'too far from both ends of the list'
    or is_due(KEYS[1], id, ARGV[8]) and 'due, for workers of BullMQ' or ''
  if reasons[n] == '' and #samples < tonumber(ARGV[5]) then
    local score = is_list and '' or redis.call('ZSCORE', KEYS[1], id)
    samples[#samples + 1] = texts_of(base, ARGV[6], ARGV[7], score, ARGV[8], id, {})
  end
end
return {reasons, samples}
";
/// The script's note for an id without a readable job.
const WITHOUT_DATA: &str = "without data";

/// Said before anything is taken.
const NOTE: &str = "Jobs that were taken can no longer be changed or removed through BullMQ. Jobs with a parent, children, a \
 scheduler or a deduplication id stay: let BullMQ workers run them.";

/// The other writer of such queues.
const BULLMQ: &str = "bullmq";

impl Bullmq {
    /// Counts jobs by place, and reads some.
    pub(super) async fn survey(&self, redis: &Redis) -> Done<Look> {
        let (dialect, why) = self.recognise(redis).await?;
        let notes = vec![NOTE.to_owned()];
        let mut look = Look { layout: dialect.to_owned(), why, notes, only_drains: true, ..Look::default() };
        if let Some(hand_back) = &self.hand_back {
            hand_back.explain(self.queue(), &mut look);
        }
        let (taken, ready) = self.places();
        for &place in taken {
            self.survey_place(redis, dialect, place, &mut look).await?;
        }
        for place in ready {
            self.survey_untouched(redis, place.name, "ready, for BullMQ's workers", &mut look).await?;
        }
        for (name, why) in UNTOUCHED {
            self.survey_untouched(redis, name, why, &mut look).await?;
        }
        Ok(look)
    }

    async fn survey_untouched(&self, redis: &Redis, name: &str, why: &str, look: &mut Look) -> Done {
        let key = self.key(name);
        let left = size(redis, &key).await?;
        if left > 0 {
            look.parts.push(Part { name: key, left, why_left: Some(why.to_owned()), ..Part::default() });
        }
        Ok(())
    }

    async fn recognise(&self, redis: &Redis) -> Done<(&'static str, String)> {
        let (meta, id) = (self.key("meta"), self.key("id"));
        let (version, events_max): (Option<String>, Option<String>) =
            redis.call("HMGET", (&meta, "version", "opts.maxLenEvents")).await?;
        let place = redis.place();
        if let Some(version) = version {
            return Ok((BULLMQ, format!("{meta} at {place} says {version}")));
        }
        if events_max.is_some() {
            return Ok((BULLMQ, format!("{meta} at {place} has opts.maxLenEvents")));
        }
        if redis.call("EXISTS", &id).await? {
            return Ok((BULL, format!("there is {id} at {place}, and no {meta} of BullMQ")));
        }
        if redis.count().await? > 0 {
            return Ok((BULLMQ, format!("at {place} there are only claims of an earlier run")));
        }
        let failure =
            Failure::error(format!("there is no queue of BullMQ or Bull at {place}: neither {meta} nor {id} exists"));
        Err(Trouble::Failed(failure.hint("check --key, --prefix and the database number at the end of --from")))
    }

    async fn survey_place(&self, redis: &Redis, dialect: &str, place: Place, look: &mut Look) -> Done {
        let key = self.key(place.name);
        let now = redis.now().await?;
        let size = size(redis, &key).await?;
        let due: u64 = if place.name == DELAYED {
            let end = format!("({}", (now + 1) as f64 * SCORES_PER_MS);
            redis.call("ZCOUNT", (&key, "-inf", end)).await?
        } else {
            size
        };
        // Ids of sorted sets come by their scores, so those that are due come first.
        let end = if self.has_gone_through { size } else { size.min(LOOKED_AT_MAX) };
        let (mut reasons, mut due_left, mut at) = (BTreeMap::<String, u64>::new(), 0, 0);
        let mut wanted = SAMPLES_OF_A_PLACE.min(SAMPLES_MAX - look.samples.len());
        while at < end {
            let page = (place.is_list, at, BATCH, wanted);
            let arguments = (self.script(WHY_EACH), 1, &key, &self.base, page, dialect, place.name, now);
            let (found, samples): (Vec<String>, Vec<Vec<Vec<u8>>>) = redis.call("EVAL", arguments).await?;
            for (reason, rank) in found.into_iter().zip(at..).filter(|(reason, _)| !reason.is_empty()) {
                *reasons.entry(reason).or_default() += 1;
                due_left += u64::from(rank < due);
            }
            wanted -= samples.len();
            samples.iter().for_each(|texts| self.sample(texts, place, look));
            at += BATCH as u64;
        }
        let left: u64 = reasons.values().sum();
        look.unread += reasons.get(WITHOUT_DATA).copied().unwrap_or(0);
        // Meanwhile, workers may have taken some.
        let (checked, due) = (at.min(size), due.min(at));
        if size > checked {
            look.notes.push(format!(
                "Only the first {checked} of {size} jobs in {key} were checked. Of the others, some may have to stay."
            ));
        }
        let why = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect::<Vec<_>>().join(", ");
        if size > 0 {
            look.parts.push(Part {
                name: key,
                due: due.saturating_sub(due_left),
                later: checked.saturating_sub(due).saturating_sub(left - due_left),
                left,
                unchecked: size - checked,
                why_left: (left > 0).then_some(why),
            });
        }
        Ok(())
    }

    /// Reads a job as it would be claimed.
    fn sample(&self, texts: &[Vec<u8>], place: Place, look: &mut Look) {
        let (is_delayed, score) = (place.name == DELAYED, &texts[3]);
        let (due_at_ms, payload) = match job::read(texts, &self.to, &self.tag) {
            Ok(job) => (
                job::at_score(score).ok().filter(|_| is_delayed),
                format!("{}: {}", snippet(job.kind.as_bytes()), snippet(&job.payload)),
            ),
            Err(why) => {
                look.unread += 1;
                (None, why)
            }
        };
        let score = String::from_utf8_lossy(score);
        let due_as = if is_delayed { format!("score {score} / 4096") } else { format!("in {}", place.name) };
        look.samples.push(Sample { part: self.key(place.name), due_at_ms, due_as, payload });
    }
}

/// The number of members of a list or a set.
pub(super) async fn size(redis: &Redis, key: &str) -> Done<u64> {
    let command = match &*redis.call::<String>("TYPE", key).await? {
        "list" => "LLEN",
        "zset" => "ZCARD",
        "set" => "SCARD",
        _ => return Ok(0),
    };
    redis.call(command, key).await
}
