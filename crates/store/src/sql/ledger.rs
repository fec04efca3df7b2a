//! The ports' verbs.

use super::documents::{Allot, Put, ReadAll, ReadOne, Remove};
use super::edit::EditRows;
use super::filing::{Loaded, Unloaded};
use super::find::FindRows;
use super::inbox::{Admit, Inbox};
use super::prune::{Prune, ReadTallies, Tidy};
use super::read::{CountOverflow, Get, Leased, Overflow, Overflowing, Pending};
use super::row::check;
use super::session::Database;
use super::{Store, queue};
use duetime_core::ports::{
    Admitted, Cursor, Document, Edit, Edited, Find, Found, InboxRow, LeaseNote, Note, OverflowDue, Page, PutIf, Queues,
    Recorded, Retention, Tally, Verdict, Window,
};
use duetime_core::{Error, Job, JobId, Millis};
use std::ops::Range;
use std::sync::Arc;

/// Has a store, which is around a [`Store`](super::Store) called `store`, implement the ports.
macro_rules! ports {
    ($type:ty) => {
        #[async_trait::async_trait]
        impl duetime_core::ports::Ledger for $type {
            async fn allot(&self, count: u64, now: Millis) -> Result<Range<u64>, Error> {
                self.store.allot(count, now).await
            }

            async fn record(&self, jobs: Vec<Job>, frontier: Millis) -> Result<Vec<Recorded>, Error> {
                self.store.record(jobs, frontier).await
            }

            async fn note(&self, notes: Vec<Note>, frontier: Millis) -> Result<(), Error> {
                self.store.note(notes, frontier).await
            }

            fn lease(&self, leases: Vec<LeaseNote>) {
                self.store.lease(leases);
            }

            async fn pending(&self, until: Millis, after: Option<Cursor>, limit: usize) -> Result<Page, Error> {
                self.store.pending(until, after, limit).await
            }

            async fn loaded(&self, jobs: &[(JobId, u64)], stamp: &str) -> Result<(), Error> {
                self.store.loaded(jobs, stamp).await
            }

            async fn unloaded(&self, ids: &[JobId], frontier: Millis) -> Result<(), Error> {
                self.store.unloaded(ids, frontier).await
            }

            async fn overflow(&self, queue: &str, due: Window, limit: usize) -> Result<Vec<Job>, Error> {
                self.store.overflow(queue, due, limit).await
            }

            async fn overflowing(&self, after: Option<&str>) -> Result<Option<Arc<str>>, Error> {
                self.store.overflowing(after).await
            }

            async fn overflow_due(&self, queue: &str, now: Millis) -> Result<OverflowDue, Error> {
                self.store.overflow_due(queue, now).await
            }

            async fn inbox(&self, limit: usize) -> Result<Vec<InboxRow>, Error> {
                self.store.inbox(limit).await
            }

            async fn admit(&self, verdicts: Vec<(i64, Verdict)>) -> Result<Vec<Admitted>, Error> {
                self.store.admit(verdicts).await
            }

            async fn leased(&self) -> Result<Vec<Job>, Error> {
                self.store.leased().await
            }

            async fn get(&self, ids: &[JobId]) -> Result<Vec<Option<Job>>, Error> {
                self.store.get(ids).await
            }

            async fn find(&self, find: Find) -> Result<Found, Error> {
                self.store.find(find).await
            }

            async fn edit(&self, edits: Vec<Edit>, now: Millis, frontier: Millis) -> Result<Vec<Edited>, Error> {
                self.store.edit(edits, now, frontier).await
            }

            async fn prune(&self, retention: Retention, now: Millis, limit: usize) -> Result<usize, Error> {
                self.store.prune(retention, now, limit).await
            }

            async fn tallies(&self, queues: Queues) -> Result<Vec<(Arc<str>, Tally)>, Error> {
                self.store.tallies(queues).await
            }

            async fn close(&self) -> Result<(), Error> {
                self.store.close().await
            }
        }

        #[async_trait::async_trait]
        impl duetime_core::ports::Registry for $type {
            async fn document(&self, kind: &str, name: &str) -> Result<Option<Document>, Error> {
                self.store.document(kind, name).await
            }

            async fn documents(&self, kind: &str) -> Result<Vec<Document>, Error> {
                self.store.documents(kind).await
            }

            async fn put_if(&self, kind: &str, name: &str, body: &str, version: u64) -> Result<PutIf, Error> {
                self.store.put_if(kind, name, body, version).await
            }

            async fn remove(&self, kind: &str, name: &str) -> Result<bool, Error> {
                self.store.remove(kind, name).await
            }
        }
    };
}
pub(crate) use ports;

impl<D: Database> Store<D> {
    fn queue(&self) -> Result<&queue::Queue, Error> {
        if self.is_closed.load(std::sync::atomic::Ordering::Acquire) { Err(Error::Stopping) } else { Ok(&self.queue) }
    }

