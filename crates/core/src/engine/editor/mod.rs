//! Changes of jobs from outside: the broker is asked first, and the ledger for what the broker does not hold.

mod bulk;

use crate::clock::Millis;
use crate::engine::admission::{Admission, Producer};
use crate::engine::base::Base;
use crate::engine::events::Publisher;
use crate::engine::follow_ups::FollowUps;
use crate::engine::loader::Loader;
use crate::engine::observation::{Observation, Subject};
use crate::engine::recorder::Recorder;
use crate::engine::search::Search;
use crate::engine::supervisor::Supervisor;
use crate::error::Error;
use crate::hash::fraction;
use crate::invalid::Invalid;
use crate::json::Span;
use crate::limits::BATCH_JOBS_MAX;
use crate::model::id::{JobId, JobRef, Numbers};
use crate::model::job::{Due, Job, Stage, check_payload};
use crate::ports::{Broker, Change, Detail, Edit, Edited, Ledger, Reading, Update};
use crate::request::{Answers, CancelOutcome, Patch};
use crate::rules;
use std::sync::Arc;

/// How often an edit is tried again because another one was faster.
const ROUNDS: usize = 20;

/// Changes jobs from outside.
pub(in crate::engine) struct Editor {
    broker: Arc<dyn Broker>,
    ledger: Arc<dyn Ledger>,
    loader: Arc<Loader>,
    admission: Arc<Admission>,
    follow_ups: Arc<FollowUps>,
    recorder: Arc<Recorder>,
    publisher: Arc<Publisher>,
    supervisor: Arc<Supervisor>,
    search: Arc<Search>,
    payload_bytes_max: usize,
}

impl Editor {
    pub(in crate::engine) fn new(
        base: &Base,
        loader: Arc<Loader>,
        admission: Arc<Admission>,
        follow_ups: Arc<FollowUps>,
        recorder: Arc<Recorder>,
        search: Arc<Search>,
    ) -> Self {
        let Base { stores, options, publisher, supervisor, .. } = base;
        Self {
            broker: stores.broker.clone(),
            ledger: stores.ledger.clone(),
            loader,
            admission,
            follow_ups,
            recorder,
            publisher: publisher.clone(),
            supervisor: supervisor.clone(),
            search,
            payload_bytes_max: options.payload_bytes_max,
        }
    }

    pub(in crate::engine) async fn cancel(self: &Arc<Self>, targets: Vec<JobRef>) -> Answers<CancelOutcome> {
        self.cancel_saying(targets, None).await
    }

    pub(in crate::engine) async fn cancel_saying(
        self: &Arc<Self>,
        targets: Vec<JobRef>,
        message: Option<Arc<str>>,
    ) -> Answers<CancelOutcome> {
        let answer = |id, edited| match edited {
            Edited::Changed(_) => Ok(CancelOutcome::Cancelled),
            Edited::CancelAsked(_) => Ok(CancelOutcome::CancelRequested),
            Edited::Unfit { .. } => Ok(CancelOutcome::AlreadyFinished),
            edited => Err(refusal(id, edited)),
        };
        self.change(targets, &Change::cancel(message), answer).await
    }

    pub(in crate::engine) async fn update(self: &Arc<Self>, target: JobRef, patch: Patch) -> Result<Job, Error> {
        if let Some(payload) = &patch.payload {
            check_payload(payload, self.payload_bytes_max)?;
        }
        let due_at = patch.due.map(|due| self.due_at(due)).transpose()?;
        let update = Update { due_at, priority: patch.priority, payload: patch.payload, ..Update::default() };
        self.update_all(vec![target], update).await.pop().expect("one edit has one answer")
    }

    /// The instant that a waiting job is moved to. A delay is never too short, whatever the clock's error.
    pub(in crate::engine) fn due_at(&self, due: Due) -> Result<Millis, Invalid> {
        due.resolve(if due.is_delayed() { self.broker.now_at_most() } else { self.broker.now() })
    }

    /// Gives waiting jobs the same new values.
    pub(in crate::engine) async fn update_all(self: &Arc<Self>, targets: Vec<JobRef>, update: Update) -> Answers<Job> {
        self.change(targets, &Change::Update(update), changed).await
    }

