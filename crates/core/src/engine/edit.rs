//! Changes of jobs from outside: the broker is asked first, and the ledger for what the broker does not hold.

use super::parts::observed::{Observed, Subject};
use super::{Answers, CancelOutcome, Engine, JobRef, Patch};
use crate::clock::Millis;
use crate::error::Error;
use crate::invalid::Invalid;
use crate::limits::BATCH_JOBS_MAX;
use crate::model::id::JobId;
use crate::model::job::{Due, Job, check_payload};
use crate::ports::{Change, Detail, Edit, Edited, Reading, Update};
use std::sync::Arc;

impl Engine {
    /// Cancels jobs: a waiting one will not run; a running one's worker is asked to stop.
    pub async fn cancel(&self, targets: Vec<JobRef>) -> Answers<CancelOutcome> {
        self.cancel_saying(targets, None).await
    }

    pub(super) async fn cancel_saying(
        &self,
        targets: Vec<JobRef>,
        message: Option<Arc<str>>,
    ) -> Answers<CancelOutcome> {
        let answer = |id, edited| match edited {
            Edited::Changed(_) => Ok(CancelOutcome::Cancelled),
            Edited::CancelAsked(_) => Ok(CancelOutcome::CancelRequested),
            Edited::Unfit { .. } => Ok(CancelOutcome::AlreadyFinished),
            edited => Err(refusal(id, edited)),
        };
        self.change(targets, &Change::Cancel { message }, answer).await
    }

    /// Changes a waiting job.
    ///
    /// # Errors
    /// [`Error::Running`], [`Error::Finished`], [`Error::VersionMismatch`], [`Error::NotFound`]; [`Error::Invalid`].
    pub async fn update(&self, target: JobRef, patch: Patch) -> Result<Job, Error> {
        if let Some(payload) = &patch.payload {
            check_payload(payload, self.options.payload_bytes_max)?;
        }
        let due_at = patch.due.map(|due| self.due_at(due)).transpose()?;
        let update = Update { due_at, priority: patch.priority, payload: patch.payload, tags: None };
        self.update_all(vec![target], update).await.pop().expect("one edit has one answer")
    }

    /// The instant that a waiting job is moved to. A delay is never too short, whatever the clock's error.
    pub(super) fn due_at(&self, due: Due) -> Result<Millis, Invalid> {
        due.resolve(if matches!(due, Due::After(1..)) { self.now_at_most() } else { self.now() })
    }

    /// Gives waiting jobs the same new values.
    pub(super) async fn update_all(&self, targets: Vec<JobRef>, update: Update) -> Answers<Job> {
        self.change(targets, &Change::Update(update), changed).await
    }

