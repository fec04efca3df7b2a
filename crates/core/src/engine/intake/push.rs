//! Push: jobs are checked, get ids and [permits](crate::engine::queues::Gate), and are [admitted](crate::engine::admission); then
//! repeats and held keys are resolved. A job without a permit is only looked up: a repeat and a conflict need none.

use crate::api::check_follow_ups;
use crate::clock::Millis;
use crate::engine::admission::{Admitted, Producer};
use crate::engine::intake::Intake;
use crate::engine::queues::{Entry, WaitingLimit};
use crate::error::Error;
use crate::json::Span;
use crate::limits::{BATCH_BYTES_MAX, BATCH_JOBS_MAX};
use crate::model::id::JobId;
use crate::model::job::{Due, Job, NewJob, OnConflict};
use crate::ports::{Change, Detail, Edit, Edited, OutboxEntry, Outcomes};
use crate::request::{Answers, PushOutcome, Pushed, WhenFull};
use std::collections::HashMap;
use std::sync::Arc;

/// How often a push is retried because the holder of its key, or the job with its origin, has just been removed.
pub(super) const TRIES: usize = 5;

/// Whether new jobs need a permit for a queue with a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Needs {
    /// Those of callers.
    Permit,
    /// Copies of jobs that were accepted before.
    Nothing,
}

/// A job on its way: the answer so far, what it met, and its permit.
struct Push {
    answer: Result<Pushed, Error>,
    met: Option<Admitted>,
    entry: Entry,
}

impl Intake {
    pub(in crate::engine) async fn push(self: &Arc<Self>, jobs: Vec<NewJob>) -> Result<Answers<Pushed>, Error> {
        self.supervisor.check_open()?;
        check_batch(&jobs)?;
        self.supervisor.complete(self, |intake| async move { intake.push_batch(jobs, None, Needs::Permit).await }).await
    }

    /// Pushes jobs; copies of others have an origin that the engine chooses.
    pub(in crate::engine) async fn push_batch(
        &self,
        new: Vec<NewJob>,
        origin: Option<Arc<str>>,
        needs: Needs,
    ) -> Result<Answers<Pushed>, Error> {
        let now = self.broker.now();
        let partitions: Vec<u16> = new.iter().map(|new| self.broker.partition(&new.queue)).collect();
        let ids = self.ids.next(&partitions, now).await?;
        let unknown_ms = self.broker.now_at_most().saturating_sub(now);
        let mut queue_before = None;
        let accept = |(new, id): (&NewJob, JobId)| {
            let mut job = self.accept(new, id, now)?;
            // Most batches are for one queue.
            let names_others = job.options().retry.when_exhausted.is_some() || job.options().has_follow_ups();
            if names_others || queue_before.as_ref() != Some(&job.queue) {
                self.settings.names.admit_all(&job.queue, job.options())?;
                queue_before = Some(job.queue.clone());
            }
            if origin.is_some() {
                job.origin.clone_from(&origin);
            }
            if matches!(new.due()?, Due::After(Span(1..))) {
                job.due_at.0 += unknown_ms;
                job.first_due_at.0 += unknown_ms;
            }
            Ok(job)
        };
        let (mut jobs, mut entered) = (Vec::with_capacity(new.len()), Vec::with_capacity(new.len()));
        for accepted in new.iter().zip(ids).map(accept) {
            let entry = match &accepted {
                Ok(job) if needs == Needs::Permit => self.gate.enter(&job.queue).await,
                _ => Ok(Entry::Free),
            };
            entered.push(match (accepted, entry) {
                (Ok(job), Ok(Entry::Full(limit))) => Ok((Some(Box::new(job)), Entry::Full(limit))),
                (Ok(job), Ok(entry)) => {
                    jobs.push(job);
                    Ok((None, entry))
                }
                (Err(error), _) | (_, Err(error)) => Err(error),
            });
        }
        let admitted = self.admission.admit(&mut jobs, Producer::Push).await?;
        let mut admitted = jobs.into_iter().zip(admitted);
        let mut pushes = Vec::with_capacity(entered.len());
        for entered in entered {
            let created = |job| Ok(Pushed { job, outcome: PushOutcome::Created });
            pushes.push(match entered {
                Err(error) => Push { answer: Err(error), met: None, entry: Entry::Free },
                Ok((Some(job), entry)) => {
                    Push { answer: Ok(Pushed { job: *job, outcome: PushOutcome::Dropped }), met: None, entry }
                }
                Ok((None, entry)) => match admitted.next().expect("each job is answered for") {
                    (job, Admitted::Created | Admitted::Repeated | Admitted::Removed) => {
                        Push { answer: created(job), met: None, entry }
                    }
                    (job, met) => {
                        Push { answer: Ok(Pushed { job, outcome: PushOutcome::Kept }), met: Some(met), entry }
                    }
                },
            });
        }
        self.look_up_full(&mut pushes).await?;
        let firsts = pushes.iter().filter_map(|push| match push.met {
            Some(Admitted::Known(first)) => Some(first),
            _ => None,
        });
        let firsts = self.firsts(firsts.collect()).await?;
        let mut resolved = Vec::with_capacity(pushes.len());
        for (Push { answer, met, entry }, new) in pushes.into_iter().zip(&new) {
            let answer = match (answer, met, &entry) {
                (Ok(pushed), Some(Admitted::Known(first)), _) if firsts.contains_key(&first) => {
                    repeated(&pushed.job, firsts[&first].clone())
                }
                (Ok(pushed), met, Entry::Full(limit)) => self.push_full(pushed.job, met, new.on_conflict, *limit).await,
                (Ok(pushed), Some(met), _) => self.push_refused(pushed.job, met, new.on_conflict).await,
                (answer, ..) => answer,
            };
            if let Entry::Permitted(permit) = entry
                && has_made_none(&answer)
            {
                permit.give_back();
            }
            resolved.push(answer);
        }
        Ok(resolved)
    }