    pub(in crate::engine) async fn run(self: &Arc<Self>, target: JobRef) -> Result<Job, Error> {
        self.update(target, Patch { due: Some(Due::Now), ..Patch::default() }).await
    }

    pub(in crate::engine) async fn retry(self: &Arc<Self>, targets: Vec<JobRef>) -> Answers<Job> {
        self.retry_over(targets, Span(0)).await
    }

    /// The same, each at its place within a span.
    pub(in crate::engine) async fn retry_over(self: &Arc<Self>, targets: Vec<JobRef>, spread: Span) -> Answers<Job> {
        let answer = |id, edited| match edited {
            Edited::Running(_) | Edited::Unfit { .. } => Err(Error::Live(id)),
            edited => changed(id, edited),
        };
        let change = |id| Change::Retry { after: place_in(spread, id), keeps_attempts: false, marks: None };
        self.change_all(targets.into_iter().map(|target| (target, change(target.id))).collect(), answer).await
    }

    pub(in crate::engine) async fn change_each(self: &Arc<Self>, changes: Vec<(JobRef, Change)>) -> Answers<Job> {
        self.change_all(changes, changed).await
    }

    pub(in crate::engine) async fn delete(self: &Arc<Self>, targets: Vec<JobRef>) -> Answers<()> {
        self.change(targets, &Change::Delete, |id, edited| changed(id, edited).map(drop)).await
    }

    /// Makes the same change to several jobs. `answer` converts each outcome for the caller.
    async fn change<T>(
        self: &Arc<Self>,
        targets: Vec<JobRef>,
        change: &Change,
        answer: fn(JobId, Edited) -> Result<T, Error>,
    ) -> Answers<T> {
        self.change_all(targets.into_iter().map(|target| (target, change.clone())).collect(), answer).await
    }

    async fn change_all<T>(
        self: &Arc<Self>,
        changes: Vec<(JobRef, Change)>,
        answer: fn(JobId, Edited) -> Result<T, Error>,
    ) -> Answers<T> {
        let count = changes.len();
        let check_count = || match count {
            0..=BATCH_JOBS_MAX => Ok(()),
            _ => Err(Error::invalid("jobs", format!("at most {BATCH_JOBS_MAX} in a batch"), count)),
        };
        if let Err(error) = self.supervisor.check_open().and_then(|()| check_count()) {
            return std::iter::repeat_with(|| Err(error.clone())).take(count).collect();
        }
        let ids: Vec<JobId> = changes.iter().map(|(target, _)| target.id).collect();
        let edit = |(JobRef { id, version }, change)| Edit { id, version, change };
        let edits = changes.into_iter().map(edit).collect();
        let made = self.supervisor.complete(self, |editor| async move { editor.edit(edits).await }).await;
        ids.into_iter().zip(made).map(|(id, made)| made.and_then(|edited| answer(id, edited))).collect()
    }

    /// Makes edits in the store that holds the jobs.
    pub(in crate::engine) async fn edit(&self, edits: Vec<Edit>) -> Answers<Edited> {
        let made = self.make(&edits).await;
        let now = self.broker.now();
        self.publisher.observe(edits.iter().zip(&made).filter_map(|(edit, made)| match made {
            Ok(Edited::Changed(job)) => Some((Subject::of(job, now), event(&edit.change))),
            _ => None,
        }));
        made
    }

    /// The same, without counting and publishing it.
    pub(in crate::engine) async fn make(&self, edits: &[Edit]) -> Answers<Edited> {
        let mut made: Vec<Option<Result<Edited, Error>>> = vec![None; edits.len()];
        let mut left: Vec<usize> = (0..edits.len()).collect();
        // In each round the first edit of a job is made; the others of the same batch follow.
        for _ in 0..ROUNDS + edits.len() {
            if left.is_empty() {
                break;
            }
            let answers = self.try_edits(left.iter().map(|&i| edits[i].clone()).collect()).await;
            left.iter().zip(answers).for_each(|(&i, answer)| made[i] = answer);
            left.retain(|&i| made[i].is_none());
        }
        let busy = || Err(Error::Unavailable("the job is changed by others all the time".into()));
        made.into_iter().map(|made| made.unwrap_or_else(busy)).collect()
    }

