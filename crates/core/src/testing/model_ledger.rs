//! The ledger in a map, as plainly as possible: an oracle for real ledgers, and the record of the simulation.

mod leases;
mod registry;
mod reports;

use crate::clock::Millis;
use crate::error::Error;
use crate::json::Timestamp;
use crate::model::id::{JobId, Numbers, block_start};
use crate::model::job::{Job, Stage, State};
use crate::ports::{
    ADOPTED, Admitted, BROKER, BUCKET_MS, Change, Cursor, Edit, Edited, Find, Found, INBOX_BYTES_MAX, INBOX_TEXT_MAX,
    Inbox, InboxRow, LeaseRecord, Ledger, OVERFLOW_BUCKET, OutboxEntry, OverflowDue, Page, Queues, Recorded, Retention,
    Selector, Tally, Verdict, Window, bucket,
};
use crate::rules;
use crate::testing::model_totals::ModelTotals;
use async_trait::async_trait;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Rows in a map. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct ModelLedger {
    rows: Arc<Mutex<Rows>>,
    is_away: Arc<AtomicBool>,
    is_closed: Arc<AtomicBool>,
}

#[derive(Clone, Debug, Default)]
struct Rows {
    jobs: BTreeMap<JobId, (i64, Job)>,
    totals: ModelTotals,
    block_end: u64,
    documents: BTreeMap<(String, String), (String, u64)>,
    /// Jobs that lost their key to another.
    keyless: BTreeSet<JobId>,
    /// By number, each with the reason of its refusal.
    inbox: BTreeMap<i64, (InboxRow, Option<String>)>,
    inbox_end: i64,
    /// Rows that are gone, as they were.
    removed: BTreeMap<JobId, Job>,
}

impl ModelLedger {
    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().expect("no panic under this lock")
    }

    /// Makes the ledger unavailable, or available again: while it is unavailable every verb but `lease` returns
    /// [`Error::Unavailable`].
    pub fn set_away(&self, away: bool) {
        self.is_away.store(away, Ordering::SeqCst);
    }

    fn there(&self) -> Result<MutexGuard<'_, Rows>, Error> {
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(Error::Stopping);
        }
        if self.is_away.load(Ordering::SeqCst) {
            return Err(Error::Unavailable("it was taken away".into()));
        }
        Ok(self.rows())
    }

    /// Live jobs whose key another job holds.
    pub fn beside_holder(&self) -> Vec<JobId> {
        let rows = self.rows();
        let jobs = rows.jobs.values().map(|(_, job)| job).filter(|job| !rows.keyless.contains(&job.id));
        jobs.filter(|job| rows.key_holder(job).is_some_and(|holder| holder < job.id)).map(|job| job.id).collect()
    }

    /// Inserts a row into the inbox, as a transaction of an application does; its number is the next one.
    pub fn insert(&self, row: InboxRow) {
        let mut rows = self.rows();
        rows.inbox_end += 1;
        let number = rows.inbox_end;
        rows.inbox.insert(number, (InboxRow { number, ..row }, None));
    }

    /// All rows of the inbox, each with the reason of its refusal.
    pub fn inbox_rows(&self) -> Vec<(InboxRow, Option<String>)> {
        self.rows().inbox.values().cloned().collect()
    }

    /// Whether a queue has settings.
    pub fn has_settings(&self, queue: &str) -> bool {
        self.rows().documents.contains_key(&("queue".to_owned(), queue.to_owned()))
    }

    /// A row that is gone, as it was last.
    pub fn removed(&self, id: JobId) -> Option<Job> {
        self.rows().removed.get(&id).cloned()
    }

    /// An independent copy of the ledger with the same rows.
    #[must_use]
    pub fn copied(&self) -> Self {
        Self { rows: Arc::new(Mutex::new(self.rows().clone())), ..Self::default() }
    }

    /// All rows.
    pub fn jobs(&self) -> Vec<Job> {
        self.rows().jobs.values().map(|(_, job)| job.clone()).collect()
    }

    /// All rows that there are, and those that were removed.
    pub fn all(&self) -> Vec<Job> {
        let rows = self.rows();
        rows.jobs.values().map(|(_, job)| job).chain(rows.removed.values()).cloned().collect()
    }
}

