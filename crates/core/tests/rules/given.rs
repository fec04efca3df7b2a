//! Rules and jobs of any kind.

use duetime_core::api::Span;
use duetime_core::json::Timestamp;
use duetime_core::limits::DELAY_MS_MAX;
use duetime_core::model::retry::{Backoff, Exponential, Fixed, Retry, WhenExhausted};
use duetime_core::testing::fixtures::{T0, job};
use duetime_core::{Job, JobId};
use proptest::prelude::*;

/// Retry rules within the limits.
pub(super) fn retries() -> impl Strategy<Value = Retry> {
    let wait = || prop_oneof![Just(0), Just(DELAY_MS_MAX), 0..DELAY_MS_MAX, 0..100_000_u64];
    let exponential = (wait(), 1.0..=100.0, wait(), 0.0..=1.0).prop_map(|(first, factor, max, jitter)| {
        Backoff::Exponential(Exponential { first: Span(first), factor, max: Span(max), jitter })
    });
    let backoff = prop_oneof![
        Just(Backoff::Default),
        Just(Backoff::None),
        prop::collection::vec(wait().prop_map(Span), 1..100).prop_map(Backoff::Steps),
        wait().prop_map(|delay| Backoff::Fixed(Fixed { delay: Span(delay) })),
        exponential,
    ];
    let when = prop_oneof![
        Just(WhenExhausted::Keep),
        Just(WhenExhausted::Drop),
        Just(WhenExhausted::Restart),
        Just(WhenExhausted::Move("dead".into())),
    ];
    use prop::option::of as some;
    (some(backoff), some(0.0..=1.0), some(any::<u32>()), some(wait()), some(1..=u32::MAX), some(when)).prop_map(
        |(backoff, jitter, max_attempts, max_age, max_crashes, when_exhausted)| Retry {
            backoff,
            jitter,
            max_attempts,
            max_age: max_age.map(Span),
            max_crashes,
            when_exhausted,
        },
    )
}

/// A running job with numbers of any size.
pub(super) fn running() -> impl Strategy<Value = Job> {
    let number = || prop_oneof![0..10_u64, T0 - 10..T0 + 10, (i64::MAX as u64 - 10)..=i64::MAX as u64, Just(u64::MAX)];
    let count = || prop_oneof![0..20_u32, any::<u32>(), Just(u32::MAX)];
    (1..1_u64 << 53, number(), number(), count(), count(), any::<bool>(), 0..=i64::MAX as u64).prop_map(
        |(id, due_at, first_due_at, attempt, crashes, cancel_asked, version)| Job {
            id: JobId::new(id).unwrap(),
            due_at: Timestamp(due_at),
            first_due_at: Timestamp(first_due_at),
            attempt,
            crashes,
            cancel_asked,
            version,
            epoch: version,
            lease_until: Some(Timestamp(T0)),
            started_at: Some(Timestamp(T0)),
            ..job(1)
        },
    )
}
