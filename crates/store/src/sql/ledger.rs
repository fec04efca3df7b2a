//! The implementation of the ports.

use super::call::soon;
use super::documents::{Allot, Put, Remove};
use super::edit::EditRows;
use super::inbox::Admit;
use super::row::check;
use super::{Store, buckets, find, inbox, prune, queue, read, record, reports, tally};
use async_trait::async_trait;
use duetime_core::ports::{
    Admitted, Cursor, Document, DueTally, Edit, Edited, FailedJob, Find, Found, Inbox, InboxRow, Ledger, OutboxEntry,
    OverflowDue, Page, PutIf, Queues, Recorded, Registry, Reports, Retention, Tally, Verdict, Window, row_after,
};
use duetime_core::{Error, Job, JobId, Millis, Stage};
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
        soon(0, 0, self.call(Allot { count, now })).await
    }

    async fn record(&self, jobs: Vec<Job>, watermark: Millis) -> Result<Vec<Recorded>, Error> {
        jobs.iter().try_for_each(check)?;
        if jobs.is_empty() {
            return self.queue().map(|_| Vec::new());
        }
        let bytes = jobs.iter().map(|job| job.payload.len()).sum();
        soon(jobs.len(), bytes, self.queue()?.record(jobs, watermark)).await
    }

    async fn known(&self, jobs: &[Job]) -> Result<Vec<Option<Recorded>>, Error> {
        soon(jobs.len(), 0, self.read(jobs, |session, jobs| Box::pin(record::known(session, jobs)))).await
    }

    async fn apply(&self, entries: Vec<OutboxEntry>, watermark: Millis) -> Result<Vec<JobId>, Error> {
        for entry in &entries {
            check(entry.job())?;
            entry.successors().iter().try_for_each(check)?;
        }
        let queue = self.queue()?;
        if entries.is_empty() { Ok(Vec::new()) } else { queue.apply(entries, watermark).await }
    }

    async fn pending(&self, until: Millis, after: Option<Cursor>, limit: usize) -> Result<Page, Error> {
        self.read((until, after, limit), |session, arguments| Box::pin(read::pending(session, arguments))).await
    }

    async fn loaded(&self, jobs: &[(JobId, u64)], incarnation: &str) -> Result<(), Error> {
        if jobs.is_empty() {
            return self.queue().map(drop);
        }
        self.write((jobs, incarnation), |session, arguments| Box::pin(buckets::loaded(session, arguments))).await
    }

    async fn not_loaded(&self, ids: &[JobId], watermark: Millis) -> Result<(), Error> {
        self.write((ids, watermark), |session, arguments| Box::pin(buckets::not_loaded(session, arguments))).await
    }

    async fn overflow(&self, queue: &str, due: Window, limit: usize) -> Result<Vec<Job>, Error> {
        self.read((queue, due, limit), |session, arguments| Box::pin(read::overflow(session, arguments))).await
    }

    async fn overflowing(&self, after: Option<&str>) -> Result<Option<Arc<str>>, Error> {
        // No queue has an empty name.
        self.read(after.unwrap_or_default(), |session, after| Box::pin(session.overflowing(after))).await
    }

    async fn overflow_due(&self, queue: &str, now: Millis) -> Result<OverflowDue, Error> {
        self.read((queue, now), |session, (queue, now)| Box::pin(session.over_due(queue, *now))).await
    }

    async fn get(&self, ids: &[JobId]) -> Result<Vec<Option<Job>>, Error> {
        soon(ids.len(), 0, self.read(ids, |session, ids| Box::pin(read::get(session, ids)))).await
    }

    async fn versions(&self, ids: &[JobId]) -> Result<Vec<Option<(u64, Stage)>>, Error> {
        soon(ids.len(), 0, self.read(ids, |session, ids| Box::pin(read::versions(session, ids)))).await
    }

    async fn find(&self, find: Find) -> Result<Found, Error> {
        let after = find.after_place()?;
        soon(0, 0, self.read((find, after), |session, arguments| Box::pin(find::find(session, arguments)))).await
    }

    async fn edit(&self, edits: Vec<Edit>, now: Millis, watermark: Millis) -> Result<Vec<Edited>, Error> {
        soon(edits.len(), 0, self.call(EditRows { edits, now, watermark })).await
    }

    async fn prune(&self, retention: Retention, now: Millis, limit: usize) -> Result<usize, Error> {
        let mut removed = 0;
        loop {
            let rest = (retention, now, limit - removed);
            let more = self.write(rest, |session, arguments| Box::pin(prune::prune(session, arguments))).await?;
            removed += more;
            if more < prune::BATCH || removed >= limit {
                break;
            }
        }
        if removed < limit {
            let queues = self.to_tidy.lock().expect("no panic under this lock").clone();
            let next = self.write(queues, |session, queues| Box::pin(prune::tidy(session, queues))).await?;
            *self.to_tidy.lock().expect("no panic under this lock") = next;
        }
        Ok(removed)
    }

    async fn tallies(&self, queues: Queues) -> Result<Vec<(Arc<str>, Tally)>, Error> {
        self.read(queues, |session, queues| Box::pin(tally::of(session, queues))).await
    }

    async fn remove_queue(&self, queue: &Arc<str>) -> Result<(), Error> {
        let queues = vec![queue.clone()];
        self.write(queues, |session, queues| Box::pin(session.drop_tallies(queues))).await
    }

    async fn close(&self) -> Result<(), Error> {
        self.is_closed.store(true, Ordering::Release);
        self.queue.close();
        let writers = std::mem::take(&mut *self.writers.lock().unwrap_or_else(PoisonError::into_inner));
        for writer in writers {
            writer.await.map_err(|error| Error::Unavailable(format!("a writer did not end cleanly ({error})")))?;
        }
        self.database.close().await;
        Ok(())
    }
}

#[async_trait]
impl Reports for Store {
    async fn due(&self, tally: DueTally, after: Option<String>) -> Result<(DueTally, Option<String>), Error> {
        let after = row_after(after.as_deref())?;
        let (tally, next) =
            self.read((tally, after), |session, arguments| Box::pin(reports::due(session, arguments))).await?;
        Ok((tally, next.map(|id| id.to_string())))
    }

    async fn failed(&self, limit: usize) -> Result<Vec<FailedJob>, Error> {
        self.read(limit, |session, limit| Box::pin(reports::failed(session, limit))).await
    }
}

#[async_trait]
impl Inbox for Store {
    async fn waiting(&self, after: i64, limit: usize) -> Result<Vec<InboxRow>, Error> {
        self.read((after, limit), |session, &(after, limit)| Box::pin(inbox::waiting(session, after, limit))).await
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
        soon(0, 0, self.read((kind, name), |session, (kind, name)| Box::pin(session.document(kind, name, false)))).await
    }

    async fn documents(&self, kind: &str) -> Result<Vec<Document>, Error> {
        self.read(kind, |session, kind| Box::pin(session.documents(kind))).await
    }

    async fn put_if(&self, kind: &str, name: &str, body: &str, version: u64) -> Result<PutIf, Error> {
        let document = Document { name: name.to_owned(), body: body.to_owned(), version: 0 };
        soon(0, 0, self.call(Put::new(kind, document, version))).await
    }

    async fn remove(&self, kind: &str, name: &str, version: Option<u64>) -> Result<bool, Error> {
        soon(0, 0, self.call(Remove { kind: kind.to_owned(), name: name.to_owned(), version })).await
    }
}
