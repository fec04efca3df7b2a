//! `duetime export`.

mod file;
mod source;

use super::export_line::{self, Head, Line, Sums, VERSION};
use crate::cli::exit::Result;
use crate::cli::output::{self, count, note};
use crate::cli::progress::Progress;
use crate::cli::target::Target;
use duetime_core::api::Timestamp;
use duetime_core::engine::Configured;
use duetime_core::engine::Export;
use file::Out;
use serde::Serialize;
use std::path::PathBuf;

/// Export all jobs, queue settings and schedules of a store as lines of JSON.
///
/// The store is not changed. Stop its servers and workers first: a job that changes during the export may be exported in
/// its earlier state and run in both places. Receipts are not valid in another store, so running jobs are exported as
/// waiting, or as cancelled if their worker was asked to stop.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime export --store duetime.db --out jobs.jsonl
  duetime export --store duetime.db | duetime import --server redis://127.0.0.1 --ledger postgres://db/duetime
  duetime export --store duetime.db | jq -c 'select(.job.state == \"failed\").job'")]
pub(crate) struct Args {
    /// New file, complete once it appears; `-` writes standard output
    #[arg(long, value_name = "FILE|-", default_value = "-")]
    out: PathBuf,
    #[command(flatten)]
    target: Target,
}

#[derive(Serialize)]
struct ExportReport {
    jobs: u64,
    queues: u64,
    schedules: u64,
    /// Jobs that ran, and wait in the export, or are cancelled in it.
    running: u64,
}

pub(crate) async fn run(args: Args) -> Result {
    let mut out = Out::create(&args.out)?;
    let export = Export::begin(source::open(&args.target).await?).await?;
    let report = write(export, &mut out).await?;
    out.finish()?;
    tell(&report, &args)
}

async fn write(mut export: Export, out: &mut Out) -> Result<ExportReport> {
    let settings = export.settings().await?;
    let jobs = export.estimate().await?;
    let by = env!("CARGO_PKG_VERSION").to_owned();
    let head = Head { version: VERSION, by, exported_at: Timestamp(export.now()), jobs };
    Line::DuetimeExport(head).write(out)?;
    let mut sums = Sums::default();
    for (queue, settings) in &settings {
        Line::Queue(Box::new(Configured::new(queue.clone(), settings.clone()))).write(out)?;
        sums.queues += 1;
    }
    for status in &export.schedules().await? {
        export_line::of_schedule(status).write(out)?;
        sums.schedules += 1;
    }
    let progress = Progress::new("exporting", usize::try_from(jobs).unwrap_or(usize::MAX));
    while let Some(page) = export.page().await? {
        for job in &page {
            export_line::of_job(job, export.now()).write(out)?;
        }
        sums.jobs += page.len() as u64;
        progress.add(page.len());
    }
    progress.done();
    Line::End(sums).write(out)?;
    let running = export.running();
    export.end().await?;
    let Sums { jobs, queues, schedules } = sums;
    Ok(ExportReport { jobs, queues, schedules, running })
}

/// On standard error if the lines go to standard output.
fn tell(report: &ExportReport, args: &Args) -> Result {
    let ExportReport { jobs, queues, schedules, running } = report;
    let text = if args.target.json {
        serde_json::to_string(report)?
    } else {
        let ran = if *running == 0 {
            String::new()
        } else {
            format!(
                "; {running} of them were running: they are exported as waiting, or as cancelled if that was requested"
            )
        };
        let schedules = if *schedules == 0 { String::new() } else { format!(", {}", count(*schedules, "schedule")) };
        let (jobs, queues) = (count(*jobs, "job"), count(*queues, "queue"));
        format!("{jobs}{schedules} and the settings of {queues} exported{ran}")
    };
    if file::is_stdout(&args.out) {
        note!("{text}");
        return Ok(());
    }
    output::say(text)
}