    /// Looks up what the jobs without a permit would meet. Those of the same push are recorded by now.
    async fn look_up_full(&self, pushes: &mut [Push]) -> Result<(), Error> {
        let looked_up = |push: &&mut Push| {
            let job = push.answer.as_ref().ok().map(|pushed| &pushed.job);
            matches!(push.entry, Entry::Full(_)) && job.is_some_and(|job| job.key.is_some() || job.origin.is_some())
        };
        let mut full: Vec<&mut Push> = pushes.iter_mut().filter(looked_up).collect();
        if full.is_empty() {
            return Ok(());
        }
        let jobs = full.iter().filter_map(|push| push.answer.as_ref().ok()).map(|pushed| pushed.job.clone());
        let known = self.ledger.known(&jobs.collect::<Vec<_>>()).await?;
        full.iter_mut().zip(known).for_each(|(push, known)| push.met = known.map(Admitted::from));
        Ok(())
    }

    /// Pushes a job into a full queue: it may be a repeat, or replace another job.
    pub(in crate::engine) async fn push_without_permit(
        &self,
        job: Job,
        on_conflict: OnConflict,
        limit: WaitingLimit,
    ) -> Result<Pushed, Error> {
        let met = self.ledger.known(std::slice::from_ref(&job)).await?.pop().flatten();
        self.push_full(job, met.map(Admitted::from), on_conflict, limit).await
    }

    /// The same for a job that has been looked up.
    async fn push_full(
        &self,
        job: Job,
        met: Option<Admitted>,
        on_conflict: OnConflict,
        limit: WaitingLimit,
    ) -> Result<Pushed, Error> {
        if let Some(met) = met
            && let Some(pushed) = self.meet(&job, &met, on_conflict).await?
        {
            return Ok(pushed);
        }
        self.gate.refused(&job.queue, limit);
        match limit.then {
            WhenFull::Refuse => Err(Error::QueueFull { queue: job.queue, max_waiting: limit.max }),
            WhenFull::Drop => Ok(Pushed { job, outcome: PushOutcome::Dropped }),
        }
    }

    /// The job to record, if it is within all limits.
    pub(in crate::engine) fn accept(&self, new: &NewJob, id: JobId, created_at: Millis) -> Result<Job, Error> {
        let job = new.accept(id, created_at, self.options.payload_bytes_max)?;
        check_follow_ups(job.options(), created_at, self.options.payload_bytes_max)?;
        self.settings.check_targets(&job.queue, job.options())?;
        Ok(job)
    }