    /// Makes edits in the broker, and in the ledger those of jobs that the broker does not hold. `None` for an edit that came
    /// between both, or after another one: it is to be tried again.
    async fn try_edits(&self, edits: Vec<Edit>) -> Vec<Option<Result<Edited, Error>>> {
        let (count, memory) = (edits.len(), self.broker.reading().memory);
        let edited = async {
            self.recorder.check_bytes()?;
            self.follow_ups.edit(&edits).await
        };
        let (edited, entries) = match edited.await {
            Ok(answer) => answer,
            Err(error) => return vec![Some(Err(error)); count],
        };
        // A retry needs the outcome in the ledger; so does the deletion of a job that has just ended.
        let has_ended = |(edit, edited): &(&Edit, &Edited)| {
            matches!(edited, Edited::Unfit { state, .. } if !state.is_live())
                && matches!(edit.change, Change::Retry { .. } | Change::Delete)
        };
        if edits.iter().zip(&edited).any(|pair| has_ended(&pair)) {
            self.recorder.drain_older(0).await;
        }
        let recorded = match self.recorder.try_record(entries).await {
            Ok(()) => self.confirm(&edited, memory).await,
            refused => refused,
        };
        let outdated = match &recorded {
            Ok(()) => self.outdated(&edits, &edited).await,
            Err(_) => Ok(Vec::new()),
        };
        let (recorded, outdated) = match outdated {
            Ok(outdated) => (recorded, outdated),
            Err(error) => (Err(error), Vec::new()),
        };
        let ended: Vec<usize> = (0..count).filter(|&i| has_ended(&(&edits[i], &edited[i]))).collect();
        let unknown: Vec<usize> = (0..count).filter(|&i| edited[i] == Edited::Unknown).collect();
        // A change or an end that is not recorded could be undone by a crash. The caller must know, and ask again.
        let is_shared = self.broker.is_shared();
        let answer = |edited| match (&edited, &recorded) {
            (Edited::Changed(_) | Edited::CancelAsked(_), Err(error)) => Err(error.clone()),
            (Edited::Unfit { .. }, Err(error)) if !is_shared => Err(error.clone()),
            _ => Ok(edited),
        };
        let is_outdated = |edited: &Edited| matches!(edited, Edited::Changed(job) if outdated.contains(&job.id));
        let mut made: Vec<Option<Result<Edited, Error>>> =
            edited.into_iter().map(|edited| (!is_outdated(&edited)).then(|| answer(edited))).collect();
        if !ended.is_empty() {
            let answers = self.edit_ledger(ended.iter().map(|&i| edits[i].clone()).collect()).await;
            ended.into_iter().zip(answers).for_each(|(i, answer)| made[i] = Some(answer));
        }
        if !unknown.is_empty() {
            let answers = self.edit_unknown(unknown.iter().map(|&i| edits[i].clone()).collect()).await;
            unknown.into_iter().zip(answers).for_each(|(i, answer)| made[i] = answer);
        }
        made
    }

    /// Edits jobs in the ledger that the broker does not hold, and keeps the broker from taking them meanwhile.
    ///
    /// The ledger makes such an edit only if the row still has the version that was read here, and the broker takes no
    /// version up to that one. So the edit is either made, or made impossible by a later version, which the broker takes.
    async fn edit_unknown(&self, edits: Vec<Edit>) -> Vec<Option<Result<Edited, Error>>> {
        let count = edits.len();
        if self.broker.is_ledger() {
            return self.edit_ledger(edits).await.into_iter().map(Some).collect();
        }
        let ids: Vec<JobId> = edits.iter().map(|edit| edit.id).collect();
        let rows = match self.ledger.get(&ids).await {
            Ok(rows) => rows,
            Err(error) => return vec![Some(Err(error)); count],
        };
        let (now, memory) = (self.broker.now(), self.broker.reading().memory);
        let mut made: Vec<Option<Result<Edited, Error>>> = vec![None; count];
        let (mut to_edit, mut barred) = (Vec::new(), Vec::new());
        for (i, (edit, row)) in edits.iter().zip(rows).enumerate() {
            match row {
                None => made[i] = Some(Ok(Edited::Unknown)),
                Some(row) => match refused(&row, edit, now) {
                    Some(refused) => made[i] = Some(Ok(refused)),
                    None => {
                        barred.push((row.id, row.version));
                        to_edit.push((i, Edit { version: Some(row.version), ..edit.clone() }));
                    }
                },
            }
        }
        if to_edit.is_empty() {
            return made;
        }
        match self.broker.bar(&barred).await {
            // They have come in since they were looked up.
            Ok(held) => to_edit.retain(|(_, edit)| !held.contains(&edit.id)),
            Err(error) => {
                to_edit.iter().for_each(|&(i, _)| made[i] = Some(Err(error.clone())));
                return made;
            }
        }
        if to_edit.is_empty() {
            return made;
        }
        let mut answers = self.edit_ledger(to_edit.iter().map(|(_, edit)| edit.clone()).collect()).await;
        if let Err(error) = self.confirm(answers.iter().flatten(), memory).await {
            answers.fill(Err(error));
        }
        for ((i, _), answer) in to_edit.into_iter().zip(answers) {
            // Another edit was faster.
            let is_late = matches!(answer, Ok(Edited::Mismatch(_))) && edits[i].version.is_none();
            made[i] = (!is_late).then_some(answer);
        }
        made
    }

