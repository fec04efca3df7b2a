//! Retry rules of jobs and queues, and the defaults. [`crate::rules`] decides with them.

use super::name;
use crate::invalid::Invalid;
use crate::json::{Span, object};
use crate::limits::{CRASHES_MAX_DEFAULT, DELAY_MS_MAX, HOUR_MS, MINUTE_MS, RETRY_STEPS_MAX, SECOND_MS};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// The default steps: 15 s, 15 s, 30 s, 3 min, 10 min, 20 min, 3 × 30 min, 60 min, 3 × 3 h, 2 × 6 h; the schedule by
/// which payment services notify merchants.
pub const DEFAULT_STEPS_MS: [u64; 15] = [
    15 * SECOND_MS,
    15 * SECOND_MS,
    30 * SECOND_MS,
    3 * MINUTE_MS,
    10 * MINUTE_MS,
    20 * MINUTE_MS,
    30 * MINUTE_MS,
    30 * MINUTE_MS,
    30 * MINUTE_MS,
    60 * MINUTE_MS,
    3 * HOUR_MS,
    3 * HOUR_MS,
    3 * HOUR_MS,
    6 * HOUR_MS,
    6 * HOUR_MS,
];

/// By what part of it a wait is longer at most, by default: a tenth.
pub const JITTER_DEFAULT: f64 = 0.1;

/// The waits before new attempts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum Backoff {
    /// [`DEFAULT_STEPS_MS`].
    Default,
    /// No second attempt.
    None,
    /// The n-th failure waits for the n-th step; further failures for the last one.
    Steps(Vec<Span>),
    /// Always the same wait.
    Fixed(#[serde(deserialize_with = "object")] Fixed),
    /// Growing waits.
    Exponential(#[serde(deserialize_with = "object")] Exponential),
}

impl Backoff {
    /// One wait after the other, in whole milliseconds.
    pub fn steps(waits: impl IntoIterator<Item = Duration>) -> Self {
        Self::Steps(waits.into_iter().map(Span::from).collect())
    }

    /// Always the same wait, in whole milliseconds.
    pub fn fixed(delay: Duration) -> Self {
        Self::Fixed(Fixed { delay: delay.into() })
    }

    /// Waits that double, from the first one to the longest, with a tenth of jitter.
    pub fn exponential(first: Duration, max: Duration) -> Self {
        Self::Exponential(Exponential::new(first, max))
    }
}

/// Always the same wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Fixed {
    /// The wait.
    pub delay: Span,
}

/// Growing waits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Exponential {
    /// The first wait.
    pub first: Span,
    /// The factor between two waits.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 100))]
    pub factor: f64,
    /// The longest wait.
    pub max: Span,
    /// Instead of that of the rule: each wait is longer by up to this part of it; by default 0.1.
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 1))]
    #[serde(default = "jitter_default")]
    pub jitter: f64,
}

impl Exponential {
    /// Waits that double, from the first one to the longest, with a tenth of jitter.
    pub fn new(first: impl Into<Span>, max: impl Into<Span>) -> Self {
        Self { first: first.into(), factor: 2.0, max: max.into(), jitter: 0.1 }
    }

    /// Sets the factor between two waits: 1 to 100.
    #[must_use]
    pub fn factor(self, factor: f64) -> Self {
        Self { factor, ..self }
    }

    /// Sets by what part of it a wait is longer at most, from 0 to 1; by default 0.1.
    #[must_use]
    pub fn jitter(self, jitter: f64) -> Self {
        Self { jitter, ..self }
    }
}

impl From<Exponential> for Backoff {
    fn from(waits: Exponential) -> Self {
        Self::Exponential(waits)
    }
}

/// The action taken when a job's attempts are used up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum WhenExhausted {
    /// It is kept, failed, for inspection: a dead letter.
    Keep,
    /// It is removed with its record.
    Drop,
    /// It starts over with attempt 0, after the first wait of its backoff.
    Restart,
    /// It is kept as failed, and a copy starts in this queue.
    Move(Arc<str>),
}

/// A retry rule. Unset parts come from the queue's rule, then from the default.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Retry {
    /// The waits between attempts; by default [`Backoff::Default`].
    #[serde(rename = "retry")]
    pub backoff: Option<Backoff>,
    /// Each wait is longer by up to this part of it, from 0 to 1, so that jobs that failed together do not come back together; by
    /// default [`JITTER_DEFAULT`]. It is never shorter: a wait is often the least that the other side asks for.
    pub jitter: Option<f64>,
    /// The maximum number of attempts, 0 for no limit; by default one more than there are steps (16 with the default steps),
    /// and 16 without steps.
    pub max_attempts: Option<u32>,
    /// No attempt begins later than this after the first `due_at`; by default no limit.
    pub max_age: Option<Span>,
    /// The lease that ends unsettled for this many-th time fails the job; by default 5.
    pub max_crashes: Option<u32>,
    /// The action taken in the end; by default the job is kept.
    pub when_exhausted: Option<WhenExhausted>,
}

