//! `duetime queues due`, `failures` and `history`.

use super::super::exit::Result;
use super::super::output;
use super::super::target::Target;
use super::super::time::{now, relative};
use duetime_core::api::{DueBucket, FailureGroup, HistoryPoint, HistorySpan, Timestamp};

#[derive(Debug, clap::Args)]
pub(super) struct OfQueue {
    /// Queue name; by default all queues together
    #[arg(value_name = "QUEUE")]
    queue: Option<String>,
    #[command(flatten)]
    target: Target,
}

pub(super) async fn due(args: &OfQueue) -> Result {
    let client = args.target.client().await?;
    let counts = loop {
        let counts = client.queues().due_counts(args.queue.as_deref()).await?;
        // Otherwise they are still being counted. The answer waits for a while.
        if counts.as_of.is_some() {
            break counts;
        }
    };
    if args.target.json {
        return output::json(&counts);
    }
    let Some(buckets) = counts.buckets else {
        output::note!("only the 1,000 largest queues are counted separately; this is not one of them");
        return Ok(());
    };
    let row = |bucket: &DueBucket| {
        let shown = |at: Option<Timestamp>, none: &str| at.map_or_else(|| none.to_owned(), |at| at.to_string());
        [shown(bucket.from, "already"), shown(bucket.to, "later"), bucket.jobs.to_string()]
    };
    let busy: Vec<_> = buckets.iter().filter(|bucket| bucket.jobs > 0).map(row).collect();
    output::rows(&["DUE FROM", "TO", "JOBS"], busy.into_iter(), "no jobs wait")
}

pub(super) async fn failures(args: &OfQueue) -> Result {
    let client = args.target.client().await?;
    let (failures, groups) = loop {
        let failures = client.queues().failures(args.queue.as_deref()).await?;
        // Otherwise they are still being read. The answer waits for a while.
        if let Some(groups) = failures.groups.clone() {
            break (failures, groups);
        }
    };
    if args.target.json {
        return output::json(&failures);
    }
    let row = |group: &FailureGroup| {
        let FailureGroup { queue, kind, message, jobs, last_hour, first, latest, job, ids: _ } = group;
        let ago = |at: &Timestamp| relative(at.0, now());
        [
            jobs.to_string(),
            last_hour.to_string(),
            queue.to_string(),
            kind.to_string(),
            ago(first),
            ago(latest),
            job.to_string(),
            message.clone(),
        ]
    };
    let header = ["JOBS", "LAST HOUR", "QUEUE", "KIND", "FIRST", "LATEST", "LATEST JOB", "MESSAGE"];
    output::rows(&header, groups.iter().map(row), "no failed jobs")
}

#[derive(Debug, clap::Args)]
pub(super) struct HistoryArgs {
    #[command(flatten)]
    of: OfQueue,
    /// Period: `hour` by minute, or `day` by quarter of an hour
    #[arg(long, value_name = "hour|day", default_value_t)]
    span: HistorySpan,
}

pub(super) async fn history(HistoryArgs { of: OfQueue { queue, target }, span }: &HistoryArgs) -> Result {
    let history = target.client().await?.queues().history(queue.as_deref(), *span).await?;
    if target.json {
        return output::json(&history);
    }
    let Some(points) = history.points else {
        output::note!("only 200 queues are counted separately; this is not one of them");
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
    let mut row = vec![Timestamp(at.0).to_string()];
    row.extend(counts.map(|count| count.to_string()));
    row.extend(lateness.iter().flat_map(|late| [late.p50, late.p99, late.max]).map(|span| format!("≤ {span}")));
    row
}
