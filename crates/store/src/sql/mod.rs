//! The ledger in an SQL server, whichever it is: what is done in which order and in which transaction. How one server
//! does it is said by its [`Session`](session::Session).
//!
//! What becomes of rows is worked out here, from rows that the transaction has locked, and then written by statements
//! for many rows. New jobs, outcomes and leases go through [`writer`]s: what waits shares a transaction. Everything
//! else has a transaction of its own. A transaction that met another one is run again; so is one whose connection was
//! lost, where that does no harm.

mod call;
mod documents;
mod edit;
mod fault;
mod filing;
mod find;
mod group;
mod inbox;
mod keys;
mod ledger;
mod look;
mod note;
mod options;
mod prune;
mod queue;
mod read;
mod record;
mod row;
mod schema;
mod session;
mod tally;
mod writer;

pub(crate) use fault::Fault;
pub(crate) use ledger::ports;
pub use look::Looked;
pub(crate) use look::{judge, rights};
pub use options::Options;
pub(crate) use row::{
    Changed, Head, Hit, Inserted, RawJob, age_ms, id, job_options, list, number, progress, signed, stage, text,
};
pub use schema::Schema;
pub(crate) use schema::{denied, script};
pub(crate) use session::{Database, Held, Key, Session, Stream};

use crate::keep::keep;
use duetime_core::Error;
use duetime_core::ports::Queues;
use queue::Queue;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinHandle;

/// A store in an SQL server.
pub(crate) struct Store<D: Database> {
    database: Arc<D>,
    queue: Arc<Queue>,
    writers: Mutex<Vec<JoinHandle<()>>>,
    is_closed: AtomicBool,
    /// The queues that are looked at next for those without rows.
    to_tidy: Mutex<Queues>,
    options: Options,
}

impl<D: Database> Store<D> {
    /// Around a server whose schema is the present one; its writers run on the current runtime.
    pub(crate) fn new(database: D, options: Options) -> Self {
        let (database, queue) = (Arc::new(database), Arc::new(Queue::new()));
        let writer = || {
            let (database, queue) = (database.clone(), queue.clone());
            keep("writer", move || writer::work(database.clone(), queue.clone()))
        };
        let writers = (0..options.writers.max(1)).map(|_| writer()).collect();
        Self {
            database,
            queue,
            writers: Mutex::new(writers),
            is_closed: AtomicBool::new(false),
            to_tidy: Mutex::new(Queues::first()),
            options,
        }
    }

    /// The server.
    pub(crate) fn database(&self) -> &D {
        &self.database
    }

    async fn call<V: call::Verb<D::Session>>(&self, verb: V) -> Result<V::Answer, Error> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Error::Stopping);
        }
        call::call(&*self.database, verb).await
    }

    pub(crate) async fn close(&self) -> Result<(), Error> {
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

impl<D: Database> Drop for Store<D> {
    /// The writers still do what waits.
    fn drop(&mut self) {
        self.queue.close();
    }
}
