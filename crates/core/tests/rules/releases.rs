//! Releases: they are counted, and only the job's age ends it.

use super::{NUMBERS, again, attempt, finish};
use duetime_core::api::Span;
use duetime_core::json::Timestamp;
use duetime_core::limits::{DAY_MS, HOUR_MS, MINUTE_MS};
use duetime_core::model::retry::Retry;
use duetime_core::ports::Change;
use duetime_core::rules::{
    self, Again, Decision, Finish, Release, after_abandonment, after_release, after_return, after_unclaimed,
};
use duetime_core::testing::fixtures::T0;
use duetime_core::{Job, Stage};

#[test]
fn a_release_does_not_count() {
    let release = |job: &Job, delay_ms, now| {
        again(after_release(job, &Retry::default(), Release::after(Span(delay_ms)), now, None))
    };
    let decided = release(&Job { crashes: 3, ..attempt(2) }, 0, T0 + 500);
    assert_eq!(decided, Again { due_at: T0, attempt: 1, crashes: 3, is_release: true, ..Again::default() });
    assert_eq!(release(&attempt(1), 700, T0 + 500).due_at, T0 + 1_200);
    assert_eq!(release(&attempt(0), 0, T0).attempt, 0);
    let ahead = Job { due_at: Timestamp(T0 + HOUR_MS), ..attempt(1) };
    assert_eq!(release(&ahead, 0, T0).due_at, T0, "the clock was set back");
}

/// With or without a delay, over any door; but not a job that nobody has received.
#[test]
fn a_released_job_ends_at_its_age() {
    let retry = Retry { max_age: Some(Span(HOUR_MS)), max_attempts: Some(1), ..Retry::default() };
    let release = |delay_ms, now| after_release(&attempt(1), &retry, Release::after(Span(delay_ms)), now, None);
    let put_back = |delay_ms, now| {
        after_return(&attempt(1), &retry, Release { delay: Span(delay_ms), priority: Some(7) }, now, None)
    };
    for (delay_ms, last) in [(0, T0 + HOUR_MS), (1_000, T0 + HOUR_MS - 1_000)] {
        assert!(again(release(delay_ms, last)).is_release, "its attempts do not end it");
        let put_back_in_time = again(put_back(delay_ms, last));
        assert_eq!((put_back_in_time.attempt, put_back_in_time.priority), (1, Some(7)), "the attempt counts");
        for ended in [finish(release(delay_ms, last + 1)), finish(put_back(delay_ms, last + 1))] {
            assert_eq!(ended.stage, Stage::Failed);
            assert!(ended.error.is_some_and(|error| error.message.contains("`max_age`")));
        }
    }
    let unclaimed = again(after_unclaimed(&attempt(1), T0 + DAY_MS));
    assert_eq!((unclaimed.attempt, unclaimed.is_release), (0, false), "nobody has had it");
    let gone = again(after_abandonment(&attempt(1), T0 + DAY_MS));
    assert_eq!((gone.attempt, gone.is_release), (1, false), "its holder has gone");
}

#[test]
fn releases_are_counted_until_the_job_starts_over() {
    let mut job = attempt(1);
    for n in 1..=3 {
        let released = after_release(&job, &Retry::default(), Release::default(), T0, None);
        rules::apply(&mut job, released, T0, NUMBERS);
        assert_eq!(job.releases(), n);
        rules::lease(&mut job, T0 + MINUTE_MS, T0, NUMBERS);
    }
    rules::apply(&mut job, Decision::Finish(Finish::new(Stage::Failed)), T0, NUMBERS);
    assert_eq!((job.attempt, job.releases()), (1, 3));
    rules::edit(&mut job, None, &Change::RETRY, T0, NUMBERS);
    assert_eq!((job.releases(), job.options), (0, None));
}
