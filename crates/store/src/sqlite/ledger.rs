//! The implementation of the ports: each verb goes to the writer or to a reader.

use super::threads::aside;
use super::{Sqlite, apply, documents, edit, end, find, overflow, prune, read, record, reports, tally};
use async_trait::async_trait;
use duetime_core::ports::{
    Cursor, Document, DueTally, Edit, Edited, FailedJob, Find, Found, LeaseRecord, Leases, Ledger, OutboxEntry,
    OverflowDue, Page, PutIf, Queues, Recorded, Registry, Reports, Retention, Tally, Trouble, Window, row_after,
};
use duetime_core::{Error, Job, JobId, Millis};
use rusqlite::Connection;
use std::ops::Range;
use std::sync::{Arc, PoisonError};

#[async_trait]
impl Ledger for Sqlite {
    async fn allot(&self, count: u64, now: Millis) -> Result<Range<u64>, Error> {
        self.write(1, 0, move |transaction| documents::allot(transaction.connection, count, now)).await
    }

    async fn record(&self, jobs: Vec<Job>, watermark: Millis) -> Result<Vec<Recorded>, Error> {
        let bytes = jobs.iter().map(|job| job.payload.len()).sum();
        self.write(jobs.len(), bytes, move |transaction| record::record(transaction, &jobs, watermark)).await
    }

    async fn known(&self, jobs: &[Job]) -> Result<Vec<Option<Recorded>>, Error> {
        let jobs = jobs.to_vec();
        self.read(move |connection| jobs.iter().map(|job| record::known(connection, job)).collect()).await
    }

    async fn apply(&self, entries: Vec<OutboxEntry>, watermark: Millis) -> Result<Vec<JobId>, Error> {
        self.queue.end_leases(&entries);
        self.write(entries.len(), 0, move |transaction| apply::apply(transaction, &entries, watermark)).await
    }

    async fn pending(&self, until: Millis, after: Option<Cursor>, limit: usize) -> Result<Page, Error> {
        self.read(move |connection| read::pending(connection, until, after, limit)).await
    }

    async fn loaded(&self, jobs: &[(JobId, u64)], _incarnation: &str) -> Result<(), Error> {
        if jobs.is_empty() {
            return Ok(());
        }
        let jobs = jobs.to_vec();
        self.write(jobs.len(), 0, move |transaction| overflow::mark_loaded(transaction.connection, &jobs)).await
    }

    async fn not_loaded(&self, ids: &[JobId], watermark: Millis) -> Result<(), Error> {
        let ids = ids.to_vec();
        self.write(ids.len(), 0, move |transaction| overflow::mark(transaction.connection, &ids, watermark)).await
    }

    async fn overflow(&self, queue: &str, due: Window, limit: usize) -> Result<Vec<Job>, Error> {
        let queue = queue.to_owned();
        self.read(move |connection| overflow::page(connection, &queue, due, limit)).await
    }

    async fn overflowing(&self, after: Option<&str>) -> Result<Option<Arc<str>>, Error> {
        // No queue has an empty name.
        let after = after.unwrap_or_default().to_owned();
        self.read(move |connection| overflow::next(connection, &after)).await
    }

    async fn overflow_due(&self, queue: &str, now: Millis) -> Result<OverflowDue, Error> {
        let queue = queue.to_owned();
        self.read(move |connection| overflow::due(connection, &queue, now)).await
    }

    async fn get(&self, ids: &[JobId]) -> Result<Vec<Option<Job>>, Error> {
        let ids = ids.to_vec();
        self.read(move |connection| read::get(connection, &ids)).await
    }

    async fn find(&self, find: Find) -> Result<Found, Error> {
        let after = find.after_place()?;
        self.read(move |connection| find::find(connection, &find, after)).await
    }

    async fn edit(&self, edits: Vec<Edit>, now: Millis, watermark: Millis) -> Result<Vec<Edited>, Error> {
        self.write(edits.len(), 0, move |transaction| edit::edit(transaction, &edits, now, watermark)).await
    }

    async fn prune(&self, retention: Retention, now: Millis, limit: usize) -> Result<usize, Error> {
        self.write(limit, 0, move |transaction| prune::prune(transaction, retention, now, limit)).await
    }

    async fn tallies(&self, queues: Queues) -> Result<Vec<(Arc<str>, Tally)>, Error> {
        self.read(move |connection| tally::of(connection, &queues)).await
    }

    fn troubles(&self) -> Vec<(Trouble, String)> {
        let Some(log) = &self.log else { return Vec::new() };
        if log.health.is_to_try() {
            self.queue.try_change();
        }
        log.troubles()
    }

    async fn close(&self) -> Result<(), Error> {
        self.queue.close();
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(threads) = threads else { return Ok(()) };
        let (queue, pool, log) = (self.queue.clone(), self.pool.clone(), self.log.clone());
        let work = move || end(threads, &queue, pool.as_deref(), log.as_deref(), true);
        aside("duetime-close", work).await
    }
}

#[async_trait]
impl Leases for Sqlite {
    async fn lease(&self, leases: Vec<LeaseRecord>) -> Result<(), Error> {
        let Some(log) = &self.log else { return self.queue.lease(leases) };
        log.health.check_last()?;
        self.queue.lease(leases).inspect_err(|error| log.health.note(Err(error)))
    }

    async fn leased(&self) -> Result<Vec<Job>, Error> {
        self.read(read::leased).await
    }
}

#[async_trait]
impl Reports for Sqlite {
    async fn due(&self, tally: DueTally, after: Option<String>) -> Result<(DueTally, Option<String>), Error> {
        let after = row_after(after.as_deref())?;
        let step = move |connection: &Connection| {
            let mut tally = tally.clone();
            let next = reports::due(connection, &mut tally, after)?;
            Ok((tally, next.map(|id| id.to_string())))
        };
        self.read(step).await
    }

    async fn failed(&self, limit: usize) -> Result<Vec<FailedJob>, Error> {
        self.read(move |connection| reports::failed(connection, limit)).await
    }
}

#[async_trait]
impl Registry for Sqlite {
    async fn document(&self, kind: &str, name: &str) -> Result<Option<Document>, Error> {
        let (kind, name) = (kind.to_owned(), name.to_owned());
        self.read(move |connection| documents::document(connection, &kind, &name)).await
    }

    async fn documents(&self, kind: &str) -> Result<Vec<Document>, Error> {
        let kind = kind.to_owned();
        self.read(move |connection| documents::documents(connection, &kind)).await
    }

    async fn put_if(&self, kind: &str, name: &str, body: &str, version: u64) -> Result<PutIf, Error> {
        let (kind, name, body) = (kind.to_owned(), name.to_owned(), body.to_owned());
        self.write(1, body.len(), move |transaction| {
            documents::put_if(transaction.connection, &kind, &name, &body, version)
        })
        .await
    }

    async fn remove(&self, kind: &str, name: &str, version: Option<u64>) -> Result<bool, Error> {
        let (kind, name) = (kind.to_owned(), name.to_owned());
        self.write(1, 0, move |transaction| documents::remove(transaction.connection, &kind, &name, version)).await
    }
}
