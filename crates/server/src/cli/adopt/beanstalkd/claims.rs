//! The claim log: which jobs are being taken, in beanstalkd itself.

use super::scan::{Candidate, due_here};
use super::stats::JobStats;
use super::wire::{Body, Commands};
use super::{Beanstalkd, CLAIMS, unexpected};
use crate::beanstalk::new_job;
use crate::cli::adopt::source::{Claim, Done, fresh_id, tag};
use crate::cli::exit::Failure;
use duetime_core::limits::{PAYLOAD_BYTES_MAX, SECOND_MS};
use duetime_core::{Millis, NewJob};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// The most bytes of a claim without its jobs, and of each of these.
const HEAD_BYTES: usize = 320;
const JOB_BYTES: usize = 64;
/// The time to run of a claim, in seconds: longer than any run of the command.
const TTR_S: u32 = u32::MAX;

/// The delay of a claim, in seconds. The connection that put it reserves it before that, with its next write. If that write is late, and its
/// process dead, another run would otherwise take the claim first, and the jobs would be buried after that.
const DELAY_S: u64 = 10;
/// How often it is looked whether such a claim is ready.
const POLL: Duration = Duration::from_millis(200);

/// A claim, as its job has it.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    claim: String,
    /// The queue, if it is not named like the tube. So a run with another `--to` finishes a claim as it began.
    to: Option<Arc<str>>,
    jobs: Vec<ClaimEntry>,
}

/// A job of a claim: its id, when it is due, and how often it will have been reserved once it is buried.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct ClaimEntry(u64, Option<Millis>, u64);

/// A job that is buried for a claim.
pub(super) struct ClaimedJob {
    /// The id of the job that is the claim.
    pub(super) claim: u64,
    pub(super) id: u64,
    pub(super) priority: u32,
    pub(super) due_here: Option<Millis>,
}

/// How many jobs a claim has room for, if jobs there may have this many bytes.
pub(super) fn room(job_bytes: usize) -> Result<usize, Failure> {
    match job_bytes.saturating_sub(HEAD_BYTES) / JOB_BYTES {
        0 => {
            let expected = HEAD_BYTES + JOB_BYTES;
            let text = format!("beanstalkd must accept jobs of {expected} bytes or more; its limit is {job_bytes}");
            Err(Failure::error(text).hint("restart it with a larger `-z`"))
        }
        jobs => Ok(jobs),
    }
}

impl Beanstalkd {
    /// Claims jobs: writes down which, then buries them.
    pub(super) async fn bury(&mut self, mut found: Vec<Candidate>) -> Done<Vec<Claim>> {
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let mut records = Vec::new();
        let mut puts = Commands::from_iter([format!("use {CLAIMS}")]);
        while !found.is_empty() {
            let part: Vec<Candidate> = found.drain(..found.len().min(self.claim_jobs)).collect();
            let listed = |found: &Candidate| {
                let reserves = found.stats.reserves + u64::from(found.body.is_none());
                ClaimEntry(found.stats.id, found.due_here, reserves)
            };
            let record = Record { claim: fresh_id(), to: self.to.clone(), jobs: part.iter().map(listed).collect() };
            puts.add_put(DELAY_S, TTR_S, &serde_json::to_vec(&record).map_err(Failure::from)?);
            records.push((record, part));
        }
        let replies = self.ask(&puts).await?;
        let mut claims = Vec::new();
        for (reply, (record, part)) in replies[1..].iter().zip(records) {
            let id = reply.id().filter(|_| reply.is("INSERTED")).ok_or_else(|| unexpected(reply))?;
            claims.extend(self.hold(id, &record, part, false).await?);
        }
        Ok(claims)
    }

    /// Buries the jobs of a claim that is written down.
    async fn hold(&mut self, claim: u64, record: &Record, found: Vec<Candidate>, is_replay: bool) -> Done<Vec<Claim>> {
        // While this connection lives, no other run takes the claim for one that is left.
        let mut commands = Commands::from_iter([format!("reserve-job {claim}")]);
        for Candidate { stats: JobStats { id, priority, state, .. }, body, .. } in &found {
            if state == "buried" {
                commands.add(format_args!("peek {id}"));
            } else {
                if body.is_none() {
                    commands.add(format_args!("reserve-job {id}"));
                }
                commands.add(format_args!("bury {id} {priority}"));
            }
        }
        let mut replies = self.ask(&commands).await?.into_iter().skip(1);
        let mut claims = Vec::new();
        for Candidate { stats, body, due_here } in found {
            let is_buried = stats.state == "buried";
            let body = match body {
                None => replies.next().and_then(|reply| Some(reply.job()?.1)),
                body => body,
            };
            let is_ours = is_buried || replies.next().is_some_and(|reply| reply.is("BURIED"));
            let Some(body) = body.filter(|_| is_ours) else {
                // A worker was faster.
                self.stuck.insert(stats.id);
                continue;
            };
            let id: Arc<str> = format!("adopt-{}-{}", record.claim, stats.id).into();
            self.held.insert(id.clone(), ClaimedJob { claim, id: stats.id, priority: stats.priority, due_here });
            let is_fresh = stats.releases == 0 && due_here.is_none();
            let late_ms = is_fresh.then(|| stats.age_s.saturating_sub(stats.delay_s) * SECOND_MS);
            claims.push(Claim { id, job: job(&stats, body, record.to.clone()), due_here, late_ms, is_replay });
        }
        if claims.is_empty() {
            self.ask_one(format!("delete {claim}")).await?;
        } else {
            self.open.insert(claim, claims.len());
        }
        Ok(claims)
    }

