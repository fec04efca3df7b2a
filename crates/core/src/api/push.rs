//! A job to push, and the result of the push.

use super::follow_up::complete_follow_ups;
use super::{Span, Timestamp};
#[cfg(feature = "openapi")]
use crate::json::schema::{Key, Kind, QueueName, Tag};
use crate::json::text;
use crate::json::{Base64, bytes_of, raw, show_bytes};
use crate::limits::{DELAY_MS_MAX, INSTANT_MS_END, INSTANT_MS_MIN, PRIORITY_DEFAULT};
use crate::model::job::State;
use crate::model::name;
use crate::model::options::with_options;
use crate::request::{self, PushOutcome};
use crate::{Due, Error, Invalid, JobId, KeyUntil, Millis, NewJob, OnConflict};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;

with_options! {
    /// A job to push: the same in a push over HTTP, in a line of a file, in a schedule, and in a row of the inbox.
    #[serde_with::skip_serializing_none]
    #[derive(Clone, Debug, Default, Serialize, Deserialize)]
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
    #[serde(deny_unknown_fields)]
    pub struct Push<'a> {
        /// Its queue, if the path does not name it; `default` by default.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<QueueName>))]
        #[serde(default, deserialize_with = "text::some")]
        pub queue: Option<Arc<str>>,
        /// The kind, which selects the handler; `default` by default.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<Kind>))]
        #[serde(default, deserialize_with = "text::some")]
        pub kind: Option<Arc<str>>,
        /// The payload, as JSON. Give this or `payload_base64`.
        #[cfg_attr(feature = "openapi", schema(value_type = Value))]
        #[serde(default, borrow, deserialize_with = "raw")]
        pub payload: Option<&'a RawValue>,
        /// The payload in base64, if it is not JSON.
        #[serde(default, borrow)]
        pub payload_base64: Option<Base64<'a>>,
        /// The delay from now: at most 10 years. Give at most one of four fields; by default the job is due at once.
        pub delay: Option<Span>,
        /// Alternative to `delay`.
        #[cfg_attr(feature = "openapi", schema(maximum = 315_576_000_000u64))]
        pub delay_ms: Option<u64>,
        /// Alternative to `delay`.
        pub due_at: Option<Timestamp>,
        /// Alternative to `delay`.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>, minimum = 100_000_000_000u64))]
        pub due_at_ms: Option<Millis>,
        /// The priority; 0 is the most urgent. 1024 by default.
        pub priority: Option<u32>,
        /// Its key, unique among the live jobs of its queue.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<Key>))]
        #[serde(default, deserialize_with = "text::some")]
        pub key: Option<Arc<str>>,
        /// The action if another live job has the key; `keep` by default.
        pub on_conflict: Option<OnConflict>,
        /// The state in which the job gives up its key; `finished` by default.
        pub key_until: Option<KeyUntil>,
        /// Makes the push repeatable: if the queue already has a job with this origin, in whatever state, that job is
        /// returned and none is added.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<Key>))]
        #[serde(default, deserialize_with = "text::some")]
        pub origin: Option<Arc<str>>,
        /// Its tags, each once.
        #[cfg_attr(feature = "openapi", schema(value_type = Vec<Tag>, max_items = 16))]
        #[serde(default, deserialize_with = "text::all", skip_serializing_if = "Vec::is_empty")]
        pub tags: Vec<Arc<str>>,
        /// The lease of this job: 1 s to 12 h.
        pub lease: Option<Span>,
        /// The time after its `due_at` within which the job must start; then it fails.
        pub expires: Option<Span>,
    } {}
}