    /// Those of these jobs that the broker has changed, and that had ended in the ledger before: the end was made in a memory that
    /// the broker has lost since, and another process recorded it after the job was loaded again. The broker drops them.
    async fn outdated(&self, edits: &[Edit], edited: &[Edited]) -> Result<Vec<JobId>, Error> {
        let changed = edits.iter().zip(edited).filter_map(|(edit, edited)| match edited {
            Edited::Changed(job) if job.is_pending() && !matches!(edit.change, Change::Delete) => {
                Some((job.id, job.version))
            }
            _ => None,
        });
        let (ids, versions): (Vec<JobId>, Vec<u64>) = changed.unzip();
        if ids.is_empty() || !self.broker.shares_ledger() {
            return Ok(Vec::new());
        }
        let rows = self.ledger.versions(&ids).await?;
        // An end with a later version is that of the changed job.
        let had_ended = |version, row| matches!(row, Some((end, stage)) if stage != Stage::Pending && end < version);
        let outdated = ids.iter().zip(versions).zip(rows).filter(|((_, version), row)| had_ended(*version, *row));
        let outdated: Vec<JobId> = outdated.map(|((id, _), _)| *id).collect();
        self.recorder.let_go(&outdated).await?;
        Ok(outdated)
    }

    /// Makes sure of edits that are recorded, if a shared broker has lost its memory since this one: it may have loaded their
    /// rows as they were before, and handed them out.
    async fn confirm<'a>(&self, edited: impl IntoIterator<Item = &'a Edited>, memory: u64) -> Result<(), Error> {
        if !self.broker.shares_ledger() || self.broker.reading().memory == memory {
            return Ok(());
        }
        let changed = edited.into_iter().filter_map(|edited| match edited {
            Edited::Changed(job) | Edited::CancelAsked(job) => Some((job.id, job.version)),
            _ => None,
        });
        let (ids, versions): (Vec<JobId>, Vec<u64>) = changed.unzip();
        self.recorder.let_go(&ids).await?;
        let held = self.broker.get(&ids, Detail::Head).await?;
        if held.iter().zip(versions).any(|(held, version)| held.as_ref().is_some_and(|held| held.version != version)) {
            return Err(Error::Unavailable("the broker lost its memory during the change: ask again".into()));
        }
        Ok(())
    }

    /// Makes edits of jobs that the broker does not hold.
    async fn edit_ledger(&self, edits: Vec<Edit>) -> Answers<Edited> {
        let targets: Vec<Target> =
            edits.iter().map(|edit| Target { id: edit.id, removes: matches!(edit.change, Change::Delete) }).collect();
        let (now, reading) = (self.broker.now(), self.broker.reading());
        // If the broker is shared, its loader puts them: a crash before the put below must not lose them.
        let watermark = if self.broker.shares_ledger() { 0 } else { self.loader.watermark() };
        match self.follow_ups.edit_rows(&edits, now, watermark).await {
            Ok(edited) => {
                self.tell_broker(&targets, &edited, reading).await;
                edited.into_iter().map(Ok).collect()
            }
            Err(error) => std::iter::repeat_with(|| Err(error.clone())).take(targets.len()).collect(),
        }
    }

    /// Tells the broker the outcome of jobs that it did not know, and puts those that are due soon.
    async fn tell_broker(&self, targets: &[Target], edited: &[Edited], reading: Reading) {
        let mut versions = Vec::with_capacity(targets.len());
        let (mut jobs, mut over) = (Vec::new(), Vec::new());
        for (&Target { id, removes }, edited) in targets.iter().zip(edited) {
            versions.push(match edited {
                // It is returned as it was; no reading of it may be put any more.
                Edited::Changed(job) if removes => {
                    over.push(id);
                    (id, job.version + 1)
                }
                Edited::Changed(job) => {
                    if job.is_pending() {
                        jobs.push(job.clone());
                    } else {
                        over.push(id);
                    }
                    (id, job.version)
                }
                Edited::CancelAsked(job) => (id, job.version),
                _ => continue,
            });
        }
        let told = self
            .broker
            .forget(&versions, Millis::MAX)
            .await
            .map(|outdated| self.loader.reconcile_later(outdated.into_iter()));
        let told = told.and(self.recorder.let_go(&over).await);
        if let Err(error) = told.and(self.admission.admit(&mut jobs, Producer::Edit { reading }).await.map(drop)) {
            tracing::warn!(%error, "a job was edited in the ledger, and the broker does not know it yet; trying again");
        }
    }

    /// Frees jobs that an edit keeps out of the broker although it does not end: its engine has died, or the ledger has
    /// refused it. An empty edit gives each a later version, by which the other edit can no longer be made.
    pub(in crate::engine) async fn free_barred(&self, jobs: &[(JobId, u64)]) -> Result<(), Error> {
        let change = Change::Update(Update::default());
        let edits = jobs.iter().map(|&(id, version)| Edit { id, version: Some(version), change: change.clone() });
        self.make(&edits.collect::<Vec<_>>()).await.into_iter().try_for_each(|made| made.map(drop))
    }
}

