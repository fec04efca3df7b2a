//! Jobs that begin when another one ends: those that it names for success (`then`), and for any other end (`otherwise`).
//!
//! They are a part of the end: the broker writes both in one step, and the ledger records both in one transaction. So they
//! exist exactly if the job has ended so, whatever crashes, and a repeated end makes them once. A broker does not make jobs: it
//! refuses an end that lacks them ([`rules::is_whole`]), and this service adds them. An end that nothing follows costs nothing
//! more.
//!
//! | end | begins |
//! |---|---|
//! | success | `then`, and what the worker adds |
//! | a take | `then` |
//! | failed for good, expired, cancelled | `otherwise` |
//! | moved to another queue | nothing: its copy has both lists |
//! | parked, deleted | nothing |
//! | started again by its rule | nothing, since it has not ended |
//! | ended again after a retry by hand | the list for that end, again |
//! | an ended job that is imported | nothing: it began where the job ended |

use crate::api::{check_follow_ups, complete_follow_ups};
use crate::clock::Millis;
use crate::engine::admission::{Admission, Producer};
use crate::engine::base::Base;
use crate::engine::events::Publisher;
use crate::engine::ids::Ids;
use crate::engine::observation::Observation;
use crate::engine::queues::Settings;
use crate::error::Error;
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::model::follow_up::{FollowUp, Previous};
use crate::model::job::{Job, NewJob, Payload, Stage};
use crate::model::options::JobOptions;
use crate::ports::{Broker, Change, Detail, Edit, Edited, Ledger, OutboxEntry, Settle, Settled};
use crate::rules::{self, Decision};
use std::sync::Arc;

/// How often an end is decided again because the job has changed meanwhile.
const ROUNDS: usize = 5;

/// Makes the jobs that begin with ends.
pub(in crate::engine) struct FollowUps {
    broker: Arc<dyn Broker>,
    ledger: Arc<dyn Ledger>,
    admission: Arc<Admission>,
    publisher: Arc<Publisher>,
    ids: Arc<Ids>,
    settings: Arc<Settings>,
    payload_bytes_max: usize,
}

impl FollowUps {
    pub(in crate::engine) fn new(
        base: &Base,
        admission: Arc<Admission>,
        ids: Arc<Ids>,
        settings: Arc<Settings>,
    ) -> Self {
        let Base { stores, options, publisher, .. } = base;
        let (broker, ledger) = (stores.broker.clone(), stores.ledger.clone());
        let payload_bytes_max = options.payload_bytes_max;
        Self { broker, ledger, admission, publisher: publisher.clone(), ids, settings, payload_bytes_max }
    }

    /// Ends leases, with the jobs that begin with these ends.
    pub(in crate::engine) async fn settle(&self, settles: Vec<Settle>) -> Result<Settled, Error> {
        let mut settled = self.broker.settle(settles).await?;
        for _ in 0..ROUNDS {
            if settled.undecided.is_empty() {
                break;
            }
            let (places, whole) = self.decide(std::mem::take(&mut settled.undecided)).await?;
            let again = self.broker.settle(whole).await?;
            for ((place, state), run) in places.iter().zip(again.states).zip(again.runs) {
                (settled.states[*place], settled.runs[*place]) = (state, run);
            }
            settled.entries.extend(again.entries);
            settled.undecided = again.undecided.into_iter().map(|(at, settle)| (places[at], settle)).collect();
        }
        if settled.undecided.is_empty() { Ok(settled) } else { Err(busy()) }
    }

    /// Edits jobs in the broker, with the jobs that begin with ends of these.
    pub(in crate::engine) async fn edit(&self, edits: &[Edit]) -> Result<(Vec<Edited>, Vec<OutboxEntry>), Error> {
        let (mut edited, mut entries) = self.broker.edit(edits.to_vec()).await?;
        let mut changes = Vec::new();
        for _ in 0..ROUNDS {
            changes = self.complete(edits, &edited, &changes).await?;
            if changes.is_empty() {
                break;
            }
            let (made, noted) = self.broker.edit(changes.iter().map(|(_, edit)| edit.clone()).collect()).await?;
            self.publisher.observe_jobs(noted.iter().flat_map(OutboxEntry::successors), |_| Observation::Pushed);
            entries.extend(noted);
            changes.iter().zip(made).for_each(|((at, _), made)| edited[*at] = made);
        }
        Ok((decided(edits, edited)?, entries))
    }