    /// The jobs that pushes made before, by their ids.
    pub(in crate::engine) async fn firsts(&self, ids: Vec<JobId>) -> Result<HashMap<JobId, Job>, Error> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let live = self.broker.get(&ids, Detail::Whole).await?.into_iter().flatten();
        let mut firsts: HashMap<JobId, Job> = live.map(|job| (job.id, job)).collect();
        let others: Vec<JobId> = ids.into_iter().filter(|id| !firsts.contains_key(id)).collect();
        let others: Vec<Job> = self.ledger.get(&others).await?.into_iter().flatten().collect();
        self.admission.put_again(&others).await?;
        firsts.extend(others.into_iter().map(|job| (job.id, job)));
        Ok(firsts)
    }

    /// Pushes a job that was not recorded a moment ago, since its origin was known or its key was held.
    pub(in crate::engine) async fn push_refused(
        &self,
        mut job: Job,
        mut refused: Admitted,
        on_conflict: OnConflict,
    ) -> Result<Pushed, Error> {
        for _ in 0..TRIES {
            if let Some(pushed) = self.meet(&job, &refused, on_conflict).await? {
                return Ok(pushed);
            }
            (job, refused) = self.admission.admit_one(job, Producer::Push).await?;
            if matches!(refused, Admitted::Created | Admitted::Repeated | Admitted::Removed) {
                return Ok(Pushed { job, outcome: PushOutcome::Created });
            }
        }
        Err(match refused {
            Admitted::KeyHeld(holder) => conflict(&job, holder),
            _ => Error::Unavailable("the job with this origin was removed at this moment; push again".to_owned()),
        })
    }

    /// The outcome of a push that has met another job; `None` if that is gone, or the key is free by now.
    async fn meet(&self, job: &Job, met: &Admitted, on_conflict: OnConflict) -> Result<Option<Pushed>, Error> {
        match *met {
            Admitted::Known(first) => match self.firsts(vec![first]).await?.remove(&first) {
                Some(first) => repeated(job, first).map(Some),
                None => Ok(None),
            },
            Admitted::KeyHeld(holder) => self.push_held(job, holder, on_conflict).await,
            _ => Ok(None),
        }
    }

    /// The outcome of a push whose key is held; `None` if the key is free by now.
    async fn push_held(&self, job: &Job, holder: JobId, on_conflict: OnConflict) -> Result<Option<Pushed>, Error> {
        let Some(held) = self.key_holder(holder).await? else { return Ok(None) };
        match on_conflict {
            OnConflict::Keep => Ok(Some(Pushed { job: held, outcome: PushOutcome::Kept })),
            OnConflict::Reject => Err(conflict(job, holder)),
            OnConflict::Replace => self.replace_held(job, &held).await,
            OnConflict::Debounce(debounce) => self.replace_held(&debounce.postponed(job, &held), &held).await,
        }
    }

    async fn replace_held(&self, job: &Job, held: &Job) -> Result<Option<Pushed>, Error> {
        let replaced = self.replace(job, held).await?;
        Ok(replaced.map(|job| Pushed { job, outcome: PushOutcome::Replaced }))
    }

    /// The job, if it still holds its key. If it has released the key and that is not recorded yet, it is recorded now.
    pub(in crate::engine) async fn key_holder(&self, id: JobId) -> Result<Option<Job>, Error> {
        let entries = self.broker.outcomes(Outcomes::Of(id)).await?;
        let live = self.broker.get(&[id], Detail::Whole).await?.pop().flatten();
        match live {
            Some(job) if job.live_key().is_some() => return Ok(Some(job)),
            Some(job) if entries.is_empty() => self.recorder.try_record(vec![OutboxEntry::Changed(job)]).await?,
            None if entries.is_empty() => {
                let row = self.ledger.get(&[id]).await?.pop().flatten();
                return Ok(row.filter(|job| job.live_key().is_some()));
            }
            _ => self.recorder.try_record(entries).await?,
        }
        Ok(None)
    }

    /// Makes the holder of its key this job; `None` if the holder is no longer live, or has released the key since it was read.
    pub(in crate::engine) async fn replace(&self, job: &Job, holder: &Job) -> Result<Option<Job>, Error> {
        let change = Change::Replace(Arc::new(job.clone()));
        let edited = self.editor.edit(vec![Edit { id: holder.id, version: None, change }]).await.pop();
        match edited.expect("one edit has one answer")? {
            Edited::Changed(replaced) => Ok(Some(replaced)),
            Edited::Running(running) if running.live_key().is_some() => Err(conflict(job, holder.id)),
            _ => Ok(None),
        }
    }
}

/// Whether a push has certainly recorded no job.
fn has_made_none(answer: &Result<Pushed, Error>) -> bool {
    match answer {
        Ok(pushed) => pushed.outcome != PushOutcome::Created,
        Err(error) => matches!(error, Error::KeyConflict { .. } | Error::OriginReused { .. } | Error::Running(_)),
    }
}