    /// The unreserved jobs of the next claim.
    pub(super) async fn replay_next(&mut self) -> Done<Vec<Claim>> {
        loop {
            let commands = [&format!("use {CLAIMS}"), "peek-ready", "peek-delayed"].into_iter().collect();
            let mut replies = self.ask(&commands).await?;
            let is_delayed = replies.pop().is_some_and(|reply| reply.job().is_some());
            let Some((claim, _)) = replies.pop().and_then(|reply| reply.job()) else {
                if is_delayed && self.connected.is_some_and(|at| at.elapsed() < Duration::from_secs(DELAY_S + 1)) {
                    tokio::time::sleep(POLL).await;
                    continue;
                }
                return Ok(Vec::new());
            };
            let reserved = self.ask_one(format!("reserve-job {claim}")).await?;
            let Some((_, Body::Whole(text))) = reserved.job() else { continue };
            let record: Record = serde_json::from_slice(&text).map_err(|_| {
                let text = format!("the job {claim} in the tube {CLAIMS} was not written by `duetime adopt`");
                Failure::error(text).hint("look at it, then delete it")
            })?;
            let stats = record.jobs.iter().map(|ClaimEntry(id, ..)| format!("stats-job {id}"));
            let replies = self.ask(&stats.collect()).await?;
            let found = replies.iter().zip(&record.jobs).filter_map(|(reply, &ClaimEntry(_, due, reserves))| {
                let stats = JobStats::read(reply)?;
                let is_open = match &*stats.state {
                    // Otherwise a worker has buried it since.
                    "buried" => stats.reserves == reserves,
                    state => matches!(state, "ready" | "delayed"),
                };
                is_open.then(|| Candidate { due_here: due.max(due_here(&stats)), stats, body: None })
            });
            let found: Vec<Candidate> = found.collect();
            let (claim, record) = self.renewed(claim, record, &found).await?;
            let claims = self.hold(claim, &record, found, true).await?;
            if !claims.is_empty() {
                return Ok(claims);
            }
        }
    }

    /// The claim with the numbers of reserves that jobs will have once they are buried again: its job is replaced before that.
    async fn renewed(&mut self, claim: u64, mut record: Record, found: &[Candidate]) -> Done<(u64, Record)> {
        if found.iter().all(|found| found.stats.state == "buried") {
            return Ok((claim, record));
        }
        let listed = |Candidate { stats, due_here, .. }: &Candidate| {
            ClaimEntry(stats.id, *due_here, stats.reserves + u64::from(stats.state != "buried"))
        };
        record.jobs = found.iter().map(listed).collect();
        let mut put = Commands::from_iter([format!("use {CLAIMS}")]);
        put.add_put(DELAY_S, TTR_S, &serde_json::to_vec(&record).map_err(Failure::from)?);
        let reply = self.ask(&put).await?.remove(1);
        let renewed = reply.id().filter(|_| reply.is("INSERTED")).ok_or_else(|| unexpected(&reply))?;
        self.ask_one(format!("delete {claim}")).await?;
        Ok((renewed, record))
    }

    /// One job of a claim is done with; true if it was the last.
    pub(super) fn close(&mut self, claim: u64) -> bool {
        let Some(count) = self.open.get_mut(&claim) else { return false };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            self.open.remove(&claim);
        }
        is_last
    }
}

/// The job that it becomes, as if a client had put it here.
fn job(stats: &JobStats, body: Body, to: Option<Arc<str>>) -> Result<NewJob, String> {
    let payload = match body {
        Body::Whole(payload) => payload,
        Body::TooLarge(bytes) => {
            return Err(format!("its body has {bytes} bytes; the limit is {PAYLOAD_BYTES_MAX}"));
        }
    };
    let tags = vec![tag(&stats.tube).map_err(|failure| failure.to_string())?];
    let queue = to.unwrap_or_else(|| Arc::from(&*stats.tube));
    Ok(NewJob { tags, ..new_job(queue, stats.priority, stats.ttr_s, payload) })
}
