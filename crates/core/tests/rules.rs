//! The rules: tables of decisions, and properties that hold for all inputs.

mod given;
mod releases;

use duetime_core::api::Span;
use duetime_core::json::Timestamp;
use duetime_core::limits::{DAY_MS, DELAY_MS_MAX, ERRORS_BYTES_MAX, HOUR_MS, MESSAGE_BYTES_MAX, MINUTE_MS, SECOND_MS};
use duetime_core::model::retry::{Backoff, DEFAULT_STEPS_MS, Exponential, Fixed, Retry, WhenExhausted};
use duetime_core::rules::{
    self, Again, Decision, Failure, Finish, Release, after_crash, after_expiry, after_failure, after_release,
};
use duetime_core::testing::fixtures::{T0, id, job};
use duetime_core::{AttemptError, Job, Millis, Numbers, Stage};
use given::{retries, running};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

const NUMBERS: Numbers = Numbers::Generation(1);

/// A job on its n-th attempt, which began at its due time.
fn attempt(attempt: u32) -> Job {
    Job { attempt, epoch: 7, lease_until: Some(Timestamp(T0 + MINUTE_MS)), started_at: Some(Timestamp(T0)), ..job(1) }
}

fn failed(message: &str) -> Failure {
    Failure { message: message.into(), ..Failure::default() }
}

fn fails(job: &Job, retry: &Retry, now: Millis) -> Decision {
    after_failure(job, retry, &failed("no"), now, Some(id(99)))
}

#[track_caller]
fn again(decision: Decision) -> Again {
    match decision {
        Decision::Again(again) => again,
        other => panic!("expected another attempt, got {other:?}"),
    }
}

#[track_caller]
fn finish(decision: Decision) -> Finish {
    match decision {
        Decision::Finish(finish) => finish,
        other => panic!("expected an end, got {other:?}"),
    }
}

fn backoff(backoff: Backoff) -> Retry {
    Retry { backoff: Some(backoff), ..Retry::default() }
}

/// The waits after each failure until the end, at most `count`.
fn waits(retry: &Retry, count: usize) -> Vec<u64> {
    let retry = Retry { jitter: Some(0.0), ..retry.clone() };
    let decisions = (1..).take(count).map(|n| fails(&attempt(n), &retry, T0));
    decisions.map_while(|d| if let Decision::Again(a) = d { Some(a.due_at - T0) } else { None }).collect()
}

#[test]
fn the_default_rule_makes_sixteen_attempts_over_two_days() {
    let waits = waits(&Retry::default(), 100);
    assert_eq!(waits, DEFAULT_STEPS_MS);
    let minutes = [0.25, 0.25, 0.5, 3.0, 10.0, 20.0, 30.0, 30.0, 30.0, 60.0, 180.0, 180.0, 180.0, 360.0, 360.0];
    assert_eq!(waits, minutes.map(|m| (m * MINUTE_MS as f64) as u64));
    let last = finish(fails(&attempt(16), &Retry::default(), T0));
    assert_eq!((last.stage, last.drop, last.successors), (Stage::Failed, false, vec![]));
}

#[test]
fn waits_follow_the_backoff() {
    let table: [(Retry, Vec<u64>); 8] = [
        (backoff(Backoff::None), vec![]),
        (backoff(Backoff::Fixed(Fixed { delay: Span(5) })), vec![5; 15]),
        (backoff(Backoff::Steps(vec![Span(1), Span(2), Span(3)])), vec![1, 2, 3]),
        (Retry { max_attempts: Some(6), ..backoff(Backoff::Steps(vec![Span(1), Span(2)])) }, vec![1, 2, 2, 2, 2]),
        (Retry { max_attempts: Some(2), ..backoff(Backoff::Steps(vec![Span(1), Span(2), Span(3)])) }, vec![1]),
        (Retry { max_attempts: Some(1), ..Retry::default() }, vec![]),
        (Retry { max_attempts: Some(18), ..Retry::default() }, [&DEFAULT_STEPS_MS[..], &[6 * HOUR_MS; 2]].concat()),
        (
            Retry {
                max_attempts: Some(7),
                ..backoff(Backoff::Exponential(Exponential {
                    first: Span(100),
                    factor: 2.0,
                    max: Span(1_500),
                    jitter: 0.0,
                }))
            },
            vec![100, 200, 400, 800, 1_500, 1_500],
        ),
    ];
    for (retry, expected) in table {
        retry.check("q").unwrap();
        assert_eq!(waits(&retry, 100), expected, "{retry:?}");
    }
}

