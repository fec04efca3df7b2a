//! Copies of jobs in other queues, for queues whose target is another queue.
//!
//! The origin of a copy names the job and its `first_due_at`. So a job that is forwarded twice, because the process died
//! before the job was completed, has one copy; and a job that is retried by hand has another. No caller may choose such an
//! origin.

use crate::engine::intake::{Intake, Needs};
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
        let origin = Arc::from(format!("{OF_ENGINE}{FORWARD}{}-{}", job.id, job.first_due_at.0));
        let mut answers = self
            .supervisor
            .complete(self, |intake| async move { intake.push_batch(vec![copy], Some(origin), Needs::Nothing).await })
            .await?;
        answers.pop().expect("an answer for each job")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{Fixture, job};
    use crate::json::Timestamp;
    use crate::model::job::NewJob;
    use crate::model::options::JobOptions;
    use crate::request::PushOutcome;

    #[tokio::test(start_paused = true)]
    async fn a_job_is_handed_on_once_until_it_is_retried_by_hand() {
        let fixture = Fixture::new().await;
        let (intake, next) = (&fixture.services.intake, Arc::from("next"));
        let pushed = fixture.push(NewJob { tags: vec!["t".into()], ..job() }).await;
        let first = intake.hand_on(&pushed, &next).await.unwrap();
        assert_eq!((&first.job.queue, first.job.options().moves, first.job.tags[..].len()), (&next, 1, 1));
        let again = intake.hand_on(&pushed, &next).await.unwrap();
        assert_eq!((again.job.id, again.outcome), (first.job.id, PushOutcome::Repeated));
        let retried = Job { first_due_at: Timestamp(pushed.first_due_at.0 + 1), ..pushed };
        assert_eq!(intake.hand_on(&retried, &next).await.unwrap().outcome, PushOutcome::Created);
    }

    #[tokio::test(start_paused = true)]
    async fn queues_that_form_a_circle_end() {
        let fixture = Fixture::new().await;
        let pushed = fixture.push(job()).await;
        let moved = |moves| Job { options: JobOptions { moves, ..JobOptions::default() }.shared(), ..pushed.clone() };
        let next = Arc::from("next");
        assert!(fixture.services.intake.hand_on(&moved(MOVES_MAX - 1), &next).await.is_ok());
        let error = fixture.services.intake.hand_on(&moved(MOVES_MAX), &next).await.unwrap_err();
        assert!(error.to_string().contains("the queues form a circle"), "{error}");
    }
}
