//! Import: whole jobs of another store, in whatever state, recorded as they are.
//!
//! A job keeps its id if this store keeps its queue in the partition that the id names. Else it gets the same sequence in
//! the right partition: always the same id, so that a repeated import duplicates nothing. Sequences allotted later lie
//! beyond the imported ones.

use super::push::{TRIES, conflict};
use crate::api::check_follow_ups;
use crate::clock::Millis;
use crate::engine::admission::{Admitted, Producer};
use crate::engine::intake::Intake;
use crate::error::Error;
use crate::limits::{
    BATCH_BYTES_MAX, BATCH_JOBS_MAX, DAY_MS, DELAY_MS_MAX, ERRORS_BYTES_MAX, ERRORS_KEPT, MESSAGE_BYTES_MAX,
    PAYLOAD_BYTES_MAX, RESULT_BYTES_MAX,
};
use crate::model::id::{JobId, NUMBER_END};
use crate::model::job::{Job, State, check_lease, check_payload};
use crate::model::name;
use crate::request::{Answers, Imported};
use crate::rules;
use std::sync::Arc;

/// Instants stay below this: some stores keep 48 bits of them.
const INSTANT_END: u64 = 1 << 48;

impl Intake {
    pub(in crate::engine) async fn import(self: &Arc<Self>, jobs: Vec<Job>) -> Result<Answers<Imported>, Error> {
        self.supervisor.check_open()?;
        let bytes: usize = jobs.iter().map(|job| job.payload.len()).sum();
        if jobs.len() > BATCH_JOBS_MAX || bytes > BATCH_BYTES_MAX {
            let expected = format!("at most {BATCH_JOBS_MAX}, and {BATCH_BYTES_MAX} bytes of payload, in a batch");
            return Err(Error::invalid("jobs", expected, format!("{} of {bytes} bytes", jobs.len())));
        }
        self.supervisor.complete(self, |intake| async move { intake.import_batch(jobs).await }).await
    }

    async fn import_batch(&self, jobs: Vec<Job>) -> Result<Answers<Imported>, Error> {
        let now = self.broker.now();
        let (mut to_admit, mut refusals) = (Vec::with_capacity(jobs.len()), Vec::with_capacity(jobs.len()));
        for job in jobs {
            refusals.push(self.place(job, now).map(|job| to_admit.push(job)).err());
        }
        self.pass(&to_admit, now).await?;
        self.generations.pass_numbers(&to_admit).await?;
        let admitted = self.admission.admit(&mut to_admit, Producer::Import).await?;
        let mut admitted = to_admit.into_iter().zip(admitted);
        let mut answers = Vec::with_capacity(refusals.len());
        for refusal in refusals {
            let admitted = match refusal {
                Some(error) => Err(error),
                None => match admitted.next().expect("each job is answered for") {
                    (job, Admitted::KeyHeld(holder)) => self.import_held(job, holder).await,
                    admitted => Ok(admitted),
                },
            };
            answers.push(admitted.and_then(|(Job { id, .. }, admitted)| match admitted {
                Admitted::Created => Ok(Imported { id, is_new: true }),
                Admitted::Repeated | Admitted::KeyHeld(_) => Ok(Imported { id, is_new: false }),
                // The job of this origin is here already.
                Admitted::Known(first) => Ok(Imported { id: first, is_new: false }),
                Admitted::Removed => Err(Error::Unavailable(format!("the job {id} was just removed"))),
                Admitted::IdTaken(queue) => {
                    let got = format!("{id}, which is another job here, in the queue {queue}");
                    Err(Error::invalid("id", "free, or the id of the same job", got))
                }
            }));
        }
        Ok(answers)
    }

    /// The job as recorded here.
    fn place(&self, mut job: Job, now: Millis) -> Result<Job, Error> {
        check_whole(&job, now)?;
        check_follow_ups(job.options(), now, self.options.payload_bytes_max)?;
        self.options.check_target(job.options().target.as_deref())?;
        self.settings.names.admit_all(&job.queue, job.options())?;
        rules::unlease(&mut job, now);
        job.set_imported(true);
        let partition = self.broker.partition(&job.queue);
        if job.id.partition() != partition {
            job.id = JobId::in_partition(job.id.sequence(), partition);
        }
        Ok(job)
    }

    /// Has the ledger allot sequences beyond those of these jobs from now on.
    async fn pass(&self, jobs: &[Job], now: Millis) -> Result<(), Error> {
        let last = jobs.iter().map(|job| job.id.allotted_at()).max();
        match last.filter(|&last| last >= now) {
            Some(last) => self.ledger.allot(1, last + 1).await.map(drop),
            None => Ok(()),
        }
    }

    /// Admits a job whose key was held by another job a moment ago.
    async fn import_held(&self, mut job: Job, mut holder: JobId) -> Result<(Job, Admitted), Error> {
        for _ in 0..TRIES {
            if self.key_holder(holder).await?.is_some() {
                break;
            }
            match self.admission.admit_one(job, Producer::Import).await? {
                (refused, Admitted::KeyHeld(next)) => (job, holder) = (refused, next),
                admitted => return Ok(admitted),
            }
        }
        Err(conflict(&job, holder))
    }
}

