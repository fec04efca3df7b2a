//! `duetime reserve`.

use super::exit::Result;
use super::output::{self, note, snippet};
use super::target::Target;
use super::time::{now, relative};
use crate::cli::usage::span;
use duetime_core::JobId;
use duetime_core::api::{Reservation, Span};
use duetime_core::engine::{JobRef, ReserveRequest, Source};
use duetime_core::limits::{LEASE_MS_MAX, LEASE_MS_MIN, WAIT_MS_MAX};
use duetime_core::model::name;
use std::sync::Arc;

/// Reserve due jobs by hand, as a worker does.
///
/// End each lease with `duetime complete`, `fail`, `release`, `park` or `settle` and its receipt; `extend` and `progress` keep it.
/// A lease that expires counts as a crash, and the job is handed out again. Use a server for this: no other process can
/// settle jobs of a store file.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime reserve orders --wait 20s
  receipt=$(duetime reserve orders --json | jq -r '.leases[0].receipt // empty')")]
pub(crate) struct Args {
    /// Queues, in strict order: an earlier one is emptied first
    #[arg(value_name = "QUEUE", required_unless_present = "job", conflicts_with = "job")]
    queues: Vec<Arc<str>>,
    /// Reserve this job, if it is due; repeatable
    #[arg(long, value_name = "ID")]
    job: Vec<JobId>,
    /// Maximum number of results, up to 1000
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1)]
    limit: usize,
    /// How many of them can start at once [default: all]; beyond these, jobs on their last attempt are left to others
    #[arg(long, value_name = "N", conflicts_with = "job")]
    free: Option<usize>,
    /// Lease, 1s to 12h [default: that of the job, its queue or the server]
    #[arg(long, value_name = "DURATION", value_parser = span::<LEASE_MS_MIN, LEASE_MS_MAX>)]
    lease: Option<Span>,
    /// Wait this long for a due job, up to 60s
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = span::<0, WAIT_MS_MAX>)]
    wait: Span,
    /// Worker name to show in `duetime workers`; by default none
    #[arg(long, value_name = "NAME")]
    worker: Option<Arc<str>>,
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args) -> Result {
    args.queues.iter().try_for_each(|queue| name::check_queue(queue))?;
    let limit = args.limit.max(args.job.len());
    let jobs = || args.job.iter().map(|&id| JobRef { id, version: None }).collect();
    let from = if args.job.is_empty() { Source::Queues(args.queues.clone()) } else { Source::Jobs(jobs()) };
    let request = ReserveRequest {
        from,
        limit,
        free: args.free,
        lease: args.lease,
        wait: args.wait,
        request_id: None,
        worker: args.worker,
    };
    let client = args.target.client().await?;
    let reservation = client.leases().reserve(request).await?;
    if args.target.json {
        return output::json(&Reservation::new(&reservation, Vec::new()));
    }
    reservation.refused.iter().for_each(|(_, why)| note!("duetime: {why}"));
    if reservation.leases.is_empty() {
        let next = reservation.next_due_at.map(|at| format!("; the next is due {}", relative(at.0, now())));
        note!("no job is due{}", next.unwrap_or_default());
        return Ok(());
    }
    let mut table = output::table(&["RECEIPT", "QUEUE", "KIND", "ATTEMPT", "PAYLOAD"]);
    for lease in &reservation.leases {
        let job = &lease.job;
        table.add_row([
            job.receipt().to_string(),
            job.queue.to_string(),
            snippet(job.kind.as_bytes()),
            job.attempt.to_string(),
            snippet(&job.payload),
        ]);
    }
    output::print(&table)
}
