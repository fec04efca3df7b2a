//! A job of BullMQ as one of ours.

use super::{BULL, DELAYED, SCORES_PER_MS};
use crate::deliver::BullmqJob;
use duetime_core::api::{Span, Timestamp};
use duetime_core::limits::{DELAY_MS_MAX, INSTANT_MS_MIN, PRIORITY_DEFAULT, RETRY_STEPS_MAX, TAG_BYTES_MAX};
use duetime_core::{Backoff, Due, Exponential, Fixed, JobOptions, Millis, NewJob, OnConflict, Retry};
use serde_json::Value;
use std::sync::Arc;

/// A claim's texts: the start of all keys, the dialect, the place, the scores in it and among Bull's priorities, when it was claimed, the id,
/// the packed logs, and the fields of the hash with their values.
pub(super) fn read(texts: &[Vec<u8>], queue: &Arc<str>, tag: &Arc<str>) -> Result<NewJob, String> {
    let [_, dialect, place, score, _, claimed_at, id, _, fields @ ..] = texts else {
        return Err(format!("not a job of BullMQ: expected 8 values, got {}", texts.len()));
    };
    let field = |name: &str| Some(&*fields.chunks_exact(2).find(|pair| pair[0] == name.as_bytes())?[1]);
    let count = |name: &str| field(name).and_then(number).unwrap_or(0.0);
    let is_bull = dialect == BULL.as_bytes();
    let id = text("id", id)?;
    let opts = field("opts").unwrap_or(b"{}");
    let opts: Value = serde_json::from_slice(opts).map_err(|_| "its `opts` are not valid JSON".to_owned())?;
    let is_named = !opts["jobId"].is_null() || !id.bytes().all(|byte| byte.is_ascii_digit());
    let made = field("atm").or_else(|| field("attemptsMade")).and_then(number).unwrap_or(0.0) as u32;
    let due = if place == DELAYED.as_bytes() {
        at_score(score)?
    } else {
        let claimed_at = number(claimed_at).unwrap_or_default();
        ready_since(count("timestamp") + count("delay"), claimed_at)
    };
    let of_id = format!("id:{id}");
    let tags = [tag.clone(), of_id.into()].into_iter().filter(|tag| tag.len() <= TAG_BYTES_MAX);
    Ok(NewJob {
        queue: queue.clone(),
        kind: text("name", field("name").ok_or("it has no `name`")?)?.into(),
        due: Due::At(Timestamp(due)),
        priority: match count("priority") as u32 {
            // Bull runs jobs without a priority last, BullMQ first.
            0 if is_bull => PRIORITY_DEFAULT,
            priority => priority,
        },
        key: is_named.then(|| id.into()),
        // An id is unique in its queue of BullMQ only: a job of another one may hold the key.
        on_conflict: OnConflict::Reject,
        tags: tags.collect(),
        options: JobOptions::from(retry(&opts, made, is_bull)),
        ..NewJob::new(field("data").ok_or("it has no `data`")?.to_vec())
    })
}

/// The payload of a job that goes back: all of it. A run without `--hand-back`, of which this one finishes a claim, may have taken it from another
/// place than [`DELAYED`], whose scores are no times.
pub(super) fn handed_back(texts: &[Vec<u8>], due: Due) -> Result<Vec<u8>, String> {
    let [_, _, place, score, _, _, id, log, fields @ ..] = texts else { return Err("not a job of BullMQ".to_owned()) };
    let score = match due {
        Due::At(Timestamp(at)) if place != DELAYED.as_bytes() => at as f64 * SCORES_PER_MS,
        _ => number(score).ok_or("it has no score")?,
    };
    let fields =
        fields.chunks_exact(2).map(|pair| Ok((text("field", &pair[0])?.into(), text("field", &pair[1])?.into())));
    let job = BullmqJob {
        id: text("id", id)?.to_owned(),
        score,
        fields: fields.collect::<Result<_, String>>()?,
        log: log.clone(),
    };
    serde_json::to_vec(&job).map_err(|error| error.to_string())
}

/// When a delayed job is due.
pub(super) fn at_score(score: &[u8]) -> Result<Millis, String> {
    let at = number(score).map(|score| (score / SCORES_PER_MS).floor());
    at.filter(|&at| at >= INSTANT_MS_MIN as f64).map(|at| at as Millis).ok_or_else(|| {
        format!("its score must be milliseconds since 1970 times 4096, got {}", String::from_utf8_lossy(score))
    })
}

/// A job that waits to be run keeps its place in the order, and is not delayed by a clock that was wrong.
fn ready_since(since: f64, claimed_at: f64) -> Millis {
    if since >= INSTANT_MS_MIN as f64 && since <= claimed_at { since as Millis } else { claimed_at as Millis }
}

fn text<'a>(what: &str, bytes: &'a [u8]) -> Result<&'a str, String> {
    std::str::from_utf8(bytes).map_err(|_| format!("its {what} is not valid UTF-8"))
}