    /// Edits rows that the broker does not hold, with the jobs that begin with ends of these.
    pub(in crate::engine) async fn edit_rows(
        &self,
        edits: &[Edit],
        now: Millis,
        watermark: Millis,
    ) -> Result<Vec<Edited>, Error> {
        let mut edited = self.ledger.edit(edits.to_vec(), now, watermark).await?;
        let mut changes = Vec::new();
        for _ in 0..ROUNDS {
            changes = self.complete(edits, &edited, &changes).await?;
            if changes.is_empty() {
                break;
            }
            let made = self.ledger.edit(changes.iter().map(|(_, edit)| edit.clone()).collect(), now, watermark).await?;
            let ended = changes.iter().zip(&made).filter(|(_, made)| matches!(made, Edited::Changed(_)));
            let mut new: Vec<Job> = ended.flat_map(|((_, edit), _)| edit.change.successors()).cloned().collect();
            self.publisher.observe_jobs(new.iter(), |_| Observation::Pushed);
            if let Err(error) = self.admission.admit(&mut new, Producer::End).await {
                tracing::warn!(%error, "jobs that begin with a cancel are recorded, and are loaded later");
            }
            changes.iter().zip(made).for_each(|((at, _), made)| edited[*at] = made);
        }
        decided(edits, edited)
    }

    /// The edits that were not made because they lack jobs: with these, each for the version that the job has now.
    async fn complete(
        &self,
        edits: &[Edit],
        edited: &[Edited],
        before: &[(usize, Edit)],
    ) -> Result<Vec<(usize, Edit)>, Error> {
        let mut whole = Vec::new();
        for (at, (edit, edited)) in edits.iter().zip(edited).enumerate() {
            let tried = before.iter().find(|(tried, _)| *tried == at);
            let job = match edited {
                Edited::Undecided(job) => job,
                // It has changed since it was read here.
                Edited::Mismatch(job) if edit.version.is_none() && tried.is_some() => job,
                _ => continue,
            };
            if matches!(edited, Edited::Undecided(_)) && tried.is_some() {
                // An import has taken their ids.
                self.ids.skip().await;
            }
            let (end, message) = match &edit.change {
                Change::Expire { .. } => (Stage::Failed, rules::after_expiry(job).message),
                Change::Cancel { message, .. } => (Stage::Cancelled, message.clone()),
                _ => continue,
            };
            let change = edit.change.clone().followed_by(self.after(job, end, None, message).await?);
            whole.push((at, Edit { id: edit.id, version: Some(job.version), change }));
        }
        Ok(whole)
    }

    /// Adds what is missing to these ends. Leases that have ended meanwhile are left out, and so are jobs whose lists this version
    /// cannot read: they keep their leases, and hold up no other end.
    ///
    /// # Errors
    /// If the lists of all of them cannot be read; of the stores.
    async fn decide(&self, undecided: Vec<(usize, Settle)>) -> Result<(Vec<usize>, Vec<Settle>), Error> {
        let ids: Vec<_> = undecided.iter().map(|(_, settle)| settle.receipt.id).collect();
        let heads = self.broker.get(&ids, Detail::Head).await?;
        let (mut places, mut whole) = (Vec::with_capacity(ids.len()), Vec::with_capacity(ids.len()));
        let mut unread = None;
        for ((place, settle), head) in undecided.into_iter().zip(heads) {
            let Some(job) = head.filter(|job| job.receipt() == settle.receipt) else { continue };
            let mut decision = rules::as_asked(&job, settle.decision);
            if let Decision::Finish(finish) = &mut decision
                && finish.successors.is_empty()
            {
                let error = finish.error.as_ref().map(|error| error.message.clone());
                let message = finish.message.clone().or(error);
                finish.successors = match self.after(&job, finish.stage, finish.result.as_ref(), message).await {
                    Err(error @ Error::Damaged(_)) => {
                        unread = Some(error);
                        continue;
                    }
                    made => made?,
                };
            }
            places.push(place);
            let read = (!decision.rewrites()).then(|| Box::new(job));
            whole.push(Settle { decision, read, ..settle });
        }
        match unread {
            Some(error) if whole.is_empty() => return Err(error),
            Some(error) => tracing::error!(%error, "a job does not end"),
            None => {}
        }
        Ok((places, whole))
    }

