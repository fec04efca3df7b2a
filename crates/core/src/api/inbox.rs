//! The column `options` of the inbox: what a push may say and no column says.

use super::Span;
use crate::job::{KeyUntil, NewJob, OnConflict};
use crate::options::JobOptions;
use crate::retry::{Backoff, Retry, WhenExhausted};
use crate::target::Target;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The fields of a push that have no column of their own, as in the body of a push over HTTP.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InboxOptions {
    /// What to do where the key is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_conflict: Option<OnConflict>,
    /// Until when it holds the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_until: Option<KeyUntil>,
    /// Its own lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<Span>,
    /// Its own backoff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Backoff>,
    /// Attempts in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// No attempt begins later than this after the first `due_at`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age: Option<Span>,
    /// Crashes that fail it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_crashes: Option<u32>,
    /// What becomes of it in the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when_exhausted: Option<WhenExhausted>,
    /// How long after its `due_at` it may still start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<Span>,
    /// Where it is delivered in place of its queue's target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Arc<Target>>,
    /// A W3C `traceparent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Arc<str>>,
}

impl InboxOptions {
    /// Says it of a job.
    pub fn apply(self, job: &mut NewJob) {
        let retry = Retry {
            backoff: self.retry,
            max_attempts: self.max_attempts,
            max_age: self.max_age,
            max_crashes: self.max_crashes,
            when_exhausted: self.when_exhausted,
        };
        job.on_conflict = self.on_conflict.unwrap_or_default();
        job.key_until = self.key_until.unwrap_or_default();
        job.lease_ms = self.lease.map(|span| span.0);
        job.expires_ms = self.expires.map(|span| span.0);
        job.options = JobOptions { retry, target: self.target, trace: self.trace, moves: 0 };
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl From<&NewJob> for InboxOptions {
    fn from(job: &NewJob) -> Self {
        let JobOptions { retry, target, trace, moves: _ } = job.options.clone();
        Self {
            on_conflict: (job.on_conflict != OnConflict::default()).then_some(job.on_conflict),
            key_until: (job.key_until != KeyUntil::default()).then_some(job.key_until),
            lease: job.lease_ms.map(Span),
            retry: retry.backoff,
            max_attempts: retry.max_attempts,
            max_age: retry.max_age,
            max_crashes: retry.max_crashes,
            when_exhausted: retry.when_exhausted,
            expires: job.expires_ms.map(Span),
            target,
            trace,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_job_comes_back() {
        let job = NewJob {
            on_conflict: OnConflict::Replace,
            key_until: KeyUntil::Started,
            lease_ms: Some(90_000),
            expires_ms: Some(1_500),
            options: JobOptions {
                target: Some(Arc::new(Target::Queue("mail".into()))),
                trace: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into()),
                retry: Retry { max_attempts: Some(3), max_age: Some(Span(60_000)), ..Retry::default() },
                moves: 0,
            },
            ..NewJob::new(*b"payload")
        };
        let text = serde_json::to_string(&InboxOptions::from(&job)).unwrap();
        assert_eq!(
            text,
            concat!(
                r#"{"on_conflict":"replace","key_until":"started","lease":"1m30s","max_attempts":3,"max_age":"1m","#,
                r#""expires":"1s500ms","target":{"queue":"mail"},"#,
                r#""trace":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}"#
            )
        );
        let mut back = NewJob::new(*b"payload");
        serde_json::from_str::<InboxOptions>(&text).unwrap().apply(&mut back);
        assert_eq!(back, job);
        assert!(InboxOptions::from(&NewJob::new(*b"payload")).is_empty());
    }

    #[test]
    fn what_has_a_column_or_is_unknown_is_refused() {
        for (text, why) in [
            (r#"{"key":"k"}"#, "unknown field `key`"),
            (r#"{"delay":"5s"}"#, "unknown field `delay`"),
            (r#"{"lease":60}"#, "expected a duration"),
            (r#"{"on_conflict":"merge"}"#, "unknown variant `merge`"),
        ] {
            let error = serde_json::from_str::<InboxOptions>(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