fn number(bytes: &[u8]) -> Option<f64> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// The attempts that are left, and the waits before them.
fn retry(opts: &Value, made: u32, is_bull: bool) -> Retry {
    let attempts = opts["attempts"].as_f64().unwrap_or(0.0) as u32;
    let left = attempts.saturating_sub(made).max(1);
    Retry {
        max_attempts: Some(left),
        backoff: backoff(&opts["backoff"], made.min(1_000), left, is_bull),
        ..Retry::default()
    }
}

/// `None` for a strategy that only the worker has.
fn backoff(rule: &Value, made: u32, left: u32, is_bull: bool) -> Option<Backoff> {
    let part = |name: &str| rule[name].as_f64().unwrap_or(0.0).max(0.0);
    let (kind, delay_ms, jitter) = match rule {
        Value::Null | Value::Bool(_) => ("fixed", 0.0, 0.0),
        Value::Number(delay_ms) => ("fixed", delay_ms.as_f64().unwrap_or(0.0).max(0.0), 0.0),
        _ => (rule["type"].as_str().unwrap_or_default(), part("delay"), part("jitter").min(1.0)),
    };
    let span = |ms: f64| Span((ms as u64).min(DELAY_MS_MAX));
    // A wait of BullMQ is between 1 - jitter and 1 of the delay; one of ours is longer than what the rule says, at most twice as long.
    let jitter = jitter.min(0.5);
    let (least_ms, spread) = (delay_ms * (1.0 - jitter), jitter / (1.0 - jitter));
    let growing = |first: f64, factor: f64, max: Span| {
        Some(Backoff::Exponential(Exponential { first: span(first), factor, max, jitter: spread }))
    };
    match kind {
        "fixed" if spread == 0.0 => Some(Backoff::Fixed(Fixed { delay: span(delay_ms) })),
        "fixed" => growing(least_ms, 1.0, span(least_ms)),
        "exponential" if is_bull => {
            let count = (left as usize - 1).clamp(1, RETRY_STEPS_MAX);
            let wait = |failures: u32| span((2_f64.powi(failures as i32) - 1.0) * delay_ms);
            Some(Backoff::Steps((made + 1..).take(count).map(wait).collect()))
        }
        "exponential" => growing(least_ms * 2_f64.powi(made as i32), 2.0, Span(DELAY_MS_MAX)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIMED_AT: &str = "1800000000000";

    /// In the form of a claim: dialect, place, score, id, and fields besides `name` and `data`.
    fn job(dialect: &str, place: &str, score: &str, id: &str, more: &[(&str, &str)]) -> Result<NewJob, String> {
        let head =
            ["bull:mail:", dialect, place, score, "", CLAIMED_AT, id, "\u{90}", "name", "welcome", "data", " {}\n"];
        let more = more.iter().flat_map(|(name, value)| [*name, *value]);
        let texts: Vec<Vec<u8>> = head.into_iter().chain(more).map(|text| text.as_bytes().to_vec()).collect();
        read(&texts, &"mail".into(), &"adopted:mail".into())
    }

    fn retry_of(dialect: &str, opts: &str, made: &str) -> (Option<u32>, Option<Backoff>) {
        let retry = job(dialect, "wait", "", "1", &[("opts", opts), ("atm", made)]).unwrap().options.retry;
        (retry.max_attempts, retry.backoff)
    }

    #[test]
    fn a_delayed_job_is_due_at_its_decoded_score() {
        let score = (1_900_000_000_123_u64 * 4_096 + 4_095).to_string();
        let job =
            job("bullmq", "delayed", &score, "42", &[("priority", "7"), ("timestamp", "1"), ("delay", "2")]).unwrap();
        assert_eq!(job.due, Due::At(Timestamp(1_900_000_000_123)));
        assert_eq!((&*job.queue, &*job.kind, job.priority, job.key.clone()), ("mail", "welcome", 7, None));
        assert_eq!(&job.payload[..], b" {}\n", "byte for byte");
        assert_eq!(job.tags.iter().map(|tag| &**tag).collect::<Vec<_>>(), ["adopted:mail", "id:42"]);
    }

    #[test]
    fn a_score_that_is_not_packed_is_not_read() {
        for score in ["1800000000000", "0", "-1", "x", ""] {
            let why = job("bullmq", "delayed", score, "1", &[]).unwrap_err();
            assert!(why.contains("times 4096"), "{why}");
        }
        assert_eq!(
            job("bullmq", "delayed", "inf", "1", &[]).unwrap().due,
            Due::At(Timestamp(u64::MAX)),
            "the engine refuses it"
        );
    }

    #[test]
    fn a_ready_job_keeps_its_place_in_the_order_and_is_never_delayed() {
        for (timestamp, delay, due) in [
            ("1700000000000", "5000", 1_700_000_005_000),
            ("1799999999999", "5000", 1_800_000_000_000),
            ("1700000000", "0", 1_800_000_000_000),
            ("nonsense", "", 1_800_000_000_000),
        ] {
            let job = job("bullmq", "wait", "", "1", &[("timestamp", timestamp), ("delay", delay)]).unwrap();
            assert_eq!(job.due, Due::At(Timestamp(due)), "{timestamp} {delay}");
        }
    }

    #[test]
    fn an_id_that_the_producer_chose_is_the_key() {
        let key = |id, opts| job("bullmq", "wait", "", id, &[("opts", opts)]).unwrap().key;
        assert_eq!(key("17", "{}"), None);
        assert_eq!(key("order-17", "{}").as_deref(), Some("order-17"));
        assert_eq!(key("17", r#"{"jobId":"17"}"#).as_deref(), Some("17"));
        assert_eq!(job("bullmq", "wait", "", "order-17", &[]).unwrap().on_conflict, OnConflict::Reject);
        let long = "x".repeat(300);
        let job = job("bullmq", "wait", "", &long, &[]).unwrap();
        assert_eq!(job.tags.len(), 1, "{job:?}");
    }

    #[test]
    fn attempts_that_were_made_are_not_made_again() {
        let fixed = |ms| Some(Backoff::Fixed(Fixed { delay: Span(ms) }));
        let growing = |first, factor, max, jitter| {
            Some(Backoff::Exponential(Exponential { first: Span(first), factor, max: Span(max), jitter }))
        };
        assert_eq!(retry_of("bullmq", "{}", "0"), (Some(1), fixed(0)));
        assert_eq!(retry_of("bullmq", r#"{"attempts":5}"#, "2"), (Some(3), fixed(0)));
        assert_eq!(retry_of("bullmq", r#"{"attempts":5,"backoff":700}"#, "9"), (Some(1), fixed(700)));
        let rule = r#"{"attempts":5,"backoff":{"type":"exponential","delay":1000}}"#;
        assert_eq!(retry_of("bullmq", rule, "2"), (Some(3), growing(4_000, 2.0, DELAY_MS_MAX, 0.0)));
        // Between 500 ms and 1 s.
        let rule = r#"{"attempts":5,"backoff":{"type":"fixed","delay":1000,"jitter":0.5}}"#;
        assert_eq!(retry_of("bullmq", rule, "0"), (Some(5), growing(500, 1.0, 500, 1.0)));
        let rule = r#"{"attempts":5,"backoff":{"type":"of-the-worker"}}"#;
        assert_eq!(retry_of("bullmq", rule, "0"), (Some(5), None));
        let rule = r#"{"attempts":1e9,"backoff":{"type":"exponential","delay":1e300}}"#;
        assert_eq!(retry_of("bullmq", rule, "4294967295").1, growing(DELAY_MS_MAX, 2.0, DELAY_MS_MAX, 0.0));
        let steps = |ms: &[u64]| Some(Backoff::Steps(ms.iter().copied().map(Span).collect()));
        let rule = r#"{"attempts":5,"backoff":{"type":"exponential","delay":1000}}"#;
        assert_eq!(retry_of("bull", rule, "0"), (Some(5), steps(&[1_000, 3_000, 7_000, 15_000])));
        assert_eq!(retry_of("bull", rule, "2"), (Some(3), steps(&[7_000, 15_000])));
    }

    #[test]
    fn bull_runs_jobs_without_a_priority_last_and_bullmq_first() {
        let priority = |dialect, priority| job(dialect, "wait", "", "1", &[("priority", priority)]).unwrap().priority;
        assert_eq!((priority("bullmq", "0"), priority("bullmq", "3")), (0, 3));
        assert_eq!((priority("bull", "0"), priority("bull", "3")), (PRIORITY_DEFAULT, 3));
    }

    #[test]
    fn a_job_goes_back_with_all_that_it_has() {
        for (place, score, expected) in [
            ("delayed", "7372800000000005", 7_372_800_000_000_005.0),
            ("wait", "", 7e15),
            ("prioritized", "12884901889", 7e15),
        ] {
            let head =
                ["bull:mail:", "bullmq", place, score, "", CLAIMED_AT, "order-7", "\u{90}", "name", "n", "data", " {}"];
            let texts = head.map(|text| text.as_bytes().to_vec());
            let due = Due::At(Timestamp((7e15 / SCORES_PER_MS) as Millis));
            let payload: Value = serde_json::from_slice(&handed_back(&texts, due).unwrap()).unwrap();
            let score = payload["score"].as_f64().unwrap();
            assert!((score - expected).abs() < SCORES_PER_MS && (place != "delayed" || score == expected), "{payload}");
            assert_eq!((&payload["id"], &payload["fields"]["data"]), (&"order-7".into(), &" {}".into()), "{payload}");
        }
    }

    #[test]
    fn a_job_that_cannot_be_read_says_why() {
        assert!(job("bullmq", "wait", "", "1", &[("opts", "{")]).unwrap_err().contains("opts"));
        assert!(read(&[b"a".to_vec()], &"q".into(), &"t".into()).unwrap_err().contains("8 values, got 1"));
        let texts = |id: &[u8]| -> Vec<Vec<u8>> {
            let head = ["b:", "bullmq", "wait", "", "", "1"].map(|text| text.as_bytes().to_vec());
            head.into_iter().chain([id.to_vec(), Vec::new()]).collect()
        };
        assert!(read(&texts(b"\xff"), &"q".into(), &"t".into()).unwrap_err().contains("UTF-8"));
        assert!(read(&texts(b"1"), &"q".into(), &"t".into()).unwrap_err().contains("no `name`"));
    }
}
