//! The way of a new job, whichever producer makes it: it is recorded, then counted and published, and put into the broker if
//! it is due soon.
//!
//! A queue with an overflow has older jobs that found no room in the broker. A new job joins them there, unless it is more
//! urgent, so that it does not overtake them. [`admit`](Intake::admit) records it there at once. Jobs that another step
//! records (rows of the inbox, copies that a rule moves, edited rows) join it when they are put.

use crate::engine::intake::Intake;
use crate::engine::observed::Observed;
use crate::error::Error;
use crate::model::id::JobId;
use crate::model::job::Job;
use crate::ports::{OVERFLOW, Recorded};

impl Intake {
    /// Records jobs. Those that are new count as this event, and are put into the broker or join an overflow. Whoever gets
    /// another answer than [`Recorded::Created`] decides what becomes of the job.
    ///
    /// # Errors
    /// Of the stores: the jobs may be recorded all the same, and then they run.
    pub(in crate::engine) async fn admit(
        &self,
        jobs: Vec<Job>,
        event: Observed,
    ) -> Result<Vec<(Job, Recorded)>, Error> {
        let reading = self.broker.reading();
        let recorded = self.metrics.stores.record.time(self.record_new(jobs.clone())).await?;
        let (mut to_hold, mut joins_overflow) = (Vec::new(), false);
        let mut admitted = Vec::with_capacity(jobs.len());
        for (job, (recorded, is_over)) in jobs.into_iter().zip(recorded) {
            if recorded == Recorded::Created {
                joins_overflow |= is_over;
                if !is_over && self.loader.is_to_hold(&job) {
                    to_hold.push(job.clone());
                }
            }
            admitted.push((job, recorded));
        }
        let created = admitted.iter().filter(|(_, recorded)| *recorded == Recorded::Created);
        self.publisher.observe_jobs(created.map(|(job, _)| job), |_| event);
        if joins_overflow {
            self.loader.ask_for_overflow();
        }
        self.loader.hold(to_hold, reading).await?;
        Ok(admitted)
    }

    /// The same for one job.
    pub(in crate::engine) async fn admit_one(&self, job: Job, event: Observed) -> Result<(Job, Recorded), Error> {
        Ok(self.admit(vec![job], event).await?.pop().expect("the ledger answers for each job"))
    }

    /// Records jobs, separately those that join the overflow of their queue; returns which these are.
    async fn record_new(&self, jobs: Vec<Job>) -> Result<Vec<(Recorded, bool)>, Error> {
        let (now, watermark) = (self.broker.now(), self.loader.watermark());
        let is_over: Vec<bool> =
            jobs.iter().map(|job| self.loader.is_to_hold(job) && self.loader.joins_overflow(job, now)).collect();
        let (mut near, mut over) = (Vec::with_capacity(jobs.len()), Vec::new());
        for (job, is_over) in jobs.into_iter().zip(&is_over) {
            if *is_over { &mut over } else { &mut near }.push(job);
        }
        if over.is_empty() {
            let recorded = self.ledger.record(near, watermark).await?;
            return Ok(recorded.into_iter().map(|recorded| (recorded, false)).collect());
        }
        let near_ids: Vec<JobId> = near.iter().map(|job| job.id).collect();
        let record_near =
            async { if near.is_empty() { Ok(Vec::new()) } else { self.ledger.record(near, watermark).await } };
        let (near, over) = tokio::join!(record_near, self.ledger.record(over, OVERFLOW));
        if near.is_ok() && over.is_err() {
            // These are not acknowledged, but they are recorded.
            self.loader.reconcile_later(near_ids.into_iter());
        }
        let (mut near, mut over) = (near?.into_iter(), over?.into_iter());
        let next = |is_over: bool| {
            let recorded = if is_over { over.next() } else { near.next() };
            (recorded.expect("the ledger answers for each job"), is_over)
        };
        Ok(is_over.into_iter().map(next).collect())
    }
}