/// A job that is edited in the ledger.
struct Target {
    id: JobId,
    removes: bool,
}

/// The answer to an edit that does not change this row.
fn refused(row: &Job, edit: &Edit, now: Millis) -> Option<Edited> {
    if edit.version.is_some_and(|version| version != row.version) {
        return Some(Edited::Mismatch(row.clone()));
    }
    // The broker does not hold the job: a lease is over.
    let mut job = Job { lease_until: None, ..row.clone() };
    let edited = rules::edit(&mut job, None, &edit.change, now, Numbers::Ledger);
    (!matches!(edited, Edited::Changed(_) | Edited::Undecided(_))).then_some(edited)
}

/// The place of a job within a span, which only its id decides.
fn place_in(spread: Span, id: JobId) -> Span {
    Span((spread.0 as f64 * fraction(id.get(), 0)) as u64)
}

/// The event that a change causes, once it was made.
fn event(change: &Change) -> Observation {
    match change {
        Change::Cancel { .. } => Observation::Cancelled,
        Change::Delete => Observation::Deleted,
        Change::Update(_) | Change::Replace(_) => Observation::Changed,
        Change::Retry { .. } => Observation::Retried,
        Change::Expire { .. } => Observation::Expired,
    }
}

/// The job as the edit left it.
fn changed(id: JobId, edited: Edited) -> Result<Job, Error> {
    match edited {
        Edited::Changed(job) => Ok(job),
        edited => Err(refusal(id, edited)),
    }
}

