//! Ready jobs: reserved as a worker reserves them, many at a time.

use super::scan::Candidate;
use super::stats::JobStats;
use super::{Beanstalkd, unexpected};
use crate::cli::adopt::source::Done;

impl Beanstalkd {
    /// Reserves ready jobs of the watched tubes.
    pub(super) async fn reserve_ready(&mut self) -> Done<Vec<Candidate>> {
        let mut reserved: Vec<_> = self.first.take().into_iter().collect();
        if self.wanted.is_empty() {
            return Ok(Vec::new());
        }
        let reserve = (reserved.len()..self.batch_jobs).map(|_| "reserve-with-timeout 0");
        for reply in self.ask(&reserve.collect()).await? {
            if reply.is("RESERVED") {
                reserved.extend(reply.job());
            } else if !reply.is("TIMED_OUT") && !reply.is("DEADLINE_SOON") {
                return Err(unexpected(&reply));
            }
        }
        let replies = self.ask(&reserved.iter().map(|(id, _)| format!("stats-job {id}")).collect()).await?;
        let found = replies.iter().zip(reserved).filter_map(|(reply, (_, body))| {
            // A job whose time to run is over may be gone by now.
            let stats = JobStats::read(reply)?;
            Some(Candidate { stats, body: Some(body), due_here: None })
        });
        Ok(found.collect())
    }
}