impl Rows {
    fn key_holder(&self, job: &Job) -> Option<JobId> {
        let key = job.live_key()?;
        let holds = |other: &&Job| other.id != job.id && other.queue == job.queue && other.live_key() == Some(key);
        let mut jobs = self.jobs.values().map(|(_, job)| job).filter(|job| !self.keyless.contains(&job.id));
        jobs.find(holds).map(|job| job.id)
    }

    fn first(&self, repeat: &Job) -> Option<JobId> {
        let origin = repeat.origin.as_ref()?;
        let mut jobs = self.jobs.values().map(|(_, job)| job);
        jobs.find(|job| job.queue == repeat.queue && job.origin.as_ref() == Some(origin)).map(|job| job.id)
    }

    /// The waiting jobs in the overflows of all queues.
    fn overflow(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values().filter(|(bucket_now, job)| *bucket_now == OVERFLOW_BUCKET && waits(job)).map(|(_, job)| job)
    }

    fn record(&mut self, job: Job, watermark: Millis) -> Recorded {
        if self.jobs.contains_key(&job.id) {
            return Recorded::Repeat;
        }
        if let Some(first) = self.first(&job) {
            return Recorded::Known(first);
        }
        if let Some(holder) = self.key_holder(&job) {
            return Recorded::KeyHeld(holder);
        }
        self.totals.count_new(&job);
        self.jobs.insert(job.id, (bucket(job.due_at.0, watermark), job));
        Recorded::Created
    }

    fn admit(&mut self, number: i64, verdict: Verdict) -> Admitted {
        if self.inbox.get(&number).is_none_or(|(_, refused)| refused.is_some()) {
            return Admitted::Gone;
        }
        let admitted = match verdict {
            Verdict::Refuse(reason) => {
                self.inbox.entry(number).and_modify(|(_, refused)| *refused = Some(reason));
                return Admitted::Done;
            }
            Verdict::Remove => Admitted::Done,
            Verdict::Record(job) => Admitted::Recorded(self.record(*job, 0)),
        };
        if admitted.is_done() {
            self.inbox.remove(&number);
        }
        admitted
    }

    /// Returns those ids of successors that other jobs have.
    fn apply(&mut self, entry: OutboxEntry, watermark: Millis) -> Vec<JobId> {
        let job = entry.job();
        let ids = entry.successors().iter().map(|job| job.id);
        let taken: Vec<JobId> = ids.filter(|id| self.jobs.contains_key(id)).collect();
        let Some((bucket_now, row)) = self.jobs.get_mut(&job.id) else { return Vec::new() };
        let is_removal = entry.removes() && row.version <= job.version;
        if !is_removal && !OutboxEntry::replaces(job, row.version, row.epoch, row.stage) {
            return Vec::new();
        }
        if !taken.is_empty() {
            return taken;
        }
        *bucket_now = bucket(job.due_at.0, watermark);
        self.totals.count_end(job, row.stage);
        let have_begun = row.stage.leads_like(job.stage);
        let (change, successors) = entry.parts();
        match change {
            OutboxEntry::Changed(job) => {
                *row = keep_content(row, job);
                let job = row.clone();
                self.claim(&job);
            }
            OutboxEntry::Rewritten(job) => {
                *row = job.clone();
                self.claim(&job);
            }
            OutboxEntry::Removed(job) => self.remove(job.id),
            OutboxEntry::Followed(..) => unreachable!("the change itself"),
        }
        successors.into_iter().filter(|_| !have_begun).for_each(|job| self.start(job, watermark));
        Vec::new()
    }

    /// Adds a job that begins with the end of another one.
    fn start(&mut self, job: Job, watermark: Millis) {
        self.claim(&job);
        self.totals.count_new(&job);
        self.jobs.insert(job.id, (bucket(job.due_at.0, watermark), job));
    }

    fn remove(&mut self, id: JobId) {
        if let Some((_, row)) = self.jobs.remove(&id) {
            self.removed.insert(id, row);
        }
    }

