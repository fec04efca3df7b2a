//! Delayed jobs, and ready ones of paused tubes: nothing lists them, so their neighbours by id are looked at.
//!
//! The head of each tube is peeked at. Jobs that were put together have ids that follow each other, so the whole block of ids
//! around a head is asked for with one write. If ids lie far apart, that finds one job at a time.

use super::Beanstalkd;
use super::stats::JobStats;
use super::wire::Body;
use crate::cli::adopt::source::Done;
use crate::cli::time::now;
use duetime_core::Millis;
use duetime_core::limits::SECOND_MS;
use std::collections::BTreeSet;

/// Ids that are asked for together.
const BLOCK: u64 = 256;
/// The number of tubes whose heads are peeked at together.
const TUBES: usize = 16;

/// A job that may be claimed.
pub(super) struct Candidate {
    pub(super) stats: JobStats,
    /// Its body, if this connection has reserved it.
    pub(super) body: Option<Body>,
    /// When it is due by this machine's clock, rounded up; `None`: now.
    pub(super) due_here: Option<Millis>,
}

/// The due time of a job whose stats beanstalkd has just sent.
pub(super) fn due_here(stats: &JobStats) -> Option<Millis> {
    // The seconds that are left were rounded down.
    (stats.state == "delayed").then(|| now() + (stats.left_s + 1) * SECOND_MS)
}

impl Beanstalkd {
    /// Some of the jobs that are delayed, or ready in a paused tube; none if there are no more.
    pub(super) async fn scan(&mut self) -> Done<Vec<Candidate>> {
        let tubes: Vec<String> = self.wanted.iter().cloned().collect();
        for some in tubes.chunks(TUBES) {
            let peeks = |tube| [format!("use {tube}"), "peek-delayed".to_owned(), "peek-ready".to_owned()];
            let commands = some.iter().flat_map(peeks).collect();
            let heads = self.ask(&commands).await?.into_iter().filter_map(|reply| Some(reply.job()?.0));
            let heads: BTreeSet<u64> = heads.filter(|id| !self.stuck.contains(id)).collect();
            let Some(&head) = heads.first() else { continue };
            let block = head / BLOCK * BLOCK;
            // The head itself is always among those that there is room for.
            let ids = std::iter::once(head).chain((block..block + BLOCK).filter(|&id| id != head));
            let replies = self.ask(&ids.map(|id| format!("stats-job {id}")).collect()).await?;
            let is_wanted = |stats: &JobStats| {
                matches!(&*stats.state, "delayed" | "ready")
                    && self.wanted.contains(&stats.tube)
                    && !self.stuck.contains(&stats.id)
            };
            let known = replies.iter().filter_map(JobStats::read).filter(is_wanted).take(self.batch_jobs);
            let found: Vec<Candidate> =
                known.map(|stats| Candidate { due_here: due_here(&stats), body: None, stats }).collect();
            if found.is_empty() {
                // It has gone since.
                self.stuck.insert(head);
            }
            return Ok(found);
        }
        Ok(Vec::new())
    }
}
