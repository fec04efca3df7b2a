//! `duetime import`.

mod report;
mod sink;

use super::export_line::{self, Line, Sums};
use crate::cli::exit::{Failure, Result};
use crate::cli::line_reader::Lines;
use crate::cli::progress::Progress;
use crate::cli::target::Target;
use crate::cli::time::now;
use duetime_core::api;
use duetime_core::engine::{QueueSettings, check_whole};
use duetime_core::limits::SCHEDULE_PAYLOAD_BYTES_MAX;
use duetime_core::model::job::check_lease;
use duetime_core::model::name::check_queue;
use duetime_core::{Error, Job, Schedule};
use report::Report;
use sink::Sink;
use std::path::PathBuf;
use std::sync::Arc;

/// Import the jobs, queue settings and schedules of an export.
///
/// Jobs keep their states, ids, attempts and times. An import can be repeated: jobs that are in the store already stay as
/// they are. Invalid lines are reported with their number and do not stop the others; the exit code is then 1. Queue
/// settings and schedules that the store already has stay as well. An imported schedule continues with its first run from
/// now on. With Redis Cluster, or if a queue belongs to another partition than the job's id says, the job gets another id,
/// always the same one, that differs in its low 10 bits.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime import --in jobs.jsonl --check
  duetime import --in jobs.jsonl --server redis://127.0.0.1 --ledger mysql://user:secret@db/duetime
  duetime export --store old.db | duetime import --store new.db")]
pub(crate) struct Args {
    /// Export to read; `-` reads standard input
    #[arg(long = "in", value_name = "FILE|-", default_value = "-")]
    from: PathBuf,
    /// Only check that all lines are valid; touch no store
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args) -> Result {
    let lines = Lines::open(&args.from)?;
    let mut report = Report::default();
    let mut sink = if args.check { Sink::default() } else { Sink::open(&args.target).await? };
    let result = read(lines, &mut sink, &mut report).await;
    let closed = sink.close().await;
    let again = "run it again: jobs that are in the store already are skipped";
    let is_begun = report.imported > 0 && !args.check;
    result.map_err(|failure| if is_begun { failure.hint(again) } else { failure })?;
    closed?;
    report.end(args.check, args.target.json)
}

/// The content of a line.
enum Thing {
    Head(u64),
    Queue(Arc<str>, Box<QueueSettings>),
    Schedule(Arc<str>, Box<Schedule>),
    Job(Box<Job>),
    End(Sums),
}

async fn read(mut lines: Lines, sink: &mut Sink, report: &mut Report) -> Result {
    let (mut seen, mut said, mut progress) = (Sums::default(), None, None);
    while let Some((number, text)) = lines.next()? {
        let thing = match parse(number, text) {
            Ok(thing) => thing,
            Err(why) if number == 1 => {
                return Err(Failure::error(format!("line 1: {why}"))
                    .hint("this is not an export: its first line must be {\"duetime_export\": …}"));
            }
            Err(why) => {
                count(text, &mut seen);
                report.refuse(number, why);
                continue;
            }
        };
        match thing {
            Thing::Head(jobs) => {
                progress = Some(Progress::new("importing", usize::try_from(jobs).unwrap_or(usize::MAX)));
            }
            Thing::Queue(queue, settings) => {
                seen.queues += 1;
                sink.configure(number, queue, *settings, report).await?;
            }
            Thing::Schedule(name, schedule) => {
                seen.schedules += 1;
                sink.set_schedule(number, name, *schedule, report).await?;
            }
            Thing::Job(job) => {
                seen.jobs += 1;
                progress.iter().for_each(|progress: &Progress| progress.add(1));
                sink.add(number, *job, report).await?;
            }
            Thing::End(sums) => said = Some(sums),
        }
    }
    sink.flush(report).await?;
    progress.iter().for_each(Progress::done);
    report.compare(seen, said);
    Ok(())
}

/// Parses a line; the error says why it is invalid.
fn parse(number: u64, text: &[u8]) -> std::result::Result<Thing, String> {
    let line: Line<'_> = api::read_bytes(text).map_err(|unread| unread.to_string())?;
    match &line {
        Line::DuetimeExport(head) if number == 1 => export_line::check(head).map_err(|failure| failure.to_string())?,
        _ if number == 1 => return Err("the line has no `duetime_export`".to_owned()),
        Line::DuetimeExport(_) => {
            return Err("this is a second head; expected a job, a queue, a schedule or the end".to_owned());
        }
        _ => {}
    }
    checked(line).map_err(|error| error.to_string())
}

fn checked(line: Line<'_>) -> std::result::Result<Thing, Error> {
    Ok(match line {
        Line::DuetimeExport(head) => Thing::Head(head.jobs),
        Line::Queue(configured) => {
            let queue = configured.queue.clone();
            check_queue(&queue)?;
            let settings = configured.into_settings();
            settings.rule().check(&queue)?;
            settings.lease.map_or(Ok(()), check_lease)?;
            Thing::Queue(queue, Box::new(settings))
        }
        Line::Schedule(named) => {
            let schedule = named.schedule.into_schedule()?;
            schedule.check(&named.name, now(), SCHEDULE_PAYLOAD_BYTES_MAX)?;
            Thing::Schedule(named.name, Box::new(schedule))
        }
        Line::Job(body) => {
            let job = Job::try_from(*body)?;
            check_whole(&job, now())?;
            Thing::Job(Box::new(job))
        }
        Line::End(sums) => Thing::End(sums),
    })
}

/// Counts a refused line by its beginning, so that it is not also missing at the end.
fn count(text: &[u8], seen: &mut Sums) {
    if text.starts_with(b"{\"queue\":") {
        seen.queues += 1;
    } else if text.starts_with(b"{\"schedule\":") {
        seen.schedules += 1;
    } else if text.starts_with(b"{\"job\":") {
        seen.jobs += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_line_holds_is_a_thing_or_refused() {
        duetime_core::testing::fuzz("import-line", |text| parse(2, text.as_bytes()).ok().map(|_| text.to_owned()));
    }
}
