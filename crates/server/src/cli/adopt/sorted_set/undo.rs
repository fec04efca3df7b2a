//! The way back: the jobs that wait in a queue become members of a sorted set.
//!
//! A member is added before its job is cancelled. If the command is killed in between, there are both, and the next run
//! cancels the job, unless a worker got it first: so the guide has the queue paused. A job that was handed out meanwhile is not cancelled, and its member is removed again.

use super::score::Unit;
use super::survey::{Survey, Verdict};
use super::{NAME_UNIT, SetArgs};
use crate::cli::adopt::push::is_gone;
use crate::cli::adopt::redis::Redis;
use crate::cli::exit::{DATA, Failure, Result, TRY_LATER};
use crate::cli::output::{self, note};
use crate::cli::progress::Progress;
use duetime::Client;
use duetime_core::engine::{CancelOutcome, Query};
use duetime_core::{Job, JobRef, State};
use futures_util::{StreamExt as _, stream};
use serde::Serialize;

const ADD: &str = include_str!("undo.lua");
/// Jobs at a time, so that the script blocks Redis for less than 10 ms.
const PAGE: usize = 250;
/// Cancels at a time.
const CANCELS: usize = 32;
/// Jobs that stay and are printed one by one.
const TOLD_MAX: u64 = 20;

/// Answers of the script.
const IS_NEW: u8 = 1;
const HAS_OTHER_SCORE: u8 = 0;

/// Counts, at the end.
#[derive(Debug, Default, Serialize)]
struct Report {
    /// Jobs that are members again.
    returned: u64,
    /// Jobs that stay, because their payload is a member with another score.
    left: u64,
    /// Jobs that workers still run.
    running: u64,
}

struct Undo<'a> {
    args: &'a SetArgs,
    lock: Option<String>,
    redis: Redis,
    unit: Unit,
    client: &'static Client,
}

/// Puts all jobs that wait in the queue back.
pub(in crate::cli::adopt) async fn run(args: &SetArgs, layout: &str, lock: Option<String>) -> Result {
    let yes = args.options.yes.as_deref().unwrap_or_default();
    if yes != layout {
        return Err(Failure::usage(format!("expected --yes {layout}, got --yes {yes}")));
    }
    let redis = Redis::new(&args.from, &args.key, Some(&args.to))?;
    let survey = Survey::read(&redis, &args.key).await?;
    let unit = match (args.score, survey.judge()) {
        (Some(unit), _) | (None, Verdict::Unit(unit)) => unit,
        _ => return Err(Failure::usage("the set does not show the unit of its scores").hint(NAME_UNIT)),
    };
    if redis.count().await? > 0 {
        return Err(Failure::usage("an earlier run was killed, or still runs, and has left claims")
            .hint(format!("run the command with --drain --yes {layout} first: it finishes them")));
    }
    let client = args.options.target.client().await?;
    Undo { args, lock, redis, unit, client }.run().await
}

impl Undo<'_> {
    async fn run(self) -> Result {
        let states = vec![State::Scheduled, State::Ready];
        let query = Query { queue: Some(self.args.to.clone()), state: states.into(), ..Query::default() };
        let (mut report, mut cursor) = (Report::default(), None);
        let progress = Progress::telling();
        loop {
            let listed = self.client.jobs().page(&query, cursor.as_deref(), PAGE).await?;
            self.put_back(&listed.jobs, &mut report).await?;
            progress.tell(format!("{} returned", output::count(report.returned, "job")));
            cursor = listed.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        progress.done();
        report.running = self.client.queues().get(&self.args.to).await?.counts.running;
        if self.args.options.target.json {
            output::json(&report)?;
        } else {
            let Report { returned, left, running } = report;
            let returned = output::count(returned, "job");
            output::say(format_args!("{returned} returned, {left} left, {running} running"))?;
        }
        if report.left > 0 { Err(Failure::quiet(DATA)) } else { Ok(()) }
    }

    /// Puts jobs back.
    async fn put_back(&self, jobs: &[Job], report: &mut Report) -> Result {
        if jobs.is_empty() {
            return Ok(());
        }
        let scores: Vec<String> = jobs.iter().map(|job| self.unit.score(job.due_at.0)).collect();
        let members: Vec<&[u8]> =
            scores.iter().zip(jobs).flat_map(|(score, job)| [score.as_bytes(), &job.payload]).collect();
        let keys: Vec<&str> = [&*self.args.key].into_iter().chain(self.lock.as_deref()).collect();
        let added: Vec<u8> = self.redis.call("EVAL", (ADD, keys.len(), &keys, members)).await?;
        if added.len() != jobs.len() {
            let lock = self.lock.as_deref().unwrap_or_default();
            return Err(Failure::new(TRY_LATER, format!("nothing is put back while the lock {lock:?} exists")));
        }
        let (left, added): (Vec<_>, Vec<_>) = jobs.iter().zip(added).partition(|(_, added)| *added == HAS_OTHER_SCORE);
        for (job, _) in left {
            report.left += 1;
            if report.left <= TOLD_MAX {
                note!("the job {} stays: its payload is a member already, with another score", job.id);
            }
        }
        let mut cancels = stream::iter(added)
            .map(async |(job, added)| (job, added, self.cancel(job).await))
            .buffer_unordered(CANCELS);
        while let Some((job, added, is_cancelled)) = cancels.next().await {
            if is_cancelled? {
                report.returned += 1;
            } else if added == IS_NEW {
                self.redis.call::<u64>("ZREM", (&self.args.key, &*job.payload)).await?;
            }
        }
        Ok(())
    }

    /// Whether the job was cancelled. It is not if it was changed or handed out since it was listed.
    async fn cancel(&self, job: &Job) -> Result<bool> {
        match self.client.jobs().cancel(JobRef { id: job.id, version: Some(job.version) }).await {
            Ok(outcome) => Ok(outcome == CancelOutcome::Cancelled),
            Err(error) if is_gone(&error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
