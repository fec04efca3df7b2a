//! Sentences for the list of attention, for the page and the API. The page marks up some of the words.

use super::figures::{instant_text, number};
use super::language::Language;
use super::text::Text;
use duetime_core::api::{AttentionItem, AttentionKind, Timestamp};
use duetime_core::{JobId, Millis};

/// A part of what is said about an item.
pub(super) enum Part<'a> {
    /// Words in the reader's language.
    Words(String),
    /// The most important words.
    Strong(String),
    /// How long it has lasted, and since when.
    Lasting(String, Option<Timestamp>),
    /// The words of a job, a target or a store.
    Message(&'a str),
    Job(JobId),
    Instant(Timestamp),
}

impl Language {
    /// An item as a sentence.
    pub(crate) fn attention(self, item: &AttentionItem, now: Millis) -> String {
        let subject = item.schedule.as_ref().or(item.queue.as_ref());
        let mut said = subject.map(|subject| format!("{subject}{}", self.say(Text::Colon))).unwrap_or_default();
        for part in parts(self, item, now) {
            match part {
                Part::Words(words) | Part::Strong(words) | Part::Lasting(words, _) => said.push_str(&words),
                Part::Message(message) => said.push_str(message),
                Part::Job(id) => said.push_str(&id.to_string()),
                Part::Instant(at) => said.push_str(&instant_text(at.0)),
            }
        }
        said.trim_end().to_owned()
    }
}

/// The sentence for an item, without the name of its queue or schedule.
pub(super) fn parts<'a>(language: Language, item: &'a AttentionItem, now: Millis) -> Vec<Part<'a>> {
    let mut said = Said { language, parts: Vec::new() };
    let jobs = || Part::Words(number(item.jobs.unwrap_or(0)));
    let limit = |limit: u32| Part::Words(number(limit.into()));
    let target = || Part::Message(item.target.as_deref().unwrap_or_default());
    let message = || Part::Message(item.message.as_deref().unwrap_or_default());
    let lasting = || {
        let begin = item.since.map_or(now, |since| since.0);
        Part::Lasting(language.span(now.saturating_sub(begin)), item.since)
    };
    match item.kind {
        AttentionKind::NotReady => said.say(Text::NotReady, []),
        AttentionKind::Degraded | AttentionKind::Clock => {
            let what = language.say(item.code.map_or(Text::Unknown, Text::of_degraded));
            said.add(Part::Strong(what.to_owned()));
            said.add(message());
        }
        AttentionKind::TargetDown => {
            said.say(Text::AttentionTarget, [target(), lasting()]);
            if item.jobs.is_some() {
                said.say(Text::AttentionJobs, [jobs()]);
            }
            said.add(message());
        }
        AttentionKind::NoWorker => said.say(Text::AttentionNoWorker, [jobs(), lasting()]),
        AttentionKind::Late if item.since.is_none() => {
            let late = language.span(item.lateness.map_or(0, |late| late.0));
            said.say(Text::AttentionStarted, [Part::Words(late)]);
        }
        AttentionKind::Late => {
            said.say(Text::AttentionLate, [jobs(), lasting()]);
            if let Some(max) = item.limit {
                said.say(Text::AttentionLimit, [limit(max)]);
            }
            if item.target.is_some() {
                said.say(Text::AttentionTargetSlow, [target()]);
            } else if item.limit.is_none() {
                said.say(Text::AttentionWorkersSlow, []);
            }
        }
        AttentionKind::Full => {
            if let Some(max) = item.limit {
                said.say(Text::AttentionFull, [limit(max)]);
            }
            said.say(Text::AttentionNoPlace, [lasting(), jobs()]);
        }
        AttentionKind::DeadLetters => said.say(Text::AttentionFailed, [jobs(), message()]),
        AttentionKind::ScheduleFailed => match item.job {
            Some(failed) => said.say(Text::AttentionRun, [Part::Job(failed), message()]),
            None => said.say(Text::AttentionRefused, []),
        },
        AttentionKind::Paused => {
            match item.until {
                Some(until) => said.say(Text::AttentionPausedUntil, [Part::Instant(until)]),
                None => said.say(Text::AttentionPaused, []),
            }
            if item.since.is_some() {
                said.say(Text::AttentionPausedAgo, [lasting()]);
            }
            if let Some(by) = &item.by {
                said.say(Text::AttentionPausedBy, [Part::Message(by)]);
            }
            if item.jobs.is_some() {
                said.say(Text::AttentionJobs, [jobs()]);
            }
        }
        AttentionKind::Unknown => said.add(Part::Message(&item.detail)),
    }
    said.parts
}