impl Push<'_> {
    /// The job; for this queue if it names none.
    ///
    /// # Errors [`Error::Invalid`] if the payload is missing or given twice, or if several fields set the due time.
    pub fn into_job(self, queue: &Arc<str>) -> Result<NewJob, Error> {
        let mut job = self.into_job_alone(queue)?;
        complete_follow_ups(&mut job.options, &job.queue)?;
        Ok(job)
    }

    /// The same, with the jobs that follow it as they stand.
    pub(super) fn into_job_alone(self, queue: &Arc<str>) -> Result<NewJob, Error> {
        let options = self.options();
        let Push { queue: own, kind, payload, payload_base64, delay, delay_ms, due_at, due_at_ms, .. } = self;
        let Push { priority, key, on_conflict, key_until, origin, tags, lease, expires, .. } = self;
        let payload = bytes_of("payload", payload, payload_base64)?
            .ok_or_else(|| Error::invalid("payload", "given as `payload` or as `payload_base64`", "neither"))?;
        Ok(NewJob {
            queue: own.unwrap_or_else(|| queue.clone()),
            kind: kind.unwrap_or_else(|| Arc::from(name::KIND_DEFAULT)),
            payload,
            due: due(delay, delay_ms, due_at, due_at_ms)?.unwrap_or_default(),
            priority: priority.unwrap_or(PRIORITY_DEFAULT),
            key,
            on_conflict: on_conflict.unwrap_or_default(),
            key_until: key_until.unwrap_or(on_conflict.unwrap_or_default().key_until()),
            origin,
            tags,
            lease,
            expires,
            options,
        })
    }

    /// The name of a given field that says when the job is due.
    pub(super) fn due_field(&self) -> Option<&'static str> {
        let Push { delay, delay_ms, due_at, due_at_ms, .. } = self;
        first_given([
            ("delay", delay.is_some()),
            ("delay_ms", delay_ms.is_some()),
            ("due_at", due_at.is_some()),
            ("due_at_ms", due_at_ms.is_some()),
        ])
    }

    /// The name of a given field for which a row of the inbox has a column.
    fn of_column(&self) -> Option<&'static str> {
        let Push { queue, kind, payload, payload_base64, priority, key, tags, .. } = self;
        let of_column = first_given([
            ("queue", queue.is_some()),
            ("kind", kind.is_some()),
            ("payload", payload.is_some()),
            ("payload_base64", payload_base64.is_some()),
            ("priority", priority.is_some()),
            ("key", key.is_some()),
            ("tags", !tags.is_empty()),
        ]);
        of_column.or_else(|| self.due_field())
    }

    /// Applies the column `options` of an inbox row to its job.
    ///
    /// # Errors [`Invalid`] for a field that has its own column.
    pub fn apply_options(self, job: &mut NewJob) -> Result<(), Invalid> {
        if let Some(field) = self.of_column() {
            return Err(Invalid::new(field, "left out: the row has a column for it", format!("`{field}`")));
        }
        job.on_conflict = self.on_conflict.unwrap_or_default();
        job.key_until = self.key_until.unwrap_or(job.on_conflict.key_until());
        job.origin.clone_from(&self.origin);
        job.lease = self.lease;
        job.expires = self.expires;
        job.options = self.options();
        complete_follow_ups(&mut job.options, &job.queue).map_err(|error| match error {
            Error::Invalid(invalid) => invalid,
            other => Invalid::new("then", "a list of jobs", other),
        })
    }

    /// The value of the inbox's column `options` for a job.
    pub fn options_of(job: &NewJob) -> Push<'static> {
        let on_conflict = (job.on_conflict != OnConflict::default()).then_some(job.on_conflict);
        let key_until = (job.key_until != job.on_conflict.key_until()).then_some(job.key_until);
        let (lease, expires) = (job.lease, job.expires);
        let origin = job.origin.clone();
        Push { on_conflict, key_until, origin, lease, expires, ..Push::default() }.with_options(&job.options)
    }
}

impl<'a> From<&'a NewJob> for Push<'a> {
    fn from(job: &'a NewJob) -> Self {
        let NewJob { queue, kind, payload, due, priority, key, on_conflict, key_until, origin, .. } = job;
        let NewJob { tags, lease, expires, options, .. } = job;
        let (payload, payload_base64) = show_bytes(payload);
        let (delay_ms, due_at_ms) = show_due(*due);
        let push = Self {
            queue: Some(queue.clone()),
            kind: Some(kind.clone()),
            payload,
            payload_base64,
            delay_ms,
            due_at_ms,
            priority: Some(*priority),
            key: key.clone(),
            on_conflict: key.as_ref().map(|_| *on_conflict),
            key_until: key.as_ref().map(|_| *key_until),
            origin: origin.clone(),
            tags: tags.clone(),
            lease: *lease,
            expires: *expires,
            ..Self::default()
        };
        push.with_options(options)
    }
}

