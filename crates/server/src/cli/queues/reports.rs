//! `duetime queues history`.

use super::super::exit::Result;
use super::super::output;
use super::super::target::Target;
use duetime_core::api::{HistoryPoint, HistorySpan, Instant};

#[derive(Debug, clap::Args)]
pub(super) struct HistoryArgs {
    /// The queue; by default all together
    #[arg(value_name = "QUEUE")]
    queue: Option<String>,
    /// How far back: `hour` by minutes, or `day` by quarters of an hour
    #[arg(long, value_name = "hour|day", default_value_t)]
    span: HistorySpan,
    #[command(flatten)]
    target: Target,
}

pub(super) async fn history(args: &HistoryArgs) -> Result {
    let history = args.target.client().await?.history(args.queue.as_deref(), args.span).await?;
    if args.target.json {
        return output::json(&history);
    }
    let Some(points) = history.points else {
        output::note!("the first 200 queues are counted separately, and this one only together with others");
        return Ok(());
    };
    let header = [
        "FROM",
        "PUSHED",
        "STARTED",
        "SUCCEEDED",
        "FAILED",
        "CANCELLED",
        "ERRORS",
        "CRASHES",
        "LATE P50",
        "P99",
        "MAX",
    ];
    let busy: Vec<_> = points.iter().filter(|point| is_busy(point)).map(row).collect();
    let none = format!("no activity since {}", history.since);
    output::rows(&header, busy.into_iter(), &none)
}

fn is_busy(point: &HistoryPoint) -> bool {
    let HistoryPoint {
        at: _, pushed, started, succeeded, failed, cancelled, attempts_failed, attempts_crashed, ..
    } = *point;
    [pushed, started, succeeded, failed, cancelled, attempts_failed, attempts_crashed] != [0; 7]
}

fn row(point: &HistoryPoint) -> Vec<String> {
    let HistoryPoint { at, pushed, started, succeeded, failed, cancelled, attempts_failed, attempts_crashed, lateness } =
        *point;
    let counts = [pushed, started, succeeded, failed, cancelled, attempts_failed, attempts_crashed];
    let mut row = vec![Instant(at.0).to_string()];
    row.extend(counts.map(|count| count.to_string()));
    row.extend(lateness.iter().flat_map(|late| [late.p50, late.p99, late.max]).map(|span| span.to_string()));
    row
}