/// Sentences, one after the other.
struct Said<'a> {
    language: Language,
    parts: Vec<Part<'a>>,
}

impl<'a> Said<'a> {
    /// Adds one part; not an empty message.
    fn add(&mut self, part: Part<'a>) {
        if matches!(part, Part::Message("")) {
            return;
        }
        self.separate();
        self.parts.push(part);
    }

    /// Adds a blank. A sentence in Chinese needs none behind it.
    fn separate(&mut self) {
        let is_behind_sentence = matches!(self.parts.last(), Some(Part::Words(words)) if words.ends_with('。'));
        if !self.parts.is_empty() && !is_behind_sentence {
            self.parts.push(Part::Words(" ".to_owned()));
        }
    }

    /// Adds a text with its holes filled.
    fn say<const N: usize>(&mut self, text: Text, fills: [Part<'a>; N]) {
        self.separate();
        let mut fills = fills.into_iter();
        for (place, words) in self.language.say(text).split("{}").enumerate() {
            if place > 0 {
                self.parts.extend(fills.next());
            }
            if !words.is_empty() {
                self.parts.push(Part::Words(words.to_owned()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn items_are_sentences_in_both_languages() {
        let now: Timestamp = "2026-01-01T00:13:00Z".parse().unwrap();
        let since = "2026-01-01T00:00:00.000Z";
        let waits = json!({"queue": "q", "jobs": 2, "since": since});
        let all: [(&str, Value, &str, &str); 9] = [
            (
                "no_worker",
                waits.clone(),
                "q: Waiting jobs: 2. No worker asks this server. The oldest job has waited for 13m.",
                "q：有 2 个任务在等待，但没有 worker 来取。等待最久的已达 13 分钟。",
            ),
            (
                "late",
                waits,
                "q: Waiting jobs: 2. The oldest has waited for 13m. Its workers do not keep up.",
                "q：有 2 个任务在等待。等待最久的已达 13 分钟。worker 处理不过来。",
            ),
            (
                "target_down",
                json!({"queue": "q", "target": "http://t/", "since": since, "jobs": 2, "message": "timeout"}),
                "q: http://t/ has taken no job for 13m. Waiting jobs: 2. timeout",
                "q：http://t/ 未接收任务，已持续 13 分钟。有 2 个任务在等待。timeout",
            ),
            (
                "full",
                json!({"queue": "q", "jobs": 3, "limit": 9, "since": since}),
                "q: Its max_waiting of 9 was reached. New jobs that found no place within the last 13m: 3.",
                "q：等待的任务已达 max_waiting 的 9 个。最近 13 分钟内，有 3 个新任务没有位置。",
            ),
            (
                "dead_letters",
                json!({"queue": "q", "jobs": 39, "message": "no address"}),
                "q: 39 failed within the last hour: no address",
                "q：最近一小时内有 39 个任务失败：no address",
            ),
            (
                "schedule_failed",
                json!({"schedule": "nightly", "job": "7", "message": "no disk"}),
                "nightly: The last run failed: 7 no disk",
                "nightly：最近一次执行失败：7 no disk",
            ),
            (
                "paused",
                json!({"queue": "q", "since": since, "by": "anna"}),
                "q: The queue is paused without an end. Paused 13m ago. Paused by anna.",
                "q：队列已暂停，没有结束时间。暂停于 13 分钟前。操作者：anna。",
            ),
            (
                "degraded",
                json!({"code": "store_full"}),
                "The store is full, so changes are refused. Make room.",
                "存储已满，修改被拒绝。请腾出空间。",
            ),
            ("not_ready", json!({}), "The server hands out no jobs.", "服务器目前不分发任务。"),
        ];
        for (kind, mut item, english, chinese) in all {
            item["kind"] = json!(kind);
            item["detail"] = json!("");
            let item: AttentionItem = serde_json::from_value(item).unwrap();
            assert_eq!(Language::English.attention(&item, now.0), english);
            assert_eq!(Language::Chinese.attention(&item, now.0), chinese);
        }
    }
}
