//! A schedule in the registry: its settings, and how far it has ticked.

use crate::clock::Millis;
use crate::error::Error;
use crate::json::Timestamp;
use crate::limits::{HOUR_MS, SECOND_MS, TICK_AHEAD_MS_MAX};
use crate::model::id::JobId;
use crate::ports::Document;
use crate::schedule::{LastTick, Schedule, Ticks};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How far the clock may be set back before next ticks are calculated again.
pub(super) const CLOCK_ERROR_MS: u64 = 10 * SECOND_MS;

/// How far ahead of the clock jobs may have been pushed before it was set back.
pub(super) const PUSHED_AHEAD_MS_MAX: u64 = HOUR_MS;

/// The document of a schedule.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// The version of the settings: `max(last + 1, clock in ms)`.
    pub(super) version: u64,
    pub(super) schedule: Schedule,
    /// The origin of an interval without a start: when the schedule was set.
    pub(super) anchor: Millis,
    /// The next tick; `None` after the last one, and in a pause without an end. A pause with an end moves it there.
    pub(super) next_at: Option<Millis>,
    /// The push that was begun.
    pub(super) pending: Option<Pending>,
    pub(super) last: Option<LastTick>,
    /// Up to this instant a job may have been pushed: by a clock that was ahead, or by a deleted schedule of this name.
    pub(super) latest: Option<Millis>,
    /// The last job that was pushed.
    pub(super) job: Option<JobId>,
}

/// A tick whose job is being pushed: every process that finds it pushes the same job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pending {
    pub(super) at: Millis,
    pub(super) id: JobId,
    pub(super) created_at: Millis,
}

/// A document as it was read, and its content.
pub(super) struct EntryDocument {
    pub(super) name: Arc<str>,
    /// The version of the document, which grows with each step of a tick.
    pub(super) document_version: u64,
    pub(super) entry: Entry,
    pub(super) ticks: Ticks,
}

impl Entry {
    /// The entry after the schedule is set. An existing next tick stays, unless the timing or the pause has changed.
    pub(super) fn set(
        name: &str,
        stored: Option<&EntryDocument>,
        schedule: &Schedule,
        now: Millis,
    ) -> Result<Self, Error> {
        let old = stored.map(|stored| &stored.entry);
        let old_pause = old.and_then(|old| old.schedule.pause_end(now));
        let pause = if schedule.paused.is_none() { old_pause } else { schedule.pause_end(now) };
        let schedule = schedule.clone().with_pause(pause);
        let version = match old {
            Some(old) if old.schedule == schedule => old.version,
            _ => old.map_or(now, |old| now.max(old.version + 1)),
        };
        let same = old.filter(|old| {
            let old = &old.schedule;
            (&old.timing, old.start, old.end, old.spread)
                == (&schedule.timing, schedule.start, schedule.end, schedule.spread)
        });
        if let Some(entry) = same
            && pause == old_pause
        {
            return Ok(Self { version, schedule, ..entry.clone() });
        }
        let anchor = same.map_or(now, |same| same.anchor);
        // Runs are pushed a little ahead of their time: those are not pushed again.
        let ahead =
            |last: &LastTick| last.at > Timestamp(now) && last.at <= Timestamp(now.saturating_add(TICK_AHEAD_MS_MAX));
        let now = old.and_then(|old| old.last).filter(ahead).map_or(now, |last| last.at.0);
        let ticks = schedule.ticks_of(name, anchor)?;
        let next_at = match pause {
            Some(Millis::MAX) => None,
            // A tick at the end of the pause is pushed.
            Some(end) => ticks.next(now.max(end - 1)),
            None => ticks.next(now),
        };
        Ok(Self {
            version,
            schedule,
            anchor,
            next_at,
            pending: None,
            last: old.and_then(|old| old.last),
            latest: old.and_then(|old| old.latest),
            job: old.and_then(|old| old.job),
        })
    }

    /// Whether a job may have been pushed for this instant, though it is the next one.
    pub(super) fn may_have_pushed(&self, at: Millis) -> bool {
        self.latest.is_none_or(|latest| at <= latest)
    }

    pub(super) fn parse(name: &str, body: &str) -> Result<Self, Error> {
        serde_json::from_str(body).map_err(|error| Error::Damaged(format!("the schedule {name:?}: {error}")))
    }

    pub(super) fn body(&self) -> String {
        serde_json::to_string(self).expect("an entry has only string keys")
    }
}

impl EntryDocument {
    /// Whether the clock was set back: by now there are instants before the next tick that it would pass over.
    pub(super) fn is_ahead(&self, now: Millis) -> bool {
        let soon = now.saturating_add(CLOCK_ERROR_MS);
        let is_paused = self.entry.schedule.pause_end(now).is_some();
        let next_at = self.entry.next_at.filter(|&next_at| next_at > soon && !is_paused);
        next_at.is_some_and(|next_at| self.ticks.next(soon).is_some_and(|next| next < next_at))
    }

    /// A pause that is over by now is read as none.
    pub(super) fn read(document: &Document, now: Millis) -> Result<Self, Error> {
        let mut entry = Entry::parse(&document.name, &document.body)?;
        let pause = entry.schedule.pause_end(now);
        entry.schedule = entry.schedule.with_pause(pause);
        let ticks = entry.schedule.ticks_of(&document.name, entry.anchor)?;
        let name = Arc::from(document.name.as_str());
        Ok(Self { name, document_version: document.version, entry, ticks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Span;
    use crate::schedule::Timing;

    #[test]
    fn what_does_not_read_back_is_damaged() {
        let job = r#""job":{"queue":"q","payload":1}"#;
        let entry = |schedule: &str| Entry::parse("s", &format!(r#"{{"version":1,"schedule":{schedule},"anchor":5}}"#));
        assert_eq!(entry(&format!(r#"{{"every":"90s",{job}}}"#)).unwrap().schedule.timing, Timing::Every(Span(90_000)));
        for schedule in [
            format!("{{{job}}}"),
            format!(r#"{{"cron":"* * * * *","every":"90s",{job}}}"#),
            r#"{"every":"90s","job":{"queue":"q","payload_base64":"0g"}}"#.to_owned(),
            r#"{"every":"90s","job":{"queue":"q"}}"#.to_owned(),
        ] {
            assert_eq!(entry(&schedule).unwrap_err().code(), "store_damaged", "{schedule}");
        }
    }
}