    /// If its key is taken, the job is kept without the key.
    fn claim(&mut self, job: &Job) {
        if self.key_holder(job).is_some() {
            self.keyless.insert(job.id);
        } else {
            self.keyless.remove(&job.id);
        }
    }

    fn lease(&mut self, entry: &LeaseRecord) {
        if let Some((_, row)) = self.jobs.get_mut(&entry.id)
            && row.version < entry.version
            && row.is_pending()
        {
            (row.version, row.epoch, row.attempt) = (entry.version, entry.epoch, entry.attempt);
            (row.lease_until, row.started_at) = (Some(Timestamp(entry.lease_until)), Some(Timestamp(entry.started_at)));
            (row.updated_at.0, row.progress) = (entry.updated_at, None);
        }
    }

    fn edit(&mut self, edit: &Edit, now: Millis, watermark: Millis) -> Edited {
        let Some((_, row)) = self.jobs.get(&edit.id) else { return Edited::Unknown };
        let (row, mut job) = (row.clone(), Job { lease_until: None, ..row.clone() });
        let edited = rules::edit(&mut job, edit.version, &edit.change, now, Numbers::Ledger);
        if !matches!(edited, Edited::Changed(_)) {
            return edited;
        }
        if let Some(holder) = self.key_holder(&job) {
            return Edited::KeyHeld(holder, job.queue.clone(), job.key.clone().unwrap_or_default());
        }
        if !job.is_pending() && edit.change.successors().iter().any(|new| self.jobs.contains_key(&new.id)) {
            return Edited::Undecided(row);
        }
        match (&edit.change, self.jobs.remove(&edit.id)) {
            // It is returned as it was.
            (Change::Delete, Some((_, row))) => {
                self.removed.insert(row.id, row.clone());
                return Edited::Changed(row);
            }
            (_, before) => {
                let from = before.map_or(Stage::Pending, |(_, row)| row.stage);
                self.totals.count_end(&job, from);
                let successors = if job.is_pending() { &[] } else { edit.change.successors() };
                self.jobs.insert(edit.id, (bucket(job.due_at.0, watermark), job));
                successors.iter().for_each(|job| self.start(job.clone(), watermark));
            }
        }
        edited
    }
}

/// Whether it waits to be handed out.
fn waits(job: &Job) -> bool {
    job.is_pending() && job.lease_until.is_none()
}

/// Databases keep 63 bits.
fn check_numbers(job: &Job) -> Result<(), Error> {
    let numbers = [job.version, job.due_at.0, job.expires.map_or(0, |at| at.0), job.lease.map_or(0, |at| at.0)];
    match numbers.into_iter().find(|&number| i64::try_from(number).is_err()) {
        Some(number) => Err(Error::invalid("job", "of numbers below 2^63", number)),
        None => Ok(()),
    }
}

/// A change of state does not change the pushed content.
fn keep_content(row: &Job, job: Job) -> Job {
    Job { payload: row.payload.clone(), tags: row.tags.clone(), ..job }
}

#[async_trait]
impl Ledger for ModelLedger {
    async fn allot(&self, count: u64, now: Millis) -> Result<Range<u64>, Error> {
        let mut rows = self.there()?;
        let start = block_start(rows.block_end, now);
        rows.block_end = start + count;
        Ok(start..start + count)
    }

    async fn record(&self, jobs: Vec<Job>, watermark: Millis) -> Result<Vec<Recorded>, Error> {
        let mut rows = self.there()?;
        jobs.iter().try_for_each(check_numbers)?;
        Ok(jobs.into_iter().map(|job| rows.record(job, watermark)).collect())
    }

    async fn known(&self, jobs: &[Job]) -> Result<Vec<Option<Recorded>>, Error> {
        let rows = self.there()?;
        let met = |job: &Job| rows.first(job).map(Recorded::Known).or(rows.key_holder(job).map(Recorded::KeyHeld));
        Ok(jobs.iter().map(met).collect())
    }

    async fn apply(&self, entries: Vec<OutboxEntry>, watermark: Millis) -> Result<Vec<JobId>, Error> {
        let mut rows = self.there()?;
        Ok(entries.into_iter().flat_map(|entry| rows.apply(entry, watermark)).collect())
    }