#[test]
fn without_a_limit_there_is_always_another_attempt() {
    let retry = Retry { max_attempts: Some(0), ..backoff(Backoff::Fixed(Fixed { delay: Span(5) })) };
    for n in [1, 16, 1_000_000, u32::MAX] {
        assert_eq!(again(fails(&attempt(n), &retry, T0)).due_at, T0 + 5);
    }
}

/// `0 × ∞` is not a number, and the least of that and the longest wait is the longest wait.
#[test]
fn an_exponential_wait_that_begins_with_nothing_stays_nothing() {
    let retry = Retry {
        max_attempts: Some(0),
        ..backoff(Backoff::Exponential(Exponential { first: Span(0), factor: 100.0, max: Span(HOUR_MS), jitter: 0.5 }))
    };
    for n in [1, 2, 154, 156, 10_000, u32::MAX] {
        assert_eq!(again(fails(&attempt(n), &retry, T0)).due_at, T0, "attempt {n}");
    }
}

/// Jobs that fail together do not come back together, and none comes back before its rule says.
#[test]
fn jitter_makes_waits_longer_within_its_bounds_and_never_shorter() {
    let exponential = |jitter| Exponential { first: Span(1_000), factor: 1.0, max: Span(1_000), jitter };
    let rule = |backoff: &Backoff, jitter| Retry { jitter, ..self::backoff(backoff.clone()) };
    let waits = |retry: &Retry| {
        let of = |n| again(fails(&Job { id: id(n), ..attempt(1) }, retry, T0)).due_at - T0;
        (1..=10_000).map(of).collect::<Vec<_>>()
    };
    for (backoff, wait_ms, most) in [
        (Backoff::Default, 15_000, 0.1),
        (Backoff::Fixed(Fixed { delay: Span(1_000) }), 1_000, 0.1),
        (Backoff::Steps(vec![Span(2_000)]), 2_000, 0.1),
        (Backoff::Exponential(exponential(0.25)), 1_000, 0.25),
    ] {
        assert!(waits(&rule(&backoff, Some(0.0))).iter().all(|&ms| ms == wait_ms), "{backoff:?}: off");
        for (jitter, most) in [(None, most), (Some(0.5), 0.5)] {
            let spread = waits(&rule(&backoff, jitter));
            let part = |part: f64| wait_ms + (wait_ms as f64 * most * part) as u64;
            assert!(spread.iter().all(|ms| (wait_ms..=part(1.0)).contains(ms)), "{backoff:?} {jitter:?}");
            let (least, longest) = (*spread.iter().min().unwrap(), *spread.iter().max().unwrap());
            assert!(least <= part(0.04) && longest >= part(0.96), "{backoff:?} {jitter:?}: {least} to {longest}");
            let mean = spread.iter().sum::<u64>() / 10_000;
            assert!((part(0.47)..=part(0.53)).contains(&mean), "{backoff:?} {jitter:?}: {mean}");
            assert_eq!(spread, waits(&rule(&backoff, jitter)), "asked twice, the answer is the same");
        }
    }
    let twice = rule(&Backoff::Steps(vec![Span(60_000), Span(60_000)]), None);
    let of = |n| again(fails(&attempt(n), &twice, T0)).due_at;
    assert_ne!(of(1), of(2), "each attempt has another");
    assert_eq!(waits(&rule(&Backoff::Fixed(Fixed { delay: Span(0) }), Some(1.0))), [0; 10_000]);
}

