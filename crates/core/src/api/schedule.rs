//! Schedules: their settings and their state.

use super::query_string::once;
use super::{Push, Span, Timestamp};
#[cfg(feature = "openapi")]
use crate::json::schema::{Cron, Cursor, TimeZone};
use crate::model::name;
use crate::schedule::{Run, ScheduleStatus};
use crate::{Error, Missed, Overlap, Schedule, Timing};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::sync::Arc;

/// A schedule to set; its name is in the path.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Schedule))]
#[serde(deny_unknown_fields)]
pub struct ScheduleBody<'a> {
    /// A cron expression, or `@every SPAN`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Cron>))]
    pub cron: Option<Arc<str>>,
    /// Alternative to `cron`.
    pub every: Option<Span>,
    /// The time zone of `cron`; UTC by default.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<TimeZone>))]
    pub time_zone: Option<Arc<str>>,
    /// The job to push, without `delay` or `due_at`.
    #[cfg_attr(feature = "openapi", schema(value_type = super::schema::ScheduleJob))]
    #[serde(borrow)]
    pub job: Push<'a>,
    /// What happens to missed ticks.
    pub missed: Option<Missed>,
    /// What happens at a tick while the previous job is live.
    pub overlap: Option<Overlap>,
    /// No tick before this.
    pub start: Option<Timestamp>,
    /// No tick after this.
    pub end: Option<Timestamp>,
    /// Whether it pushes nothing. If left out, a schedule that is paused stays paused.
    pub paused: Option<bool>,
    /// The end of the pause, beside `"paused": true`; by default it lasts until the schedule is resumed.
    pub paused_until: Option<Timestamp>,
    /// Each tick is later than the rule says, by a distance of up to this that only the schedule's name decides; 1 s to 24 h. So
    /// schedules with the same rule do not tick together.
    pub spread: Option<Span>,
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Schedule {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        ScheduleBody::schema()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Schedule {
    fn name() -> std::borrow::Cow<'static, str> {
        ScheduleBody::name()
    }

    fn schemas(schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>) {
        ScheduleBody::schemas(schemas);
    }
}

impl ScheduleBody<'_> {
    /// The schedule.
    ///
    /// # Errors [`Error::Invalid`] unless it says exactly once when it ticks; the errors of a [`Push`].
    pub fn into_schedule(self) -> Result<Schedule, Error> {
        let zone = self.time_zone.as_deref();
        let timing = match (&self.cron, self.every) {
            (Some(cron), None) => Timing::parse(cron, zone)?,
            (None, Some(every)) if zone.is_none() => Timing::Every(every),
            (None, Some(_)) => {
                return Err(Error::invalid(
                    "time_zone",
                    "left out with `every`: an interval is the same in every time zone",
                    "one",
                ));
            }
            (None, None) => return Err(Error::invalid("cron", "given, or `every` instead", "neither")),
            (Some(_), Some(_)) => return Err(Error::invalid("cron", "given without `every`", "both")),
        };
        if let Some(field) = self.job.due_field() {
            let expected = "left out: each job of a schedule is due at the time of its run";
            return Err(Error::invalid(format!("job.{field}"), expected, format!("`{field}`")));
        }
        Ok(Schedule {
            timing,
            job: self.job.into_job(&Arc::from(name::QUEUE_DEFAULT))?,
            missed: self.missed.unwrap_or_default(),
            overlap: self.overlap.unwrap_or_default(),
            start: self.start,
            end: self.end,
            paused: self.paused,
            paused_until: self.paused_until,
            spread: self.spread,
        })
    }
}

impl<'a> From<&'a Schedule> for ScheduleBody<'a> {
    fn from(schedule: &'a Schedule) -> Self {
        let (cron, every, time_zone) = match &schedule.timing {
            Timing::Cron { expression, time_zone } => (Some(expression.clone()), None, Some(time_zone.clone())),
            Timing::Every(every) => (None, Some(*every), None),
        };
        Self {
            cron,
            every,
            time_zone,
            job: Push::from(&schedule.job),
            missed: Some(schedule.missed),
            overlap: Some(schedule.overlap),
            start: schedule.start,
            end: schedule.end,
            paused: schedule.paused,
            paused_until: schedule.paused_until,
            spread: schedule.spread,
        }
    }
}

impl Serialize for Schedule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ScheduleBody::from(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Schedule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ScheduleBody::deserialize(deserializer)?.into_schedule().map_err(de::Error::custom)
    }
}