    /// The jobs that begin when this one ends so, with this result or message.
    ///
    /// # Errors
    /// Of the ledger, which allots their ids; [`Error::Damaged`] if one of them cannot be read.
    pub(in crate::engine) async fn after(
        &self,
        job: &Job,
        end: Stage,
        result: Option<&Payload>,
        message: Option<Arc<str>>,
    ) -> Result<Vec<Job>, Error> {
        self.make(job, job.follow_ups(end), end, result, message).await
    }

    /// The jobs that begin when this one succeeds with this result, and with these that its worker adds.
    ///
    /// # Errors
    /// The same; [`Error::Invalid`] if an added job exceeds a limit.
    pub(in crate::engine) async fn after_success(
        &self,
        job: &Job,
        result: Option<&Payload>,
        then: Option<Arc<[FollowUp]>>,
    ) -> Result<Vec<Job>, Error> {
        let mut added = JobOptions { then, ..JobOptions::default() };
        complete_follow_ups(&mut added, &job.queue)?;
        added.check(&job.queue)?;
        check_follow_ups(&added, self.broker.now(), self.payload_bytes_max)?;
        self.settings.check_targets(&job.queue, &added)?;
        self.settings.names.admit_all(&job.queue, &added)?;
        let own = job.follow_ups(Stage::Succeeded).iter();
        let all: Vec<FollowUp> = own.chain(added.then.iter().flat_map(|list| list.iter())).cloned().collect();
        self.make(job, &all, Stage::Succeeded, result, None).await
    }

    async fn make(
        &self,
        job: &Job,
        list: &[FollowUp],
        end: Stage,
        result: Option<&Payload>,
        message: Option<Arc<str>>,
    ) -> Result<Vec<Job>, Error> {
        let Some(state) = end.end_state().filter(|_| !list.is_empty()) else { return Ok(Vec::new()) };
        let damaged = |error: Error| Error::Damaged(format!("what follows the job {} cannot be read: {error}", job.id));
        let new: Result<Vec<NewJob>, Error> = list.iter().map(NewJob::try_from).collect();
        let new = new.map_err(damaged)?;
        let partitions: Vec<u16> = new.iter().map(|new| self.broker.partition(&new.queue)).collect();
        let ids = self.ids.next(&partitions, self.broker.now()).await?;
        let previous = Arc::new(Previous::new(job, state, result, message));
        let start = |(id, new): (_, NewJob)| {
            let now = if new.due.is_delayed() { self.broker.now_at_most() } else { self.broker.now() };
            let trace = new.options.trace.clone().or_else(|| job.options().trace.clone());
            let options = JobOptions { previous: Some(previous.clone()), trace, ..new.options.clone() };
            let new = NewJob { options, ..new };
            new.accept(id, now, PAYLOAD_BYTES_MAX).map_err(|error| damaged(error.into()))
        };
        ids.into_iter().zip(new).map(start).collect()
    }
}

/// The answers, if none is missing.
fn decided(edits: &[Edit], edited: Vec<Edited>) -> Result<Vec<Edited>, Error> {
    let is_open = |(edit, edited): (&Edit, &Edited)| match edited {
        Edited::Undecided(_) => true,
        Edited::Mismatch(_) => edit.version.is_none(),
        _ => false,
    };
    if edits.iter().zip(&edited).any(is_open) { Err(busy()) } else { Ok(edited) }
}

fn busy() -> Error {
    Error::Unavailable("a job that others follow is changed by others all the time".into())
}
