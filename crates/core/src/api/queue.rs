//! Queues: their state, and changes of their settings.

use super::{Span, Timestamp, Unread, read};
use crate::Error;
use crate::invalid::UNKNOWN;
use crate::json::known;
#[cfg(feature = "openapi")]
use crate::json::schema::{Cursor, QueueName};
use crate::model::retry::PARTS;
use crate::ports::{Counts, Tally, Totals};
use crate::request::{Lately, Pause, QueueSettings, QueueStatus};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;

/// The settings of a queue, by name: the parts of its retry rule, and its own.
pub const SETTINGS: [&str; 13] = {
    let [a, b, c, d, e, f] = PARTS;
    [a, b, c, d, e, f, "lease", "max_running", "rate", "max_waiting", "when_full", "retention", "target"]
};

/// New settings of a queue, as a JSON merge patch (RFC 7396): omitted settings keep their values, and `null` restores the
/// default. Each value has been parsed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct QueueChanges(Map<String, Value>);

impl<'de> Deserialize<'de> for QueueChanges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = QueueChanges;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<QueueChanges, A::Error> {
                let mut changes = Map::new();
                while let Some((name, text)) = fields.next_entry::<String, Box<RawValue>>()? {
                    let value = checked(&name, text.get()).map_err(A::Error::custom)?;
                    if changes.contains_key(&name) {
                        return Err(A::Error::custom(format_args!("duplicate field `{name}`")));
                    }
                    changes.insert(name, value);
                }
                Ok(QueueChanges(changes))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// The value of a setting, if the setting accepts it.
fn checked(name: &str, text: &str) -> Result<Value, Error> {
    if !SETTINGS.contains(&name) {
        return Err(Error::invalid(name.to_owned(), known(name, &SETTINGS), UNKNOWN));
    }
    if text == "null" {
        return Ok(Value::Null);
    }
    read::<QueueSettings>(&format!("{{\"{name}\":{text}}}")).map_err(Unread::into_invalid)?;
    Ok(read(text).map_err(Unread::into_invalid)?)
}

impl QueueChanges {
    /// Sets every setting. Pausing is not one of them: see [`PauseBody`].
    pub fn all(settings: &QueueSettings) -> Self {
        let mut set = fields(settings);
        Self(SETTINGS.into_iter().map(|name| (name.to_owned(), set.remove(name).unwrap_or_default())).collect())
    }

    /// Sets the settings that have a value. The others stay.
    pub fn named(settings: &QueueSettings) -> Self {
        Self(fields(settings))
    }

    /// The changes that turn the old settings into the new ones.
    pub fn between(old: &QueueSettings, new: &QueueSettings) -> Self {
        let (Self(before), Self(mut after)) = (Self::all(old), Self::all(new));
        after.retain(|name, value| before.get(name) != Some(value));
        Self(after)
    }

    /// The settings that have a new value.
    pub fn given(&self) -> QueueSettings {
        self.apply(&QueueSettings::default())
    }

    /// The settings with these changes.
    pub fn apply(&self, settings: &QueueSettings) -> QueueSettings {
        let mut all = fields(settings);
        for (name, value) in &self.0 {
            all.insert(name.clone(), value.clone());
        }
        all.retain(|_, value| !value.is_null());
        let changed: QueueSettings = serde_json::from_value(all.into()).expect("each value was read before");
        let QueueSettings { paused, paused_until, paused_at, .. } = *settings;
        QueueSettings { paused, paused_until, paused_at, paused_by: settings.paused_by.clone(), ..changed }
    }
}

fn fields(settings: &QueueSettings) -> Map<String, Value> {
    match serde_json::to_value(settings) {
        Ok(Value::Object(fields)) => fields,
        _ => unreachable!("settings are an object"),
    }
}

/// How long a queue is paused; by default until it is resumed.
#[serde_with::skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Pause))]
#[serde(default, deny_unknown_fields)]
pub struct PauseBody {
    /// The end of the pause.
    pub until: Option<Timestamp>,
    /// The length of the pause, instead of `until`.
    #[serde(rename = "for")]
    pub span: Option<Span>,
}

impl TryFrom<PauseBody> for Pause {
    type Error = Error;

