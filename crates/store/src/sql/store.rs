//! The ledger, and how it runs its work.

use super::call::{self, Function, Plain, Verb};
use super::connection::Database;
use super::options::Options;
use super::queue::Queue;
use super::writer;
use crate::keep::keep;
use duetime_core::Error;
use duetime_core::ports::Queues;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::task::JoinHandle;

/// A ledger and registry in an SQL server. If it is dropped without [`close`](duetime_core::ports::Ledger::close), it still
/// finishes waiting work.
pub struct Store {
    pub(super) database: Arc<dyn Database>,
    pub(super) queue: Arc<Queue>,
    pub(super) writers: Mutex<Vec<JoinHandle<()>>>,
    pub(super) is_closed: AtomicBool,
    /// The queues to check next for tallies without rows.
    pub(super) to_tidy: Mutex<Queues>,
}

impl Store {
    /// A store on a server with the current schema. Its writers run on the current runtime.
    pub(super) fn new(database: Arc<dyn Database>, options: Options) -> Self {
        let queue = Arc::new(Queue::new());
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
        }
    }

    /// Runs a read.
    pub(super) async fn read<A: Send + Sync, T: Send>(&self, arguments: A, how: Function<A, T>) -> Result<T, Error> {
        self.call(Plain::<A, T, false>(arguments, how)).await
    }

    /// Runs a write that can be repeated if the answer was lost.
    pub(super) async fn write<A: Send + Sync, T: Send>(&self, arguments: A, how: Function<A, T>) -> Result<T, Error> {
        self.call(Plain::<A, T, true>(arguments, how)).await
    }

    pub(super) async fn call<V: Verb>(&self, verb: V) -> Result<V::Answer, Error> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Error::Stopping);
        }
        call::call(&*self.database, verb).await
    }
}

impl Drop for Store {
    /// The writers still finish waiting tasks.
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// A description with its location, without user and password.
impl std::fmt::Display for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.database.shown())
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Store").field(&self.database.shown()).finish()
    }
}
