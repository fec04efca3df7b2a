//! The ports.

use super::documents::{Allot, Put, ReadAll, ReadOne, Remove};
use super::edit::EditRows;
use super::find::FindRows;
use super::inbox::{Admit, Waiting};
use super::loaded::{Loaded, NotLoaded};
use super::prune::{Prune, ReadTallies, Tidy};
use super::read::{CountOverflow, Get, Overflow, Overflowing, Pending};
use super::reports::{CountDue, ReadFailed};
use super::row::check;
use super::{Store, queue};
use async_trait::async_trait;
use duetime_core::ports::{
    Admitted, Cursor, Document, DueTally, Edit, Edited, FailedJob, Find, Found, Inbox, InboxRow, Ledger, OutboxEntry,
    OverflowDue, Page, PutIf, Queues, Recorded, Registry, Reports, Retention, Tally, Verdict, Window, row_after,
};
use duetime_core::{Error, Job, JobId, Millis};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

impl Store {
    fn queue(&self) -> Result<&queue::Queue, Error> {
        if self.is_closed.load(Ordering::Acquire) { Err(Error::Stopping) } else { Ok(&self.queue) }
    }
}

#[async_trait]
impl Ledger for Store {
    async fn allot(&self, count: u64, now: Millis) -> Result<Range<u64>, Error> {
        self.call(Allot { count, now }).await
    }

    async fn record(&self, jobs: Vec<Job>, watermark: Millis) -> Result<Vec<Recorded>, Error> {
        jobs.iter().try_for_each(check)?;
        if jobs.is_empty() {
            return self.queue().map(|_| Vec::new());
        }
        self.queue()?.record(jobs, watermark).await
    }

    async fn apply(&self, entries: Vec<OutboxEntry>, watermark: Millis) -> Result<(), Error> {
        for entry in &entries {
            check(entry.job())?;
            if let OutboxEntry::Moved(_, copy) = entry {
                check(copy)?;
            }
        }
        let queue = self.queue()?;
        if entries.is_empty() { Ok(()) } else { queue.apply(entries, watermark).await }
    }

    async fn pending(&self, until: Millis, after: Option<Cursor>, limit: usize) -> Result<Page, Error> {
        self.call(Pending { until, after, limit }).await
    }

    async fn loaded(&self, jobs: &[(JobId, u64)], incarnation: &str) -> Result<(), Error> {
        if jobs.is_empty() {
            return self.queue().map(drop);
        }
        self.call(Loaded { jobs: jobs.to_vec(), incarnation: incarnation.to_owned() }).await
    }

    async fn not_loaded(&self, ids: &[JobId], watermark: Millis) -> Result<(), Error> {
        self.call(NotLoaded { ids: ids.to_vec(), watermark }).await
    }

    async fn overflow(&self, queue: &str, due: Window, limit: usize) -> Result<Vec<Job>, Error> {
        self.call(Overflow { queue: queue.to_owned(), due, limit }).await
    }

    async fn overflowing(&self, after: Option<&str>) -> Result<Option<Arc<str>>, Error> {
        // No queue has an empty name.
        self.call(Overflowing(after.unwrap_or_default().to_owned())).await
    }

    async fn overflow_due(&self, queue: &str, now: Millis) -> Result<OverflowDue, Error> {
        self.call(CountOverflow { queue: queue.to_owned(), now }).await
    }

    async fn get(&self, ids: &[JobId]) -> Result<Vec<Option<Job>>, Error> {
        self.call(Get(ids.to_vec())).await
    }

    async fn find(&self, find: Find) -> Result<Found, Error> {
        let after = find.after_id()?;
        self.call(FindRows { find, after }).await
    }

    async fn edit(&self, edits: Vec<Edit>, now: Millis, watermark: Millis) -> Result<Vec<Edited>, Error> {
        self.call(EditRows { edits, now, watermark }).await
    }

    async fn prune(&self, retention: Retention, now: Millis, limit: usize) -> Result<usize, Error> {
        let all = Prune { retention, now, limit };
        let mut removed = self.call(Prune { ..all }).await?;
        while let Some(rest) = all.rest(removed) {
            let more = self.call(rest).await?;
            removed += more;
            if more == 0 {
                break;
            }
        }
        if removed < limit {
            let queues = self.to_tidy.lock().expect("no panic under this lock").clone();
            let next = self.call(Tidy { queues }).await?;
            *self.to_tidy.lock().expect("no panic under this lock") = next;
        }
        Ok(removed)
    }

    async fn tallies(&self, queues: Queues) -> Result<Vec<(Arc<str>, Tally)>, Error> {
        self.call(ReadTallies(queues)).await
    }

    async fn close(&self) -> Result<(), Error> {
        self.is_closed.store(true, Ordering::Release);
        self.queue.close();
        let writers = std::mem::take(&mut *self.writers.lock().unwrap_or_else(PoisonError::into_inner));
        for writer in writers {
            writer.await.map_err(|error| Error::Unavailable(format!("a writer did not end in order ({error})")))?;
        }
        self.database.close().await;
        Ok(())
    }
}

#[async_trait]
impl Reports for Store {
    async fn due(&self, tally: DueTally, after: Option<String>) -> Result<(DueTally, Option<String>), Error> {
        let after = row_after(after.as_deref())?;
        let (tally, next) = self.call(CountDue { tally, after }).await?;
        Ok((tally, next.map(|id| id.to_string())))
    }

    async fn failed(&self, limit: usize) -> Result<Vec<FailedJob>, Error> {
        self.call(ReadFailed(limit)).await
    }
}

#[async_trait]
impl Inbox for Store {
    async fn waiting(&self, limit: usize) -> Result<Vec<InboxRow>, Error> {
        self.call(Waiting { limit }).await
    }

    async fn admit(&self, verdicts: Vec<(i64, Verdict)>) -> Result<Vec<Admitted>, Error> {
        for (_, verdict) in &verdicts {
            if let Verdict::Record(job) = verdict {
                check(job)?;
            }
        }
        if verdicts.is_empty() { Ok(Vec::new()) } else { self.call(Admit(verdicts)).await }
    }
}

#[async_trait]
impl Registry for Store {
    async fn document(&self, kind: &str, name: &str) -> Result<Option<Document>, Error> {
        self.call(ReadOne { kind: kind.to_owned(), name: name.to_owned() }).await
    }

    async fn documents(&self, kind: &str) -> Result<Vec<Document>, Error> {
        self.call(ReadAll { kind: kind.to_owned() }).await
    }

    async fn put_if(&self, kind: &str, name: &str, body: &str, version: u64) -> Result<PutIf, Error> {
        let document = Document { name: name.to_owned(), body: body.to_owned(), version: version.saturating_add(1) };
        self.call(Put { kind: kind.to_owned(), document, is_unsure: false }).await
    }

    async fn remove(&self, kind: &str, name: &str) -> Result<bool, Error> {
        self.call(Remove { kind: kind.to_owned(), name: name.to_owned() }).await
    }
}
