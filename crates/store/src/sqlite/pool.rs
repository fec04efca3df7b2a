//! Read connections, each lent to one reader at a time.
//!
//! Readers run on threads of the store: whatever else blocks the threads of the runtime does not delay them.

use super::fault::{self, Fault};
use super::file;
use super::log::Log;
use super::threads::spawn;
use duetime_core::Error;
use rusqlite::Connection;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Semaphore, oneshot};

/// Maximum number of concurrent readers, each on its thread.
const READERS: usize = 4;

/// What a thread does next.
type Work = Box<dyn FnOnce() + Send>;

/// Readers of one file.
pub(super) struct Pool {
    path: PathBuf,
    log: Arc<Log>,
    idle: Mutex<Vec<Connection>>,
    room: Arc<Semaphore>,
    /// To the threads, which end once this is dropped; `None` once closed.
    work: Mutex<Option<Sender<Work>>>,
}

impl Pool {
    /// All connections are opened and all threads started at once: later there may be no descriptor left.
    pub(super) fn open(path: PathBuf, store: &str, log: Arc<Log>) -> Result<Self, Error> {
        let idle = (0..READERS).map(|_| file::reader(&path)).collect::<Result<_, _>>();
        let idle = idle.map_err(|error| fault::explain(&error, store))?;
        let (work, waiting) = channel();
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..READERS {
            let waiting = waiting.clone();
            spawn("duetime-reader", move || work_off(&waiting))?;
        }
        let (idle, work) = (Mutex::new(idle), Mutex::new(Some(work)));
        Ok(Self { path, log, idle, room: Arc::new(Semaphore::new(READERS)), work })
    }

    /// Calls this function with a connection. What it returns is on disk.
    pub(super) async fn call<T, F>(self: &Arc<Self>, function: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        let permit = self.room.clone().acquire_owned().await.map_err(|_| Error::Stopping)?;
        let (reply, answer) = oneshot::channel();
        let pool = self.clone();
        let work = move || {
            let _permit = permit;
            let outcome = catch_unwind(AssertUnwindSafe(|| pool.read(function)));
            // The caller may be gone.
            let _ = reply.send(outcome);
        };
        let sender = self.work.lock().unwrap_or_else(PoisonError::into_inner).clone();
        sender.and_then(|sender| sender.send(Box::new(work)).ok()).ok_or(Error::Stopping)?;
        answer.await.map_err(|_| Error::Stopping)?.unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn read<T>(&self, function: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, Error> {
        let outcome = self.lend(function).map_err(|fault| fault.into_error(&self.path.display().to_string()));
        if let Err(error @ Error::Damaged(_)) = &outcome {
            self.log.health.note(Err(error));
        }
        outcome
    }

    fn lend<T>(&self, function: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, Fault> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => file::reader(&self.path)?,
        };
        let outcome = function(&connection);
        self.log.wait_synced();
        self.log.check()?;
        // A connection is not reused after an error.
        if outcome.is_ok() && !self.room.is_closed() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
        outcome
    }

    /// Refuses further readers.
    pub(super) fn close(&self) {
        self.room.close();
        self.work.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// The life of a thread.
fn work_off(waiting: &Mutex<Receiver<Work>>) {
    loop {
        // The others wait for the lock instead.
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match next {
            Ok(work) => work(),
            Err(_) => return,
        }
    }
}