/// Why a job was not changed.
pub(super) fn refusal(id: JobId, edited: Edited) -> Error {
    match edited {
        Edited::Mismatch(job) => Error::VersionMismatch { id, current: job.version },
        Edited::Running(_) | Edited::CancelAsked(_) => Error::Running(id),
        Edited::Unfit { state, .. } => Error::Finished { id, state },
        Edited::KeyHeld(holder, queue, key) => Error::KeyConflict { queue, key, holder },
        Edited::Undecided(_) => Error::Unavailable("what follows the job is not known yet".into()),
        Edited::Unknown | Edited::Changed(_) => Error::NotFound(id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{Fixture, far, job, pass};
    use crate::ports::{Put, Room};
    use crate::request::Outcome;
    use crate::testing::mortal::When;
    use crate::testing::{ModelLedger, Shared, TokioClock};
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_job_that_an_edit_brings_near_is_in_the_broker_when_the_edit_is_answered() {
        let fixture = Fixture::new().await;
        let far = fixture.push(far()).await;
        let edited = fixture.services.editor.run(far.id.into()).await.unwrap();
        assert_eq!(fixture.held(far.id).await, Some(edited));
    }

    /// What a loader has read before an edit must not be put after it.
    #[tokio::test(start_paused = true)]
    async fn a_row_that_was_read_before_an_edit_is_not_put_after_it() {
        let fixture = Fixture::new().await;
        let broker = &fixture.base.stores.broker;
        let far = fixture.push(far()).await;
        let reading = broker.reading();
        fixture.services.editor.cancel(vec![far.id.into()]).await.remove(0).unwrap();
        assert_eq!(broker.put(vec![far], reading, Room::Any).await, Ok(vec![Put::Tombstone]));
    }

    /// The engine that made it has died in between, so nobody else lifts the bar.
    #[tokio::test(start_paused = true)]
    async fn a_job_whose_edit_did_not_end_gets_a_version_that_the_broker_takes() {
        let fixture = Fixture::new().await;
        let far = fixture.push(far()).await;
        let broker = &fixture.base.stores.broker;
        broker.bar(&[(far.id, far.version)]).await.unwrap();
        fixture.services.editor.free_barred(&[(far.id, far.version)]).await.unwrap();
        let row = fixture.row(far.id).unwrap();
        assert_eq!(Job { version: far.version, updated_at: far.updated_at, ..row.clone() }, far);
        assert_eq!(broker.put(vec![row], broker.reading(), Room::Any).await, Ok(vec![Put::Held]));
    }

    /// Redis is emptied while the ledger is slow, and another process runs the job again.
    #[tokio::test(start_paused = true)]
    async fn an_edit_is_answered_only_if_it_holds_in_the_memory_that_the_broker_has_then() {
        let cancel = Change::cancel(None);
        let priority = Change::Update(Update { priority: Some(1), ..Update::default() });
        for (change, holds) in [(cancel, true), (priority, false)] {
            let broker = Shared::new(Arc::new(TokioClock::new()));
            let ledger = ModelLedger::default();
            let fixture = Arc::new(Fixture::sharing(&broker, &ledger).await);
            let other = Fixture::sharing(&broker, &ledger).await;
            let pushed = fixture.push(job()).await;
            fixture.life.freeze_at("apply", When::Before, Duration::from_secs(5));
            let (of, target) = (fixture.clone(), JobRef { id: pushed.id, version: None });
            let edit =
                tokio::spawn(async move { of.services.editor.change_each(vec![(target, change)]).await.remove(0) });
            pass(Duration::from_secs(1)).await;
            broker.flush();
            let stores = &other.base.stores.broker;
            stores.incarnation().await.unwrap();
            stores.put(vec![pushed], stores.reading(), Room::Any).await.unwrap();
            let again = other.lease(1).await.remove(0).receipt();
            pass(Duration::from_secs(10)).await;
            let answer = edit.await.unwrap();
            assert_eq!(
                answer.as_ref().map(drop).map_err(Error::code),
                if holds { Ok(()) } else { Err("store_unavailable") }
            );
            // A job that was cancelled does not run again.
            let released = other.settle(again, Outcome::release(Duration::ZERO)).await;
            assert_eq!(released.is_err(), holds, "{released:?}");
            assert_eq!(other.lease(1).await.is_empty(), holds);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_edit_of_one_batch_is_made_after_the_one_before_it() {
        let fixture = Fixture::new().await;
        let pushed = fixture.push(job()).await;
        let priority = |priority| Change::Update(Update { priority: Some(priority), ..Update::default() });
        let target = |version| JobRef { id: pushed.id, version };
        let changes =
            vec![(target(None), priority(1)), (target(Some(pushed.version)), priority(2)), (target(None), priority(3))];
        let answers = fixture.services.editor.change_each(changes).await;
        let priorities: Vec<_> = answers.iter().map(|answer| answer.as_ref().map(|job| job.priority)).collect();
        assert!(matches!(priorities[..], [Ok(1), Err(Error::VersionMismatch { .. }), Ok(3)]), "{priorities:?}");
    }
}
