//! The jobs of the demo.

use duetime_core::api::Span;
use duetime_core::{Backoff, Due, NewJob, Retry};
use std::sync::Arc;
use std::time::Duration;

/// Their queue.
pub(super) const QUEUE: &str = "demo";
/// The one that is cancelled before it is due.
pub(super) const CANCELLED: &str = "order.cancel";
/// The one that fails at first.
pub(super) const FLAKY: &str = "merchant.notify";
/// The wait before its second attempt.
const RETRY: Duration = Duration::from_millis(1_500);

/// A job of the demo.
pub(super) struct Demo {
    pub(super) kind: &'static str,
    payload: &'static str,
    delay_ms: u64,
}

/// A dozen, in no order.
pub(super) const JOBS: [Demo; 12] = [
    Demo { kind: "mail.welcome", payload: r#"{"to":"ada@example.com"}"#, delay_ms: 500 },
    Demo { kind: CANCELLED, payload: r#"{"order":4711}"#, delay_ms: 2_400 },
    Demo { kind: "habit.remind", payload: r#"{"plan":"run"}"#, delay_ms: 4_750 },
    Demo { kind: FLAKY, payload: r#"{"payment":17}"#, delay_ms: 1_000 },
    Demo { kind: "cache.expire", payload: r#""front page""#, delay_ms: 250 },
    Demo { kind: "report.nightly", payload: r#"{"day":"today"}"#, delay_ms: 3_333 },
    Demo { kind: "goods.confirm", payload: r#"{"order":4712}"#, delay_ms: 2_000 },
    Demo { kind: "refund.grant", payload: r#"{"order":4713}"#, delay_ms: 2_000 },
    Demo { kind: "review.default", payload: r#"{"stars":5}"#, delay_ms: 1_500 },
    Demo { kind: "trial.end", payload: r#"{"account":8}"#, delay_ms: 3_000 },
    Demo { kind: "lock.sweep", payload: "null", delay_ms: 4_000 },
    Demo { kind: "invoice.dun", payload: r#"{"invoice":99}"#, delay_ms: 5_000 },
];

impl Demo {
    pub(super) fn job(&self) -> NewJob {
        NewJob {
            queue: Arc::from(QUEUE),
            kind: Arc::from(self.kind),
            due: Due::After(Span(self.delay_ms)),
            options: Retry { backoff: Some(Backoff::fixed(RETRY)), ..Retry::default() }.into(),
            ..NewJob::new(self.payload.as_bytes())
        }
    }
}