    pub(crate) async fn allot(&self, count: u64, now: Millis) -> Result<Range<u64>, Error> {
        self.call(Allot { count, now }).await
    }

    pub(crate) async fn record(&self, jobs: Vec<Job>, frontier: Millis) -> Result<Vec<Recorded>, Error> {
        jobs.iter().try_for_each(check)?;
        if jobs.is_empty() {
            return self.queue().map(|_| Vec::new());
        }
        self.queue()?.record(jobs, frontier).await
    }

    pub(crate) async fn note(&self, notes: Vec<Note>, frontier: Millis) -> Result<(), Error> {
        for note in &notes {
            check(note.job())?;
            if let Note::Moved(_, copy) = note {
                check(copy)?;
            }
        }
        let queue = self.queue()?;
        queue.end_leases(&notes);
        if notes.is_empty() { Ok(()) } else { queue.note(notes, frontier).await }
    }

    pub(crate) fn lease(&self, leases: Vec<LeaseNote>) {
        if self.options.notes_leases && !leases.is_empty() {
            self.queue.lease(leases);
        }
    }

    pub(crate) async fn pending(&self, until: Millis, after: Option<Cursor>, limit: usize) -> Result<Page, Error> {
        self.call(Pending { until, after, limit }).await
    }

    pub(crate) async fn loaded(&self, jobs: &[(JobId, u64)], stamp: &str) -> Result<(), Error> {
        if jobs.is_empty() {
            return self.queue().map(drop);
        }
        self.call(Loaded { jobs: jobs.to_vec(), stamp: stamp.to_owned() }).await
    }

    pub(crate) async fn unloaded(&self, ids: &[JobId], frontier: Millis) -> Result<(), Error> {
        self.call(Unloaded { ids: ids.to_vec(), frontier }).await
    }

    pub(crate) async fn overflow(&self, queue: &str, due: Window, limit: usize) -> Result<Vec<Job>, Error> {
        self.call(Overflow { queue: queue.to_owned(), due, limit }).await
    }

    pub(crate) async fn overflowing(&self, after: Option<&str>) -> Result<Option<Arc<str>>, Error> {
        // No queue has an empty name.
        self.call(Overflowing(after.unwrap_or_default().to_owned())).await
    }

    pub(crate) async fn overflow_due(&self, queue: &str, now: Millis) -> Result<OverflowDue, Error> {
        self.call(CountOverflow { queue: queue.to_owned(), now }).await
    }

    pub(crate) async fn inbox(&self, limit: usize) -> Result<Vec<InboxRow>, Error> {
        self.call(Inbox { limit }).await
    }

    pub(crate) async fn admit(&self, verdicts: Vec<(i64, Verdict)>) -> Result<Vec<Admitted>, Error> {
        for (_, verdict) in &verdicts {
            if let Verdict::Record(job) = verdict {
                check(job)?;
            }
        }
        if verdicts.is_empty() { Ok(Vec::new()) } else { self.call(Admit(verdicts)).await }
    }

    pub(crate) async fn leased(&self) -> Result<Vec<Job>, Error> {
        self.call(Leased).await
    }

    pub(crate) async fn get(&self, ids: &[JobId]) -> Result<Vec<Option<Job>>, Error> {
        self.call(Get(ids.to_vec())).await
    }

    pub(crate) async fn find(&self, find: Find) -> Result<Found, Error> {
        let after = find.after_id()?;
        self.call(FindRows { find, after }).await
    }

    pub(crate) async fn edit(&self, edits: Vec<Edit>, now: Millis, frontier: Millis) -> Result<Vec<Edited>, Error> {
        self.call(EditRows { edits, now, frontier }).await
    }

    pub(crate) async fn prune(&self, retention: Retention, now: Millis, limit: usize) -> Result<usize, Error> {
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

    pub(crate) async fn tallies(&self, queues: Queues) -> Result<Vec<(Arc<str>, Tally)>, Error> {
        self.call(ReadTallies(queues)).await
    }

    pub(crate) async fn document(&self, kind: &str, name: &str) -> Result<Option<Document>, Error> {
        self.call(ReadOne { kind: kind.to_owned(), name: name.to_owned() }).await
    }

    pub(crate) async fn documents(&self, kind: &str) -> Result<Vec<Document>, Error> {
        self.call(ReadAll { kind: kind.to_owned() }).await
    }

    pub(crate) async fn put_if(&self, kind: &str, name: &str, body: &str, version: u64) -> Result<PutIf, Error> {
        let document = Document { name: name.to_owned(), body: body.to_owned(), version: version.saturating_add(1) };
        self.call(Put { kind: kind.to_owned(), document, is_unsure: false }).await
    }

    pub(crate) async fn remove(&self, kind: &str, name: &str) -> Result<bool, Error> {
        self.call(Remove { kind: kind.to_owned(), name: name.to_owned() }).await
    }
}