/// An exponential backoff has its own, so it does not take that of the queue.
#[test]
fn jitter_comes_from_the_job_then_from_its_queue() {
    let of_queue = Retry { jitter: Some(0.0), ..Retry::default() };
    let own = |jitter| Retry { jitter, ..Retry::default() };
    assert_eq!([None, Some(0.3)].map(|jitter| own(jitter).or(&of_queue).spread()), [0.0, 0.3]);
    let exponential = Exponential { first: Span(1), factor: 2.0, max: Span(9), jitter: 0.25 };
    assert_eq!(backoff(Backoff::Exponential(exponential)).or(&of_queue).spread(), 0.25);
    assert_eq!(backoff(Backoff::Fixed(Fixed { delay: Span(1) })).or(&of_queue).spread(), 0.0);
    assert_eq!(Retry::default().spread(), 0.1);
    assert_eq!(Retry::default().jitter(0.0).spread(), 0.0);
}

#[test]
fn no_attempt_begins_past_the_greatest_age() {
    let retry = Retry { max_age: Some(Span(HOUR_MS)), ..backoff(Backoff::Fixed(Fixed { delay: Span(1_000) })) };
    // Jitter neither passes that age nor costs the attempt.
    let at = T0 + HOUR_MS - 1_000;
    assert_eq!(again(fails(&attempt(2), &retry, at)).due_at, T0 + HOUR_MS);
    assert_eq!(finish(fails(&attempt(2), &retry, at + 1)).stage, Stage::Failed);
    let moved = Job { due_at: Timestamp(T0 + DAY_MS), first_due_at: Timestamp(T0 + DAY_MS), ..attempt(2) };
    again(fails(&moved, &retry, T0 + DAY_MS));
    again(after_crash(&attempt(2), &retry, T0 + HOUR_MS, None));
    assert_eq!(finish(after_crash(&attempt(2), &retry, T0 + HOUR_MS + 1, None)).stage, Stage::Failed);
}

#[test]
fn a_failure_may_name_its_own_wait() {
    let failure = Failure { retry_after: Some(Span(77)), ..failed("busy") };
    let decided = again(after_failure(&attempt(1), &Retry::default(), &failure, T0, None));
    assert_eq!(decided.due_at, T0 + 77);
    assert_eq!(finish(after_failure(&attempt(16), &Retry::default(), &failure, T0, None)).stage, Stage::Failed);
    let aged = Retry { max_age: Some(Span(76)), ..Retry::default() };
    assert_eq!(finish(after_failure(&attempt(1), &aged, &failure, T0, None)).stage, Stage::Failed);
}

#[test]
fn a_failure_keeps_its_message_and_counts() {
    let crashed = Job { crashes: 2, ..attempt(3) };
    let decided = again(fails(&crashed, &Retry::default(), T0 + 5));
    assert_eq!((decided.attempt, decided.crashes), (3, 2));
    let error = AttemptError { attempt: 3, at: Timestamp(T0 + 5), message: "no".into(), crashed: false };
    assert_eq!(decided.error, Some(error.clone()));
    let decided = finish(fails(&Job { crashes: 2, ..attempt(16) }, &Retry::default(), T0 + 5));
    assert_eq!((decided.crashes, decided.error), (Some(2), Some(AttemptError { attempt: 16, ..error })));
}