/// The answer to a push with the origin of this job: it is a repeat, unless both say what they sent, and that differs. JSON that
/// is only written otherwise does not.
///
/// # Errors
/// [`Error::OriginReused`].
pub(in crate::engine) fn repeated(job: &Job, first: Job) -> Result<Pushed, Error> {
    let mut differs = match (job.sent(), first.sent()) {
        (Some(sent), Some(of_first)) => sent.differences(&of_first),
        _ => Vec::new(),
    };
    differs.retain(|part| *part != "payload" || !is_same_json(&job.payload, &first.payload));
    if differs.is_empty() {
        return Ok(Pushed { job: first, outcome: PushOutcome::Repeated });
    }
    Err(Error::OriginReused {
        queue: job.queue.clone(),
        origin: job.origin.clone().unwrap_or_default(),
        first: first.id,
        differs: differs.into_iter().map(str::to_owned).collect(),
    })
}

/// Maps of some languages have another order in each process.
fn is_same_json(one: &[u8], other: &[u8]) -> bool {
    let read = |bytes| serde_json::from_slice::<serde_json::Value>(bytes).ok();
    read(one).is_some_and(|value| Some(value) == read(other))
}

pub(in crate::engine) fn conflict(job: &Job, holder: JobId) -> Error {
    let key = job.key.clone().unwrap_or_default();
    Error::KeyConflict { queue: job.queue.clone(), key, holder }
}

fn check_batch(jobs: &[NewJob]) -> Result<(), Error> {
    if jobs.len() > BATCH_JOBS_MAX {
        return Err(Error::invalid("jobs", format!("at most {BATCH_JOBS_MAX} in a batch"), jobs.len()));
    }
    let bytes: usize = jobs.iter().map(|job| job.payload.len() + job.options.chain_bytes()).sum();
    if bytes > BATCH_BYTES_MAX {
        let expected = format!("at most {BATCH_BYTES_MAX} bytes of payload in a batch");
        return Err(Error::invalid("jobs", expected, bytes));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{Fixture, QUEUE, job};

    impl Fixture {
        async fn outcomes(&self, jobs: Vec<NewJob>) -> Vec<Result<(JobId, PushOutcome), &'static str>> {
            let answers = self.services.intake.push(jobs).await.unwrap().into_iter();
            answers.map(|answer| answer.map(|p| (p.job.id, p.outcome)).map_err(|error| error.code())).collect()
        }
    }

    fn keyed(on_conflict: OnConflict) -> NewJob {
        NewJob { key: Some("k".into()), on_conflict, ..job() }
    }

    #[tokio::test(start_paused = true)]
    async fn the_holder_of_a_key_is_kept_replaced_or_the_reason_of_a_refusal() {
        let fixture = Fixture::new().await;
        let holder = fixture.push(keyed(OnConflict::Keep)).await.id;
        let replaces = NewJob { kind: "other".into(), ..keyed(OnConflict::Replace) };
        let all = vec![keyed(OnConflict::Keep), keyed(OnConflict::Reject), replaces];
        let expected = [Ok((holder, PushOutcome::Kept)), Err("key_conflict"), Ok((holder, PushOutcome::Replaced))];
        assert_eq!(fixture.outcomes(all).await, expected);
        assert_eq!((&*fixture.row(holder).unwrap().kind, fixture.ledger.jobs().len()), ("other", 1));
    }

    /// Only the broker knows the end, and the ledger judges keys.
    #[tokio::test(start_paused = true)]
    async fn a_key_is_free_as_soon_as_its_holder_has_ended() {
        let fixture = Fixture::new().await;
        let holder = fixture.running(keyed(OnConflict::Keep)).await;
        fixture.ledger.set_away(true);
        let done = crate::request::Outcome::complete(None);
        fixture.settle(holder.receipt(), done).await.unwrap_err();
        fixture.ledger.set_away(false);
        let outcome = fixture.outcomes(vec![keyed(OnConflict::Reject)]).await.remove(0);
        assert!(outcome.is_ok_and(|(id, outcome)| id != holder.id && outcome == PushOutcome::Created));
    }

    #[tokio::test(start_paused = true)]
    async fn one_job_that_is_refused_does_not_keep_out_the_others_of_its_batch() {
        let fixture = Fixture::new().await;
        let origin = || NewJob { origin: Some("o".into()), ..job() };
        let first = fixture.push(origin()).await.id;
        let wrong = NewJob { queue: "".into(), ..job() };
        let outcomes = fixture.outcomes(vec![wrong, origin(), job()]).await;
        assert_eq!(outcomes[..2], [Err("invalid"), Ok((first, PushOutcome::Repeated))]);
        assert!(outcomes[2].is_ok_and(|(_, outcome)| outcome == PushOutcome::Created));
        assert_eq!(fixture.services.queues.counter.queue(QUEUE).await.unwrap().counts.ready, 2);
    }
}
