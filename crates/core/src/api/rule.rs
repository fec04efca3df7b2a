//! Retry rules: `"default"`, `"none"`, `{"steps": […]}`, `{"fixed": {…}}`, `{"exponential": {…}}`, and what goes with
//! them.

use super::{Object, Span};
use crate::retry::{self, Retry, WhenExhausted};
use serde::{Deserialize, Serialize};

/// How long to wait before each new attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backoff {
    /// The default steps.
    Default,
    /// No second attempt.
    None,
    /// One wait after the other.
    Steps(Vec<Span>),
    /// Always the same wait.
    Fixed(Object<Fixed>),
    /// Growing waits.
    Exponential(Object<Exponential>),
}

/// Always the same wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Fixed {
    /// The wait.
    pub delay: Span,
}

/// Growing waits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Exponential {
    /// The first wait.
    pub first: Span,
    /// From one wait to the next.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 100))]
    pub factor: f64,
    /// The longest wait.
    pub max: Span,
    /// Share of the wait by which it varies.
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 1))]
    pub jitter: f64,
}

impl From<Backoff> for retry::Backoff {
    fn from(backoff: Backoff) -> Self {
        match backoff {
            Backoff::Default => Self::Default,
            Backoff::None => Self::None,
            Backoff::Steps(steps) => Self::Steps(steps.into_iter().map(|step| step.0).collect()),
            Backoff::Fixed(Object(fixed)) => Self::Fixed { delay_ms: fixed.delay.0 },
            Backoff::Exponential(Object(Exponential { first, factor, max, jitter })) => {
                Self::Exponential { first_ms: first.0, factor, max_ms: max.0, jitter }
            }
        }
    }
}

impl From<&retry::Backoff> for Backoff {
    fn from(backoff: &retry::Backoff) -> Self {
        match *backoff {
            retry::Backoff::Default => Self::Default,
            retry::Backoff::None => Self::None,
            retry::Backoff::Steps(ref steps) => Self::Steps(steps.iter().map(|&step| Span(step)).collect()),
            retry::Backoff::Fixed { delay_ms } => Self::Fixed(Object(Fixed { delay: Span(delay_ms) })),
            retry::Backoff::Exponential { first_ms, factor, max_ms, jitter } => {
                Self::Exponential(Object(Exponential { first: Span(first_ms), factor, max: Span(max_ms), jitter }))
            }
        }
    }
}

/// The fields of a retry rule, which stand beside each other in a job and in a queue's settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// `retry`.
    pub retry: Option<Backoff>,
    /// `max_attempts`.
    pub max_attempts: Option<u32>,
    /// `max_age`.
    pub max_age: Option<Span>,
    /// `max_crashes`.
    pub max_crashes: Option<u32>,
    /// `when_exhausted`.
    pub when_exhausted: Option<WhenExhausted>,
}

impl From<&Retry> for Rule {
    fn from(retry: &Retry) -> Self {
        Self {
            retry: retry.backoff.as_ref().map(Backoff::from),
            max_attempts: retry.max_attempts,
            max_age: retry.max_age_ms.map(Span),
            max_crashes: retry.max_crashes,
            when_exhausted: retry.when_exhausted.clone(),
        }
    }
}

impl From<Rule> for Retry {
    fn from(rule: Rule) -> Self {
        Self {
            backoff: rule.retry.map(retry::Backoff::from),
            max_attempts: rule.max_attempts,
            max_age_ms: rule.max_age.map(|span| span.0),
            max_crashes: rule.max_crashes,
            when_exhausted: rule.when_exhausted,
        }
    }
}

impl Rule {
    /// The rule, where it says anything.
    pub fn into_own(self) -> Option<Retry> {
        let retry = Retry::from(self);
        (retry != Retry::default()).then_some(retry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_reads_and_prints() {
        for text in [
            r#""default""#,
            r#""none""#,
            r#"{"steps":["15s","15s","30s"]}"#,
            r#"{"fixed":{"delay":"5s"}}"#,
            r#"{"exponential":{"first":"1s","factor":2.0,"max":"1h","jitter":0.1}}"#,
        ] {
            let backoff: Backoff = serde_json::from_str(text).unwrap();
            let back = Backoff::from(&retry::Backoff::from(backoff));
            assert_eq!(serde_json::to_string(&back).unwrap(), text);
        }
    }

    #[test]
    fn other_forms_are_refused() {
        for (text, why) in [
            (r#""never""#, "unknown variant `never`"),
            (r#"{"steps":[15]}"#, "expected a duration"),
            (r#"{"fixed":{"delay":"5s","max":"6s"}}"#, "unknown field `max`"),
            (r#"{"fixed":["5s"]}"#, "expected an object"),
            (r#"{"exponential":{"first":"1s"}}"#, "missing field `factor`"),
            (r#"{"fixed":{"delay":"5s"},"steps":[]}"#, ""),
        ] {
            let error = serde_json::from_str::<Backoff>(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