#[test]
fn what_becomes_of_an_exhausted_job() {
    let when = |when_exhausted| Retry { when_exhausted: Some(when_exhausted), jitter: Some(0.0), ..Retry::default() };
    let last = Job {
        key: Some("k".into()),
        tags: ["t".into()].into(),
        expires: Some(Span(9)),
        lease: Some(Span(5_000)),
        crashes: 3,
        ..attempt(16)
    };
    let kept = finish(fails(&last, &when(WhenExhausted::Keep), T0));
    assert_eq!((kept.stage, kept.drop, kept.successors), (Stage::Failed, false, vec![]));
    let dropped = finish(fails(&last, &when(WhenExhausted::Drop), T0));
    assert_eq!((dropped.stage, dropped.drop, dropped.successors), (Stage::Failed, true, vec![]));
    let restarted = again(fails(&last, &when(WhenExhausted::Restart), T0));
    assert_eq!((restarted.attempt, restarted.crashes, restarted.due_at), (0, 0, T0 + 15 * SECOND_MS));
    assert!(restarted.error.is_some());
    let moved = finish(fails(&last, &when(WhenExhausted::Move("dead".into())), T0 + 3));
    let [copy] = &moved.successors[..] else { panic!("a copy") };
    assert_eq!((moved.stage, moved.drop, copy.id, &*copy.queue), (Stage::Failed, false, id(99), "dead"));
    assert_eq!(
        (copy.attempt, copy.crashes, copy.epoch, copy.due_at, copy.first_due_at),
        (0, 0, 0, Timestamp(T0 + 3), Timestamp(T0 + 3))
    );
    assert_eq!(
        (&copy.key, &copy.options().retry, copy.expires, copy.lease_until),
        (&None, &Retry::default(), None, None)
    );
    assert_eq!((&copy.payload, &copy.tags, copy.lease), (&last.payload, &last.tags, Some(Span(5_000))));
    assert!(copy.is_pending() && copy.message.is_some());
}

#[test]
fn a_final_failure_gives_up_at_once() {
    let last = Failure { is_final: true, retry_after: Some(Span(5)), ..failed("never") };
    let decide = |when_exhausted| {
        let retry = Retry { when_exhausted, ..Retry::default() };
        finish(after_failure(&attempt(1), &retry, &last, T0, Some(id(99))))
    };
    assert_eq!(decide(None).stage, Stage::Failed);
    assert!(decide(Some(WhenExhausted::Drop)).drop);
    assert!(decide(Some(WhenExhausted::Move("dead".into()))).successors.len() == 1);
}

/// A job that its worker calls hopeless is not tried again.
#[test]
fn a_final_failure_does_not_restart() {
    let retry = Retry { when_exhausted: Some(WhenExhausted::Restart), ..Retry::default() };
    for n in [1, 16] {
        let last = Failure { is_final: true, ..failed("never") };
        assert_eq!(finish(after_failure(&attempt(n), &retry, &last, T0, None)).stage, Stage::Failed);
    }
}

/// A job that crashes its workers must not be restarted indefinitely.
#[test]
fn a_poison_job_does_not_restart() {
    let retry = Retry { when_exhausted: Some(WhenExhausted::Restart), ..Retry::default() };
    let poison = Job { crashes: 4, ..attempt(5) };
    assert_eq!(finish(after_crash(&poison, &retry, T0, None)).stage, Stage::Failed);
    let spent = Job { crashes: 1, ..attempt(16) };
    assert_eq!(again(after_crash(&spent, &retry, T0, None)).attempt, 0, "its attempts are spent, no more");
}

/// Or it would restart with each attempt, past its greatest age.
#[test]
fn a_job_that_is_too_old_does_not_restart() {
    let retry =
        Retry { when_exhausted: Some(WhenExhausted::Restart), max_age: Some(Span(HOUR_MS)), ..Retry::default() };
    assert_eq!(again(fails(&attempt(16), &retry, T0)).attempt, 0);
    assert_eq!(finish(fails(&attempt(16), &retry, T0 + HOUR_MS)).stage, Stage::Failed);
    assert_eq!(finish(fails(&attempt(1), &retry, T0 + HOUR_MS)).stage, Stage::Failed);
}