    async fn pending(&self, until: Millis, after: Option<Cursor>, limit: usize) -> Result<Page, Error> {
        let rows = self.there()?;
        let end = i64::try_from(until.div_ceil(BUCKET_MS)).expect("buckets are small");
        let bucket_now = |(bucket, job): &(i64, Job)| {
            let place = Cursor { bucket: *bucket, id: job.id.get() };
            (waits(job) && (0..end).contains(bucket) && after.is_none_or(|after| place > after))
                .then(|| (place, job.clone()))
        };
        let mut jobs: Vec<(Cursor, Job)> = rows.jobs.values().filter_map(bucket_now).collect();
        jobs.sort_by_key(|(place, _)| *place);
        jobs.truncate(limit);
        let next = if jobs.len() == limit { jobs.last().map(|(place, _)| *place) } else { None };
        Ok(Page { jobs: jobs.into_iter().map(|(_, job)| job).collect(), next })
    }

    async fn loaded(&self, jobs: &[(JobId, u64)], incarnation: &str) -> Result<(), Error> {
        let mut rows = self.there()?;
        let adopted = rows.documents.get(&(BROKER.to_owned(), ADOPTED.to_owned()));
        if !incarnation.is_empty() && adopted.is_none_or(|(body, _)| body != incarnation) {
            return Ok(());
        }
        for (id, version) in jobs {
            let is_same = |(_, job): &&mut (i64, Job)| job.version == *version && job.is_pending();
            if let Some((bucket_now, _)) = rows.jobs.get_mut(id).filter(is_same) {
                *bucket_now = 0;
            }
        }
        Ok(())
    }

    async fn not_loaded(&self, ids: &[JobId], watermark: Millis) -> Result<(), Error> {
        let mut rows = self.there()?;
        for id in ids {
            if let Some((bucket_now, job)) = rows.jobs.get_mut(id).filter(|(_, job)| job.is_pending()) {
                *bucket_now = bucket(job.due_at.0, watermark);
            }
        }
        Ok(())
    }

    async fn overflow(&self, queue: &str, due: Window, limit: usize) -> Result<Vec<Job>, Error> {
        let rows = self.there()?;
        let in_window = |job: &&Job| *job.queue == *queue && (due.from..=due.to).contains(&job.due_at.0);
        let mut jobs: Vec<Job> = rows.overflow().filter(in_window).cloned().collect();
        jobs.sort_by_key(|job| (job.priority, job.due_at, job.id));
        let mut bytes = 0;
        let fits = |job: &Job| {
            let has_room = bytes < INBOX_BYTES_MAX;
            bytes += job.payload.len();
            has_room
        };
        Ok(jobs.into_iter().take(limit).take_while(fits).collect())
    }

    async fn overflowing(&self, after: Option<&str>) -> Result<Option<Arc<str>>, Error> {
        let rows = self.there()?;
        let names = rows.overflow().map(|job| job.queue.clone());
        Ok(names.filter(|name| after.is_none_or(|after| **name > *after)).min())
    }

    async fn overflow_due(&self, queue: &str, now: Millis) -> Result<OverflowDue, Error> {
        let rows = self.there()?;
        let is_due = |job: &&Job| *job.queue == *queue && job.due_at <= Timestamp(now);
        let jobs = rows.overflow().filter(is_due).count() as u64;
        Ok(OverflowDue { jobs, oldest_due: rows.overflow().filter(is_due).map(|job| job.due_at).min().map(|at| at.0) })
    }

    async fn get(&self, ids: &[JobId]) -> Result<Vec<Option<Job>>, Error> {
        let rows = self.there()?;
        Ok(ids.iter().map(|id| rows.jobs.get(id).map(|(_, job)| job.clone())).collect())
    }

