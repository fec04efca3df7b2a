//! The history of a process over the last hour and day.

use super::fixture::{Bench, job, pass};
use duetime_core::api::{History, HistoryPoint, HistorySpan, Lateness, Span};
use duetime_core::engine::Outcome;
use duetime_core::engine::metrics::QUEUES_MAX;
use duetime_core::limits::{DAY_MS, HOUR_MS, MINUTE_MS};
use duetime_core::rules::Failure;
use duetime_core::{Due, NewJob};
use std::time::Duration;

const MINUTE: Duration = Duration::from_millis(MINUTE_MS);

fn history(bench: &Bench, queue: Option<&str>, span: HistorySpan) -> History {
    bench.engine.history(queue, span).unwrap()
}

fn pushed(bench: &Bench, queue: Option<&str>, span: HistorySpan) -> Vec<u64> {
    history(bench, queue, span).points.unwrap().iter().map(|point| point.pushed).collect()
}

fn late(p50: u64, p99: u64, max: u64) -> Option<Lateness> {
    Some(Lateness { p50: Span(p50), p99: Span(p99), max: Span(max) })
}

#[tokio::test(start_paused = true)]
async fn each_step_has_what_was_done_in_it() {
    let bench = Bench::new().await;
    let start = bench.engine.now();
    bench.push(job()).await;
    bench.push(NewJob { queue: "other".into(), ..job() }).await;
    pass(3 * MINUTE / 2).await;
    bench.push(NewJob { due: Due::After(Span(MINUTE_MS)), ..job() }).await;
    let lease = bench.lease().await;
    bench.complete(&lease).await.unwrap();
    pass(MINUTE).await;
    let lease = bench.lease().await;
    let fail = Outcome::Fail(Failure { message: "no".into(), is_final: true, retry_after: None });
    bench.settle(&lease, fail).await.unwrap();

    let shown = history(&bench, Some("default"), HistorySpan::Hour);
    assert_eq!((shown.since.0, shown.as_of.0, shown.step), (start, bench.engine.now(), Span(MINUTE_MS)));
    let points = shown.points.unwrap();
    let first = start / MINUTE_MS * MINUTE_MS;
    let begins: Vec<u64> = points.iter().map(|point| (point.at.0 - first) / MINUTE_MS).collect();
    assert_eq!(begins, [0, 1, 2]);
    let counts =
        |point: &HistoryPoint| [point.pushed, point.started, point.succeeded, point.failed, point.attempts_failed];
    assert_eq!(points.iter().map(counts).collect::<Vec<_>>(), [[1, 0, 0, 0, 0], [1, 1, 1, 0, 0], [0, 1, 0, 1, 1]]);
    let lateness: Vec<_> = points.iter().map(|point| point.lateness).collect();
    // 90 s and 0 s late.
    assert_eq!(lateness, [None, late(300_000, 300_000, 300_000), late(0, 0, 0)]);
    assert_eq!(pushed(&bench, None, HistorySpan::Hour), [2, 1, 0]);
    assert_eq!(pushed(&bench, None, HistorySpan::Day), [3]);
    assert_eq!(pushed(&bench, Some("unknown"), HistorySpan::Hour), [0, 0, 0]);
    assert_eq!(bench.engine.history(Some("-"), HistorySpan::Hour).unwrap_err().code(), "invalid");
}

#[tokio::test(start_paused = true)]
async fn old_steps_are_dropped() {
    let bench = Bench::new().await;
    bench.push(job()).await;
    pass(59 * MINUTE).await;
    assert_eq!(pushed(&bench, None, HistorySpan::Hour).iter().sum::<u64>(), 1);
    pass(MINUTE).await;
    let hour = history(&bench, None, HistorySpan::Hour);
    let points = hour.points.unwrap();
    assert_eq!((points.len(), points[0].at), (60, hour.since));
    assert_eq!(points.iter().map(|point| point.pushed).sum::<u64>(), 0);
    assert_eq!(pushed(&bench, None, HistorySpan::Day), [1, 0, 0, 0, 0]);
    for _ in 0..24 {
        bench.push(job()).await;
        pass(Duration::from_millis(HOUR_MS)).await;
    }
    let day = pushed(&bench, None, HistorySpan::Day);
    assert_eq!((day.len(), day.iter().sum::<u64>()), (96, 23));
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_strands_nothing() {
    let bench = Bench::new().await;
    bench.push(job()).await;
    bench.clock.step_wall(DAY_MS.cast_signed() * 2);
    pass(MINUTE).await;
    assert_eq!(pushed(&bench, None, HistorySpan::Day).iter().sum::<u64>(), 0);
    bench.push(job()).await;
    assert_eq!(pushed(&bench, None, HistorySpan::Hour).iter().sum::<u64>(), 1);
    bench.clock.step_wall(-2 * DAY_MS.cast_signed());
    pass(MINUTE).await;
    bench.push(job()).await;
    assert_eq!(*pushed(&bench, None, HistorySpan::Hour).last().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn queues_beyond_the_bound_are_counted_together_only() {
    let bench = Bench::new().await;
    let jobs = (0..QUEUES_MAX + 10).map(|n| NewJob { queue: format!("q{n}").into(), ..job() }).collect();
    bench.engine.push(jobs).await.unwrap();
    assert_eq!(history(&bench, Some("q7"), HistorySpan::Hour).points.unwrap()[0].pushed, 1);
    assert_eq!(history(&bench, Some(&format!("q{}", QUEUES_MAX + 5)), HistorySpan::Hour).points, None);
    assert_eq!(pushed(&bench, None, HistorySpan::Hour), [QUEUES_MAX as u64 + 10]);
}