#[test]
fn a_crash_counts_and_the_job_is_ready_at_once() {
    let decided = again(after_crash(&Job { crashes: 1, ..attempt(2) }, &Retry::default(), T0 + 60_000, None));
    assert_eq!((decided.due_at, decided.attempt, decided.crashes), (T0, 2, 2), "it keeps its place");
    assert!(decided.error.is_some_and(|error| error.crashed && error.attempt == 2));
    let ahead = Job { due_at: Timestamp(T0 + HOUR_MS), ..attempt(2) };
    assert_eq!(again(after_crash(&ahead, &Retry::default(), T0, None)).due_at, T0, "the clock was set back");
}

#[test]
fn the_last_crash_fails_the_job() {
    let table = [(None, 5), (Some(1), 1), (Some(2), 2), (Some(u32::MAX), u32::MAX)];
    for (max_crashes, last) in table {
        let retry = Retry { max_crashes, max_attempts: Some(0), ..Retry::default() };
        let before = |crashes| Job { crashes, ..attempt(1) };
        if last > 1 {
            assert_eq!(again(after_crash(&before(last - 2), &retry, T0, None)).crashes, last - 1);
        }
        let decided = finish(after_crash(&before(last - 1), &retry, T0, None));
        assert_eq!((decided.stage, decided.crashes), (Stage::Failed, Some(last)));
        assert!(decided.error.is_some_and(|error| error.crashed));
    }
    assert_eq!(finish(after_crash(&attempt(16), &Retry::default(), T0, None)).stage, Stage::Failed, "the last attempt");
}

#[test]
fn a_job_that_is_asked_to_stop_does_not_go_on() {
    let asked = Job { cancel_asked: true, crashes: 1, ..attempt(1) };
    let failure = finish(fails(&asked, &Retry::default(), T0));
    assert_eq!((failure.stage, failure.crashes), (Stage::Cancelled, Some(1)));
    assert!(failure.error.is_some());
    let crash = finish(after_crash(&asked, &Retry::default(), T0, None));
    assert_eq!((crash.stage, crash.crashes), (Stage::Cancelled, Some(2)));
    assert_eq!(finish(after_release(&asked, &Retry::default(), Release::default(), T0, None)).stage, Stage::Cancelled);
}

/// The decision was made before it was asked.
#[test]
fn a_decision_to_go_on_yields_to_a_cancellation() {
    let mut asked = Job { cancel_asked: true, ..attempt(1) };
    rules::apply(&mut asked, fails(&attempt(1), &Retry::default(), T0), T0 + 5, NUMBERS);
    assert_eq!((asked.stage, asked.finished_at, asked.lease_until), (Stage::Cancelled, Some(Timestamp(T0 + 5)), None));
    assert_eq!(asked.errors.len(), 1);
    let mut asked = Job { cancel_asked: true, ..attempt(1) };
    rules::apply(&mut asked, Decision::Finish(Finish::new(Stage::Succeeded)), T0, NUMBERS);
    assert_eq!(asked.stage, Stage::Succeeded, "but success wins");
}

#[test]
fn an_expired_job_has_failed() {
    let expired = after_expiry(&Job { expires: Some(Span(250)), ..job(1) });
    assert_eq!(expired.stage, Stage::Failed);
    assert!(expired.message.is_some_and(|message| message.starts_with("expired") && message.contains("250ms")));
}

#[test]
fn the_last_twenty_errors_are_kept() {
    let mut kept = attempt(0);
    for n in 1..=30 {
        rules::lease(&mut kept, T0 + MINUTE_MS, T0, NUMBERS);
        let decided =
            after_failure(&kept, &Retry { max_attempts: Some(0), ..Retry::default() }, &failed("no"), T0, None);
        rules::apply(&mut kept, decided, T0, NUMBERS);
        assert_eq!(kept.attempt, n);
    }
    assert_eq!(kept.errors.iter().map(|error| error.attempt).collect::<Vec<_>>(), (11..=30).collect::<Vec<_>>());
}