/// A page of schedules, by name.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = SchedulePage))]
pub struct Schedules {
    /// Each of them.
    pub schedules: Vec<ScheduleStatus>,
    /// The cursor of the next page; `null` on the last page.
    #[cfg_attr(feature = "openapi", schema(required, value_type = Option<Cursor>))]
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// The next runs of a schedule.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Runs))]
pub struct Runs {
    /// In order; fewer than `limit` only if the schedule ends or is paused.
    #[cfg_attr(feature = "openapi", schema(max_items = 100))]
    pub runs: Vec<Run>,
}

/// Reads `dry_run=true` or `dry_run=false` from the query string of a request; by default `false`.
///
/// # Errors
/// [`Error::Invalid`] for anything else.
pub fn dry_run(text: &str) -> Result<bool, Error> {
    let mut is_dry = None;
    for (name, value) in form_urlencoded::parse(text.as_bytes()) {
        let value = match (&*name, &*value) {
            ("dry_run", "true") => true,
            ("dry_run", "false") => false,
            ("dry_run", other) => return Err(Error::invalid("dry_run", "`true` or `false`", format!("{other:?}"))),
            (other, _) => return Err(Error::invalid(other.to_owned(), "`dry_run`", crate::invalid::UNKNOWN)),
        };
        once("dry_run", &mut is_dry, value)?;
    }
    Ok(is_dry.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::{Object, Problem};
    use super::*;
    use crate::Due;
    use crate::schedule::{LastTick, TickOutcome};

    fn read(text: &str) -> Result<Schedule, Error> {
        serde_json::from_str::<Object<ScheduleBody<'_>>>(text)
            .unwrap_or_else(|error| panic!("{error}: {text}"))
            .0
            .into_schedule()
    }

    #[test]
    fn schedules_read_and_print() {
        let text = r#"{"cron": "0 3 * * *", "time_zone": "Asia/Shanghai", "job": {"queue": "reports", "kind": "nightly", "payload": {}},
            "missed": "skip", "overlap": "skip", "start": "2026-11-20T10:00:00.000Z"}"#;
        let schedule = read(text).unwrap();
        assert_eq!(schedule.timing, Timing::parse("0 3 * * *", Some("Asia/Shanghai")).unwrap());
        assert_eq!((&*schedule.job.queue, &*schedule.job.kind, schedule.job.due), ("reports", "nightly", Due::Now));
        assert_eq!((schedule.missed, schedule.overlap, schedule.end), (Missed::Skip, Overlap::Skip, None));
        assert_eq!(schedule.start, Some(Timestamp(1_795_168_800_000)));
        let every = read(r#"{"every": "90s", "job": {"payload_base64": "AP8=", "key": "k", "on_conflict": "reject"}}"#)
            .unwrap();
        assert_eq!(every.timing, Timing::Every(Span(90_000)));
        assert_eq!((every.missed, every.overlap), (Missed::Once, Overlap::Allow));
        assert_eq!(
            read(r#"{"cron": "@every 90s", "job": {"payload": 1}}"#).unwrap().timing,
            Timing::Every(Span(90_000))
        );
        for schedule in [schedule, every] {
            let printed = serde_json::to_string(&ScheduleBody::from(&schedule)).unwrap();
            assert_eq!(read(&printed).unwrap(), schedule, "{printed}");
            let last = Some(LastTick { at: Timestamp(7), outcome: TickOutcome::Overlap, job: None });
            let status =
                ScheduleStatus { name: "s".into(), version: 7, schedule, next: vec![Timestamp(8), Timestamp(9)], last };
            let printed = serde_json::to_string(&status).unwrap();
            assert_eq!(serde_json::from_str::<ScheduleStatus>(&printed).unwrap(), status, "{printed}");
        }
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        for text in [
            r#"{"cron": "* * * * *"}"#,
            r#"{"cron": "* * * * *", "job": {"payload": 1}, "when": 1}"#,
            r#"{"cron": "* * * * *", "job": {"payload": 1, "at": "5s"}}"#,
            r#"{"cron": "* * * * *", "job": {"payload": 1}, "missed": "all"}"#,
            r#"{"every": 90, "job": {"payload": 1}}"#,
        ] {
            assert!(serde_json::from_str::<ScheduleBody<'_>>(text).is_err(), "{text}");
        }
        for (text, field) in [
            (r#"{"job": {"payload": 1}}"#, "cron"),
            (r#"{"cron": "* * * * *", "every": "5s", "job": {"payload": 1}}"#, "cron"),
            (r#"{"every": "5s", "time_zone": "UTC", "job": {"payload": 1}}"#, "time_zone"),
            (r#"{"every": "5s", "job": {}}"#, "payload"),
            (r#"{"every": "5s", "job": {"payload": 1, "delay": "5s"}}"#, "job.delay"),
            (r#"{"every": "5s", "job": {"payload": 1, "due_at": "2026-11-20T10:00:00Z"}}"#, "job.due_at"),
        ] {
            let error = read(text).unwrap_err();
            let problem = Problem::of(&error, 400, "a title");
            assert_eq!(problem.field.as_deref(), Some(field), "{text}");
            assert_eq!(problem.error(), Some(error));
        }
    }

    #[test]
    fn query_strings_say_whether_it_is_a_rehearsal() {
        assert_eq!((dry_run("").unwrap(), dry_run("dry_run=true").unwrap()), (false, true));
        for wrong in ["dry_run", "dry_run=1", "dry_run=true&dry_run=true", "wet=true"] {
            assert!(dry_run(wrong).is_err(), "{wrong}");
        }
    }
}
