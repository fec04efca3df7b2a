//! Read connections, each lent to one reader at a time on the runtime's blocking threads.

use super::fault::Fault;
use super::file;
use super::log::Log;
use duetime_core::Error;
use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

/// Maximum number of concurrent readers.
const READERS: usize = 4;

/// Readers of one file.
pub(super) struct Pool {
    path: PathBuf,
    log: Arc<Log>,
    idle: Mutex<Vec<Connection>>,
    room: Arc<Semaphore>,
}

impl Pool {
    /// All connections are opened at once: later there may be no descriptor left.
    pub(super) fn open(path: PathBuf, log: Arc<Log>) -> rusqlite::Result<Self> {
        let idle = (0..READERS).map(|_| file::reader(&path)).collect::<Result<_, _>>()?;
        Ok(Self { path, log, idle: Mutex::new(idle), room: Arc::new(Semaphore::new(READERS)) })
    }

    /// Calls this function with a connection. What it returns is on disk.
    pub(super) async fn call<T, F>(self: &Arc<Self>, function: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        let permit = self.room.clone().acquire_owned().await.map_err(|_| Error::Stopping)?;
        let pool = self.clone();
        let work = move || {
            let _permit = permit;
            let outcome = pool.lend(function).map_err(|fault| fault.into_error(&pool.path.display().to_string()));
            if let Err(error @ Error::Damaged(_)) = &outcome {
                pool.log.health.note(Err(error));
            }
            outcome
        };
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
            if error.is_panic() {
                std::panic::resume_unwind(error.into_panic());
            }
            Err(Error::Stopping)
        })
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
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