    /// Makes a waiting job due now.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub async fn run(&self, target: JobRef) -> Result<Job, Error> {
        self.update(target, Patch { due: Some(Due::Now), ..Patch::default() }).await
    }

    /// Makes finished jobs ready again, with attempt 0.
    pub async fn retry(&self, targets: Vec<JobRef>) -> Answers<Job> {
        let answer = |id, edited| match edited {
            Edited::Running(_) | Edited::Unfit { .. } => Err(Error::Live(id)),
            edited => changed(id, edited),
        };
        self.change(targets, &Change::Retry, answer).await
    }

    /// Makes scheduled jobs due now, and failed ones ready again, as `kick` of the beanstalk protocol.
    pub async fn kick(&self, targets: Vec<JobRef>, counts: bool) -> Answers<Job> {
        self.change(targets, &Change::Kick { counts }, changed).await
    }

    /// Removes jobs that do not run, with their records.
    pub async fn delete(&self, targets: Vec<JobRef>) -> Answers<()> {
        self.change(targets, &Change::Delete, |id, edited| changed(id, edited).map(drop)).await
    }

    /// Makes the same change to several jobs. `answer` converts each outcome for the caller.
    async fn change<T>(
        &self,
        targets: Vec<JobRef>,
        change: &Change,
        answer: fn(JobId, Edited) -> Result<T, Error>,
    ) -> Answers<T> {
        let count = targets.len();
        let check_count = || match count {
            0..=BATCH_JOBS_MAX => Ok(()),
            _ => Err(Error::invalid("jobs", format!("at most {BATCH_JOBS_MAX} in a batch"), count)),
        };
        if let Err(error) = self.check_open().and_then(|()| check_count()) {
            return std::iter::repeat_with(|| Err(error.clone())).take(count).collect();
        }
        let edits =
            targets.iter().map(|&JobRef { id, version }| Edit { id, version, change: change.clone() }).collect();
        let made = self.run_to_completion(|engine| async move { engine.edit(edits).await }).await;
        targets.into_iter().zip(made).map(|(target, made)| made.and_then(|edited| answer(target.id, edited))).collect()
    }

    /// Makes edits in the store that holds the jobs.
    pub(super) async fn edit(&self, edits: Vec<Edit>) -> Answers<Edited> {
        let count = edits.len();
        let (edited, entries) = match self.broker.edit(edits.clone()).await {
            Ok(answer) => answer,
            Err(error) => return std::iter::repeat_with(|| Err(error.clone())).take(count).collect(),
        };
        // A retry needs the outcome in the ledger; so does the deletion of a job that has just ended.
        let has_ended = |(edit, edited): &(&Edit, &Edited)| {
            matches!(edited, Edited::Unfit { .. })
                && matches!(edit.change, Change::Retry | Change::Kick { .. } | Change::Delete)
        };
        if edits.iter().zip(&edited).any(|pair| has_ended(&pair)) {
            self.drain_older(0).await;
        }
        let recorded = self.try_record(entries).await;
        let in_ledger: Vec<usize> =
            (0..count).filter(|&i| edited[i] == Edited::Unknown || has_ended(&(&edits[i], &edited[i]))).collect();
        let unseen: Vec<bool> = in_ledger.iter().map(|&i| edited[i] == Edited::Unknown).collect();
        // A change or an end that is not recorded could be undone by a crash. The caller must know, and ask again.
        let is_shared = self.topology.is_shared();
        let answer = |edited| match (&edited, &recorded) {
            (Edited::Changed(_) | Edited::CancelAsked(_), Err(error)) => Err(error.clone()),
            (Edited::Unfit { .. }, Err(error)) if !is_shared => Err(error.clone()),
            _ => Ok(edited),
        };
        let mut made: Answers<Edited> = edited.into_iter().map(answer).collect();
        if !in_ledger.is_empty() {
            let answers = self.edit_ledger(in_ledger.iter().map(|&i| edits[i].clone()).collect(), &unseen).await;
            for (i, answer) in in_ledger.into_iter().zip(answers) {
                made[i] = answer;
            }
        }
        let now = self.now();
        self.observe(edits.iter().zip(&made).filter_map(|(edit, made)| match made {
            Ok(Edited::Changed(job)) => Some((Subject::of(job, now), event(&edit.change))),
            _ => None,
        }));
        made
    }

    /// Makes edits of jobs that the broker does not hold. For those that are `unseen` it has a tombstone that waits for the
    /// answer.
    async fn edit_ledger(&self, edits: Vec<Edit>, unseen: &[bool]) -> Answers<Edited> {
        let target = |(edit, &is_unseen): (&Edit, &bool)| Target {
            id: edit.id,
            removes: matches!(edit.change, Change::Delete),
            is_unseen,
        };
        let targets: Vec<Target> = edits.iter().zip(unseen).map(target).collect();
        let (now, reading) = (self.now(), self.broker.reading());
        // If the broker is shared, its loader puts them: a crash before the put below must not lose them.
        let watermark = if self.topology.shares_ledger() { 0 } else { self.watermark.get() };
        match self.ledger.edit(edits, now, watermark).await {
            Ok(edited) => {
                self.settle_tombstones(&targets, &edited, reading).await;
                edited.into_iter().map(Ok).collect()
            }
            // Jobs that the broker refuses meanwhile are read again until their tombstones expire.
            Err(error) => std::iter::repeat_with(|| Err(error.clone())).take(targets.len()).collect(),
        }
    }

    /// Tells the broker the outcome of jobs that it did not know, and puts those that are due soon.
    async fn settle_tombstones(&self, targets: &[Target], edited: &[Edited], reading: Reading) {
        let mut versions = Vec::with_capacity(targets.len());
        let (mut jobs, mut over) = (Vec::new(), Vec::new());
        for (&Target { id, removes, is_unseen }, edited) in targets.iter().zip(edited) {
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
                // Without the version: if another edit made it, the broker was told already, and a repeat answers nothing.
                _ if is_unseen => (id, 0),
                _ => continue,
            });
        }
        let told =
            self.broker.forget(&versions, Millis::MAX).await.map(|outdated| self.reconcile_later(outdated.into_iter()));
        let told = told.and(self.let_go(&over).await);
        if let Err(error) = told.and(self.hold(jobs, reading).await) {
            tracing::warn!(%error, "a job was edited in the ledger, and the broker does not know it yet; trying again");
        }
    }

    /// Removes jobs from a shared broker that an edit has ended in the ledger. The broker may hold such a job if it lost its
    /// memory, and with it the tombstone, during the edit, and loaded the row before the edit changed it.
    async fn let_go(&self, ids: &[JobId]) -> Result<(), Error> {
        if ids.is_empty() || !self.topology.shares_ledger() {
            return Ok(());
        }
        let held = self.broker.get(ids, Detail::Head).await?.into_iter().flatten().filter(Job::is_pending);
        let held: Vec<(JobId, u64)> = held.map(|job| (job.id, job.version + 1)).collect();
        if held.is_empty() { Ok(()) } else { self.broker.forget(&held, Millis::MAX).await.map(drop) }
    }
}

/// A job that is edited in the ledger.
struct Target {
    id: JobId,
    removes: bool,
    /// True if the broker has a tombstone that waits for the answer.
    is_unseen: bool,
}

/// The event that a change causes, once it was made.
fn event(change: &Change) -> Observed {
    match change {
        Change::Cancel { .. } => Observed::Cancelled,
        Change::Delete => Observed::Deleted,
        Change::Update(_) => Observed::Changed,
        Change::Retry | Change::Kick { .. } => Observed::Retried,
        Change::Expire => Observed::Expired,
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
        Edited::Unknown | Edited::Changed(_) => Error::NotFound(id),
    }
}