/// 20 messages of 64 KiB in each of a few hundred jobs were more than the server's memory, and no page could show them.
#[test]
fn kept_errors_are_bounded_in_bytes() {
    let mut kept = attempt(0);
    let retry = Retry { max_attempts: Some(0), ..Retry::default() };
    let fail = |kept: &mut Job, bytes: usize| {
        rules::lease(kept, T0 + MINUTE_MS, T0, NUMBERS);
        let decided = after_failure(kept, &retry, &failed(&"x".repeat(bytes)), T0, None);
        rules::apply(kept, decided, T0, NUMBERS);
        kept.errors.iter().map(|error| error.message.len()).collect::<Vec<_>>()
    };
    let part = ERRORS_BYTES_MAX / 4;
    for n in 1..=4 {
        assert_eq!(fail(&mut kept, part), vec![part; n]);
    }
    assert_eq!(fail(&mut kept, part), [part; 4], "the oldest makes room");
    assert_eq!(fail(&mut kept, MESSAGE_BYTES_MAX), [MESSAGE_BYTES_MAX], "the newest is kept whole");
    assert_eq!(fail(&mut kept, 1), [1]);
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    /// For all numbers: nothing overflows, no wait exceeds the maximum, and only jobs that were already due before now are
    /// due before now.
    #[test]
    fn decisions_keep_their_bounds(
        job in running(),
        retry in retries(),
        now in prop_oneof![T0..T0 + DELAY_MS_MAX, (u64::MAX - 5)..=u64::MAX],
        is_final: bool,
        retry_after_ms in prop::option::of(0..=DELAY_MS_MAX),
        delay_ms in 0..=DELAY_MS_MAX,
    ) {
        retry.check("q").unwrap();
        let failure = Failure { message: "no".into(), is_final, retry_after: retry_after_ms.map(Span) };
        let decisions = [
            after_failure(&job, &retry, &failure, now, Some(id(99))),
            after_crash(&job, &retry, now, Some(id(99))),
            after_release(&job, &retry, Release::after(Span(delay_ms)), now, Some(id(99))),
        ];
        for decision in decisions {
            if let Decision::Again(again) = &decision {
                prop_assert!(!job.cancel_asked);
                prop_assert!(again.due_at >= now.min(job.due_at.0) && again.due_at <= now.saturating_add(DELAY_MS_MAX));
                prop_assert!(again.attempt <= job.attempt);
            }
            let mut applied = job.clone();
            let is_again = matches!(decision, Decision::Again(_));
            rules::apply(&mut applied, decision, now.min(i64::MAX as u64), NUMBERS);
            prop_assert_eq!(applied.is_pending(), is_again);
            prop_assert!(applied.version > job.version && applied.lease_until.is_none());
            prop_assert_eq!(applied.finished_at.is_some(), !is_again);
            prop_assert!(!(is_again && is_final && applied.errors.iter().any(|e| !e.crashed)), "a final failure ends");
        }
    }

    /// Under any rule, a job that always fails ends, unless its rule says otherwise, and never before its time.
    #[test]
    fn a_job_that_always_fails_ends(retry in retries(), crash_every in 1..5_u32) {
        let ends = retry.attempts().is_some_and(|n| n <= 200) && retry.when_exhausted != Some(WhenExhausted::Restart);
        let (mut job, mut now) = (job(1), T0);
        for n in 1..=200_u32 {
            now = now.max(job.due_at.0);
            rules::lease(&mut job, now + MINUTE_MS, now, NUMBERS);
            prop_assert!(retry.max_age.is_none_or(|Span(age_ms)| n == 1 || now <= T0 + age_ms), "too old");
            let decision = if n % crash_every == 0 && crash_every > 1 {
                after_crash(&job, &retry, now, Some(id(99)))
            } else {
                after_failure(&job, &retry, &failed("no"), now, Some(id(99)))
            };
            rules::apply(&mut job, decision, now, NUMBERS);
            if !job.is_pending() {
                break;
            }
        }
        prop_assert!(!ends || !job.is_pending());
    }
}