    fn try_from(body: PauseBody) -> Result<Self, Error> {
        match (body.until, body.span) {
            (Some(_), Some(_)) => Err(Error::invalid("pause", "limited by `until` or by `for`", "both")),
            (Some(at), None) => Ok(Self::Until(at)),
            (None, Some(time)) => Ok(Self::For(time)),
            (None, None) => Ok(Self::UntilResumed),
        }
    }
}

impl From<Pause> for PauseBody {
    fn from(pause: Pause) -> Self {
        match pause {
            Pause::UntilResumed => Self::default(),
            Pause::For(Span(ms)) => Self { span: Some(Span(ms)), ..Self::default() },
            Pause::Until(Timestamp(at)) => Self { until: Some(Timestamp(at)), ..Self::default() },
        }
    }
}

/// A queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Queue {
    /// Its name.
    #[cfg_attr(feature = "openapi", schema(value_type = QueueName))]
    pub queue: Arc<str>,
    /// Whether it is paused.
    pub paused: bool,
    /// The end of the pause, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<Timestamp>,
    /// When it was paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_at: Option<Timestamp>,
    /// The name of the token with which it was paused, if one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub paused_by: Option<Arc<str>>,
    /// Jobs due in the future.
    pub scheduled: u64,
    /// Jobs due now.
    pub ready: u64,
    /// Leased jobs.
    pub running: u64,
    /// Records of jobs that have not ended.
    pub pending: u64,
    /// Records of completed jobs.
    pub succeeded: u64,
    /// Dead letters.
    pub failed: u64,
    /// Records of cancelled jobs.
    pub cancelled: u64,
    /// All-time totals.
    #[serde(default)]
    pub totals: Totals,
    /// Since when the ready job that waits longest is ready: its due time, or when it was pushed if that is later. `null` if
    /// there is none.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub oldest_due_at: Option<Timestamp>,
    /// The settings.
    pub settings: QueueSettings,
    /// This server delivers no job of the queue until then: its target is overloaded or unavailable. Omitted in a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_held_until: Option<Timestamp>,
    /// What this server did for the queue lately.
    #[serde(default)]
    pub lately: Lately,
}

impl Serialize for QueueStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { queue, counts, tally, settings, target_held_until, lately } = self;
        let Counts { scheduled, ready, running, oldest_due, paused: _ } = *counts;
        let Tally { pending, succeeded, failed, cancelled, totals } = *tally;
        let shown = Queue {
            queue: queue.clone(),
            paused: settings.paused,
            paused_until: settings.paused_until,
            paused_at: settings.paused_at,
            paused_by: settings.paused_by.clone(),
            scheduled,
            ready,
            running,
            pending,
            succeeded,
            failed,
            cancelled,
            totals,
            oldest_due_at: oldest_due,
            settings: settings.clone(),
            target_held_until: *target_held_until,
            lately: *lately,
        };
        shown.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for QueueStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let shown = Queue::deserialize(deserializer)?;
        let Queue {
            queue,
            paused,
            paused_until,
            paused_at,
            paused_by,
            scheduled,
            ready,
            running,
            target_held_until,
            lately,
            ..
        } = shown;
        let Queue { pending, succeeded, failed, cancelled, totals, oldest_due_at: oldest_due, settings, .. } = shown;
        Ok(Self {
            queue,
            counts: Counts { scheduled, ready, running, oldest_due, paused },
            tally: Tally { pending, succeeded, failed, cancelled, totals },
            settings: QueueSettings { paused, paused_until, paused_at, paused_by, ..settings },
            target_held_until,
            lately,
        })
    }
}

/// A page of queues, by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = QueuePage))]
pub struct Queues {
    /// The queues.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Queue>))]
    pub queues: Vec<QueueStatus>,
    /// The cursor of the next page; `null` on the last page.
    #[cfg_attr(feature = "openapi", schema(required, value_type = Option<Cursor>))]
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// The number of jobs that a purge cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Purged {
    /// The number.
    pub purged: u64,
}

/// What became of a queue that was deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct DeletedQueue {
    /// Whether there was such a queue.
    pub existed: bool,
    /// Jobs that waited and were cancelled, by force.
    pub cancelled: u64,
    /// Jobs whose records were deleted, also those that were cancelled.
    pub deleted: u64,
}
