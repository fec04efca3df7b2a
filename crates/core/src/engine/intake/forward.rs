//! Copies of jobs in other queues, for queues whose target is another queue.
//!
//! The origin of a copy names the job and its `first_due_at`. So a job that is forwarded twice, because the process died
//! before the job was completed, has one copy; and a job that is retried by hand has another. No caller may choose such an
//! origin.

use crate::engine::intake::Intake;
use crate::error::Error;
use crate::limits::MOVES_MAX;
use crate::model::job::{Job, NewJob};
use crate::model::name::OF_ENGINE;
use crate::request::Pushed;
use std::sync::Arc;

/// The prefix of the origins of copies, after the reserved one.
const FORWARD: &str = "forward-";

impl Intake {
    pub(in crate::engine) async fn hand_on(self: &Arc<Self>, job: &Job, queue: &Arc<str>) -> Result<Pushed, Error> {
        self.supervisor.check_open()?;
        if job.options().moves >= MOVES_MAX {
            let got = "one more: the queues form a circle";
            return Err(Error::invalid("target", format!("reached after at most {MOVES_MAX} queues"), got));
        }
        let copy = NewJob {
            queue: queue.clone(),
            kind: job.kind.clone(),
            priority: job.priority,
            tags: job.tags.to_vec(),
            options: job.options().moved(),
            ..NewJob::new(job.payload.clone())
        };
        let origin = Arc::from(format!("{OF_ENGINE}{FORWARD}{}-{}", job.id, job.first_due_at));
        let mut answers = self
            .supervisor
            .complete(self, |intake| async move { intake.push_batch(vec![copy], Some(origin)).await })
            .await?;
        answers.pop().expect("an answer for each job")
    }
}