pub(super) fn first_given<const N: usize>(fields: [(&'static str, bool); N]) -> Option<&'static str> {
    fields.into_iter().find_map(|(name, is_given)| is_given.then_some(name))
}

/// The due time that the four fields give. What is wrong at any time is refused here, under the name that the caller used.
pub(super) fn due(
    delay: Option<Span>,
    delay_ms: Option<u64>,
    due_at: Option<Timestamp>,
    due_at_ms: Option<Millis>,
) -> Result<Option<Due>, Error> {
    if let Some(ms) = delay_ms.filter(|&ms| ms > DELAY_MS_MAX) {
        return Err(Error::invalid("delay_ms", format!("from 0 to {DELAY_MS_MAX} (10 years)"), ms));
    }
    if let Some(ms) = due_at_ms.filter(|ms| !(INSTANT_MS_MIN..INSTANT_MS_END).contains(ms)) {
        let unit = if ms < INSTANT_MS_MIN { "seconds" } else { "microseconds or nanoseconds" };
        let expected = format!("milliseconds since 1970, {INSTANT_MS_MIN} or more");
        return Err(Error::invalid("due_at_ms", expected, format!("{ms}, which looks like {unit}")));
    }
    let given = [
        ("delay", delay.map(Due::After)),
        ("delay_ms", delay_ms.map(|ms| Due::After(Span(ms)))),
        ("due_at", due_at.map(Due::At)),
        ("due_at_ms", due_at_ms.map(|ms| Due::At(Timestamp(ms)))),
    ];
    let mut given = given.into_iter().filter_map(|(name, due)| Some((name, due?)));
    match (given.next(), given.next()) {
        (Some((first, _)), Some((second, _))) => {
            let expected = "given by at most one of `delay`, `delay_ms`, `due_at` and `due_at_ms`";
            Err(Error::invalid("due_at", expected, format!("`{first}` and `{second}`")))
        }
        (due, _) => Ok(due.map(|(_, due)| due)),
    }
}

/// `delay_ms` and `due_at_ms`.
pub(super) fn show_due(due: Due) -> (Option<u64>, Option<Millis>) {
    match due {
        Due::Now => (None, None),
        Due::After(Span(delay_ms)) => (Some(delay_ms), None),
        Due::At(Timestamp(at)) => (None, Some(at)),
    }
}

/// The outcome of a push for one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Pushed {
    /// The id of the job: the new one, the one that has the key, or the one with this origin. There is no job with the id of one
    /// that was dropped.
    pub id: JobId,
    /// Its queue.
    #[cfg_attr(feature = "openapi", schema(value_type = QueueName))]
    pub queue: Arc<str>,
    /// Its state.
    pub state: State,
    /// The due time in milliseconds since 1970.
    pub due_at: Timestamp,
    /// The outcome of the push.
    pub outcome: PushOutcome,
}

impl Pushed {
    /// The body of a push at `now`.
    #[doc(hidden)]
    pub fn new(pushed: &request::Pushed, now: Millis) -> Self {
        let job = &pushed.job;
        Self {
            id: job.id,
            queue: job.queue.clone(),
            // A dropped job will not run.
            state: if pushed.outcome == PushOutcome::Dropped { State::Cancelled } else { job.state(now) },
            due_at: job.due_at,
            outcome: pushed.outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{JobOptions, Meta, Retry, Target};

    #[test]
    fn what_the_inbox_says_of_a_job_comes_back() {
        let job = NewJob {
            on_conflict: OnConflict::Replace,
            key_until: KeyUntil::Started,
            lease: Some(Span(90_000)),
            expires: Some(Span(1_500)),
            options: JobOptions {
                target: Some(Arc::new(Target::Queue("mail".into()))),
                trace: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into()),
                meta: Some(Arc::new(Meta::from_iter([("tenant", "7")]))),
                retry: Retry { max_attempts: Some(3), max_age: Some(Span(60_000)), ..Retry::default() },
                ..JobOptions::default()
            },
            ..NewJob::new(*b"payload")
        };
        let text = serde_json::to_string(&Push::options_of(&job)).unwrap();
        assert_eq!(
            text,
            concat!(
                r#"{"on_conflict":"replace","key_until":"started","lease":"1m30s","expires":"1s500ms","#,
                r#""max_attempts":3,"max_age":"1m","target":{"queue":"mail"},"#,
                r#""trace":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","meta":{"tenant":"7"}}"#
            )
        );
        let mut back = NewJob::new(*b"payload");
        serde_json::from_str::<Push<'_>>(&text).unwrap().apply_options(&mut back).unwrap();
        assert_eq!(back, job);
        assert_eq!(serde_json::to_string(&Push::options_of(&NewJob::new(*b"payload"))).unwrap(), "{}");
    }

    #[test]
    fn what_has_a_column_is_refused() {
        for (field, value) in [("key", "\"k\""), ("delay", "\"5s\""), ("payload", "null"), ("tags", "[\"a\"]")] {
            let text = format!("{{\"{field}\":{value}}}");
            let push: Push<'_> = serde_json::from_str(&text).unwrap();
            let error = push.apply_options(&mut NewJob::new(*b"")).unwrap_err().to_string();
            assert!(error.contains(&format!("`{field}` must be left out")), "{text}: {error}");
        }
    }
}