    async fn find(&self, find: Find) -> Result<Found, Error> {
        let after = find.after_place()?;
        drop(self.there()?);
        let place = |job: &Job| find.place(job.id, job.finished_at.map(|at| at.0));
        let fits = |job: &Job| {
            let selected = match &find.selector {
                Selector::All | Selector::State => true,
                Selector::Key(queue, key) => *queue == job.queue && job.key.as_ref() == Some(key),
                Selector::Tag(tag) => job.tags.contains(tag),
            };
            let stages = find.states.iter().map(|state| match state {
                State::Succeeded => Stage::Succeeded,
                State::Failed => Stage::Failed,
                State::Cancelled => Stage::Cancelled,
                State::Scheduled | State::Ready | State::Running => Stage::Pending,
            });
            selected
                && find.queue.as_ref().is_none_or(|queue| *queue == job.queue)
                && (find.states.is_empty() || stages.into_iter().any(|stage| stage == job.stage))
                && find.kind.as_ref().is_none_or(|kind| *kind == job.kind)
                && (find.due.from..=find.due.to).contains(&job.due_at.0)
                && place(job) > after
        };
        let mut jobs: Vec<Job> = self.jobs().into_iter().filter(fits).collect();
        jobs.sort_by_key(place);
        jobs.truncate(find.limit);
        let next = if jobs.len() == find.limit { jobs.last().map(|job| place(job).to_string()) } else { None };
        Ok(Found { jobs, next })
    }

    async fn edit(&self, edits: Vec<Edit>, now: Millis, watermark: Millis) -> Result<Vec<Edited>, Error> {
        let mut rows = self.there()?;
        Ok(edits.iter().map(|edit| rows.edit(edit, now, watermark)).collect())
    }

    async fn prune(&self, retention: Retention, now: Millis, limit: usize) -> Result<usize, Error> {
        let mut rows = self.there()?;
        let is_past = |job: &Job| {
            let kept_ms = if job.stage == Stage::Failed { retention.failed.0 } else { retention.succeeded.0 };
            job.finished_at.is_some_and(|at| at.0.saturating_add(kept_ms) <= now)
        };
        let past: Vec<JobId> = rows.jobs.values().filter(|(_, job)| is_past(job)).map(|(_, job)| job.id).collect();
        let pruned = past.iter().take(limit).filter(|id| rows.jobs.remove(id).is_some()).count();
        Ok(pruned)
    }

    async fn tallies(&self, queues: Queues) -> Result<Vec<(Arc<str>, Tally)>, Error> {
        let rows = self.there()?;
        let all = rows.totals.tallies(rows.jobs.values().map(|(_, job)| job)).into_iter();
        Ok(match queues {
            Queues::Named(names) => all.filter(|(queue, _)| names.contains(queue)).collect(),
            Queues::From(from, limit) => all.filter(|(queue, _)| **queue >= *from).take(limit).collect(),
        })
    }

    async fn remove_queue(&self, queue: &Arc<str>) -> Result<(), Error> {
        let mut rows = self.there()?;
        if !rows.jobs.values().any(|(_, job)| job.queue == *queue) {
            rows.totals.forget(queue);
        }
        Ok(())
    }

    async fn close(&self) -> Result<(), Error> {
        self.is_closed.store(true, Ordering::SeqCst);
        Ok(())
    }
}

#[async_trait]
impl Inbox for ModelLedger {
    async fn waiting(&self, after: i64, limit: usize) -> Result<Vec<InboxRow>, Error> {
        let (rows, mut bytes) = (self.there()?, 0);
        let cut = |text: &Option<String>| Some(text.as_ref()?.chars().take(INBOX_TEXT_MAX + 1).collect());
        let fits = |row: &&InboxRow| {
            let size = row.payload.len() + row.options.iter().chain(&row.tags).map(String::len).sum::<usize>();
            bytes += size;
            bytes - size < INBOX_BYTES_MAX
        };
        let read = |row: &InboxRow| InboxRow { options: cut(&row.options), tags: cut(&row.tags), ..row.clone() };
        let waiting = rows
            .inbox
            .range(after + 1..)
            .map(|(_, row)| row)
            .filter(|(_, refused)| refused.is_none())
            .map(|(row, _)| row);
        Ok(waiting.take(limit).take_while(fits).map(read).collect())
    }

    async fn admit(&self, verdicts: Vec<(i64, Verdict)>) -> Result<Vec<Admitted>, Error> {
        let mut rows = self.there()?;
        Ok(verdicts.into_iter().map(|(number, verdict)| rows.admit(number, verdict)).collect())
    }
}