/// Whether a whole job keeps all limits, at this time, and makes sense.
///
/// # Errors
/// [`Error::Invalid`], naming the wrong part.
pub fn check_whole(job: &Job, now: Millis) -> Result<(), Error> {
    name::check_queue(&job.queue)?;
    name::check_kind(&job.kind)?;
    job.key.as_ref().map_or(Ok(()), |key| name::check_key(key))?;
    job.origin.as_ref().map_or(Ok(()), |origin| name::check_origin(origin))?;
    name::check_tags(&job.tags)?;
    check_payload(&job.payload, PAYLOAD_BYTES_MAX)?;
    job.options().check(&job.queue)?;
    job.lease.map_or(Ok(()), check_lease)?;
    job.progress.as_ref().map_or(Ok(()), |progress| progress.check())?;
    check_id(job.id, now)?;
    check_numbers(job)?;
    at_most("expires", job.expires.unwrap_or_default().0, DELAY_MS_MAX)?;
    at_most("bytes of the result", bytes(job.result.as_deref()), RESULT_BYTES_MAX as u64)?;
    at_most("bytes of the message", bytes(job.message.as_deref().map(str::as_bytes)), MESSAGE_BYTES_MAX as u64)?;
    at_most("number of errors", job.errors.len() as u64, ERRORS_KEPT as u64)?;
    let errors: usize = job.errors.iter().map(|error| error.message.len()).sum();
    at_most("bytes of the errors", errors as u64, ERRORS_BYTES_MAX as u64)?;
    let is_over = !job.is_pending();
    // A parked job is kept until somebody removes it, so its end has no time. It always has a message.
    let may_be_parked = job.stage.end_state() == Some(State::Failed) && job.message.is_some();
    if is_over != job.finished_at.is_some() && !may_be_parked {
        let got = if is_over { "none, and an end" } else { "one, and no end" };
        return Err(Error::invalid("finished_at", "given exactly if the job has finished", got));
    }
    if is_over {
        return Ok(());
    }
    if job.result.is_some() {
        return Err(Error::invalid("result", "left out for a job that has not finished", "one"));
    }
    if job.cancel_asked && job.lease_until.is_none() {
        return Err(Error::invalid("cancel_requested", "false for a job that does not run", "true"));
    }
    at_most("due_at", job.due_at.0, now.saturating_add(DELAY_MS_MAX))
}

/// Ids of a clock that is far ahead would use up future ones.
fn check_id(id: JobId, now: Millis) -> Result<(), Error> {
    if id.sequence() == 0 || id.allotted_at() > now.saturating_add(DAY_MS) {
        return Err(Error::invalid("id", "an id that was issued before now", id));
    }
    Ok(())
}

fn check_numbers(job: &Job) -> Result<(), Error> {
    let always = [
        ("due_at", job.due_at),
        ("first_due_at", job.first_due_at),
        ("created_at", job.created_at),
        ("updated_at", job.updated_at),
    ];
    let perhaps = [("started_at", job.started_at), ("finished_at", job.finished_at), ("lease_until", job.lease_until)];
    let perhaps = perhaps.into_iter().filter_map(|(what, number)| Some((what, number?)));
    let errors = job.errors.iter().map(|error| ("time of an error", error.at));
    let progress = job.progress.iter().map(|progress| ("time of the progress", progress.at));
    for (what, number) in always.into_iter().chain(perhaps).chain(errors).chain(progress) {
        if !(1..INSTANT_END).contains(&number.0) {
            return Err(Error::invalid(what, "above 0 and below 2^48", number.0));
        }
    }
    if !(1..NUMBER_END).contains(&job.version) {
        return Err(Error::invalid("version", "above 0 and below 3 · 2^46", job.version));
    }
    at_most("epoch", job.epoch, job.version)
}

fn bytes(bytes: Option<&[u8]>) -> u64 {
    bytes.map_or(0, |bytes| bytes.len() as u64)
}

fn at_most(what: &'static str, number: u64, max: u64) -> Result<(), Error> {
    if number > max { Err(Error::invalid(what, format!("at most {max}"), number)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{Fixture, job};
    use std::time::Duration;

    async fn import(fixture: &Fixture, job: &Job) -> Result<Imported, Error> {
        fixture.services.intake.import(vec![job.clone()]).await.unwrap().remove(0)
    }

    /// A job of another store, with an id of its clock, which is ahead.
    async fn elsewhere() -> Job {
        let other = Fixture::new().await;
        crate::engine::tests::pass(Duration::from_secs(5)).await;
        other.push(job()).await
    }

    #[tokio::test(start_paused = true)]
    async fn an_import_is_marked_and_lies_before_the_ids_that_are_given_later() {
        let job = elsewhere().await;
        let fixture = Fixture::new().await;
        let imported = import(&fixture, &job).await.unwrap();
        assert_eq!(imported, Imported { id: job.id, is_new: true });
        assert!(fixture.row(job.id).unwrap().options().imported && fixture.held(job.id).await.is_some());
        assert!(fixture.push(crate::engine::tests::job()).await.id > job.id);
        assert_eq!(import(&fixture, &job).await, Ok(Imported { id: job.id, is_new: false }));
    }

    /// A file may be imported into the store that it comes from.
    #[tokio::test(start_paused = true)]
    async fn a_job_of_this_store_is_not_doubled_and_another_one_is_refused() {
        let fixture = Fixture::new().await;
        let pushed = fixture.running(job()).await;
        assert_eq!(import(&fixture, &pushed).await, Ok(Imported { id: pushed.id, is_new: false }));
        let other = Job { kind: "other".into(), ..pushed.clone() };
        assert_eq!(import(&fixture, &other).await.unwrap_err().code(), "invalid");
        assert_eq!(fixture.ledger.jobs().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_id_of_another_partition_becomes_the_same_one_each_time() {
        let job = elsewhere().await;
        let fixture = Fixture::new().await;
        let moved = Job { id: JobId::in_partition(job.id.sequence(), 7), ..job.clone() };
        assert_eq!(import(&fixture, &moved).await, Ok(Imported { id: job.id, is_new: true }));
        assert_eq!(import(&fixture, &moved).await, Ok(Imported { id: job.id, is_new: false }));
    }
}