/// The parts of a [`Retry`], as they are called in JSON.
pub(crate) const PARTS: [&str; 6] = ["retry", "jitter", "max_attempts", "max_age", "max_crashes", "when_exhausted"];

/// Declares a struct with the fields of a [`Retry`] between its own, as they stand in JSON.
macro_rules! with_rule {
    (
        $(#[$meta:meta])*
        pub struct $name:ident $(<$life:lifetime>)? { $($before:tt)* } { $($after:tt)* }
    ) => {
        $(#[$meta])*
        pub struct $name $(<$life>)? {
            $($before)*
            /// The waits before new attempts.
            pub retry: Option<$crate::model::retry::Backoff>,
            /// Each wait is longer by up to this part of it, so that jobs that failed together do not come back together; 0.1 by
            /// default, 0 for exact waits.
            #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 1))]
            pub jitter: Option<f64>,
            /// Attempts in all; 0 for no limit.
            pub max_attempts: Option<u32>,
            /// No attempt begins later than this after the first `due_at`.
            pub max_age: Option<$crate::json::Span>,
            /// Crashes that fail the job; by default 5.
            #[cfg_attr(feature = "openapi", schema(minimum = 1))]
            pub max_crashes: Option<u32>,
            /// The end of a job that has used up its attempts: it is kept as failed (`keep`, the default), removed (`drop`),
            /// started over (`restart`), or kept as failed while a copy starts in another queue (`{"move": "QUEUE"}`).
            pub when_exhausted: Option<$crate::model::retry::WhenExhausted>,
            $($after)*
        }

        impl $(<$life>)? $name $(<$life>)? {
            /// Its retry rule.
            pub fn rule(&self) -> $crate::model::retry::Retry {
                $crate::model::retry::Retry {
                    backoff: self.retry.clone(),
                    jitter: self.jitter,
                    max_attempts: self.max_attempts,
                    max_age: self.max_age,
                    max_crashes: self.max_crashes,
                    when_exhausted: self.when_exhausted.clone(),
                }
            }

            /// The same with this retry rule.
            #[must_use]
            pub fn with_rule(self, rule: $crate::model::retry::Retry) -> Self {
                let $crate::model::retry::Retry { backoff, jitter, max_attempts, max_age, max_crashes, when_exhausted } = rule;
                Self { retry: backoff, jitter, max_attempts, max_age, max_crashes, when_exhausted, ..self }
            }
        }
    };
}
pub(crate) use with_rule;

/// A literal of such a struct: its own fields, and an inherited rule.
macro_rules! without_rule {
    ($name:ident { $($own:tt)* }) => {
        $name {
            retry: None,
            jitter: None,
            max_attempts: None,
            max_age: None,
            max_crashes: None,
            when_exhausted: None,
            $($own)*
        }
    };
}
pub(crate) use without_rule;

impl Retry {
    /// Takes everything from the queue's rule.
    pub const INHERITED: Self = Self {
        backoff: None,
        jitter: None,
        max_attempts: None,
        max_age: None,
        max_crashes: None,
        when_exhausted: None,
    };

    /// Sets the waits between attempts.
    #[must_use]
    pub fn backoff(self, backoff: Backoff) -> Self {
        Self { backoff: Some(backoff), ..self }
    }

    /// Sets by what part of it a wait is longer at most, from 0 to 1; by default 0.1. Each wait has its own part, by the job's id and
    /// the attempt.
    #[must_use]
    pub const fn jitter(mut self, jitter: f64) -> Self {
        self.jitter = Some(jitter);
        self
    }

    /// Sets the maximum number of attempts; 0 for no limit.
    #[must_use]
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// Sets how long after the first `due_at` an attempt may begin; by default no limit.
    #[must_use]
    pub fn max_age(self, age: impl Into<Span>) -> Self {
        Self { max_age: Some(age.into()), ..self }
    }

    /// Sets how many leases may expire; by default 5.
    #[must_use]
    pub const fn max_crashes(mut self, crashes: u32) -> Self {
        self.max_crashes = Some(crashes);
        self
    }

    /// Sets what becomes of the job in the end; by default it is kept.
    #[must_use]
    pub fn when_exhausted(self, end: WhenExhausted) -> Self {
        Self { when_exhausted: Some(end), ..self }
    }

    /// This rule, with unset parts filled from `other`. A rule with its own backoff does not take `max_attempts` from
    /// another rule, because it was meant for another backoff; and one with its own exponential backoff, which has a jitter, does not take
    /// that.
    pub fn or(&self, other: &Self) -> Self {
        Self {
            backoff: self.backoff.clone().or_else(|| other.backoff.clone()),
            jitter: match (&self.backoff, self.jitter) {
                (Some(Backoff::Exponential(_)), None) => None,
                (_, own) => own.or(other.jitter),
            },
            max_attempts: match (&self.backoff, self.max_attempts) {
                (None, None) => other.max_attempts,
                (_, own) => own,
            },
            max_age: self.max_age.or(other.max_age),
            max_crashes: self.max_crashes.or(other.max_crashes),
            when_exhausted: self.when_exhausted.clone().or_else(|| other.when_exhausted.clone()),
        }
    }

    /// Attempts in all; `None` for no limit.
    pub fn attempts(&self) -> Option<u32> {
        match (self.max_attempts, &self.backoff) {
            (Some(0), _) => None,
            (Some(count), _) => Some(count),
            (None, Some(Backoff::None)) => Some(1),
            (None, Some(Backoff::Steps(steps))) => {
                Some(u32::try_from(steps.len()).unwrap_or(u32::MAX).saturating_add(1))
            }
            (None, _) => Some(u32::try_from(DEFAULT_STEPS_MS.len()).unwrap_or(u32::MAX) + 1),
        }
    }

    /// By what part of it a wait is longer at most: the jitter that holds, by default 0.1.
    pub fn spread(&self) -> f64 {
        self.jitter.unwrap_or(match &self.backoff {
            Some(Backoff::Exponential(Exponential { jitter, .. })) => *jitter,
            _ => JITTER_DEFAULT,
        })
    }

    /// Crashes that fail the job.
    pub fn crashes(&self) -> u32 {
        self.max_crashes.unwrap_or(CRASHES_MAX_DEFAULT)
    }

    /// Whether every part keeps its limits, as the rule of this queue or of a job in it.
    ///
    /// # Errors
    /// [`Invalid`], naming the part.
    #[doc(hidden)]
    pub fn check(&self, queue: &str) -> Result<(), Invalid> {
        match &self.backoff {
            None | Some(Backoff::Default | Backoff::None) => {}
            Some(Backoff::Steps(steps)) => {
                if steps.is_empty() || steps.len() > RETRY_STEPS_MAX {
                    let expected = format!("between 1 and {RETRY_STEPS_MAX} steps");
                    return Err(Invalid::new("retry.steps", expected, steps.len()));
                }
                for &step in steps {
                    wait("retry.steps", step)?;
                }
            }
            Some(Backoff::Fixed(fixed)) => wait("retry.fixed.delay", fixed.delay)?,
            Some(Backoff::Exponential(Exponential { first, factor, max, jitter })) => {
                wait("retry.exponential.first", *first)?;
                wait("retry.exponential.max", *max)?;
                within("retry.exponential.factor", *factor, 1.0, 100.0)?;
                within("retry.exponential.jitter", *jitter, 0.0, 1.0)?;
            }
        }
        if let Some(jitter) = self.jitter {
            within("jitter", jitter, 0.0, 1.0)?;
        }
        if let Some(max_age) = self.max_age {
            wait("max_age", max_age)?;
        }
        if self.max_crashes == Some(0) {
            return Err(Invalid::new("max_crashes", "1 or more", 0));
        }
        if let Some(WhenExhausted::Move(other)) = &self.when_exhausted {
            name::check_queue(other)?;
            if **other == *queue {
                let got = format!("{other:?}, the queue itself (to start over in it, use \"restart\")");
                return Err(Invalid::new("when_exhausted.move", "another queue", got));
            }
        }
        Ok(())
    }
}

fn jitter_default() -> f64 {
    JITTER_DEFAULT
}

fn wait(what: &'static str, wait: Span) -> Result<(), Invalid> {
    wait.check(what, 0, DELAY_MS_MAX)
}

fn within(what: &'static str, number: f64, low: f64, high: f64) -> Result<(), Invalid> {
    if (low..=high).contains(&number) {
        Ok(())
    } else {
        Err(Invalid::new(what, format!("between {low} and {high}"), number))
    }
}
